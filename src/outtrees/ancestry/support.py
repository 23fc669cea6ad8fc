"""Support: tables of parents, records, what-if changes, evidence of columns, and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.shuffles import column_evidence
from outtrees.candidates import Constraints
from outtrees.candidates.choices import log_sums
from outtrees.inference.messages import draw_states
from outtrees.io.tables import Table
from outtrees.models.columns import Lineage, Sticky, Waiting
from outtrees.models.columns.sticky import each_member
from outtrees.trees.mixture import OutTreeMixture

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class RankedParents(NamedTuple):
    """All candidates of all records, the records in order and each one's candidates best first."""

    child: Index
    parent: Index  # −1: no parent, the record is a root
    support: Array
    rank: Index  # from 1
    before: Array  # the support of the better ones together
    edge: Index  # the position among the possible edges; E + child for roots


def ranked_parents(posterior: Posterior) -> RankedParents:
    """Return the candidate parents of every record, best first."""
    return ranked(posterior, posterior.trees.edge_marginals, posterior.trees.root_marginals)


def ranked(posterior: Posterior, edge_supports: Array, root_supports: Array) -> RankedParents:
    """Return the candidate parents of every record, best first by these supports (E,) and (T,)."""
    T = len(posterior.records)
    child = np.concatenate([posterior.edges.child, np.arange(T)])
    parent = np.concatenate([posterior.edges.parent, np.full(T, -1)])
    support = np.concatenate([edge_supports, root_supports])
    order = np.lexsort((parent, -support, child))
    child, parent, support = child[order], parent[order], support[order]
    first = np.searchsorted(child, child)  # where each record's candidates begin
    before = np.cumsum(support) - support
    return RankedParents(
        child, parent, support, np.arange(len(child)) - first + 1, before - before[first], order
    )


def parents_table(
    posterior: Posterior,
    keep: Callable[[RankedParents], NDArray[np.bool_]],
    errors: bool = False,
) -> Table:
    """Return the rows (child, parent, support, rank) of the candidates that `keep` marks."""
    ranked = ranked_parents(posterior)
    rows = keep(ranked)
    columns = parents_columns(posterior, ranked, rows)
    if errors:
        columns["error"] = np.concatenate(posterior.support_errors)[ranked.edge[rows]].tolist()
    return Table(columns)


def parents_columns(
    posterior: Posterior, ranked: RankedParents, rows: NDArray[np.bool_]
) -> dict[str, list[Any]]:
    """Return the columns child, parent, support and rank of these rows of the ranking."""
    ids = posterior.records.ids
    return {
        "child": [ids[i] for i in ranked.child[rows].tolist()],
        "parent": [ids[i] if i >= 0 else "" for i in ranked.parent[rows].tolist()],
        "support": ranked.support[rows].tolist(),
        "rank": ranked.rank[rows].tolist(),
    }


def records_table(posterior: Posterior) -> Table:
    """Return what is known of each record: best parent, outlier score, children, root."""
    ids = posterior.records.ids
    parents = posterior.consensus.parents
    supports = posterior.supports(parents)
    return Table(
        {
            "record": list(ids),
            "parent": [ids[p] if p >= 0 else "" for p in parents.tolist()],
            "support": supports.tolist(),
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


def what_if_table(
    posterior: Posterior,
    known: Mapping[int, int],
    excluded: Iterable[tuple[int, int]],
    min_change: float,
) -> Table:
    """Return how supports change if records have, or lack, these parents; largest changes first."""
    changed = posterior.trees.given(known, excluded)
    before = np.concatenate([posterior.trees.edge_marginals, posterior.trees.root_marginals])
    after = np.concatenate([changed.edge_marginals, changed.root_marginals])
    T, ids = len(posterior.records), posterior.records.ids
    child = np.concatenate([posterior.edges.child, np.arange(T)])
    parent = np.concatenate([posterior.edges.parent, np.full(T, -1)])
    change = abs(after - before)
    order = np.argsort(-change)
    rows = order[change[order] >= min_change].tolist()
    return Table(
        {
            "child": [ids[child[i]] for i in rows],
            "parent": [ids[parent[i]] if parent[i] >= 0 else "" for i in rows],
            "support": [float(before[i]) for i in rows],
            "support_if": [float(after[i]) for i in rows],
        }
    )


def readings_table(posterior: Posterior) -> Table:
    """Return one row for each reading: waiting time, gain, weight, and how many parents differ."""
    numbers = range(len(posterior.readings))
    tops = [best_parents(posterior, *posterior.reading_supports(r)) for r in numbers]
    rows: dict[str, list[Any]] = {
        key: [] for key in ("waiting_mean", "waiting_sd", "gain", "weight", "differ")
    }
    for reading, top in zip(posterior.readings, tops, strict=True):
        dates = reading.lineage.dates
        mean, sd = float("nan"), float("nan")
        if dates is not None:
            kernel = reading.lineage.kernels[dates]
            assert isinstance(kernel, Waiting)
            mean, sd = kernel.moments
        cells = [mean, sd, reading.gain, reading.weight, int((top != tops[0]).sum())]
        for key, cell in zip(rows, cells, strict=True):
            rows[key].append(cell)
    return Table(rows)


def evidence_table(
    posterior: Posterior, given: Constraints, n_shuffles: int, rng: np.random.Generator
) -> Table:
    """Return what each column says about parents, everything fitted again without it."""
    main = posterior.readings[0]
    found = column_evidence(main, posterior.values, given, posterior.roots, n_shuffles, rng)
    shares = [float(posterior.lineage.outlier_shares[c]) for c in found]
    return Table(
        {
            "column": [posterior.names[c] for c in found],
            "gain": [evidence.over_shuffled for evidence in found.values()],
            "error": [evidence.error for evidence in found.values()],
            "alone": [evidence.alone for evidence in found.values()],
            "outliers": shares,
            "used": [share < 1 for share in shares],
        }
    )


def best_parents(posterior: Posterior, edges: Array, roots: Array) -> Index:
    """Return the likeliest parent of each record (T,), −1 for none."""
    T, child = len(posterior.records), posterior.edges.child
    best = roots.copy()
    np.maximum.at(best, child, edges)
    result = np.full(T, -1, dtype=np.intp)
    top = np.flatnonzero((edges == best[child]) & (edges > roots[child]))[::-1]
    result[child[top]] = posterior.edges.parent[top]  # of equals the first listed
    return result


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
