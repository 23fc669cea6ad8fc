"""What every column of a table answers: how its cells change along k links from parent to child."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from outtrees.models.columns.quick import Quick

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class ColumnKernel(ABC):
    """How the cells of one column change from parent to child, over k = 1, 2, … links.

    Unlike a `Mutation`, a kernel works on a list of E possible edges, not on all pairs: dates
    and constraints forbid most pairs of a real table. `pairs` computes once what the parameters do
    not change (differences, counts of differing sites); `log_steps` and `counted` read only that.

    A long list is read stretch by stretch: `counted` keeps of each what the M-step needs, and
    `learned` makes the step from all of these. `refit` does both for a list in one piece.

    A kernel is a value: `start` and `refit` return a new one. A missing cell is integrated out pair
    by pair: an unknown child pays nothing, a known child with an unknown parent pays `log_alone`
    (sequences do better, see `Substitution`).
    """

    @abstractmethod
    def start(self, values: Array) -> Self:
        """Return the kernel with starting parameters for a column of cells (T, D)."""

    @abstractmethod
    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> Any:
        """Return what the parameters do not change, for each of E edges."""

    @abstractmethod
    def log_steps(self, pairs: Any, k: int, elapsed: Array | None = None) -> Array:
        """Return log p(child's cells | parent's cells, k links apart) for each edge (E,)."""

    @abstractmethod
    def log_alone(self, values: Array) -> Array:
        """Return the log-density of cells without a parent (n,): of roots, and of outliers."""

    def between(self, children: Array, parents: Array) -> Callable[[Index, Index], Any]:
        """Return the function of child and parent that `pairs` is for these cells.

        For lists that are read in stretches: what all of them share is done once.
        """
        return partial(self.pairs, children, parents)

    @abstractmethod
    def counted(self, pairs: Any, weights: Array, elapsed: Array | None = None) -> Any:
        """Return what an M-step needs of some edges; weights (K, E), for each number of links."""

    @abstractmethod
    def learned(self, counts: Sequence[Any]) -> Self:
        """Return the kernel after an M-step for what was counted on each stretch of the edges.

        It never lowers Σ weights · log_steps + log_prior.
        """

    def refit(self, pairs: Any, weights: Array, elapsed: Array | None = None) -> Self:
        """Return the kernel after an M-step; weights (K, E), for each number of links."""
        return self.learned([self.counted(pairs, weights, elapsed)])

    def refit_alone(self, values: Array, weights: Array) -> Self:
        """Return the kernel after an M-step for Σ weights · log_alone, weights (n,).

        Most keep the fit of `start`: few records are roots, and their density could be piled onto
        one of them.
        """
        return self

    @abstractmethod
    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return one child's cells for each row of parents (n, D), k links below."""

    @abstractmethod
    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return n cells without a parent (n, D)."""

    @abstractmethod
    def log_prior(self) -> float:
        """Return the log prior density of the parameters, up to a constant."""

    @abstractmethod
    def describe(self) -> str:
        """Return the fitted parameters in words."""

    def quick(self, values: Array, generations: int, elapsed: float) -> Quick | None:
        """Return the kernel and its cells (T, D) as compiled loops read them, None if they cannot.

        `elapsed` is a typical time between parent and child.
        """
        return None


class CellPairs(NamedTuple):
    """The distinct pairs of cells that edges join, and which one each edge joins."""

    cells: Any  # (U, F), the distinct pairs of known cells
    place: NDArray[np.int32]  # (E,), the row of `cells`, −1 where a cell is unknown
    alone: Array  # (U', D), the distinct known children of unknown parents
    alone_place: NDArray[np.int32]  # (E,), the row of `alone`, −1 elsewhere


class CellKernel(ColumnKernel):
    """A kernel whose cells are known or missing as a whole: all but sequences.

    A model writes `_log_pairs` for pairs of known cells, `_log_cell` for known cells, and
    `_refit_pairs` (or what it counts instead). Tables repeat the same few dates, categories and
    counts, so what edges join is kept as a list of distinct pairs (`_joined` says what of a pair
    matters), and so are the weights of an M-step. Where few cells are alike, a model counts moments
    instead (`_counted_cells`).
    """

    def _joined(self, x: Array, y: Array) -> Array:
        """Return what of each pair of child's and parent's cells matters (E, F)."""
        return np.concatenate([x, y], axis=1)

    @abstractmethod
    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array: ...

    @abstractmethod
    def _log_cell(self, x: Array) -> Array: ...

    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> CellPairs:
        """Return the distinct pairs of cells, and which one each edge joins."""
        x, y = children[child], parents[parent]
        child_known = ~np.isnan(x).any(axis=1)
        both = child_known & ~np.isnan(y).any(axis=1)
        cells, place = distinct(self._joined(x[both], y[both]))
        alone, alone_place = distinct(x[child_known & ~both])
        return CellPairs(
            cells, _filled(both, place), alone, _filled(child_known & ~both, alone_place)
        )

    def log_steps(self, pairs: CellPairs, k: int, elapsed: Array | None = None) -> Array:
        """Return log p(child's cells | parent's cells, k links apart) for each edge (E,)."""
        result = np.zeros(len(pairs.place))
        both = pairs.place >= 0
        if self._uses_time and elapsed is not None:
            result[both] = self._log_pairs(pairs.cells[pairs.place[both]], k, elapsed[both])
        else:
            result[both] = self._log_pairs(pairs.cells, k, None)[pairs.place[both]]
        only_child = pairs.alone_place >= 0
        if only_child.any():
            result[only_child] = self._log_cell(pairs.alone)[pairs.alone_place[only_child]]
        return result

    @property
    def _uses_time(self) -> bool:
        """Whether the time that passed between child and parent enters."""
        return False

    def log_alone(self, values: Array) -> Array:
        """Return the log-density of cells without a parent (n,), 0 where missing."""
        known = ~np.isnan(values).any(axis=1)
        result = np.zeros(len(values))
        result[known] = self._log_cell(values[known])
        return result

    def counted(self, pairs: CellPairs, weights: Array, elapsed: Array | None = None) -> Any:
        """Return what an M-step needs of these edges; None if they say nothing."""
        used = (pairs.place >= 0) & (weights.sum(axis=0) > 0)
        if not used.any():
            return None
        place = pairs.place[used]
        if self._uses_time and elapsed is not None:
            return self._counted_cells(pairs.cells[place], weights[:, used], elapsed[used])
        totals = np.array(
            [np.bincount(place, w[used], minlength=len(pairs.cells)) for w in weights]
        )
        kept = totals.sum(axis=0) > 0
        return self._counted_cells(pairs.cells[kept], totals[:, kept], None)

    def learned(self, counts: Sequence[Any]) -> Self:
        """Return the kernel after an M-step for what was counted on each stretch of the edges."""
        known = [count for count in counts if count is not None]
        return self._learned_cells(known) if known else self

    def _counted_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Any:
        """Return the pairs of cells (U, F) themselves, and their weights (K, U)."""
        return cells, weights

    def _learned_cells(self, counts: Sequence[Any]) -> Self:
        cells, weights = counts[0]
        if len(counts) > 1:  # stretches share most of their pairs
            cells, place = distinct(np.concatenate([some for some, _ in counts]))
            weights = np.concatenate([w for _, w in counts], axis=1)
            weights = np.array([np.bincount(place, w, minlength=len(cells)) for w in weights])
        return self._refit_pairs(cells, weights)

    def _refit_pairs(self, cells: Array, weights: Array) -> Self:
        """Return the kernel after an M-step for distinct pairs; weights (K, U)."""
        raise NotImplementedError  # by kernels that count something else


def distinct(rows: Array) -> tuple[Array, Index]:
    """Return the distinct rows, and which one each row is.

    Columns are numbered one after the other and the numbers combined: far faster than
    sorting whole rows.
    """
    if not len(rows):
        return rows, np.zeros(0, dtype=np.intp)
    code = np.zeros(len(rows), dtype=np.intp)
    first = np.zeros(1, dtype=np.intp)
    for column in rows.T:
        _, number = np.unique(column, return_inverse=True)
        _, first, code = np.unique(
            code * (int(number.max()) + 1) + number.ravel(), return_index=True, return_inverse=True
        )
        code = code.ravel()
    return rows[first], code


def _filled(where: NDArray[np.bool_], place: Index) -> NDArray[np.int32]:
    result = np.full(len(where), -1, dtype=np.int32)
    result[where] = place
    return result
