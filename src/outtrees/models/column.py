"""What every kind of column answers: how its cells change along k links from parent to child.

A kind is written once, as a `CellKernel`. Tables (`Ancestry`) use it as it is, and a
`ColumnMutation` of it serves wherever a mutation does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import coo_array
from scipy.spatial import cKDTree
from scipy.special import expit

from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.priors import LogitBeta, Prior
from outtrees.models.quick import Quick

Index = NDArray[np.intp]


class Quantity(NamedTuple):
    """A parameter as people state it."""

    name: str
    value: float
    unit: str = ""  # "column": that of the column's cells; "time": that of the dates


class Learned(NamedTuple):
    """A number that a kernel learns: one of its fields, and where it lies beforehand."""

    field: str
    prior: Prior  # of its coordinate
    form: str = "number"  # "share": the coordinate is the logit; "positive": log(number / unit)
    unit: float = 1.0
    measure: str = ""  # the unit that people state it in, as of a `Quantity`

    def coordinate(self, value: float) -> float:
        """Return the number without constraints."""
        if self.form == "share":
            return logit(value)
        return float(np.log(value / self.unit)) if self.form == "positive" else value

    def number(self, coordinate: float) -> float:
        """Return the number at a coordinate."""
        if self.form == "share":
            return share_of(coordinate)
        return self.unit * float(np.exp(coordinate)) if self.form == "positive" else coordinate


class ColumnKernel(ABC):
    """How the cells of one column change from parent to child, over k = 1, 2, … links.

    Unlike a `Mutation`, a kernel works on a list of E possible edges, not on all pairs: dates
    and constraints forbid most pairs of a real table. `pairs` computes once what the parameters do
    not change (differences, counts of differing sites); `log_steps` and `slopes` read only that.

    Parameters are learned by their slopes: a fit asks for the derivative of a weighted sum of
    log-probabilities with respect to `params`, which are free of constraints, and moves the kernel
    with `with_params`. Both come from `learned`, where a kernel names the numbers that it learns;
    one that learns something else, such as a matrix, writes them itself, with `priors` and
    `quantities`.

    A kernel is a value: `start` and `with_params` return a new one. A missing cell is integrated
    out pair by pair: an unknown child pays nothing, a known child with an unknown parent pays
    `log_alone` (sequences do better, see `Substitution`).
    """

    # Whether only likeness to the parent beyond that to all records counts; see `Lineage`.
    contrasted: ClassVar[bool] = True
    # Whether, contrasted, a cell that changes is drawn from the background: there are no other
    # outliers then.
    from_background: ClassVar[bool] = False
    # Whether the parameters are those of the column of dates; see `TransmittedSequence`.
    follows_dates: ClassVar[bool] = False
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

    # What contrasted kernels are compared with; see `Lineage`.

    def unknown_parents(self, pairs: Any) -> NDArray[np.bool_]:
        """Return which edges join a known child to a parent whose cell is unknown (E,)."""
        raise NotImplementedError  # by kernels that are not contrasted

    def background_grid(self) -> Sequence[Self]:
        """Return the kernels about earlier records among which a background is chosen."""
        return [v.with_params(params) for v in self.variants() for params in v.start_grid()]

    def log_base(self, values: Array) -> Array:
        """Return the log-density of cells that no other record tells anything about (n,)."""
        return self.log_alone(values)

    def new_cells(self, n: int, before: Iterable[tuple[Any, Index, Array]]) -> tuple[Array, Array]:
        """Return the density of cells that follow none before, over that of `log_base` (n,).

        And how often there can be such cells, 1 but where none are left (n,).
        `before` holds pairs of each record and those before it, its number, and how surely
        the other one came first: 1, or 1/2.
        """
        return np.ones(n), np.ones(n)

    def log_relative(self, pairs: Any, k: int, elapsed: Array | None, log_alone: Array) -> Array:
        """Return `log_steps` less the log-density of each child's cell without a parent (E,)."""
        return self.log_steps(pairs, k, elapsed) - log_alone

    def slopes_relative(
        self, pairs: Any, weights: Array, elapsed: Array | None, log_alone: Array
    ) -> Array:
        """Return ∂/∂params of Σ weights · log_relative (P,); weights (K, E)."""
        return self.slopes(pairs, weights, elapsed)

    def slopes_of_alone(self, pairs: Any, weights: Array, log_alone: Array) -> Array:
        """Return Σ_k weights · ∂ log_relative / ∂ log_alone for each edge (E,)."""
        return np.asarray(-weights.sum(axis=0))

    def between(self, children: Array, parents: Array) -> Callable[[Index, Index], Any]:
        """Return the function of child and parent that `pairs` is for these cells.

        For lists that are read in stretches: what all of them share is done once.
        """
        return partial(self.pairs, children, parents)

    def learned(self) -> Sequence[Learned]:
        """Return the numbers that are learned: none, unless a kernel says so."""
        return ()

    @property
    def params(self) -> Array:
        """The parameters that are learned, in coordinates without constraints (P,)."""
        return np.array([one.coordinate(getattr(self, one.field)) for one in self.learned()])

    def with_params(self, params: Array) -> Self:
        """Return the kernel with these parameters (P,)."""
        pairs = zip(self.learned(), params, strict=True)
        moved = {one.field: one.number(float(x)) for one, x in pairs}
        return replace(self, **moved) if moved else self  # type: ignore[type-var]  # a dataclass

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

    def priors(self) -> Sequence[Prior]:
        """Return the prior distribution of each of `params`, in their coordinates."""
        return [one.prior for one in self.learned()]

    def log_prior(self) -> float:
        """Return the log prior density of the parameters."""
        pairs = zip(self.priors(), self.params, strict=True)
        return float(sum(prior.log_density(x) for prior, x in pairs))

    def prior_slopes(self) -> Array:
        """Return ∂/∂params of `log_prior` (P,); of one's own formula by central differences."""
        if type(self).log_prior is not ColumnKernel.log_prior:
            return differences(lambda kernel: kernel.log_prior(), self)
        pairs = zip(self.priors(), self.params, strict=True)
        return np.array([prior.slope(x) for prior, x in pairs])

    def following(self, dates: Any) -> Self:
        """Return the kernel with the parameters of the column of dates, if it follows them."""
        return self

    def reordered(self, cells: Array, rows: Index) -> Array:
        """Return the column in which record i holds what record rows[i] held."""
        return cells[rows]

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
    def describe(self) -> str:
        """Return the fitted parameters in words."""

    def quantities(self) -> list[Quantity]:
        """Return the parameters that are learned as people state them."""
        known = self.learned()
        return [Quantity(one.field, getattr(self, one.field), one.measure) for one in known]

    def states(self, values: Array) -> tuple[Array, Array] | None:
        """Return values that hidden cells of a column (T, 1) may have, (S,), and their widths (S,).

        The values rise; a width is what a density is multiplied by: 1 for what can be counted, the
        distance to the next for a grid. None if hidden cells cannot be summed over.
        """
        return None

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
        child_known = np.asarray(~np.isnan(x).any(axis=1))
        both = np.asarray(child_known & ~np.isnan(y).any(axis=1))
        cells, place = distinct(self._joined(x[both], y[both]), where_few_are=True)
        alone, alone_place = distinct(x[child_known & ~both])
        return CellPairs(
            cells, _filled(both, place), alone, _filled(child_known & ~both, alone_place)
        )

    def log_steps(self, pairs: CellPairs, k: int, elapsed: Array | None = None) -> Array:
        """Return log p(child's cells | parent's cells, k links apart) for each edge (E,)."""
        timed = elapsed if self._uses_time else None
        if timed is None and len(pairs.cells) == len(pairs.place):  # each edge has its own row
            return self._log_pairs(pairs.cells, k, None)
        result = np.zeros(len(pairs.place))
        both = pairs.place >= 0
        if timed is not None:
            result[both] = self._log_pairs(pairs.cells[pairs.place[both]], k, timed[both])
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
        timed = elapsed if self._uses_time else None
        both = pairs.place >= 0
        if not both.any():
            return np.zeros(len(self.params))
        if timed is None and len(pairs.cells) == len(pairs.place):  # each edge has its own row
            return self._slopes_cells(pairs.cells, weights, None)
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


class ShareKernel(CellKernel):
    """A kernel that learns one number, the share of the parent's value that a child keeps.

    Its prior is Beta with mode 1/2, worth `prior_strength` pseudo-links.
    """

    _share: ClassVar[str]  # the field that holds it
    prior_strength: float

    def learned(self) -> list[Learned]:
        """Return the share, with its Beta."""
        half = self.prior_strength / 2
        return [Learned(self._share, LogitBeta(half, half), "share")]

    def start_grid(self) -> list[Array]:
        """Return a column that says next to nothing, and ones that are kept more and more."""
        return [np.array([value]) for value in (-3.0, -1.0, 1.0, 3.0)]


@dataclass(frozen=True, eq=False, repr=False)
class ColumnMutation(Mutation):
    """A kind of column as a mutation: cells change by one link of its kernel.

    For `OutTreeDensity`, `OutTreeClassifier`, `OutTreeImputer` (kernels with `states`) and, in a
    `outtrees.models.conjugate.PointPosterior`, `BayesianOutTree`. Put several into a
    `ProductMutation`. NaN cells are integrated out pair by pair, as the kernel does.

    Parameters
    ----------
    kernel : ColumnKernel
        Such as those in `outtrees.models.columns`.
    points, widths : arrays of shape (S,), optional
        Cells are then positions in these points; `OutTreeImputer` sets them.

    Examples
    --------
    >>> from outtrees.models.columns import Counts
    >>> X = np.array([[0.0], [3.0], [4.0], [1.0]])
    >>> ColumnMutation(Counts()).start(X).log_conditional(X, X).shape
    (4, 4)
    """

    kernel: ColumnKernel
    points: Any = None
    widths: Any = None
    _: KW_ONLY
    n_columns: int | None = field(default=None, repr=False)

    def _start(self, X: Array, random_state: Any) -> Self:
        return replace(self, kernel=self.kernel.start(self._cells(X)), n_columns=X.shape[1])

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return self.n_columns

    @property
    def allows_missing(self) -> bool:
        """NaN cells are integrated out."""
        return True

    def _cells(self, X: Array) -> Array:
        if self.points is None:
            return X
        return np.append(self.points, np.nan)[np.where(np.isnan(X), -1, X).astype(np.intp)]

    # Densities and samples ---------------------------------------------------------------------

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        # Tables repeat the same cells.
        (x, of_child), (y, of_parent) = distinct(children), distinct(parents)
        child, parent = np.indices((len(x), len(y))).reshape(2, -1)
        table = self._log_edges(x, y, child, parent).reshape(len(x), len(y))
        return np.asarray(table[of_child][:, of_parent])

    def _log_edges(self, children: Array, parents: Array, child: Index, parent: Index) -> Array:
        return self.kernel.log_steps(self._pairs(children, parents, child, parent), 1)

    def _pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> Any:
        return self.kernel.pairs(self._cells(children), self._cells(parents), child, parent)

    def _log_root(self, X: Array) -> Array:
        return self.kernel.log_alone(self._cells(X))

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        """Return the mean over the records of each class, and some of the density of all."""
        few = 8.0  # records of each class that the density of all is worth
        log_pairs, alone = self._log_conditional(records, X), self._log_root(records)
        top = np.maximum(log_pairs.max(axis=1), alone)[:, None]
        mass = np.exp(log_pairs - top) @ weights + few * np.exp(alone[:, None] - top)
        return np.asarray(np.log(mass / (weights.sum(axis=0) + few)) + top)

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        cells = self._cells(parents)
        unknown = np.isnan(cells).any(axis=1)
        result = self.kernel.sample_alone(len(cells), rng)
        result[~unknown] = self.kernel.sample(cells[~unknown], 1, rng)
        return result

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        return self.kernel.sample_alone(n, rng)

    # Learning ----------------------------------------------------------------------------------

    def _params(self) -> Array:
        return self.kernel.params

    def _with_params(self, params: Array) -> Self:
        return replace(self, kernel=self.kernel.with_params(params))

    def _log_prior(self) -> float:
        return self.kernel.log_prior()

    def _listed(self, X: Array, edge_marginals: Any) -> tuple[Any, Array]:
        """Return the pairs that have a weight, and their weights."""
        listed = coo_array(edge_marginals)
        listed.sum_duplicates()  # sorted: a list of all pairs and a matrix give the same bits
        used = listed.data != 0
        return self._pairs(X, X, listed.row[used], listed.col[used]), listed.data[used]

    def _refit(self, X: Array, edge_marginals: Any) -> Self:
        pairs, weights = self._listed(X, edge_marginals)

        def loss(params: Array) -> tuple[float, Array]:
            kernel = self.kernel.with_params(params)
            value = float(weights @ kernel.log_steps(pairs, 1)) + kernel.log_prior()
            return -value, -(kernel.slopes(pairs, weights[None]) + kernel.prior_slopes())

        start = self.kernel.params
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=_CLIMB)
        return self._with_params(found.x) if found.fun < loss(start)[0] else self

    def _gradient(self, X: Array, edge_marginals: Any) -> Array:
        pairs, weights = self._listed(X, edge_marginals)
        return self.kernel.slopes(pairs, weights[None]) + self.kernel.prior_slopes()

    # Hidden cells ------------------------------------------------------------------------------

    @property
    def hidden_cells(self) -> str | None:
        """By tables of the values that the kernel names."""
        return None if self.kernel.states(np.zeros((1, 1))) is None else "tables"

    def on_states(self, values: Array) -> Self:
        """Return the same for cells that are positions in the kernel's states of a column.

        Parameters
        ----------
        values : array of shape (T, 1)
            The column.

        Returns
        -------
        ColumnMutation
            For codes.
        """
        found = self.kernel.states(values)
        if found is None:
            raise ValueError(f"{type(self.kernel).__name__} cannot sum over hidden cells.")
        return replace(self, points=found[0], widths=found[1])

    @property
    def levels(self) -> tuple[Array, ...]:
        """The positions of the states."""
        return (np.arange(float(len(self.points))),)

    @property
    def marginals(self) -> tuple[Array, ...]:
        """The probability of each state without a parent."""
        p = self.widths * np.exp(self.kernel.log_alone(self.points[:, None]))
        return (p / p.sum(),)

    @property
    def matrices(self) -> tuple[Array, ...]:
        """The probability of each state given the parent's, [child, parent]."""
        states = self.levels[0][:, None]
        p = self.widths[:, None] * np.exp(self._log_conditional(states, states))
        return (p / p.sum(axis=0),)

    def _refit_counts(self, counts_of: list[Array]) -> Self:
        return self._refit(self.levels[0][:, None], counts_of[0][:-1, :-1])

    def _drawn(self, counts_of: list[Array], rng: np.random.Generator) -> Self:
        """Return the mutation after one round of slice sampling of each parameter (Neal 2003)."""
        pairs, weights = self._listed(self.levels[0][:, None], counts_of[0][:-1, :-1])
        current = self._params().copy()

        def value(params: Array) -> float:
            kernel = self.kernel.with_params(params)
            return float(weights @ kernel.log_steps(pairs, 1)) + kernel.log_prior()

        for i in range(len(current)):
            level = value(current) + np.log(rng.random())
            low = current[i] - rng.random() * 2.0  # an interval of width 2, doubled while inside
            ends = [low, low + 2.0]
            for side, step in ((0, -2.0), (1, 2.0)):
                moved = current.copy()
                moved[i] = ends[side]
                while value(moved) > level and abs(moved[i] - current[i]) < 30:
                    moved[i] += step
                ends[side] = float(moved[i])
            while True:
                moved = current.copy()
                moved[i] = rng.uniform(*ends)
                if value(moved) > level:
                    break
                ends[int(moved[i] > current[i])] = float(moved[i])
            current = moved
        return self._with_params(current)

    def _with_observed_root(self, X: Array) -> Self:
        kernel = self.kernel.start(self._cells(X)).with_params(self.kernel.params)
        return replace(self, kernel=kernel)


K = TypeVar("K", bound=ColumnKernel)
_CLIMB = {"maxiter": 100, "ftol": 1e-14, "gtol": 1e-8}  # of one refit
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


_TESTED = 5000  # rows that show whether most of a list are distinct


def distinct(rows: Array, where_few_are: bool = False) -> tuple[Array, Index]:
    """Return the distinct rows, and which one each row is.

    Columns are numbered one after the other and the numbers combined: far faster than
    sorting whole rows. With `where_few_are`, rows of which most are distinct stay as they are,
    as a sample of them shows.
    """
    if not len(rows):
        return rows, np.zeros(0, dtype=np.intp)
    if where_few_are and len(rows) > _TESTED:
        some = rows[:: len(rows) // _TESTED]
        alike = len(some) - len(distinct(some)[0])
        if alike <= len(some) ** 2 / len(rows):  # as many as if every second row were distinct
            return rows, np.arange(len(rows))
    code = np.zeros(len(rows), dtype=np.intp)
    first = np.zeros(1, dtype=np.intp)
    for column in rows.T:
        _, number = np.unique(column, return_inverse=True)
        _, first, code = np.unique(
            code * (int(number.max()) + 1) + number.ravel(), return_index=True, return_inverse=True
        )
        code = code.ravel()
    if len(first) == len(rows):
        return rows, np.arange(len(rows))
    return rows[first], code


def _filled(where: NDArray[np.bool_], place: Index) -> NDArray[np.int32]:
    result = np.full(len(where), -1, dtype=np.int32)
    result[where] = place
    return result


def typical_variance(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a robust variance of each column of known cells (n, D), positive, shape (D,).

    From the median distance to the median (as a normal column would have it); the sample variance
    where more than half of the cells are equal, and 1 where all are: such a column has no scale of
    its own, and any positive one serves.

    Examples
    --------
    >>> wild = np.array([[0.0], [1.0], [2.0], [3.0], [1e6]])
    >>> typical_variance(wild).round(2), typical_variance(np.ones((3, 1)))
    (array([2.2]), array([1.]))
    """
    if not len(known):
        return np.ones(known.shape[1])
    middle = np.median(known, axis=0)
    robust = (1.4826 * np.median(abs(known - middle), axis=0)) ** 2
    variance = np.where(robust > 0, robust, known.var(axis=0))
    return np.where(variance > 0, variance, 1.0)


_MOST_SHARED = 0.5  # of the records, at places that they share: these are areas


def rounding(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation that rounding leaves in each column of known cells (D,).

    The unit in which cells are written is the least difference between two of them that differ;
    what lies within it is spread evenly, with standard deviation unit / √12. Of places at which
    most records have company, such as the centres of counties, the unit is the distance from one
    to the next: records of one county need not be at one place.

    Examples
    --------
    >>> rounding(np.array([[0.5], [1.0], [3.0], [3.0]])).round(3)
    array([0.144])
    >>> rounding(np.array([[0.0, 0.0]] * 3 + [[30.0, 1.0]] * 2 + [[60.0, 0.0]] * 3)).round(1)
    array([8.7, 8.7])
    """
    finest = np.zeros(known.shape[1])
    for d, column in enumerate(known.T):
        steps = np.diff(np.unique(column))
        finest[d] = steps.min() / np.sqrt(12) if len(steps) else 0.0
    places, number = np.unique(known, axis=0, return_counts=True)
    shared = float(number[number > 1].sum()) > _MOST_SHARED * len(known)
    if known.shape[1] > 1 and len(places) > 2 and shared:
        nearest = cKDTree(places).query(places, k=2)[0][:, 1]
        finest = np.maximum(finest, float(np.median(nearest)) / np.sqrt(12))
    return finest
