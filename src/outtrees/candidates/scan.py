"""Each record's best possible parents by a lineage, without a list of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.candidates.edges import Constraints
from outtrees.candidates.windows import Windows, waiting_of, without_early
from outtrees.models.columns import EdgeWeights, Lineage, Transmission
from outtrees.models.quick import Gaps, Match, Metric, Quick, Sites

Index = NDArray[np.intp]

_FAR = 16.0  # nats below a record's best parent: others are not candidates


class BestParents(NamedTuple):
    """The best parents of some records, a list one after the other, and how many there were."""

    child: Index  # (E,)
    parent: Index  # (E,)
    score: Array  # (E,), log p(child | parent) as far as it decides the order
    possible: Index  # (n,), how many parents each of the records could have


class Rules(NamedTuple):
    """Which parents are possible at all."""

    ties: bool  # whether equal dates are possible
    strict: bool  # whether dates must be in order
    early: bool  # whether parents before the window are possible, if implausible
    forbidden: NDArray[np.int64]  # forbidden parents of each record, one list after the other
    forbidden_first: Index  # (T + 1,), where each list begins


# What the compiled loops read of the columns. `two` holds (log(1 − ε), log ε + background,
# background) of each record's cells; K is the number of links, C that of columns of a kind.


class Dates(NamedTuple):
    """The column of dates, if there is one; see `models.quick.Gaps`."""

    present: bool
    cells: Array  # (T, 4), start, end, half-width, whether the record goes on
    tables: Array  # (2, K, n), log-probabilities of waits, of closed and of open records
    step: float
    unit: float
    two: Array  # (T, 3)


class Metrics(NamedTuple):
    """Columns of numbers, the D numbers of all of them side by side."""

    child: Array  # (K, T, D)
    parent: Array  # (K, T, D); (K, D, T) in the order of the windows for the loops
    first: Index  # (C + 1,), where the numbers of each column begin
    constant: Array  # (K, C)
    two: Array  # (C, T, 3)


class Matches(NamedTuple):
    """Columns of categories."""

    code: NDArray[np.int32]  # (C, T)
    same: Array  # (K, C, levels)
    other: Array  # (K, C, levels)
    two: Array  # (C, T, 3)


class SitePlanes(NamedTuple):
    """Columns of sequences, letters packed into bits, 64 sites a word."""

    bits: NDArray[np.uint64]  # (T, words)
    known: NDArray[np.uint64]  # (C, T, words)
    read: NDArray[np.int64]  # (C, T)
    first: Index  # (C + 1,), where the words of each column begin
    planes: Index  # (C,), bits of a letter
    same: Array  # (K, C)
    change: Array  # (K, C)
    unread: Array  # (C,)
    constant: Array  # (K, C)
    two: Array  # (C, T, 3)


class Columns(NamedTuple):
    """All columns, the cheapest kinds first."""

    log_steps: Array  # (K,)
    dates: Dates
    metrics: Metrics
    matches: Matches
    sites: SitePlanes
    rest: Array  # (K,), the most that matches and sites can add to dates and metrics


class Scanner:
    """Finds the best parents by the quick form of a lineage; see `models.quick`.

    Parameters
    ----------
    weights : EdgeWeights
        Of a lineage all of whose kernels have a quick form (`Scanner.can`).
    upper : bool
        Whether an unread site of a parent counts as if it agreed, so that no score is too low.
    """

    def __init__(self, weights: EdgeWeights, *, upper: bool = False) -> None:
        self.lineage = lineage = weights.lineage
        values = weights.values
        waiting, elapsed = waiting_of(lineage), 1.0
        if waiting is not None and waiting.table is None:
            elapsed = float(np.exp(waiting.log_mean))
        quick = [
            kernel.quick(cells, lineage.generations, elapsed)
            for kernel, cells in zip(lineage.kernels, values, strict=True)
        ]
        if upper:
            quick = [q._replace(unread=0.0) if isinstance(q, Sites) else q for q in quick]
        two = [self._two(c, alone) for c, alone in enumerate(weights.background.log_alone)]
        for q, ways in zip(quick, two, strict=True):
            if isinstance(q, Metric):
                ways[:, 0] += q.shift
        self._columns = _columns(lineage, quick, two, len(values[0]))

    @staticmethod
    def can(lineage: Lineage) -> bool:
        """Return whether all columns have a quick form: matrices and transmission do not."""
        return not any(
            hasattr(kernel, "matrix") or isinstance(kernel, Transmission)
            for kernel in lineage.kernels
        )

    def _two(self, c: int, alone: Array) -> Array:
        """Return log(1 − ε), log ε + log g and log g of each record's cells (T, 3)."""
        share = float(self.lineage.outlier_shares[c])
        with np.errstate(divide="ignore"):  # at 0 and, for a column that is left out, at 1
            follows, rest = np.log1p(-share), np.log(share) + alone
        return np.column_stack([np.full(len(alone), follows), rest, alone])

    def best(
        self,
        children: Index,
        n: int,
        windows: Windows,
        given: Constraints,
        *,
        far: float | None = None,
    ) -> BestParents:
        """Return the n best possible parents of each of these records.

        None that is `far` nats below a record's best one, 16 by default.

        O(records in the windows), in as many threads as there are processors; the result does not
        depend on their number.
        """
        from outtrees.candidates.scan_kernels import best_parents

        far = _FAR if far is None else far
        T = len(given.groups)
        waiting = waiting_of(self.lineage)
        rules = Rules(
            ties=waiting is not None and waiting.ties,
            strict=waiting is not None and waiting.strict,
            early=not without_early(self.lineage),
            forbidden=given.forbidden % T,
            forbidden_first=np.searchsorted(given.forbidden // T, np.arange(T + 1)),
        )
        # Numbers of parents in the order of the windows, so that whole windows are read at once.
        metrics = self._columns.metrics
        ordered = np.ascontiguousarray(metrics.parent[:, windows.order].transpose(0, 2, 1))
        columns = self._columns._replace(metrics=metrics._replace(parent=ordered))

        def run(block: Index) -> tuple[NDArray[Any], ...]:
            found: tuple[NDArray[Any], ...] = best_parents(block, n, far, windows, rules, columns)
            return found

        from joblib import cpu_count  # takes long to import

        workers = cpu_count()
        most = max(int(windows.sizes[children].sum()) // (8 * workers), 1)
        blocks = list(windows.blocks(children, most))
        if not blocks:
            nothing = np.zeros(0, dtype=np.intp)
            return BestParents(nothing, nothing, np.zeros(0), nothing)
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(run, blocks))
        parents, scores, found, possible = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        # Some were listed before a much better one was found.
        too_far = scores < scores.max(axis=1, keepdims=True) - far
        listed = (np.arange(n) < found[:, None]) & ~too_far
        child = np.broadcast_to(children[:, None], listed.shape)[listed]
        return BestParents(
            child, parents[listed].astype(np.intp), scores[listed], possible.astype(np.intp)
        )


def _columns(
    lineage: Lineage, quick: Sequence[Quick | None], two: Sequence[Array], T: int
) -> Columns:
    """Return the columns as `best_parents` reads them."""
    K = lineage.generations
    with np.errstate(divide="ignore"):
        log_steps = np.log(np.asarray(lineage.step_weights, dtype=np.float64))
    gaps = [(q, t) for q, t in zip(quick, two, strict=True) if isinstance(q, Gaps)]
    metrics = [(q, t) for q, t in zip(quick, two, strict=True) if isinstance(q, Metric)]
    matches = [(q, t) for q, t in zip(quick, two, strict=True) if isinstance(q, Match)]
    sites = [(q, t) for q, t in zip(quick, two, strict=True) if isinstance(q, Sites)]
    most = [*(_most(q, t) for q, t in matches), *(_most(q, t) for q, t in sites)]
    return Columns(
        log_steps,
        _dates(gaps, K),
        _metrics(metrics, K, T),
        _matches(matches, K, T),
        _sites(sites, K, T),
        np.array(most).reshape(-1, K).sum(axis=0),
    )


def _most(quick: Match | Sites, two: Array) -> Array:
    """Return the most that a column can add, for each number of links (K,)."""
    if isinstance(quick, Match):
        follows = np.maximum(quick.same, quick.other).max(axis=1)
    else:
        follows = quick.constant  # every other site costs something
    # Without a parent's cell the background alone counts, without the child's nothing does.
    return np.asarray(np.maximum(follows, max(float(two[:, 1:].max()), 0.0)))


def _dates(gaps: list[tuple[Gaps, Array]], K: int) -> Dates:
    if not gaps:
        none = np.zeros((2, K, 2))
        return Dates(False, np.zeros((1, 4)), none, 1.0, 1.0, np.zeros((1, 3)))
    quick, two = gaps[0]  # `model_columns` allows one column of dates
    cells = np.column_stack([quick.start, quick.end, quick.width, quick.is_open.astype(float)])
    cells[np.isnan(cells).any(axis=1)] = np.nan
    tables = np.array([quick.closed, quick.still_open])
    return Dates(True, cells, tables, quick.step, quick.unit, two)


def _metrics(metrics: list[tuple[Metric, Array]], K: int, T: int) -> Metrics:
    child = np.concatenate([np.zeros((K, T, 0)), *(q.child for q, _ in metrics)], axis=2)
    parent = np.concatenate([np.zeros((K, T, 0)), *(q.parent for q, _ in metrics)], axis=2)
    first = np.cumsum([0, *(q.child.shape[2] for q, _ in metrics)])
    constant = np.array([q.constant for q, _ in metrics]).reshape(-1, K).T
    two = np.array([t for _, t in metrics]).reshape(-1, T, 3)
    return Metrics(child, parent, first, np.ascontiguousarray(constant), two)


def _matches(matches: list[tuple[Match, Array]], K: int, T: int) -> Matches:
    code = np.array([q.code for q, _ in matches], dtype=np.int32).reshape(-1, T)
    levels = max((q.same.shape[1] for q, _ in matches), default=1)
    same, other = np.zeros((K, len(matches), levels)), np.zeros((K, len(matches), levels))
    for c, (q, _) in enumerate(matches):
        same[:, c, : q.same.shape[1]], other[:, c, : q.same.shape[1]] = q.same, q.other
    return Matches(code, same, other, np.array([t for _, t in matches]).reshape(-1, T, 3))


def _sites(sites: list[tuple[Sites, Array]], K: int, T: int) -> SitePlanes:
    """Pack letters into bits: each plane holds one bit of every site, 64 sites a word."""
    planes, packed = [], []
    for quick, _ in sites:
        letters = quick.codes[quick.codes != 255]
        planes.append(max(int(letters.max(initial=1)).bit_length(), 1))
        bits = [(quick.codes >> p) & 1 & (quick.codes != 255) for p in range(planes[-1])]
        packed.append(np.concatenate([_words(bit) for bit in bits], axis=1))
    known = [_words(q.codes != 255) for q, _ in sites]
    widest = max((words.shape[1] for words in known), default=1)
    masks = np.zeros((len(sites), T, widest), dtype=np.uint64)
    for c, words in enumerate(known):
        masks[c, :, : words.shape[1]] = words
    first = np.cumsum([0, *(words.shape[1] for words in packed)])
    rows = {
        name: np.ascontiguousarray(np.array([getattr(q, name) for q, _ in sites]).reshape(-1, K).T)
        for name in ("same", "change", "constant")
    }
    read = [(q.codes != 255).sum(axis=1) for q, _ in sites]
    return SitePlanes(
        bits=np.concatenate([np.zeros((T, 0), dtype=np.uint64), *packed], axis=1),
        known=masks,
        read=np.array(read, dtype=np.int64).reshape(-1, T),
        first=first,
        planes=np.array(planes, dtype=np.intp),
        unread=np.array([q.unread for q, _ in sites]),
        two=np.array([t for _, t in sites]).reshape(-1, T, 3),
        **rows,
    )


def _words(bits: NDArray[Any]) -> NDArray[np.uint64]:
    """Return rows of 0 and 1 as words of 64 bits (T, W)."""
    T, L = bits.shape
    padded = np.zeros((T, max(-(-L // 64), 1) * 64), dtype=np.uint8)
    padded[:, :L] = bits
    return np.packbits(padded, axis=1).view(np.uint64)
