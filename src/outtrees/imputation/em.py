"""EM with hidden cells integrated out: parameters from the observed cells alone.

Two fits: `fit_hidden` for any mutation, by stochastic approximation over trees; `fit_cloud` for
independent records of one Gaussian, which is also where `fit_hidden` starts. `PairStatistics` sums
over the pairs of records; `refit` gives the sums to the models, which know their maximum (EM) and
their posterior (chains that draw parameters).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.arguments import check_count
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.imputation.model import (
    HiddenModel,
    Regressions,
    continuous_columns,
    hidden_model,
)
from outtrees.imputation.sampler import HiddenSampler
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.models import GaussianMutation, MixtureMutation, ProductMutation
from outtrees.models.base import Mutation
from outtrees.models.covariance import restrict
from outtrees.models.regression import PairMoments
from outtrees.models.tables import coded
from outtrees.trees.weights import Ints

# Called after every step with the number of steps done and their total.
OnStep = Callable[[int, int], object]


class HiddenFit(NamedTuple):
    """A mutation fitted to incomplete records, and where the sampler stood at the end."""

    mutation: Mutation
    observed: Array  # (T, D) categorical cells as positions in `levels`, NaN where hidden
    completed: Array  # (T, D) the last draw
    log_likelihoods: Array  # (n_iter,) log p(completed records), of the draw before each step

    @property
    def model(self) -> HiddenModel:
        """The mutation as kinds of links."""
        return hidden_model(self.mutation)


def fit_hidden(
    mutation: Mutation,
    X: ArrayLike,  # (T, D), NaN where hidden
    *,
    max_iter: int = 40,
    random_state: Any = None,
    start: HiddenFit | None = None,
    on_step: OnStep | None = None,
) -> HiddenFit:
    """Return the mutation fitted to the observed cells, hidden ones integrated out.

    EM by stochastic approximation (Delyon, Lavielle and Moulines 1999). Each step draws the hidden
    cells once (`HiddenSampler`), takes the exact edge marginals of the completed records, and
    moves the running mean of the pair statistics Σ W E[s(x_u, x_v)] towards theirs: fully in the
    first half of the steps, by 1/(steps since) in the second. The M-step maximises given that
    mean. So hidden cells enter with all their uncertainty; had their means been filled in,
    variances would come out too small.

    The root's density is a Gaussian fitted to the observed cells of all records, or the observed
    frequencies of categories; it is not refitted, as with complete records. Each step costs O(T³ +
    K T² D + T D³).

    Independent records of one full Gaussian (transition="zero") need no tree: plain EM, with
    `prior_strength` more records without correlations as the prior (`fit_cloud`).

    Parameters
    ----------
    mutation : Gaussian, categorical, a product of them, or a mixture of these
    start : HiddenFit, optional
        An earlier fit of the same mutation, whose parameters this one starts from; it may have
        had other cells hidden.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> X[:8, 0] = np.nan
    >>> fit = fit_hidden(GaussianMutation(transition="scalar"), X, max_iter=5, random_state=0)
    >>> fit.mutation, bool(np.isnan(fit.completed).any())
    (<GaussianMutation(transition='scalar') with 2 columns and 6 parameters>, False)
    """
    check_count("fit_hidden", "max_iter", max_iter, 1)
    rng = as_generator(random_state)
    records = np.asarray(X, dtype=np.float64)
    if is_cloud(mutation):
        return _fit_cloud(mutation, records, rng)
    if start is None:
        fitted, observed, completed = start_hidden(mutation, records, rng)
    else:
        fitted = start.mutation
        observed = in_codes(start.model, records)
        known = ~np.isnan(observed)
        completed = np.where(known, observed, start.completed)
    statistics = None
    trace = []
    full_steps = (max_iter + 1) // 2
    for step in range(max_iter):
        sampler = HiddenSampler(hidden_model(fitted), observed)
        tree, shares = sampler.tree(completed)
        trace.append(tree.log_z - log_number_of_trees(len(records)))
        here = PairStatistics.of(sampler.model, completed, tree.edge_marginals, shares)
        gain = 1.0 if step < full_steps else 1.0 / (step - full_steps + 2)
        statistics = here if statistics is None else statistics.towards(here, gain)
        fitted = refit(sampler.model, statistics)
        completed = sampler.cells(tree.sample(1, rng)[0], completed, rng)[0].X
        if on_step is not None:
            on_step(step + 1, max_iter)
    return HiddenFit(fitted, observed, completed, np.array(trace))


def is_cloud(mutation: Mutation) -> bool:
    """Whether records are independent draws of one full Gaussian: no tree is involved then."""
    return (
        isinstance(mutation, GaussianMutation)
        and mutation.transition == "zero"
        and mutation.covariance == "full"
        and mutation.fit_offset is not False
    )


def _fit_cloud(mutation: Any, X: Array, rng: np.random.Generator) -> HiddenFit:
    """Return independent records fitted by plain EM, which needs no draws."""
    cloud = fit_cloud(X, mutation.prior_strength)
    fitted = replace(
        mutation,
        root_mean=cloud.mean,
        root_cov=cloud.cov,
        offset=cloud.mean,
        mutation_cov=cloud.cov,
        transition_matrix=np.zeros_like(cloud.cov),
    )
    completed = draw_cloud(expected_cells(X, cloud.mean, cloud.cov), rng)
    return HiddenFit(fitted, X, completed, np.array([cloud.log_likelihood]))


def start_hidden(
    mutation: Mutation, X: Array, rng: np.random.Generator
) -> tuple[Mutation, Array, Array]:
    """Return the mutation started from incomplete records, these in codes, and completed once.

    Continuous cells are drawn from one Gaussian fitted to all records, categories from their
    frequencies in the column.
    """
    continuous = continuous_columns(mutation, X.shape[1])
    completed = X.copy()
    cloud = None
    if continuous:
        cells = X[:, continuous]
        cloud = fit_cloud(cells, tol=1e-2)  # a place to start from
        completed[:, continuous] = draw_cloud(expected_cells(cells, cloud.mean, cloud.cov), rng)
    for c in range(X.shape[1]):
        missing = np.isnan(completed[:, c])
        if missing.any():
            completed[missing, c] = rng.choice(completed[~missing, c], size=int(missing.sum()))
    started = mutation.start(completed, int(rng.integers(2**31)))
    started = _with_observed_roots(started, X, cloud, continuous, list(range(X.shape[1])))
    model = hidden_model(started)
    return started, in_codes(model, X), in_codes(model, completed)


def in_codes(model: HiddenModel, X: Array) -> Array:
    """Return the records with categories as positions in the model's levels; NaN stays.

    Raises
    ------
    ValueError
        For a category that the model does not know.
    """
    result = np.array(X, dtype=np.float64)
    for c, levels in zip(model.categorical, model.levels, strict=True):
        code, unknown = coded(result[:, c], levels)
        if len(unknown):
            row = int(unknown[0])
            raise ValueError(
                f"column {c} must hold one of the categories {levels.tolist()}; got "
                f"{result[row, c]:g} in row {row}. Mark it as missing (NaN) or fit again with it."
            )
        result[:, c] = np.where(code == len(levels), np.nan, code)
    return result


def from_codes(model: HiddenModel, X: Array) -> Array:
    """Return complete records with the categories themselves."""
    result = X.copy()
    for c, levels in zip(model.categorical, model.levels, strict=True):
        result[..., c] = levels[X[..., c].astype(np.intp)]
    return result


def _with_observed_roots(
    mutation: Any, X: Array, cloud: Cloud | None, continuous: list[int], columns: list[int]
) -> Any:
    """Return the mutation whose roots' densities come from observed cells, not from drawn ones."""
    if isinstance(mutation, MixtureMutation):
        if any(isinstance(p, GaussianMutation) and p.parent_free for p in mutation.parts):
            return mutation  # its root is the mixture of the clouds that it starts from
        parts = [_with_observed_roots(p, X, cloud, continuous, columns) for p in mutation.parts]
        return replace(mutation, parts=tuple(parts))
    if isinstance(mutation, ProductMutation):
        parts = [
            _with_observed_roots(part, X, cloud, continuous, [columns[c] for c in own])
            for part, own in zip(mutation.parts, mutation._columns, strict=True)
        ]
        return replace(mutation, parts=tuple(parts))
    if mutation.hidden_cells == "linear" and cloud is not None:
        at = [continuous.index(c) for c in columns]
        cov = restrict(cloud.cov[np.ix_(at, at)], mutation.covariance)
        return replace(mutation, root_mean=cloud.mean[at], root_cov=cov)
    if mutation.hidden_cells == "tables":
        return mutation._with_observed_root(X[:, columns])
    return mutation  # refused by name where the model of hidden cells is built


# Statistics of pairs, and parameters from them: best, or drawn ------------------------------------


@dataclass(frozen=True)
class PairStatistics:
    """All that an M-step needs of the pairs of records, for each kind of link; linear in them."""

    moments: list[PairMoments]  # K, of the continuous columns, about the origin
    counts: list[list[Array]]  # K times one (C_d, C_d) [child, parent] for each categorical column

    @classmethod
    def of(cls, model: HiddenModel, X: Array, edge_marginals: Array, shares: list[Array]) -> Self:
        """Return the statistics of complete records, W_uv of the tree times the kind's share."""
        Y = X[:, model.continuous]
        codes = X[:, model.categorical].astype(np.intp)
        ones = [np.eye(len(names))[codes[:, d]] for d, names in enumerate(model.levels)]
        moments, counts = [], []
        for share in shares:
            W = edge_marginals * share
            moments.append(PairMoments.between(Y, Y, W, np.zeros(Y.shape[1])))
            counts.append([one.T @ (W @ one) for one in ones])
        return cls(moments, counts)

    @classmethod
    def of_tree(
        cls,
        model: HiddenModel,
        X: Array,
        parents: Ints,  # (T,)
        kinds: Ints,  # (T,)
        weights: Array,  # (T,) of the link above each record
    ) -> Self:
        """Return the statistics of complete records on one tree with known kinds of links."""
        moments, counts = [], []
        for k in range(model.n_kinds):
            rows = np.flatnonzero((kinds == k) & (parents >= 0))
            child, parent, w = X[rows], X[parents[rows]], weights[rows]
            ends = child[:, model.continuous], parent[:, model.continuous]
            moments.append(PairMoments.of_links(*ends, w))
            tables = [np.zeros((len(names), len(names))) for names in model.levels]
            for table, c in zip(tables, model.categorical, strict=True):
                np.add.at(table, (child[:, c].astype(np.intp), parent[:, c].astype(np.intp)), w)
            counts.append(tables)
        return cls(moments, counts)

    def towards(self, other: PairStatistics, gain: float) -> PairStatistics:
        """Return (1 − gain) · self + gain · other."""
        pairs = zip(self.moments, other.moments, strict=True)
        tables = zip(self.counts, other.counts, strict=True)
        return PairStatistics(
            [mine.towards(theirs, gain) for mine, theirs in pairs],
            [[a + gain * (b - a) for a, b in zip(*two, strict=True)] for two in tables],
        )


def refit(
    model: HiddenModel, statistics: PairStatistics, rng: np.random.Generator | None = None
) -> Mutation:
    """Return the mutation that maximises Σ W E[log p(x_u | x_v)] + log_prior, or a draw of it.

    With `rng` all parameters are drawn from their posterior given the statistics, which are then
    those of one tree's links.
    """
    return _refit(model.mutation, model, statistics, rng, 0)[0]


def _refit(
    mutation: Any,
    model: HiddenModel,
    statistics: PairStatistics,
    rng: np.random.Generator | None,
    k: int,
) -> tuple[Mutation, int]:
    """Return the mutation refitted to the kinds from k on, and the first kind after them."""
    if not isinstance(mutation, MixtureMutation):
        columns = list(range(mutation.n_features))
        return _refit_kind(mutation, model, statistics, rng, k, columns), k + 1
    parts, totals = [], []
    for part in mutation.parts:
        fitted, end = _refit(part, model, statistics, rng, k)
        parts.append(fitted)
        totals.append(sum(m.weight for m in statistics.moments[k:end]))
        k = end
    return mutation._reweighed(parts, totals, rng), k


def _refit_kind(
    mutation: Any,
    model: HiddenModel,
    statistics: PairStatistics,
    rng: np.random.Generator | None,
    k: int,
    columns: list[int],
) -> Mutation:
    if isinstance(mutation, ProductMutation):
        parts = [
            _refit_kind(part, model, statistics, rng, k, [columns[c] for c in own])
            for part, own in zip(mutation.parts, mutation._columns, strict=True)
        ]
        return replace(mutation, parts=tuple(parts))
    found: Mutation
    if mutation.hidden_cells == "linear":
        at = [model.continuous.index(c) for c in columns]
        moments = statistics.moments[k].of_columns(at)
        found = mutation._refit_moments(moments) if rng is None else mutation._drawn(moments, rng)
        return found
    at = [model.categorical.index(c) for c in columns]
    # No cell is missing here: the last row and column stay empty.
    counts = [np.pad(statistics.counts[k][d], ((0, 1), (0, 1))) for d in at]
    found = mutation._refit_counts(counts) if rng is None else mutation._drawn(counts, rng)
    return found


# Independent records ---------------------------------------------------------------------------


class Given(NamedTuple):
    """Hidden cells given the observed ones of the same record."""

    filled: Array  # (T, D) conditional means; observed cells as they are
    spread: Array  # (T, D, D) F with F Fᵀ the covariance of the hidden cells, zero elsewhere


class Cloud(NamedTuple):
    """A Gaussian fitted to incomplete records."""

    mean: Array  # (D,)
    cov: Array  # (D, D)
    log_likelihood: float  # of the observed cells


def fit_cloud(
    X: ArrayLike,  # (T, D), NaN where hidden
    strength: float = 1.0,
    tol: float = 1e-3,
    max_iter: int = 200,
) -> Cloud:
    """Return the Gaussian that maximises the density of the observed cells times a prior.

    EM: given mean m and covariance C, the hidden cells h of a record with observed cells o have
    mean m_h + C_ho C_oo⁻¹ (o − m_o) and covariance C_hh − C_ho C_oo⁻¹ C_oh; m and C are then the
    moments of the filled records plus these covariances. The prior is `strength` more records
    without correlations: an inverse Wishart whose mode has the columns' variances. O(T D³) for
    each of the steps, which end when no entry of C moves by more than tol variances.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 1.1], [2.0, np.nan], [3.0, 2.9]])
    >>> cloud = fit_cloud(X, strength=0.01)
    >>> expected_cells(X, cloud.mean, cloud.cov).filled[2].round(1)
    array([2., 2.])
    """
    records = np.asarray(X, dtype=np.float64)
    mean, prior = np.nanmean(records, axis=0), uncorrelated(records)
    size = np.sqrt(np.outer(np.diag(prior), np.diag(prior)))
    cov = prior
    for _ in range(max_iter):
        filled, given = _expected(records, mean, cov)
        mean = filled.mean(axis=0)
        deviation = filled - mean
        scatter = deviation.T @ deviation + given.rest.sum(axis=0) + strength * prior
        before, cov = cov, scatter / (len(records) + strength)
        if (np.abs(cov - before) <= tol * size).all():
            break
    given = Regressions.of(cov, np.isnan(records))
    white = np.nan_to_num(records - mean)[:, None, :] @ given.whitener
    return Cloud(mean, cov, float(given.log_constant.sum() - 0.5 * (white**2).sum()))


def uncorrelated(X: Array) -> Array:
    """Return the columns' variances as a diagonal matrix, 1 for a constant column."""
    # The variance of a constant can be rounding noise.
    varying = np.nanmax(X, axis=0) > np.nanmin(X, axis=0)
    return np.diag(np.where(varying, np.nanvar(X, axis=0), 1.0))


def expected_cells(X: Array, mean: Array, cov: Array) -> Given:
    """Return the hidden cells of independent records given the observed ones."""
    hidden = np.isnan(X)
    filled, given = _expected(X, mean, cov)
    seen = np.eye(X.shape[1]) * ~hidden[:, :, None]
    return Given(filled, np.asarray(np.linalg.cholesky(given.rest + seen) * hidden[:, :, None]))


def draw_cloud(given: Given, rng: np.random.Generator) -> Array:
    """Return the records with their hidden cells drawn given the observed ones, (T, D)."""
    noise = rng.standard_normal(given.filled.shape)
    return given.filled + (given.spread @ noise[:, :, None])[:, :, 0]


def _expected(X: Array, mean: Array, cov: Array) -> tuple[Array, Regressions]:
    """Return conditional means (T, D) of the cells, and the regressions that give them."""
    hidden = np.isnan(X)
    given = Regressions.of(cov, hidden)
    error = np.where(hidden, 0.0, X - mean)
    return np.where(hidden, mean + (given.gain @ error[:, :, None])[:, :, 0], X), given
