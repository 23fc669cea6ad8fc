"""Chains over trees, hidden cells and parameters: where they begin and how they step."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.cloud import draw_cloud, expected_cells, uncorrelated
from outtrees.imputation.em import HiddenFit, is_cloud
from outtrees.imputation.model import hidden_model
from outtrees.imputation.parameters import PosteriorDraw, draw_covariance
from outtrees.imputation.sampler import Beliefs, HiddenSampler
from outtrees.imputation.statistics import PairStatistics, refit
from outtrees.trees.weights import Ints


class TreeState(NamedTuple):
    """Completed records, and the sampler with the parameters of this step."""

    X: Array  # (T, D)
    sampler: HiddenSampler


class CloudState(NamedTuple):
    """Completed records, and the Gaussian of this step."""

    X: Array  # (T, D)
    mean: Array  # (D,)
    cov: Array  # (D, D)


class Walk(Protocol):
    """What `alternate` needs: a place to begin, a tree, and hidden cells given the tree."""

    def begin(self, rng: np.random.Generator | None) -> Any:
        """Return a state with cells drawn anywhere; the end of the fit without a generator."""

    def tree(self, state: Any, rng: np.random.Generator) -> Ints:
        """Return the parents of a tree given the state, (T,)."""

    def cells(self, parents: Ints, state: Any, rng: np.random.Generator) -> tuple[Any, Beliefs]:
        """Return a new state given the tree, and what is expected of the hidden cells."""


def walk_of(fit: HiddenFit, *, draw_parameters: bool) -> Walk:
    """Return the chain's steps for a fit: along trees, or without if records are independent."""
    kind = CloudWalk if is_cloud(fit.mutation) else TreeWalk
    return kind(fit, draw_parameters)


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
        return state.sampler.tree(state.X)[0].sample(1, rng)[0]

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
        model = hidden_model(refit(state.sampler.model, statistics, PosteriorDraw(rng)))
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
        cov = draw_covariance(scatter, T + strength - 1, "full", rng)
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
