"""Tables that answer: whose child, how sure, what if, which columns say so, where would it go."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees.ancestry.fitted import Fitted
from outtrees.candidates.choices import log_sums
from outtrees.inference.messages import draw_states
from outtrees.io.tables import Table
from outtrees.models.columns import Sticky, Waiting
from outtrees.records.column import counted

Array = NDArray[np.float64]
Index = NDArray[np.intp]
_PAIRS_AT_ONCE = 1_000_000  # of new and fitted records


class RankedParents(NamedTuple):
    """All candidates of all records, the records in order and each one's candidates best first."""

    child: Index
    parent: Index  # −1: no parent, the record is a root
    support: Array
    rank: Index  # from 1
    before: Array  # the support of the better ones together
    edge: Index  # the position among the possible edges; E + child for roots


def ranked_parents(fitted: Fitted) -> RankedParents:
    """Return the candidate parents of every record, best first."""
    return ranked(fitted, fitted.trees.edge_marginals, fitted.trees.root_marginals)


def ranked(fitted: Fitted, edge_supports: Array, root_supports: Array) -> RankedParents:
    """Return the candidate parents of every record, best first by these supports (E,) and (T,)."""
    T = len(fitted.records)
    child = np.concatenate([fitted.edges.child, np.arange(T)])
    parent = np.concatenate([fitted.edges.parent, np.full(T, -1)])
    support = np.concatenate([edge_supports, root_supports])
    order = np.lexsort((parent, -support, child))
    child, parent, support = child[order], parent[order], support[order]
    first = np.searchsorted(child, child)  # where each record's candidates begin
    before = np.cumsum(support) - support
    return RankedParents(
        child, parent, support, np.arange(len(child)) - first + 1, before - before[first], order
    )


def parents_table(fitted: Fitted, keep: Callable[[RankedParents], Any]) -> Table:
    """Return the rows (child, parent, support, rank) of the candidates that `keep` marks."""
    ids = fitted.records.ids
    ranked = ranked_parents(fitted)
    rows = keep(ranked)
    return Table(
        {
            "child": [ids[i] for i in ranked.child[rows].tolist()],
            "parent": [ids[i] if i >= 0 else "" for i in ranked.parent[rows].tolist()],
            "support": ranked.support[rows].tolist(),
            "rank": ranked.rank[rows].tolist(),
        }
    )


def records_table(fitted: Fitted) -> Table:
    """Return what is known of each record: best parent, outlier score, children, root."""
    T, ids = len(fitted.records), fitted.records.ids
    parents = fitted.consensus.parents
    supports = fitted.supports(parents)
    return Table(
        {
            "record": list(ids),
            "parent": [ids[p] if p >= 0 else "" for p in parents.tolist()],
            "support": supports.tolist(),
            "root_probability": fitted.trees.root_marginals.tolist(),
            "expected_children": np.bincount(
                fitted.edges.parent, fitted.trees.edge_marginals, minlength=T
            ).tolist(),
            "log_density": log_density(fitted).tolist(),
        }
    )


def log_density(fitted: Fitted) -> Array:
    """Return log of the mean of p(x_u | x_v) over u's possible parents (T,).

    How well the other records foretell this one: low values are outliers. A record without any
    possible parent gets its density without one.
    """
    T = len(fitted.records)
    order = np.argsort(fitted.edges.child, kind="stable")
    child = fitted.edges.child[order]
    sums = log_sums(child, fitted.log_weight[order], T)
    number = np.bincount(child, minlength=T)
    # Possible parents that are no candidates hardly add to the sum, but to their number.
    choices = number if fitted.edges.choices is None else fitted.edges.choices
    result = fitted.log_root.copy()
    has = number > 0
    result[has] = sums[has] - np.log(choices[has])
    return result


def what_if_table(fitted: Fitted, known: Mapping[int, int], min_change: float) -> Table:
    """Return how supports move when these records have these parents, largest changes first."""
    changed = fitted.trees.given(known)
    before = np.concatenate([fitted.trees.edge_marginals, fitted.trees.root_marginals])
    after = np.concatenate([changed.edge_marginals, changed.root_marginals])
    T, ids = len(fitted.records), fitted.records.ids
    child = np.concatenate([fitted.edges.child, np.arange(T)])
    parent = np.concatenate([fitted.edges.parent, np.full(T, -1)])
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


def evidence_table(fitted: Fitted) -> Table:
    """Return what each column contributes.

    `nats`: how much better a record's parents explain its cells than no parent does, per record,
    on average over the trees. `right_without`: the expected share of right parents if the column
    were left out (parameters kept); the lower, the more the answer rests on the column.
    """
    T = len(fitted.records)
    marginals = fitted.trees.edge_marginals
    used = marginals > 0
    rows: dict[str, list[Any]] = {"column": [], "nats": [], "right_without": [], "outliers": []}
    for c, name in enumerate(fitted.names):
        log_column, alone = fitted.log_columns[c], fitted.log_alone[c]
        gain = log_column[used] - alone[fitted.edges.child[used]]
        without = np.where(np.isfinite(log_column), fitted.log_weight - log_column, -np.inf)
        if fitted.lineage.generations > 1:
            without = _weight_without(fitted, c)
        trees = fitted.trees_for(without, fitted.log_root - alone)
        rows["column"].append(name)
        rows["nats"].append(float(marginals[used] @ gain) / T)
        rows["right_without"].append(trees.consensus().expected_right / T)
        rows["outliers"].append(float(fitted.lineage.outlier_shares[c]))
    return Table(rows)


def _weight_without(fitted: Fitted, c: int) -> Array:
    """Return the log-weights of the edges without column c; links keep their weights."""
    steps = []
    with np.errstate(divide="ignore"):
        log_weights = np.log(fitted.lineage.step_weights)
    for k in range(1, fitted.lineage.generations + 1):
        others = np.delete(fitted.lineage.log_columns(fitted.pairs, k), c, axis=0)
        steps.append(log_weights[k - 1] + others.sum(axis=0))
    return logsumexp(np.array(steps), axis=0)


def place_table(
    fitted: Fitted,
    new_ids: Sequence[str],
    new_values: Sequence[Array],
    new_groups: Any,
    min_support: float,
) -> Table:
    """Return the probable parents of records that came later, each as a new leaf."""
    rows: dict[str, list[Any]] = {"child": [], "parent": [], "support": [], "rank": []}
    T, lost = len(fitted.records), []
    step = max(1, _PAIRS_AT_ONCE // T)
    for low in range(0, len(new_ids), step):
        some = slice(low, low + step)
        values = [cells[some] for cells in new_values]
        table = _placed(fitted, values, None if new_groups is None else new_groups[some])
        for name, logs in zip(new_ids[some], table, strict=True):
            if np.isneginf(logs).all():
                lost.append(name)
                continue
            support = np.exp(logs - logsumexp(logs))
            order = np.argsort(-support, kind="stable")
            kept = (support[order] >= min_support) & (support[order] > 0)
            for rank, v in enumerate(order[kept].tolist(), start=1):
                rows["child"].append(name)
                rows["parent"].append(fitted.records.ids[v] if v < T else "")
                rows["support"].append(float(support[v]))
                rows["rank"].append(rank)
    if lost:
        warnings.warn(
            f"{counted(len(lost), 'new record')} can have no parent among the fitted ones, the "
            f"first is {lost[0]!r}: check its date or group",
            UserWarning,
            stacklevel=3,
        )
    return Table(rows)


def _placed(fitted: Fitted, new_values: Sequence[Array], new_groups: Any) -> Array:
    """Return the log-weights of all fitted records as parents, and of being a root (n, T + 1)."""
    n, T = len(new_values[0]), len(fitted.records)
    child, parent = (side.ravel() for side in np.indices((n, T)))
    possible = np.ones(n * T, dtype=bool)
    if new_groups is not None:
        possible &= new_groups[child] == fitted.edges.groups[parent]
    for kernel, new, old in zip(fitted.lineage.kernels, new_values, fitted.values, strict=True):
        if isinstance(kernel, Waiting):
            possible &= kernel.possible(new, old, child, parent)
    child, parent = child[possible], parent[possible]
    pairs = fitted.lineage.pairs(new_values, fitted.values, child, parent)
    table = np.full((n, T + 1), -np.inf)
    table[child, parent] = fitted.lineage.log_beta(pairs)
    if fitted.roots == "any":
        choices = np.maximum(np.bincount(child, minlength=n), 1)
        table[:, :T] += (np.log1p(-fitted.root_rate) - np.log(choices))[:, None]
        table[:, T] = fitted.lineage.log_root(new_values) + np.log(fitted.root_rate)
    return table


def labels_table(fitted: Fitted, n_trees: int, random_state: Any) -> Table:
    """Return the distribution of every unknown label, averaged over sampled trees.

    Given a tree, unknown labels have an exact distribution (messages along it); trees are drawn
    exactly from the distribution in which unknown labels are integrated out pair by pair.
    `error` is the Monte-Carlo standard error of the support.
    """
    records = fitted.records
    labels = [column for column in records.columns if column.kind == "label"]
    trees = fitted.trees.sample(n_trees, random_state)
    rows: dict[str, list[Any]] = {
        key: [] for key in ("record", "column", "label", "support", "error")
    }
    for column in labels:
        c = fitted.names.index(column.name)
        kernel = fitted.lineage.kernels[c]
        assert isinstance(kernel, Sticky)  # labels always are
        levels, codes = tuple(column.levels or ()), column.values[:, 0]
        known = ~np.isnan(codes)
        log_nodes = np.zeros((len(records), len(levels)))
        log_nodes[known] = -np.inf
        log_nodes[known, codes[known].astype(np.intp)] = 0.0
        # Labels change by the links' mixture, outliers included.
        edge = _label_matrix(fitted, c, kernel)
        total, squares = np.zeros_like(log_nodes), np.zeros_like(log_nodes)
        with np.errstate(divide="ignore"):
            log_edge, log_prior = np.log(edge), np.log(kernel.marginal)
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


def _label_matrix(fitted: Fitted, c: int, kernel: Sticky) -> Array:
    """Return p(child's label | parent's label) over all numbers of links (C, C)."""
    C = len(kernel.levels)
    x, y = (side.ravel() for side in np.indices((C, C)))
    cells = np.arange(C, dtype=np.float64)[:, None]
    pairs = kernel.pairs(cells, cells, x, y)
    follows = sum(
        weight * np.exp(kernel.log_steps(pairs, k))
        for k, weight in enumerate(fitted.lineage.step_weights, start=1)
    )
    share = fitted.lineage.outlier_shares[c]
    return (1 - share) * follows.reshape(C, C) + share * kernel.marginal[:, None]
