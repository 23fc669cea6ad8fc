"""Several mutations for one table with hidden cells, weighted by the cells they recover.

Some of them see categories as 0/1 columns (`Dummies`), so that a Gaussian mutation can tie them to
continuous columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from outtrees._common.types import Array
from outtrees.imputation.em import HiddenFit, fit_hidden
from outtrees.imputation.leaves import LeafCells, leaf_cells
from outtrees.imputation.posterior import HiddenPosterior, hidden_posterior
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    MixtureMutation,
    ProductMutation,
)
from outtrees.models.base import Mutation
from outtrees.models.tables import frequencies

_LEAST_WEIGHT = 0.05  # a model below this is not worth its chains
_LEAST_RECORDS = 30  # fewer cannot tell several clouds apart
_FEWEST_CELLS = 20  # held out; fewer say nothing about weights

_LEAST_CHANCE = 1e-3  # a Gaussian mean may leave [0, 1]; no category is ruled out for that

# Called with the name of a model, what is done, steps done and their total.
Report = Callable[[str, str, int, int], object]


class Table(NamedTuple):
    """Standardised continuous columns, and codes 0 … C − 1 in categorical ones; NaN = hidden."""

    cells: Array  # (T, D)
    categorical: list[int]
    n_levels: list[int]  # of the categorical columns


class TableModel(NamedTuple):
    """A mutation for a table, on its own columns or on dummies for its categories."""

    mutation: Mutation
    dummies: bool


def mixed_mutation(
    table: Table, gaussian: GaussianMutation, categorical: CategoricalMutation
) -> Mutation:
    """Return the product of a Gaussian on continuous and a categorical on the other columns."""
    levels = [list(map(float, range(C))) for C in table.n_levels]
    known = replace(categorical, categories=levels)
    continuous = [c for c in range(table.cells.shape[1]) if c not in table.categorical]
    if not table.categorical:
        return gaussian
    if not continuous:
        return known
    return ProductMutation([(gaussian, continuous), (known, table.categorical)])


def default_models(table: Table) -> dict[str, TableModel]:
    """Return the mutations that `OutTreeImputer(mutation="auto")` weighs against each other.

    One cloud, with little and with much of a prior, in which a hidden cell is predicted by the
    other cells of its record; a tree, in which it is predicted by the records around it; and
    clouds with a window around each record, where it is both.
    """
    tree = mixed_mutation(
        table,
        GaussianMutation(transition="scalar", prior_strength=10.0),
        CategoricalMutation(kind="full"),
    )
    cloud = GaussianMutation(transition="zero", prior_strength=30.0)
    found = {
        "cloud": TableModel(GaussianMutation(transition="zero"), True),
        "shrunk cloud": TableModel(cloud, True),
        "tree": TableModel(tree, False),
    }
    if len(table.cells) >= _LEAST_RECORDS:
        window = GaussianMutation(transition="identity", prior_strength=100.0)
        clouds = MixtureMutation(components=[cloud, cloud, cloud, window])
        found["clouds + window"] = TableModel(clouds, True)
    return found


@dataclass(frozen=True)
class FittedModel:
    """One model fitted to a table, and what it says of cells in the table's own columns."""

    fit: HiddenFit
    dummies: Dummies | None

    def posterior(self, **options: Any) -> HiddenPosterior:
        """Return the posterior of the table's hidden cells; `options` are those of the chains."""
        found = hidden_posterior(self.fit, **options)
        if self.dummies is None:
            return found
        return _decoded(self.dummies, found)

    def leaves(self, cells: Array, completed: Array) -> LeafCells:
        """Return the hidden cells of new records below completed ones, (M, T, D)."""
        if self.dummies is None:
            return leaf_cells(self.fit.model, cells, completed)
        encoded = np.array([self.dummies.encode(one) for one in completed])
        found = leaf_cells(self.fit.model, self.dummies.encode(cells), encoded)
        n = len(self.dummies.continuous)
        return LeafCells(
            self.dummies.decode(found.mean),
            _in_place(self.dummies, found.variance[:, :n]),
            _certain(self.dummies, cells, self.dummies.chances(found.mean)),
            found.log_density,
        )


def fit_model(
    model: TableModel,
    table: Table,
    start: FittedModel | None = None,
    **options: Any,
) -> FittedModel:
    """Return the model fitted to the table; `options` are those of `fit_hidden`."""
    if not model.dummies or not table.categorical:
        earlier = None if start is None else start.fit
        return FittedModel(fit_hidden(model.mutation, table.cells, start=earlier, **options), None)
    if start is None or start.dummies is None:
        coding, earlier = Dummies.of(table.cells, table.categorical, table.n_levels), None
    else:
        coding, earlier = start.dummies, start.fit
    fit = fit_hidden(model.mutation, coding.encode(table.cells), start=earlier, **options)
    return FittedModel(fit, coding)


class CellStack(NamedTuple):
    """Models fitted to all observed cells, their weights, and what they say together."""

    weights: dict[str, float]  # of all models
    losses: dict[str, float]  # mean squared error on the cells held out, NaN if none were
    fitted: dict[str, FittedModel]  # of those that were kept
    posteriors: dict[str, HiddenPosterior]
    # (n,) sorted: how far numbers held out lay from their expected value, in standard deviations
    surprises: Array

    def reordered(self, order: NDArray[np.intp]) -> CellStack:
        """Return the same of the records in another order."""
        fitted = {
            name: FittedModel(
                model.fit._replace(
                    observed=model.fit.observed[order], completed=model.fit.completed[order]
                ),
                model.dummies,
            )
            for name, model in self.fitted.items()
        }
        posteriors = {
            name: HiddenPosterior(
                mean=found.mean[order],
                variance=found.variance[order],
                chances=[chance[order] for chance in found.chances],
                standard_error=found.standard_error[order],
                r_hat=found.r_hat[order],
                draws=found.draws[:, order],
            )
            for name, found in self.posteriors.items()
        }
        return self._replace(fitted=fitted, posteriors=posteriors)


def stack_cells(
    models: Mapping[str, TableModel],
    table: Table,
    *,
    max_iter: int,
    chains: Mapping[str, Any],  # options of hidden_posterior
    rng: np.random.Generator,
    report: Report | None = None,
) -> CellStack:
    """Return the models with the weights w ≥ 0, Σ w = 1, that recover held-out cells best.

    A tenth of the observed cells (more if they are few) is hidden as well, every model is
    fitted to the rest, and w minimises the mean over those cells of |Σ_c w_c m_c − x|², with m_c
    the expected cell: in standard deviations, or as chances of the categories (Brier's score).
    The models that keep a weight of 0.05 or more are fitted to all observed cells, from
    where they stood, and get their chains.
    """
    names = list(models)

    def on_step(name: str, what: str) -> Callable[[int, int], object] | None:
        return None if report is None else lambda n, total: report(name, what, n, total)

    early: dict[str, FittedModel] = {}
    said: dict[str, HiddenPosterior] = {}
    mask = _held_out(table, rng)
    weights, losses = {names[0]: 1.0}, {names[0]: np.nan}
    if len(names) > 1:
        errors = []
        partial = table._replace(cells=np.where(mask, np.nan, table.cells))
        for name in names:
            early[name] = fit_model(
                models[name],
                partial,
                max_iter=max_iter,
                random_state=rng,
                on_step=on_step(name, "fit to choose weights"),
            )
            said[name] = early[name].posterior(
                n_chains=1, n_draws=20, burn_in=2, n_kept=0, go_on=True, random_state=rng
            )
            errors.append(_errors(table, said[name], mask))
        found = stacking_weights(np.array(errors))
        weights = dict(zip(names, found.tolist(), strict=True))
        squares = np.mean(np.square(errors), axis=1) if mask.any() else np.full(len(names), np.nan)
        losses = dict(zip(names, squares.tolist(), strict=True))
    kept = [name for name in names if weights[name] >= _LEAST_WEIGHT]
    total = sum(weights[name] for name in kept)
    weights = {name: weights[name] / total if name in kept else 0.0 for name in names}
    surprises = np.empty(0)
    if said:
        mask[:, table.categorical] = False
        mean, std = weighed_moments([(weights[name], said[name]) for name in kept])
        surprises = np.sort((np.abs(table.cells - mean) / np.maximum(std, 1e-12))[mask])
    fitted, posteriors = {}, {}
    for name in kept:
        start = early.get(name)
        fitted[name] = fit_model(
            models[name],
            table,
            start,
            max_iter=max_iter if start is None else (max_iter + 1) // 2,
            random_state=rng,
            on_step=on_step(name, "fit"),
        )
        posteriors[name] = fitted[name].posterior(
            **chains, random_state=rng, on_step=on_step(name, "chains")
        )
    return CellStack(weights, losses, fitted, posteriors, surprises)


def weighed_moments(posteriors: Iterable[tuple[float, HiddenPosterior]]) -> tuple[Array, Array]:
    """Return mean and standard deviation (T, D) of posteriors mixed with weights."""
    mean: Any = 0.0
    second: Any = 0.0
    for weight, found in posteriors:
        mean = mean + weight * found.mean
        second = second + weight * (found.variance + found.mean**2)
    return mean, np.sqrt(np.maximum(second - mean**2, 0.0))


def stacking_weights(errors: Array) -> Array:
    """Return w ≥ 0, Σ w = 1, with the smallest |Σ_c w_c errors[c]|, for errors (models, cells).

    Equal weights if there are fewer than 20 cells, which would say little.

    Examples
    --------
    >>> stacking_weights(np.array([[1.0, 0.0], [0.0, 2.0]]).repeat(10, axis=1)).round(3)
    array([0.8, 0.2])
    """
    n_models, n_cells = errors.shape
    if n_cells < _FEWEST_CELLS:
        return np.full(n_models, 1.0 / n_models)
    # Σ w = 1 as one more, heavy equation: non-negative least squares does the rest.
    heavy = 1e4 * max(1.0, float(np.abs(errors).max()))
    rows = np.vstack([errors.T / np.sqrt(n_cells), np.full(n_models, heavy)])
    found = nnls(rows, np.append(np.zeros(n_cells), heavy))[0]
    return np.asarray(found / found.sum())


def _held_out(table: Table, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return cells to hide as well: observed ones, of columns that keep most of theirs."""
    seen = ~np.isnan(table.cells)
    n_seen = int(seen.sum())
    share = min(0.25, max(0.1, 300 / max(1, n_seen)))
    # Drawn from the list of observed cells: a table of random numbers could repeat the one by
    # which somebody with the same seed hid the others.
    mask = np.zeros_like(seen)
    mask.flat[rng.permutation(np.flatnonzero(seen))[: round(share * n_seen)]] = True
    left = (seen & ~mask).sum(axis=0)
    mask[:, left < 2] = False
    return mask


def _errors(table: Table, posterior: HiddenPosterior, mask: NDArray[np.bool_]) -> Array:
    """Return the errors at the cells of the mask: differences of means, or of chances."""
    linear = mask.copy()
    linear[:, table.categorical] = False
    result = [(posterior.mean - table.cells)[linear]]
    for c, chance in zip(table.categorical, posterior.chances, strict=True):
        rows = mask[:, c]
        truth = np.eye(chance.shape[1])[table.cells[rows, c].astype(np.intp)]
        # Half of the squared distance is Brier's score of a coin, 0.25 when undecided.
        result.append(((chance[rows] - truth) / np.sqrt(2.0)).ravel())
    return np.concatenate(result)


def _decoded(coding: Dummies, found: HiddenPosterior) -> HiddenPosterior:
    """Return a posterior over dummies as one over the table's columns."""
    n = len(coding.continuous)
    draws = [coding.decode(draw) for draw in found.draws]
    error = _in_place(coding, found.standard_error[:, :n])
    r_hat = _in_place(coding, found.r_hat[:, :n])
    at = n
    for c, share in zip(coding.categorical, coding.shares, strict=True):
        block = slice(at, at + len(share) - 1)
        if len(share) > 1:
            p = share[:-1]
            error[:, c] = (found.standard_error[:, block] * np.sqrt(p * (1 - p))).max(axis=1)
            r_hat[:, c] = found.r_hat[:, block].max(axis=1)
        else:
            r_hat[:, c] = 1.0
        at += len(share) - 1
    return HiddenPosterior(
        mean=coding.decode(found.mean),
        variance=_in_place(coding, found.variance[:, :n]),
        chances=coding.chances(found.mean),
        standard_error=error,
        r_hat=r_hat,
        draws=np.array(draws).reshape(-1, len(found.mean), n + len(coding.categorical)),
    )


def _in_place(coding: Dummies, continuous: Array) -> Array:
    """Return continuous columns where they belong in the table, zeros elsewhere."""
    width = len(coding.continuous) + len(coding.categorical)
    result = np.zeros((len(continuous), width))
    result[:, coding.continuous] = continuous
    return result


def _certain(coding: Dummies, cells: Array, chances: list[Array]) -> list[Array]:
    """Return the chances with those of observed categories set to one."""
    for c, chance in zip(coding.categorical, chances, strict=True):
        seen = ~np.isnan(cells[:, c])
        chance[seen] = np.eye(chance.shape[1])[cells[seen, c].astype(np.intp)]
    return chances


# Categories as columns -------------------------------------------------------------------------


@dataclass(frozen=True)
class Dummies:
    """A table with codes in some columns ↔ a table of continuous columns only.

    A column with C categories becomes C − 1 columns, one for each category but the last, 0 or 1,
    and standardised; all of them are hidden where the category is. Continuous columns come first
    and stay as they are.
    """

    continuous: list[int]
    categorical: list[int]
    shares: list[Array]  # (C_d,) of each categorical column: the categories' frequencies

    @classmethod
    def of(cls, table: Array, categorical: list[int], n_levels: list[int]) -> Self:
        """Return the coding for a table (T, D) with codes in the categorical columns."""
        shares = []
        for c, C in zip(categorical, n_levels, strict=True):
            codes = table[~np.isnan(table[:, c]), c].astype(np.intp)
            # One record more, spread evenly: a category may be absent, and all scales positive.
            shares.append(frequencies(codes, C, 1.0))
        continuous = [c for c in range(table.shape[1]) if c not in categorical]
        return cls(continuous, list(categorical), shares)

    def encode(self, table: Array) -> Array:
        """Return the continuous columns and the dummies, (n, D′)."""
        blocks = [table[:, self.continuous]]
        for c, share in zip(self.categorical, self.shares, strict=True):
            p = share[:-1]
            ones = (table[:, [c]] == np.arange(len(p))) - p
            ones = ones / np.sqrt(p * (1 - p))
            ones[np.isnan(table[:, c])] = np.nan
            blocks.append(ones)
        return np.column_stack(blocks)

    def chances(self, encoded: Array) -> list[Array]:
        """Return the chance of each category from expected dummies, (n, C_d) each."""
        result = []
        for cells, share in self._blocks(encoded):
            p = share[:-1]
            first = cells * np.sqrt(p * (1 - p)) + p
            every = np.column_stack([first, 1.0 - first.sum(axis=1)])
            bounded = np.clip(every, _LEAST_CHANCE, None)
            result.append(bounded / bounded.sum(axis=1, keepdims=True))
        return result

    def decode(self, encoded: Array) -> Array:
        """Return the table again, with the category whose expected dummy is largest, (n, D)."""
        result = np.empty((len(encoded), len(self.continuous) + len(self.categorical)))
        result[:, self.continuous] = encoded[:, : len(self.continuous)]
        for c, chance in zip(self.categorical, self.chances(encoded), strict=True):
            result[:, c] = chance.argmax(axis=1)
        return result

    def _blocks(self, encoded: Array) -> list[tuple[Array, Array]]:
        at = len(self.continuous)
        result = []
        for share in self.shares:
            width = len(share) - 1
            result.append((encoded[:, at : at + width], share))
            at += width
        return result
