"""Filling in missing cells with out-trees, as a scikit-learn transformer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from outtrees._common.arguments import check_count, check_number
from outtrees._common.order import record_order
from outtrees._common.parameters import Interval, StrOptions, check_params
from outtrees._common.progress import note, takes_long
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Message, Option
from outtrees.imputation.model import check_columns, on_states
from outtrees.imputation.stack import (
    Table,
    TableModel,
    default_models,
    mixed_mutation,
    stack_cells,
    weighed_moments,
)
from outtrees.inference.frames import (
    as_they_came,
    dates_as_days,
    is_missing,
    like_frame,
    truth_columns,
)
from outtrees.inference.validation import cells_of_columns, check_records
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    MixtureMutation,
    Mutation,
    make_mutation,
)

_NAMES = ("auto", "gaussian", "parzen", "iid", "mixture", "categorical")
_TEXT = "OUS"  # NumPy's kinds of columns that may hold text
_COMPLETIONS = 10  # of the training records, below which new records are placed
_TOO_NOISY = 0.5  # Monte-Carlo error of a cell, in its standard deviations
_FEWEST_SURPRISES = 50  # cells held out; fewer say little of how wide intervals should be
_TOO_MANY = 0.25  # share of the missing cells with more than that


class OutTreeImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill in missing cells from the other cells of a record and from its unknown relatives.

    Each record descends from one unknown other record. Given the tree, hidden cells have an exact
    posterior (messages along the tree); given complete records, trees are drawn from all
    out-trees at once. The imputer alternates the two in several chains, and fits the mutation with
    hidden cells integrated out rather than filled in.

    Parameters
    ----------
    mutation : str or Mutation, default="auto"
        How a child differs from its parent. "auto" weighs a few mutations by how well they
        recover cells that are hidden as well (`outtrees.imputation.stack`): one cloud, in
        which a cell is predicted by the other cells of its record; a tree, in which it is
        predicted by the records around it; and clouds with a window around each record.
        "gaussian", "parzen", "iid", "mixture", "categorical" are those mutations with default
        options; categorical columns of the first two mutate by tables of their own. Or a
        `Mutation`, whose columns are the table's: continuous ones standardised, categories as
        numbers 0, 1, … in sorted order. Gaussian and categorical mutations, products of them and
        mixtures of these can be used.
    categorical : "auto", None, or a sequence of columns, default="auto"
        Names, positions or a mask of the columns that hold categories. "auto" takes the columns
        of text, booleans and categories of a data frame, and none of an array of numbers.
    n_draws : int, default=20
        Draws of each chain that are averaged, and kept for `sample`.
    n_chains : int, default=3
    burn_in : int, default=8
        Draws of each chain before these.
    max_iter : int, default=25
        Steps of EM for each mutation.
    random_state : int, RandomState, Generator or None, default=None
    verbose : int, default=0
        1 shows a bar of progress on the standard error stream.

    Attributes
    ----------
    std_ : array of shape (T, D)
        Standard deviation of each training cell given the observed ones, zero where observed; of
        a category, the probability that it is another one. With "auto" those of numbers are scaled
        so that value ± 1.645 `std_` covers 90 % of the cells that were held out.
    surprises_ : array of shape (n,)
        With "auto": how far the numbers held out lay from their expected value, in standard
        deviations before that scaling, sorted. `interval` uses them.
    standard_error_ : array of shape (T, D)
        Monte-Carlo error of the imputed value, in the column's units; of a category, that of its
        probability.
    r_hat_ : array of shape (T, D)
        Split R-hat of the same: near 1 where the chains agree, 1 where observed.
    probabilities_ : dict from column to array of shape (T, C)
        Of the categories `categories_[column]`, for each training record.
    categories_ : dict from column to array of shape (C,)
    weights_ : dict
        The weight of each mutation; a single one has weight 1.
    losses_ : dict
        With "auto": the mean squared error of each mutation on the cells hidden as well, in
        standard deviations; of categories, half of the squared distance of their probabilities.
    mutations_ : dict
        The fitted mutations, on standardised columns; of "auto" those with a weight. For
        categorical columns "auto" uses 0/1 columns with some of them.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (D,)

    Notes
    -----
    `fit_transform` returns posterior means (the most probable category) of the training records,
    to whom others are parents and children. `transform` of another record takes it as a leaf
    below one of the training records, each by itself; a row that equals a training record cell
    by cell, missing ones too, is that record. Observed cells never change.

    A step costs O(T³ + T² D²).

    Examples
    --------
    >>> from outtrees.datasets import load_liver
    >>> X = load_liver(subset="paper").data[:60].copy()
    >>> X[::7, 2] = np.nan
    >>> imputer = OutTreeImputer(mutation="gaussian", random_state=0)
    >>> filled = imputer.fit_transform(X)
    >>> filled.shape, bool(np.isnan(filled).any()), bool((imputer.std_[::7, 2] > 0).all())
    ((60, 6), False, True)
    >>> imputer.sample(4, random_state=0).shape
    (4, 60, 6)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mutation": [StrOptions(set(_NAMES)), Mutation],
        "categorical": [StrOptions({"auto"}), "array-like", None],
        "n_draws": [Interval(Integral, 2, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        mutation: str | Mutation = "auto",
        *,
        categorical: Any = "auto",
        n_draws: int = 20,
        n_chains: int = 3,
        burn_in: int = 8,
        max_iter: int = 25,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.mutation = mutation
        self.categorical = categorical
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.burn_in = burn_in
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    @takes_long
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit mutations to the observed cells and find the posterior of the hidden ones.

        Parameters
        ----------
        X : array-like or data frame of shape (T, D)
            At least two records; NaN (or None among text) where a cell is missing. Columns of
            dates of a data frame are filled in with dates.
        y : ignored

        Returns
        -------
        OutTreeImputer
            Itself.
        """
        check_params(self)
        self._truths = truth_columns(X)
        X, self._dates = dates_as_days(X)
        cells, text = read_cells(self, X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        columns = learn_columns(cells, text, self.categorical, X, names)
        mutation = self.mutation
        if isinstance(mutation, Mutation):
            mutation, points = on_states(mutation, cells, columns.categorical)
            columns = columns.with_points(points)
        table = columns.table(cells)
        self.__dict__.pop("weights_", None)
        # Chains draw cell by cell: in an order that does not depend on the table's.
        order = record_order(table.cells)
        stack = stack_cells(
            self._models(table, mutation),
            table._replace(cells=table.cells[order]),
            max_iter=self.max_iter,
            chains={
                "n_chains": self.n_chains,
                "n_draws": self.n_draws,
                "burn_in": self.burn_in,
                "n_kept": self.n_chains * self.n_draws,
            },
            rng=as_generator(self.random_state),
            report=_bar if self.verbose else _noted,
        ).reordered(np.argsort(order))
        kept = {name: weight for name, weight in stack.weights.items() if weight > 0}
        posteriors = [(kept[name], found) for name, found in stack.posteriors.items()]
        mean, std = weighed_moments(posteriors)
        std *= np.isnan(table.cells)
        error = np.sqrt(_total((w * found.standard_error) ** 2 for w, found in posteriors))
        chances = [
            _total(w * found.chances[d] for w, found in posteriors)
            for d in range(len(columns.categorical))
        ]
        for d, chance in zip(columns.categorical, chances, strict=True):
            hidden = np.isnan(table.cells[:, d])
            mean[:, d] = np.where(hidden, chance.argmax(axis=1), table.cells[:, d])
            std[:, d] = np.where(hidden, 1.0 - chance.max(axis=1), 0.0)
        self.surprises_ = stack.surprises
        numbers = [d for d in range(std.shape[1]) if d not in columns.categorical]
        std[:, numbers] *= self._widening()
        self.std_ = std * columns.scale
        self.standard_error_ = error * columns.scale
        self.r_hat_ = np.max([found.r_hat for _, found in posteriors], axis=0)
        column_names = [d if names is None else str(names[d]) for d in columns.categorical]
        self.probabilities_ = dict(zip(column_names, chances, strict=True))
        self.categories_ = dict(zip(column_names, columns.levels, strict=True))
        self.losses_ = stack.losses
        self.mutations_ = {name: found.fit.mutation for name, found in stack.fitted.items()}
        self.n_iter_ = self.max_iter
        self._columns: Columns = columns
        self._table: Table = table
        self._mean: Array = mean
        self._cells: NDArray[Any] = cells
        self._fitted, self._posteriors = stack.fitted, stack.posteriors
        self.weights_ = stack.weights  # last: an interrupted fit leaves an imputer not fitted
        self._warn_of_noise(std, error, chances)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the records with missing cells filled in by posterior means or modes, (n, D).

        The same whatever other records are in X. O(n T D²) for the records with missing cells.

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            Records with missing cells.

        Returns
        -------
        array of shape (n, D)
            The same without missing cells; objects if there is text or a date. After
            ``set_output(transform="pandas")`` (or "polars") a data frame, with the types of the
            columns of X if X is one of the same library.
        """
        check_is_fitted(self, "weights_")
        cells, _ = read_cells(self, dates_as_days(X)[0], reset=False)
        table = self._columns.table(cells).cells
        filled = table.copy()
        hidden = np.isnan(table)
        rows = np.flatnonzero(hidden.any(axis=1))
        known = {_key(record): t for t, record in enumerate(self._table.cells)}
        place = [known.get(_key(table[row])) for row in rows]
        for row, t in zip(rows, place, strict=True):
            if t is not None:
                filled[row] = self._mean[t]
        new = rows[[t is None for t in place]] if len(rows) else rows
        if len(new):
            filled[new] = self._leaves(table[new])
        result = self._columns.cells(filled)
        # Standardising and back would round: cells that were there are returned as they came.
        result = self._as_they_came(np.where(hidden, result, cells))
        return like_frame(X, result) if self._returns_frames_like(X) else result

    def _returns_frames_like(self, X: Any) -> bool:
        """Return whether `set_output` asks for data frames of the library that X is of."""
        asked = getattr(self, "_sklearn_output_config", {}).get("transform")
        asked = asked or get_config()["transform_output"]
        return type(X).__module__.partition(".")[0] == asked and type(X).__name__ == "DataFrame"

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[Any]:
        """Fit, and return the records with missing cells filled in, (T, D).

        Parameters
        ----------
        X : array-like or data frame of shape (T, D)
            Records with missing cells.
        y : None
            Not used.
        **fit_params : dict
            Not used.

        Returns
        -------
        array of shape (T, D)
            The same without missing cells.
        """
        return self.fit(X, y).transform(X)

    def sample(self, n: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Return the training records completed n times, (n, T, D): multiple imputation.

        Joint draws of all hidden cells from their posterior, each mutation as often as its weight
        says. They are those that the chains kept, without repetition, so n is limited.

        Parameters
        ----------
        n : int
            The number of complete tables.
        random_state : int, Generator or None
            For the choice of draws.

        Returns
        -------
        array of shape (n, T, D)
            Complete tables.

        Raises
        ------
        ArgumentError
            If fewer draws were kept.
        """
        check_is_fitted(self, "weights_")
        check_count("OutTreeImputer.sample", "n", n, 1)
        rng = as_generator(random_state)
        names = list(self._posteriors)
        counts = rng.multinomial(n, [self.weights_[name] for name in names])
        drawn = []
        for name, count in zip(names, counts, strict=True):
            kept = self._posteriors[name].draws
            if count > len(kept):
                raise ArgumentError(
                    f"sample(n={n}) asks for {count} draws of {name!r}, but {len(kept)} were kept; "
                    "raise ",
                    Option("n_draws"),
                    " or ",
                    Option("n_chains"),
                    " and fit again.",
                )
            drawn.extend(kept[rng.choice(len(kept), size=count, replace=False)])
        order = rng.permutation(n)
        tables = np.array(drawn)[order]
        for d in range(tables.shape[2]):
            if d not in self._columns.categorical:
                centre = self._mean[:, d]
                tables[:, :, d] = centre + self._widening() * (tables[:, :, d] - centre)
        completed = self._columns.cells(tables)
        completed = np.where(np.isnan(self._table.cells), completed, self._cells)
        return self._as_they_came(completed)

    def _as_they_came(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Return cells with dates and truth values as the data frame of the fit had them."""
        return as_they_came(cells, getattr(self, "_dates", ()), getattr(self, "_truths", ()))

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Return low and high ends (T, D) between which hidden numbers lie with this probability.

        With "auto" and enough cells the width is such that the intervals cover this share of the
        cells that were held out; else as the normal law has it. Observed cells are both ends;
        columns of categories are NaN, and have `probabilities_`.

        Parameters
        ----------
        level : float, default=0.9
            The probability, between 0 and 1.

        Returns
        -------
        low, high : ndarrays of shape (T, D)
        """
        check_is_fitted(self, "weights_")
        check_number("OutTreeImputer.interval", "level", level, 0, 1)
        columns, wide = self._columns, self._quantile(level) / self._widening()
        centre = self._mean * columns.scale + columns.mean
        seen = ~np.isnan(self._table.cells)
        low, high = centre - wide * self.std_, centre + wide * self.std_
        for d in range(low.shape[1]):
            if d in columns.categorical:
                low[:, d] = high[:, d] = np.nan
            else:  # as they came: standardising and back would round
                observed = self._cells[seen[:, d], d].astype(np.float64)
                low[seen[:, d], d] = high[seen[:, d], d] = observed
        return low, high

    # Inside -----------------------------------------------------------------------------------

    def _quantile(self, level: float) -> float:
        """Return within how many standard deviations this share of hidden numbers lies."""
        surprises = getattr(self, "surprises_", np.empty(0))  # imputers saved before have none
        n = len(surprises)
        if n < _FEWEST_SURPRISES:
            return float(norm.ppf((1 + level) / 2))
        # As in conformal prediction: the next cell is one of n + 1 that are alike.
        return float(surprises[np.clip(int(np.ceil((n + 1) * level)) - 1, 0, n - 1)])

    def _widening(self) -> float:
        """Return the factor by which standard deviations fit the cells held out, at 90 %."""
        return float(np.clip(self._quantile(0.9) / norm.ppf(0.95), 0.5, 2.0))

    def _models(self, table: Table, mutation: str | Mutation) -> dict[str, TableModel]:
        if isinstance(mutation, Mutation):
            check_columns(mutation, table.cells.shape[1], table.categorical)
            return {type(mutation).__name__: TableModel(mutation, False)}
        if mutation == "auto":
            return default_models(table)
        made = make_mutation(mutation)
        every = len(table.categorical) == table.cells.shape[1]
        if isinstance(made, CategoricalMutation) and every:
            made = mixed_mutation(table, GaussianMutation(), made)
        elif isinstance(made, GaussianMutation) and not made.parent_free:
            made = mixed_mutation(table, made, CategoricalMutation())
        elif table.categorical or isinstance(made, CategoricalMutation):
            takes = "only" if isinstance(made, CategoricalMutation) else "no"
            raise ArgumentError(
                Option("mutation", mutation),
                f" takes {takes} categorical columns, but "
                f"{len(table.categorical)} of {table.cells.shape[1]} columns are; use 'auto', "
                "'gaussian' or 'parzen', or name the columns in ",
                Option("categorical"),
                ".",
            )
        if isinstance(made, MixtureMutation):
            made = MixtureMutation(prior_strength=10.0)
        return {mutation: TableModel(made, False)}

    def _leaves(self, table: Array) -> Array:
        """Return new records filled in, each a leaf below the training records."""
        mean = np.zeros_like(table)
        chances = [np.zeros((len(table), n)) for n in self._table.n_levels]
        for name, fitted in self._fitted.items():
            weight = self.weights_[name]
            draws = self._posteriors[name].draws
            step = max(1, len(draws) // _COMPLETIONS)
            found = fitted.leaves(table, draws[::step][:_COMPLETIONS])
            mean += weight * found.mean
            for total, chance in zip(chances, found.chances, strict=True):
                total += weight * chance
        for d, chance in zip(self._columns.categorical, chances, strict=True):
            mean[:, d] = chance.argmax(axis=1)
        return np.where(np.isnan(table), mean, table)

    def _warn_of_noise(self, std: Array, error: Array, chances: list[Array]) -> None:
        spread = std.copy()
        for d, chance in zip(self._columns.categorical, chances, strict=True):
            best = chance.max(axis=1)
            spread[:, d] = np.sqrt(best * (1 - best))
        hidden = np.isnan(self._table.cells)
        noisy = (error > _TOO_NOISY * spread)[hidden & (spread > 0)]
        if noisy.size and noisy.mean() > _TOO_MANY:
            warnings.warn(
                Message(
                    f"the chains of OutTreeImputer still disagree: the Monte-Carlo error of "
                    f"{noisy.mean():.0%} of the missing cells is above half their standard "
                    "deviation; raise ",
                    Option("n_draws"),
                    " and ",
                    Option("burn_in"),
                    ", or use a mutation with a larger prior_strength",
                ),
                ConvergenceWarning,
                stacklevel=4,
            )


def _total(terms: Iterable[Array]) -> Array:
    return reduce(np.add, terms)


def _key(record: Array) -> bytes:
    """Return what equal records share: there are several NaN, and two zeros."""
    return (np.where(np.isnan(record), np.nan, record) + 0.0).tobytes()


def _noted(name: str, what: str, done: int, total: int) -> None:
    """Keep how far one mutation is, for the next line of progress."""
    note(f"{name}, {what} {done} of {total}")


def _bar(name: str, what: str, done: int, total: int) -> None:
    """Show how far one mutation is, in one line that is written over."""
    filled = round(30 * done / total)
    line = f"\r{name}, {what:22s} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}"
    sys.stderr.write(line + ("\n" if done == total else ""))
    sys.stderr.flush()


# The user's table, and standardised columns and codes ------------------------------------------


def read_cells(
    estimator: BaseEstimator, X: Any, *, reset: bool
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the cells (n, D), missing ones as NaN or None, and which columns hold text.

    A table without text comes back as floats.
    """
    text = _text_columns(X)
    if not text.any():
        return check_records(estimator, X, allows_missing=True, reset=reset), text
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    table = np.empty((len(X), len(text)), dtype=object)
    for d, (name, column) in enumerate(cells_of_columns(X)):
        if text[d]:
            table[:, d] = [None if is_missing(cell) else cell for cell in column]
            continue
        cells = check_array(
            np.array([np.nan if is_missing(cell) else cell for cell in column], object)[:, None],
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            input_name=f"column {name!r}",
        )
        table[:, d] = cells[:, 0]
    if reset and len(table) < 2:
        raise ValueError(
            f"Found array with {len(table)} sample(s) while a minimum of 2 is required by "
            f"{type(estimator).__name__}."
        )
    return table, text


def _text_columns(X: Any) -> NDArray[np.bool_]:
    """Return which columns hold text or other objects that are no numbers."""
    if hasattr(X, "toarray") or not (hasattr(X, "columns") or getattr(X, "ndim", 0) == 2):
        return np.zeros(0, dtype=bool)
    if not hasattr(X, "columns") and getattr(X.dtype, "kind", "f") not in _TEXT:
        return np.zeros(0, dtype=bool)
    return np.array([_holds_text(column) for _, column in cells_of_columns(X)], dtype=bool)


def _holds_text(column: NDArray[Any]) -> bool:
    if column.dtype.kind not in _TEXT:
        return False
    return any(isinstance(cell, (str, bytes)) for cell in column)


@dataclass(frozen=True)
class Columns:
    """What kind each column is, its scale or its categories; learned from the observed cells."""

    categorical: list[int]
    levels: list[NDArray[Any]]  # of the categorical columns, sorted
    mean: Array  # (D,), 0 for categorical columns
    scale: Array  # (D,), 1 for categorical columns
    text: bool  # whether cells are objects
    # Columns of kinds that are summed over a grid: their levels stand for all that is nearest.
    points: list[int] = field(default_factory=list)

    def with_points(self, points: dict[int, Array]) -> Columns:
        """Return the same with some columns in codes of these points."""
        levels = {**dict(zip(self.categorical, self.levels, strict=True)), **points}
        mean, scale = self.mean.copy(), self.scale.copy()
        mean[list(points)], scale[list(points)] = 0.0, 1.0
        order = sorted(levels)
        return Columns(order, [levels[d] for d in order], mean, scale, self.text, sorted(points))

    def table(self, cells: NDArray[Any]) -> Table:
        """Return standardised columns and codes; NaN stays.

        Raises
        ------
        ValueError
            For a category that was not there when the columns were learned.
        """
        result = np.empty(cells.shape)
        for d in range(cells.shape[1]):
            if d not in self.categorical:
                result[:, d] = (cells[:, d].astype(np.float64) - self.mean[d]) / self.scale[d]
        for d, levels in zip(self.categorical, self.levels, strict=True):
            if d in self.points:
                column = cells[:, d].astype(np.float64)
                code = abs(column[:, None] - levels).argmin(axis=1)
                result[:, d] = np.where(np.isnan(column), np.nan, code)
                continue
            place = {level: code for code, level in enumerate(levels.tolist())}
            for row, cell in enumerate(cells[:, d].tolist()):
                if is_missing(cell):
                    result[row, d] = np.nan
                elif cell in place:
                    result[row, d] = place[cell]
                else:
                    raise ValueError(
                        f"column {d} is categorical with the values {levels.tolist()}, but row "
                        f"{row} has {cell!r}; mark it as missing or fit again with it."
                    )
        return Table(result, self.categorical, [len(levels) for levels in self.levels])

    def cells(self, table: Array) -> NDArray[Any]:
        """Return complete standardised columns and codes as the user's values, (…, D)."""
        result = (table * self.scale + self.mean).astype(object if self.text else np.float64)
        for d, levels in zip(self.categorical, self.levels, strict=True):
            result[..., d] = levels[table[..., d].astype(np.intp)]
        return np.asarray(result)


def learn_columns(
    cells: NDArray[Any],
    text: NDArray[np.bool_],
    categorical: Any,
    X: Any,
    names: NDArray[Any] | None,
) -> Columns:
    """Return the kinds, scales and categories of the columns.

    Raises
    ------
    ValueError
        For a column without any value, an unknown name of a column, or text in a column that is
        not categorical.
    """
    D = cells.shape[1]
    shown = [repr(d if names is None else str(names[d])) for d in range(D)]
    missing = np.array([[is_missing(cell) for cell in row] for row in cells.tolist()])
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        raise ValueError(
            f"column {shown[empty[0]]} has no value at all, so there is nothing to fill it in "
            "with; drop the column."
        )
    chosen = _chosen(categorical, text, X, names, D)
    levels = []
    for d in chosen:
        present = [cell for cell in cells[:, d].tolist() if not is_missing(cell)]
        kinds = {isinstance(cell, (str, bytes)) for cell in present}
        if len(kinds) > 1:
            raise ValueError(f"column {shown[d]} holds text and numbers; make it one or the other.")
        levels.append(np.array(sorted(set(present))))
    for d in range(D):
        if d < len(text) and text[d] and d not in chosen:
            raise ValueError(
                f"column {shown[d]} is text, but categorical does not name it; add it there, or "
                "use categorical='auto'."
            )
    mean, scale = np.zeros(D), np.ones(D)
    for d in range(D):
        if d not in chosen:
            column = cells[:, d].astype(np.float64)
            low, high = np.nanmin(column), np.nanmax(column)
            # A constant column is centred on its value exactly.
            mean[d] = low if low == high else np.nanmean(column)
            scale[d] = 1.0 if low == high else np.nanstd(column)
    return Columns(chosen, levels, mean, scale, bool(text.any()))


def _chosen(
    categorical: Any, text: NDArray[np.bool_], X: Any, names: NDArray[Any] | None, D: int
) -> list[int]:
    """Return the positions of the categorical columns."""
    if categorical is None:
        return []
    if isinstance(categorical, str):  # "auto": by the types of a table's columns
        found = {d for d in range(len(text)) if text[d]}
        dtypes = list(getattr(X, "dtypes", [])) if hasattr(X, "columns") else []
        for d, dtype in enumerate(dtypes):
            if str(dtype).lower().startswith(("bool", "category", "categorical", "enum")):
                found.add(d)
        return sorted(found)
    listed = np.asarray(categorical)
    if listed.dtype == bool:
        if listed.shape != (D,):
            raise ValueError(f"categorical as a mask must have {D} entries; got {listed.size}.")
        return [int(d) for d in np.flatnonzero(listed)]
    return sorted({_position(item, names, D) for item in categorical})


def _position(item: Any, names: NDArray[Any] | None, D: int) -> int:
    if isinstance(item, str):
        known = [] if names is None else [str(name) for name in names]
        if item in known:
            return known.index(item)
        raise ValueError(
            f"categorical names the column {item!r}, but the columns are {known or list(range(D))}."
        )
    if not 0 <= int(item) < D:
        raise ValueError(f"categorical names column {item}, but there are {D} columns.")
    return int(item)
