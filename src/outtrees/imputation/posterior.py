"""The posterior of hidden cells: chains over trees, cells and parameters, and their summary."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outtrees._common.arguments import check_option
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.imputation.em import (
    HiddenFit,
    OnStep,
    PairStatistics,
    draw_cloud,
    expected_cells,
    is_cloud,
    refit,
    uncorrelated,
)
from outtrees.imputation.model import hidden_model
from outtrees.imputation.sampler import Beliefs, HiddenSampler
from outtrees.inference.chains import Chains, alternate
from outtrees.models.covariance import InverseWishart
from outtrees.trees.weights import Ints


class HiddenPosterior(NamedTuple):
    """Hidden cells given the observed ones; averaged over trees, and over parameters if drawn.

    Observed cells are certain: their own value, variance zero, chance one. Categories are
    positions in the model's levels.
    """

    mean: Array  # (T, D) of continuous cells; the most probable category of others
    variance: Array  # (T, D) of continuous cells, zero for others
    chances: list[Array]  # (T, C_d) for each categorical column
    standard_error: Array  # (T, D) Monte-Carlo error of mean, or of the most probable one's chance
    r_hat: Array  # (T, D) of the same, split R-hat
    draws: Array  # (M, T, D) completed records


def hidden_posterior(
    fit: HiddenFit,
    *,
    n_chains: int = 4,
    n_draws: int = 50,
    burn_in: int = 10,
    n_kept: int = 20,
    parameters: str = "drawn",
    go_on: bool = False,
    random_state: Any = None,
    on_step: OnStep | None = None,
) -> HiddenPosterior:
    """Return the posterior of the hidden cells.

    Chains alternate between trees and cells (`HiddenSampler`), each from cells drawn at random
    from their columns (with `go_on` from the last draw of the fit). Averaged are the exact
    expectations given each tree (Rao–Blackwell), not the draws; variances are those given the
    tree plus those of the means between trees. n_kept completed records, spread over the
    chains, are kept as draws.

    Parameters
    ----------
    parameters : {"drawn", "fixed"}
        "fixed" keeps the fitted mutation: exact up to the Monte-Carlo error, conditional on it.
        "drawn" draws its parameters after each step, given the tree and cells just drawn
        (`refit`). Variances then include what is not known of the parameters; without
        it intervals are too short on few records.

    Examples
    --------
    >>> from outtrees.imputation import fit_hidden
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> X[:8, 0] = np.nan
    >>> fit = fit_hidden(GaussianMutation(transition="scalar"), X, max_iter=5, random_state=0)
    >>> found = hidden_posterior(fit, n_chains=2, n_draws=10, random_state=0)
    >>> found.mean.shape, found.draws.shape
    ((40, 2), (20, 40, 2))
    """
    check_option("hidden_posterior", "parameters", parameters, ("drawn", "fixed"))
    if not np.isnan(fit.observed).any():
        return _certain(fit)
    layout = _Layout(fit)
    # Along trees, or without if records are independent.
    kind = CloudWalk if is_cloud(fit.mutation) else TreeWalk
    walk: TreeWalk | CloudWalk = kind(fit, parameters == "drawn")
    every = max(1, n_chains * n_draws // max(1, n_kept))
    kept: list[Array] = []
    steps = 0

    def draw_hidden(parents: Ints, state: Any, rng: np.random.Generator) -> tuple[Any, Array]:
        nonlocal steps
        state, beliefs = walk.cells(parents, state, rng)
        at = steps % (burn_in + n_draws)
        drawn = at - burn_in + n_draws * (steps // (burn_in + n_draws))
        if at >= burn_in and drawn % every == every - 1 and len(kept) < n_kept:
            kept.append(state.X)
        steps += 1
        return state, layout.statistics(beliefs)

    total = n_chains * (burn_in + n_draws)
    chains = alternate(
        lambda rng: walk.begin(None if go_on else rng),
        walk.tree,
        draw_hidden,
        n_chains,
        n_draws,
        burn_in,
        as_generator(random_state),
        on_draw=None if on_step is None else lambda *_: on_step(steps, total),
    )
    return layout.summary(chains, np.array(kept).reshape(-1, *fit.observed.shape))


class _Layout:
    """Where the expectations of each hidden cell stand in one long array of statistics."""

    def __init__(self, fit: HiddenFit) -> None:
        self.model, self.observed = fit.model, fit.observed
        hidden = np.isnan(self.observed)
        self.linear = np.zeros_like(hidden)
        self.linear[:, self.model.continuous] = hidden[:, self.model.continuous]
        self.tables = [hidden[:, c] for c in self.model.categorical]

    def statistics(self, beliefs: Any) -> Array:
        """Return first and second moments of continuous cells, then the chances of others."""
        mean = beliefs.mean[self.linear]
        second = beliefs.variance[self.linear] + mean**2
        pairs = zip(beliefs.chances, self.tables, strict=True)
        return np.concatenate([mean, second, *[c[rows].ravel() for c, rows in pairs]])

    def summary(self, chains: Chains, draws: Array) -> HiddenPosterior:
        observed, n = self.observed, int(self.linear.sum())
        mean, variance = observed.copy(), np.zeros_like(observed)
        error, r_hat = np.zeros_like(observed), np.ones_like(observed)
        mean[self.linear] = chains.mean[:n]
        # Rounding may leave a cell that all trees agree upon with a variance below zero.
        spread = chains.mean[n : 2 * n] - chains.mean[:n] ** 2
        variance[self.linear] = np.maximum(spread, 0.0)
        error[self.linear] = chains.standard_error[:n]
        r_hat[self.linear] = chains.r_hat[:n]
        chances = []
        at = 2 * n
        for c, rows, levels in zip(
            self.model.categorical, self.tables, self.model.levels, strict=True
        ):
            C, m = len(levels), int(rows.sum())
            block = slice(at, at + m * C)
            chance = np.eye(C)[np.nan_to_num(observed[:, c]).astype(np.intp)]
            chance[rows] = chains.mean[block].reshape(m, C)
            best = chance.argmax(axis=1)
            mean[:, c] = best
            picked = (np.arange(m), best[rows])
            error[rows, c] = chains.standard_error[block].reshape(m, C)[picked]
            r_hat[rows, c] = chains.r_hat[block].reshape(m, C)[picked]
            chances.append(chance)
            at += m * C
        return HiddenPosterior(mean, variance, chances, error, r_hat, draws)


def _certain(fit: HiddenFit) -> HiddenPosterior:
    """Return the posterior of complete records: themselves."""
    X, model = fit.observed, fit.model
    return HiddenPosterior(
        mean=X.copy(),
        variance=np.zeros_like(X),
        chances=[
            np.eye(len(names))[X[:, c].astype(np.intp)]
            for c, names in zip(model.categorical, model.levels, strict=True)
        ],
        standard_error=np.zeros_like(X),
        r_hat=np.ones_like(X),
        draws=X[None].copy(),
    )


# Chains ----------------------------------------------------------------------------------------


class TreeState(NamedTuple):
    """Completed records, and the sampler with the parameters of this step."""

    X: Array  # (T, D)
    sampler: HiddenSampler


class CloudState(NamedTuple):
    """Completed records, and the Gaussian of this step."""

    X: Array  # (T, D)
    mean: Array  # (D,)
    cov: Array  # (D, D)


class TreeWalk:
    """Steps of `HiddenSampler`, and of the parameters given what it drew."""

    def __init__(self, fit: HiddenFit, draw_parameters: bool) -> None:
        self.fit, self.draw_parameters = fit, draw_parameters
        self._sampler = HiddenSampler(fit.model, fit.observed)

    def begin(self, rng: np.random.Generator | None) -> TreeState:
        """Return the fitted parameters, and cells drawn from those observed in their columns."""
        if rng is None:
            return TreeState(self.fit.completed, self._sampler)
        return TreeState(_anywhere(self.fit.observed, rng), self._sampler)

    def tree(self, state: TreeState, rng: np.random.Generator) -> Ints:
        """Return a tree given complete records, (T,)."""
        return np.asarray(state.sampler.tree(state.X)[0].sample(1, rng)[0])

    def cells(
        self, parents: Ints, state: TreeState, rng: np.random.Generator
    ) -> tuple[TreeState, Beliefs]:
        """Return new cells (and parameters) given the tree, and what is expected of the cells."""
        placed, beliefs = state.sampler.cells(parents, state.X, rng)
        if not self.draw_parameters:
            return TreeState(placed.X, state.sampler), beliefs
        statistics = PairStatistics.of_tree(
            state.sampler.model, placed.X, placed.parents, placed.kinds, np.ones(len(placed.X))
        )
        model = hidden_model(refit(state.sampler.model, statistics, rng))
        return TreeState(placed.X, HiddenSampler(model, self.fit.observed)), beliefs


class CloudWalk:
    """Independent records of one Gaussian: cells given its parameters, these given the cells."""

    def __init__(self, fit: HiddenFit, draw_parameters: bool) -> None:
        self.fit, self.draw_parameters = fit, draw_parameters
        self._cloud: Any = fit.mutation
        self._prior = uncorrelated(fit.observed)
        self._no_tree = np.full(len(fit.observed), -1, dtype=np.intp)

    def begin(self, rng: np.random.Generator | None) -> CloudState:
        """Return the fitted parameters; the cells follow from them."""
        return CloudState(self.fit.completed, self._cloud.offset, self._cloud.mutation_cov)

    def tree(self, state: CloudState, rng: np.random.Generator) -> Ints:
        """Return no tree: nobody descends from anybody."""
        return self._no_tree

    def cells(
        self, parents: Ints, state: CloudState, rng: np.random.Generator
    ) -> tuple[CloudState, Beliefs]:
        """Return new cells (and parameters), and what is expected of the cells."""
        given = expected_cells(self.fit.observed, state.mean, state.cov)
        beliefs = Beliefs(given.filled, (given.spread**2).sum(axis=2), [])
        X = draw_cloud(given, rng)
        if not self.draw_parameters:
            return CloudState(X, state.mean, state.cov), beliefs
        T, strength = len(X), self._cloud.prior_strength
        mean = X.mean(axis=0)
        scatter = (X - mean).T @ (X - mean) + strength * self._prior
        cov = InverseWishart("full", max(T + strength - 1, len(scatter) + 2.0), scatter).draw(rng)
        mean = mean + np.linalg.cholesky(cov / T) @ rng.standard_normal(len(mean))
        return CloudState(X, mean, cov), beliefs


def _anywhere(observed: Array, rng: np.random.Generator) -> Array:
    """Return the records with hidden cells drawn from those observed in their columns."""
    result = observed.copy()
    hidden = np.isnan(observed)
    for c in np.flatnonzero(hidden.any(axis=0)):
        rows = hidden[:, c]
        result[rows, c] = rng.choice(observed[~rows, c], size=int(rows.sum()))
    return result
