"""EM for the lineage of a table: which edges are possible, how probable, and what they teach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.errors import NoSpanningTreeError
from outtrees.mutations.columns import Lineage, LineagePairs, Waiting
from outtrees.trees.candidates import CandidateTrees

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ROOT_PRIOR = (1.0, 9.0)  # pseudo-records that are roots, and that are not


class PossibleEdges(NamedTuple):
    """Which records may descend from which, and which may be roots."""

    child: Index  # (E,)
    parent: Index  # (E,)
    root_allowed: NDArray[np.bool_]  # (T,)
    groups: Index  # (T,)


class LineageFit(NamedTuple):
    """A lineage fitted to a table, and the trees that it makes probable."""

    lineage: Lineage
    root_rate: float  # the share of records without a parent; only roots="any" uses it
    pairs: LineagePairs
    trees: CandidateTrees
    objectives: list[float]  # log-likelihood + log-prior after each iteration
    converged: bool


def possible_edges(
    n_samples: int,
    groups: Index | None = None,  # (T,)
    known_parents: Mapping[int, int] | None = None,
    forbidden: Iterable[tuple[int, int]] = (),
    root: int | None = None,
) -> PossibleEdges:
    """Return all edges within groups that the constraints leave.

    Parameters
    ----------
    known_parents : mapping of int to int
        From a child to its parent, −1 for a record known to be a root.
    forbidden : pairs (child, parent)
        With parent −1: the child is no root.
    root : int, optional
        The one root of its group.

    Raises
    ------
    NoSpanningTreeError
        If constraints contradict each other.
    ValueError
        If a constraint names a record that does not exist.

    Examples
    --------
    >>> edges = possible_edges(3, known_parents={2: 0}, root=0)
    >>> list(zip(edges.child.tolist(), edges.parent.tolist()))
    [(1, 0), (1, 2), (2, 0)]
    """
    codes = np.zeros(n_samples, dtype=np.intp) if groups is None else np.asarray(groups)
    allowed = codes[:, None] == codes[None, :]
    np.fill_diagonal(allowed, False)
    root_allowed = np.ones(n_samples, dtype=bool)
    known = dict(known_parents or {})
    forbidden = list(forbidden)
    _check_named(n_samples, [*known.items(), *forbidden, (0 if root is None else root, -1)])
    for child, parent in forbidden:
        if parent < 0:
            root_allowed[child] = False
        else:
            allowed[child, parent] = False
    if root is not None:
        if not root_allowed[root]:
            raise NoSpanningTreeError(
                f"record {root} is given as the root, but forbidden as a root; drop one of the two."
            )
        allowed[root] = False
        root_allowed[codes == codes[root]] = False
        root_allowed[root] = True
    for child, parent in known.items():
        if parent < 0 and not root_allowed[child]:
            raise NoSpanningTreeError(
                f"record {child} is known to be a root, but forbidden as a root, or record {root} "
                "is given as the one root of its group; drop one of the two."
            )
        if parent >= 0 and not allowed[child, parent]:
            raise NoSpanningTreeError(
                f"record {parent} is given as the parent of record {child}, but "
                f"{_why_not(child, parent, root, codes)}; drop one of the two."
            )
        allowed[child] = False
        if parent >= 0:
            allowed[child, parent] = True
        root_allowed[child] = parent < 0
    _refuse_cycles(known)
    child_rows, parent_rows = np.nonzero(allowed)
    return PossibleEdges(child_rows, parent_rows, root_allowed, codes)


def _check_named(n_samples: int, named: Iterable[tuple[int, int]]) -> None:
    for child, parent in named:
        if not (0 <= child < n_samples and -1 <= parent < n_samples):
            raise ValueError(
                f"records 0 … {n_samples - 1} are expected, with parents −1 (a root) … "
                f"{n_samples - 1}, but got child {child} with parent {parent}; correct the pair."
            )


def _why_not(child: int, parent: int, root: int | None, codes: Index) -> str:
    if child == parent:
        return "no record is its own parent"
    if child == root:
        return "the child is given as the root"
    if codes[child] != codes[parent]:
        return "they are in different groups"
    return "that pair is forbidden"


def _refuse_cycles(known: Mapping[int, int]) -> None:
    settled: set[int] = set()
    for start in known:
        place: dict[int, int] = {}  # of each record on the way up from `start`
        record = start
        while record in known and record not in settled and record not in place:
            place[record] = len(place)
            record = known[record]
        if record in place:
            circle = [*list(place)[place[record] :], record]
            raise NoSpanningTreeError(
                "the known parents go round in a circle, "
                f"{' → '.join(str(u) for u in reversed(circle))}; drop one of them."
            )
        settled.update(place)


def fit_lineage(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    edges: PossibleEdges,
    *,
    roots: str = "single",
    max_iter: int = 100,
    tol: float = 1e-6,
    progress: Callable[[int, float], None] | None = None,
) -> LineageFit:
    """Return the lineage that maximises the exact likelihood of the table, times its prior.

        log p(table) = log Σ_trees Π_edges p(x_u | x_v) Π_roots p(x_r)

    EM: the trees' exact edge probabilities, then each column's weighted refit, until an iteration
    gains less than tol for each record. With roots="any" each record is a root with a learned
    probability, or takes one of its possible parents, all equally likely beforehand.

    Dates that leave a mean waiting time to be learned have several maxima (records may follow
    their parent, or their sibling, closely); the fit then starts from a long and a short mean and
    keeps the better end.
    """
    started = lineage.start(values)
    starts = [started]
    for c, kernel in enumerate(started.kernels):
        if isinstance(kernel, Waiting) and kernel.mean is None and kernel.table is None:
            short = replace(kernel, log_mean=kernel.log_mean - float(np.log(4)))
            starts.append(
                replace(started, kernels=(*started.kernels[:c], short, *started.kernels[c + 1 :]))
            )
    child, parent = _ordered(started, values, edges)
    pairs = started.pairs(values, values, child, parent)
    fits = [
        _climb(start, values, pairs, edges, roots, max_iter, tol, progress if i == 0 else None)
        for i, start in enumerate(starts)
    ]
    return max(fits, key=lambda fit: fit.objectives[-1])


def _ordered(
    lineage: Lineage, values: Sequence[Array], edges: PossibleEdges
) -> tuple[Index, Index]:
    """Return the edges whose dates are in a possible order."""
    possible = np.ones(len(edges.child), dtype=bool)
    for kernel, cells in zip(lineage.kernels, values, strict=True):
        if isinstance(kernel, Waiting):
            possible &= kernel.possible(cells, cells, edges.child, edges.parent)
            dates = kernel.pairs(cells, cells, edges.child, edges.parent)
            steps = range(1, lineage.generations + 1)
            reached = [np.isfinite(kernel.log_steps(dates, k)) for k in steps]
            possible &= np.any(reached, axis=0) | (not kernel.strict)
    return edges.child[possible], edges.parent[possible]


def _climb(
    lineage: Lineage,
    values: Sequence[Array],
    pairs: LineagePairs,
    edges: PossibleEdges,
    roots: str,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], None] | None,
) -> LineageFit:
    T = len(edges.groups)
    rate = _ROOT_PRIOR[0] / sum(_ROOT_PRIOR)
    objectives: list[float] = []
    converged = False
    while True:
        trees = weighed_trees(lineage, values, pairs, edges, roots, rate)
        objectives.append(trees.log_z + lineage.log_prior() + _log_root_prior(rate, roots))
        if progress is not None:
            progress(len(objectives), objectives[-1])
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tol * T:
            converged = True
        if converged or len(objectives) > max_iter:
            return LineageFit(lineage, rate, pairs, trees, objectives, converged)
        lineage = lineage.refit(pairs, trees.edge_marginals, trees.root_marginals)
        if roots == "any":
            a, b = _ROOT_PRIOR
            rate = (float(trees.root_marginals.sum()) + a) / (T + a + b)


def weighed_trees(
    lineage: Lineage,
    values: Sequence[Array],
    pairs: LineagePairs,
    edges: PossibleEdges,
    roots: str,
    root_rate: float,
) -> CandidateTrees:
    """Return the distribution over trees that the lineage gives the possible edges."""
    log_weight = lineage.log_beta(pairs)
    log_root = lineage.log_root(values)
    return trees_of(pairs, log_weight, log_root, edges, roots, root_rate)


def trees_of(
    pairs: LineagePairs,
    log_weight: Array,  # (E,)
    log_root: Array,  # (T,)
    edges: PossibleEdges,
    roots: str,
    root_rate: float,
) -> CandidateTrees:
    """Return the distribution over trees for these log-weights.

    With roots="any", the share of roots and the choice among possible parents enter here.
    """
    log_root = np.where(edges.root_allowed, log_root, -np.inf)
    if roots == "any":
        choices = np.bincount(pairs.child, minlength=len(log_root))
        log_weight = log_weight + np.log1p(-root_rate) - np.log(choices[pairs.child])
        log_root = log_root + np.log(root_rate)
    return CandidateTrees(
        pairs.child, pairs.parent, log_weight, log_root, groups=edges.groups, roots=roots
    )


def _log_root_prior(rate: float, roots: str) -> float:
    a, b = _ROOT_PRIOR
    return a * float(np.log(rate)) + b * float(np.log1p(-rate)) if roots == "any" else 0.0
