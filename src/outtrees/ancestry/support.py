"""Support: tables of parents, records, readings, what-if changes and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.constraints import known_parents, named, row_of
from outtrees.ancestry.posterior import Posterior, supports_in
from outtrees.candidates.choices import log_sums
from outtrees.candidates.windows import waiting_of
from outtrees.errors import NoSpanningTreeError, Option, RecordsError
from outtrees.inference.messages import draw_states
from outtrees.io.tables import Table
from outtrees.models.columns import Lineage, Sticky
from outtrees.models.columns.sticky import each_member
from outtrees.trees.mixture import OutTreeMixture

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class RankedParents(NamedTuple):
    """All candidates of all records, the records in order and each one's candidates best first."""

    child: Index
    parent: Index  # −1: no parent, the record is a root
    support: Array
    rank: Index  # from 1
    before: Array  # the support of the better ones together
    edge: Index  # the position among the posterior's choices


def ranked(posterior: Posterior, support: Array | None = None) -> RankedParents:
    """Return the candidate parents of every record, best first, by these supports (E + T,)."""
    child, parent = posterior.choices
    support = supports_in(posterior.trees) if support is None else support
    order = np.lexsort((parent, -support, child))
    child, parent, support = child[order], parent[order], support[order]
    first = np.searchsorted(child, child)  # where each record's candidates begin
    before = np.cumsum(support) - support
    return RankedParents(
        child, parent, support, np.arange(len(child)) - first + 1, before - before[first], order
    )


def parents(self: Ancestry, min_support: float = 0.1, *, errors: bool = False) -> Table:
    """Return the table child, parent, support, rank; a root has an empty parent.

    Sums over trees are exact.

    Parameters
    ----------
    min_support : float
        Parents with less support are left out.
    errors : bool
        Whether a column gives the Monte-Carlo error that draws of parameters leave, 0 with
        parameters="fitted".

    Returns
    -------
    Table
        Columns child, parent (empty: the child is a root), support and rank; the records in
        their order, each one's parents best first.

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
    >>> found = model.fit(table).parents(min_support=0.3)
    >>> [(row.child, row.parent, round(row.support, 1)) for row in found]
    [('a', '', 1.0), ('b', 'a', 0.8), ('c', 'b', 0.6)]
    """
    return _parents_table(self.fitted, lambda best: best.support >= min_support, errors)


def credible_parents(self: Ancestry, level: float = 0.95) -> Table:
    """Return, for each record, the fewest parents that hold this much of the probability.

    Parameters
    ----------
    level : float
        The probability that the parents of each record hold together, at least.

    Returns
    -------
    Table
        Columns child, parent, support and rank.

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
    >>> [(row.child, row.parent) for row in model.fit(table).credible_parents(0.9)]
    [('a', ''), ('b', 'a'), ('b', ''), ('c', 'b'), ('c', 'a'), ('c', '')]
    """
    return _parents_table(self.fitted, lambda best: best.before < level)


def _parents_table(
    posterior: Posterior,
    keep: Callable[[RankedParents], NDArray[np.bool_]],
    errors: bool = False,
) -> Table:
    """Return the rows (child, parent, support, rank) of the candidates that `keep` marks."""
    best = ranked(posterior)
    rows = keep(best)
    columns = parents_columns(posterior, best, rows)
    if errors:
        columns["error"] = np.concatenate(posterior.support_errors)[best.edge[rows]].tolist()
    return Table(columns)


def parents_columns(
    posterior: Posterior, ranked: RankedParents, rows: NDArray[np.bool_]
) -> dict[str, list[Any]]:
    """Return the columns child, parent, support and rank of these rows of the ranking."""
    return {
        "child": posterior.named(ranked.child[rows]),
        "parent": posterior.named(ranked.parent[rows]),
        "support": ranked.support[rows].tolist(),
        "rank": ranked.rank[rows].tolist(),
    }


def records_table(posterior: Posterior) -> Table:
    """Return what is known of each record: best parent, outlier score, children, root."""
    parents = posterior.consensus.parents
    return Table(
        {
            "record": list(posterior.records.ids),
            "parent": posterior.named(parents),
            "support": posterior.supports(parents).tolist(),
            "root_probability": posterior.trees.root_marginals.tolist(),
            "expected_children": posterior.expected_children.tolist(),
            "log_density": log_density(posterior).tolist(),
        }
    )


def log_density(posterior: Posterior) -> Array:
    """Return the log of the mean of p(x_u | x_v) over the possible parents of u (T,).

    How well the other records predict this one: low values are outliers. A record without a
    possible parent gets its density without one.
    """
    T = len(posterior.records)
    order = np.argsort(posterior.edges.child, kind="stable")
    child = posterior.edges.child[order]
    sums = log_sums(child, posterior.log_weight[order], T)
    number = np.bincount(child, minlength=T)
    # Possible parents outside the candidates add to the number, and hardly to the sum.
    choices = number if posterior.edges.choices is None else posterior.edges.choices
    result = posterior.log_root.copy()
    has = number > 0
    result[has] = sums[has] - np.log(choices[has])
    return result


def what_if(
    self: Ancestry,
    parent: Mapping[str, str | None] | None = None,
    min_change: float = 0.01,
    *,
    not_parent: Iterable[tuple[str, str | None]] = (),
) -> Table:
    """Return how supports change if these records had these parents (None: were roots).

    `not_parent` lists pairs (child, parent) that are ruled out instead; a parent None rules out
    that the child is a root. Nothing is fitted again; readings that foresaw what is supposed
    gain weight.

    Parameters
    ----------
    parent : mapping of str to str, optional
        From a child to its supposed parent, None for a root.
    min_change : float
        Supports that change by less are left out.
    not_parent : iterable of (str, str)
        Pairs of child and parent that are ruled out; a parent None: the child is no root.

    Returns
    -------
    Table
        Columns child, parent, support and support_if; the largest changes first.

    Raises
    ------
    RecordsError
        If a name is not that of a record.
    NoSpanningTreeError
        If no tree agrees with it.

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
    >>> row = model.fit(table).what_if({"c": "a"})[0]
    >>> row.child, row.parent, round(row.support, 1), round(row.support_if, 1)
    ('c', 'a', 0.2, 1.0)
    """
    known = known_parents(self.records, parent, with_table=False)
    excluded = [
        (row_of(self.records, u), -1 if v is None or v == "" else row_of(self.records, v))
        for u, v in not_parent
    ]
    posterior = self.fitted
    try:
        changed = posterior.trees.given(known, excluded)
    except NoSpanningTreeError as error:
        raise named(error, self.records.ids) from error
    before = supports_in(posterior.trees)
    after = supports_in(changed)
    change = abs(after - before)
    order = np.argsort(-change)
    rows = order[change[order] >= min_change]
    children, parents = posterior.choices
    return Table(
        {
            "child": posterior.named(children[rows]),
            "parent": posterior.named(parents[rows]),
            "support": before[rows].tolist(),
            "support_if": after[rows].tolist(),
        }
    )


def readings_table(posterior: Posterior) -> Table:
    """Return one row for each reading: waiting time, gain, weight, and how many parents differ."""
    readings = posterior.readings
    tops = [best_parents(posterior, posterior.reading_supports(r))[0] for r in range(len(readings))]
    waits = [waiting_of(reading.lineage) for reading in readings]
    moments = [(np.nan, np.nan) if wait is None else wait.moments for wait in waits]
    return Table(
        {
            "waiting_mean": [mean for mean, _ in moments],
            "waiting_sd": [sd for _, sd in moments],
            "gain": [reading.gain for reading in readings],
            "weight": [reading.weight for reading in readings],
            "differ": [int((top != tops[0]).sum()) for top in tops],
        }
    )


def best_parents(posterior: Posterior, support: Array) -> tuple[Index, Array]:
    """Return the likeliest parent of each record (T,), −1 for none, and its support."""
    best = ranked(posterior, support)
    return best.parent[best.rank == 1], best.support[best.rank == 1]


def predict_labels(self: Ancestry, n_trees: int = 500, random_state: Any = None) -> Table:
    """Return the distribution of each unknown label, with its Monte-Carlo error.

    Parameters
    ----------
    n_trees : int
        Trees that are drawn.
    random_state : int, Generator or None
        By default that of the model.

    Returns
    -------
    Table
        Columns record, column, label, support and error.

    Raises
    ------
    RecordsError
        If no column has the kind "label".
    """
    if not any(column.kind == "label" for column in self.records.columns):
        raise RecordsError(
            "a column of labels is expected; name it, for example ",
            Option("kinds", {"species": "label"}),
        )
    return labels_table(self.fitted, n_trees, self._generator(random_state))


def labels_table(posterior: Posterior, n_trees: int, rng: np.random.Generator) -> Table:
    """Return the distribution of every unknown label, averaged over sampled trees.

    Given a tree, unknown labels have an exact distribution (messages along it); trees are drawn
    exactly from the distribution in which unknown labels are integrated out pair by pair.
    `error` is the Monte-Carlo standard error of the support.
    """
    records = posterior.records
    labels = [column for column in records.columns if column.kind == "label"]
    drawn = _trees_of_members(posterior, n_trees, rng)
    rows: dict[str, list[Any]] = {
        key: [] for key in ("record", "column", "label", "support", "error")
    }
    for column in labels:
        c = posterior.names.index(column.name)
        kernel = posterior.lineage.kernels[c]
        assert isinstance(kernel, Sticky)  # labels always are
        levels, known = tuple(column.levels or ()), ~column.missing
        log_nodes = np.zeros((len(records), len(levels)))
        cells = posterior.values[c][:, 0]
        log_nodes[~np.isnan(cells)] = -np.inf
        log_nodes[each_member(cells, len(levels))] = 0.0
        total, squares = np.zeros_like(log_nodes), np.zeros_like(log_nodes)
        for lineage, trees in drawn:
            # Labels change by the links' mixture, outliers included.
            with np.errstate(divide="ignore"):
                log_edge = np.log(_label_matrix(lineage, c))
                log_prior = np.log(kernel.marginal)
            for parents in trees:
                marginals = draw_states(parents, log_nodes, log_edge, 0, log_prior).marginals
                total += marginals
                squares += marginals**2
        mean = total / n_trees
        error = np.sqrt(np.maximum(squares / n_trees - mean**2, 0) / n_trees)
        for i in np.flatnonzero(~known):
            for level in np.argsort(-mean[i], kind="stable"):
                rows["record"].append(records.ids[i])
                rows["column"].append(column.name)
                rows["label"].append(levels[level])
                rows["support"].append(float(mean[i, level]))
                rows["error"].append(float(error[i, level]))
    return Table(rows)


def _trees_of_members(
    posterior: Posterior, n_trees: int, rng: np.random.Generator
) -> list[tuple[Lineage, Index]]:
    """Return drawn trees (n, T) with the parameters that they were drawn with."""
    trees = posterior.trees
    if not isinstance(trees, OutTreeMixture):
        return [(posterior.lineage, trees.sample(n_trees, rng))]
    numbers = rng.multinomial(n_trees, trees.weights)
    both = zip(posterior.members, trees.parts, numbers, strict=True)
    return [(member.lineage, part.sample(int(n), rng)) for member, part, n in both if n]


def _label_matrix(lineage: Lineage, c: int) -> Array:
    """Return p(child's label | parent's label) over all numbers of links (C, C)."""
    kernel = lineage.kernels[c]
    assert isinstance(kernel, Sticky)  # labels always are
    C = len(kernel.levels)
    x, y = (side.ravel() for side in np.indices((C, C)))
    cells = np.arange(C, dtype=np.float64)[:, None]
    pairs = kernel.pairs(cells, cells, x, y)
    follows = np.zeros(C * C)
    for k, weight in enumerate(lineage.step_weights, start=1):
        follows = follows + weight * np.exp(kernel.log_steps(pairs, k))
    share = lineage.outlier_shares[c]
    return np.asarray((1 - share) * follows.reshape(C, C) + share * kernel.marginal[:, None])
