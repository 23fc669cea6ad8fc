"""What every column of a table answers: how its cells change along k links from parent to child."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from outtrees.models.columns.quick import Quick

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class ColumnKernel(ABC):
    """How the cells of one column change from parent to child, over k = 1, 2, … links.

    Unlike a `Mutation`, a kernel works on a list of E possible edges, not on all pairs: dates
    and constraints forbid most pairs of a real table. `pairs` computes once what the parameters do
    not change (differences, counts of differing sites); `log_steps` and `slopes` read only that.

    Parameters are learned by their slopes: a fit asks for the derivative of a weighted sum of
    log-probabilities with respect to `params`, which are free of constraints, and moves the kernel
    with `with_params`.

    A kernel is a value: `start` and `with_params` return a new one. A missing cell is integrated
    out pair by pair: an unknown child pays nothing, a known child with an unknown parent pays
    `log_alone` (sequences do better, see `Substitution`).
    """

    # Whether only likeness to the parent beyond that to all records counts; see `Lineage`.
    contrasted: ClassVar[bool] = True
    # Whether `log_steps` are ratios to pairs without descent: there are then no outliers, and
    # `log_common` is what such a column weighs without any edge.
    relative: ClassVar[bool] = False

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

    def unknown_parents(self, pairs: Any) -> NDArray[np.bool_]:
        """Return which edges join a known child to a parent whose cell is unknown (E,)."""
        raise NotImplementedError  # by kernels that are not contrasted

    def between(self, children: Array, parents: Array) -> Callable[[Index, Index], Any]:
        """Return the function of child and parent that `pairs` is for these cells.

        For lists that are read in stretches: what all of them share is done once.
        """
        return partial(self.pairs, children, parents)

    @property
    @abstractmethod
    def params(self) -> Array:
        """The parameters that are learned, in coordinates without constraints (P,)."""

    @abstractmethod
    def with_params(self, params: Array) -> Self:
        """Return the kernel with these parameters (P,)."""

    @abstractmethod
    def slopes(self, pairs: Any, weights: Array, elapsed: Array | None = None) -> Array:
        """Return ∂/∂params of Σ weights · log_steps (P,); weights (K, E) may be negative."""

    def slopes_alone(self, values: Array, weights: Array) -> Array:
        """Return ∂/∂params of Σ weights · log_alone (P,); weights (n,).

        Most densities of cells without a parent stay as `start` found them: few records are roots,
        and their density could be piled onto one of them.
        """
        return np.zeros(len(self.params))

    def log_common(self) -> float:
        """Return the log-probability of what no tree changes; of relative columns only."""
        return 0.0

    def slopes_common(self) -> Array:
        """Return ∂/∂params of `log_common` (P,)."""
        return np.zeros(len(self.params))

    def prior_slopes(self) -> Array:
        """Return ∂/∂params of `log_prior` (P,), by central differences of that formula."""
        return differences(lambda kernel: kernel.log_prior(), self)

    def variants(self) -> Sequence[Self]:
        """Return the forms of the kernel among which a fit chooses by their likelihood."""
        return [self]

    def start_grid(self) -> Sequence[Array]:
        """Return the parameters from which a fit may start; it takes the best of them."""
        return [self.params]

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

    A model writes `_log_pairs` for pairs of known cells, `_log_cell` for known cells, and its
    `params`. Tables repeat the same few dates, categories and counts, so what edges join is kept as
    a list of distinct pairs (`_joined` says what of a pair matters), and so are the weights of
    slopes. Where few cells are alike, a model writes its slopes itself (`_slopes_cells`).
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

    def unknown_parents(self, pairs: CellPairs) -> NDArray[np.bool_]:
        """Return which edges join a known child to a parent whose cell is unknown (E,)."""
        return pairs.alone_place >= 0

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

    def slopes(self, pairs: CellPairs, weights: Array, elapsed: Array | None = None) -> Array:
        """Return ∂/∂params of Σ weights · log_steps (P,), pairs that are alike together."""
        both = pairs.place >= 0
        if not both.any():
            return np.zeros(len(self.params))
        timed = elapsed if self._uses_time else None
        if timed is not None or 2 * len(pairs.cells) > len(both):  # few pairs are alike
            known = slice(None) if both.all() else both
            cells = pairs.cells[pairs.place[known]]
            return self._slopes_cells(
                cells, weights[:, known], None if timed is None else timed[known]
            )
        place = pairs.place[both]
        totals = np.array(
            [np.bincount(place, w[both], minlength=len(pairs.cells)) for w in weights]
        )
        kept = (totals != 0).any(axis=0)
        return self._slopes_cells(pairs.cells[kept], totals[:, kept], None)

    def _slopes_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Array:
        """Return the slopes for distinct pairs (U, F) and weights (K, U).

        By central differences, which costs 2 P times the log-probabilities of these pairs.
        """

        def total(kernel: Self) -> float:
            value = 0.0
            for k, w in enumerate(weights, start=1):
                used = w != 0
                some = None if elapsed is None else elapsed[used]
                value += float(w[used] @ kernel._log_pairs(cells[used], k, some))
            return value

        return differences(total, self)


K = TypeVar("K", bound=ColumnKernel)
_STEP = 1e-5  # of central differences: rounding and curvature then cost about 1e-10 each


def differences(value: Callable[[K], float], kernel: K) -> Array:
    """Return ∂ value / ∂params (P,) by central differences."""
    now = kernel.params
    slopes = np.empty(len(now))
    for i in range(len(now)):
        ends = []
        for step in (_STEP, -_STEP):
            moved = now.copy()
            moved[i] += step
            ends.append(value(kernel.with_params(moved)))
        slopes[i] = (ends[0] - ends[1]) / (2 * _STEP)
    return slopes


def logit(share: float) -> float:
    """Return log(share / (1 − share))."""
    return float(np.log(share) - np.log1p(-share))


def share_of(value: float) -> float:
    """Return 1 / (1 + exp(−value)), kept a little away from 0 and 1."""
    return float(np.clip(expit(value), 1e-12, 1 - 1e-12))


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
