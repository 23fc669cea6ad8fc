"""The log posterior as a function of the mutation, with its evaluations counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.types import Array
from outtrees.inference.likelihood import log_number_of_trees, tree_distribution
from outtrees.inference.stages import EmStage
from outtrees.models.base import Mutation
from outtrees.trees import OutTreeDistribution

# Asked after each step with the mutation reached; True stops the fit.
OnStep = Callable[[Mutation], bool]
StoppedBy = Literal["tol", "validation", "max_iter"]


@dataclass(frozen=True)
class FitResult:
    """What a fit returns.

    Attributes
    ----------
    mutation : Mutation
        The mutation reached; the best one on the validation records if there were any.
    log_likelihoods : array of shape (n_iter + 1,)
        Penalised log-likelihoods log p(X | θ) + log_prior(θ), at the start and after each step;
        they never fall.
    n_iter : int
        The number of steps taken.
    n_evaluations : int
        How often log Z was computed, rejected proposals and all starts included.
    stopped_by : {"tol", "validation", "max_iter"}
        What ended the fit.
    validation_scores : array, empty without validation records
        Their mean log-densities, at the start and after each step but the last one of a fit that
        ended by tol.
    """

    mutation: Mutation
    log_likelihoods: Array
    n_iter: int
    n_evaluations: int
    stopped_by: StoppedBy
    validation_scores: Array

    @property
    def converged(self) -> bool:
        """Whether a stopping rule was met before the iterations were exhausted."""
        return self.stopped_by != "max_iter"


class Point:
    """One mutation, its distribution over trees, and its log posterior."""

    def __init__(self, mutation: Mutation, tree: OutTreeDistribution, X: Array) -> None:
        self.mutation = mutation
        self.tree = tree
        self.log_posterior = tree.log_z + mutation.log_prior() - log_number_of_trees(len(X))
        self._X = X

    @cached_property
    def params(self) -> Array:
        """θ, (P,)."""
        return self.mutation.params

    @cached_property
    def gradient(self) -> Array:
        """∂ log posterior / ∂θ, (P,)."""
        return self.mutation.gradient(self._X, self.tree.edge_marginals, self.tree.root_marginals)

    def refit(self) -> Mutation:
        """Return the mutation after one step of EM from here."""
        return self.mutation.refit(self._X, self.tree.edge_marginals, self.tree.root_marginals)


class Objective:
    """The log posterior for fixed records; counts how often the engine was asked for log Z."""

    def __init__(self, X: ArrayLike) -> None:  # (T, D)
        self.X = np.asarray(X, dtype=np.float64)
        self.n_evaluations = 0

    def at(self, mutation: Mutation) -> Point:
        """Return the point of a mutation. Marginals are computed when asked for, not here."""
        self.n_evaluations += 1
        return Point(mutation, tree_distribution(mutation, self.X), self.X)

    def at_params(self, mutation: Mutation, params: Array) -> Point | None:
        """Return the point of a parameter vector; None where the log posterior is −inf.

        That is where parameters overflow, a covariance is singular in floating point, or the
        weights leave no out-tree: a step in that direction was too long.
        """
        if not np.isfinite(params).all():
            return None
        try:
            point = self.at(mutation.with_params(params))
        except ValueError:
            return None
        return point if point.log_posterior > -np.inf else None


class Progress:
    """The recorded sequence, and the rule that ends it: two small gains in a row.

    One small gain may be bad luck of a single step (after a rejected proposal, say).
    """

    def __init__(
        self,
        start: Point,
        tol: float,
        on_step: OnStep | None,
        verbose: int,
        reached: EmStage | None = None,
    ) -> None:
        self.values = [start.log_posterior]
        self.stopped_by: StoppedBy = "max_iter"
        self.n_small = 0  # small gains in a row
        self._tol, self._on_step, self._verbose = tol, on_step, verbose
        if reached is not None:  # `start` is where an interrupted fit stood
            self.values, self.n_small = reached.values.tolist(), reached.n_small
        elif on_step is not None:
            on_step(start.mutation)

    def accept(self, point: Point, n_evaluations: int) -> bool:
        """Record a step; return whether it was the last."""
        gain = point.log_posterior - self.values[-1]
        self.values.append(point.log_posterior)
        if self._verbose:
            print(
                f"iteration {len(self.values) - 1}: log posterior {point.log_posterior:.6f}, "
                f"gain {gain:.2e}, {n_evaluations} evaluations"
            )
        self.n_small = self.n_small + 1 if gain <= self._tol else 0
        if self.n_small >= 2:
            self.stopped_by = "tol"
        elif self._on_step is not None and self._on_step(point.mutation):
            self.stopped_by = "validation"
        return self.stopped_by != "max_iter"

    def stuck(self) -> None:
        """Record a step that led nowhere: the digits of the log posterior are used up."""
        self.values.append(self.values[-1])
        self.stopped_by = "tol"

    def result(self, mutation: Mutation, n_evaluations: int) -> FitResult:
        """Return what was recorded."""
        return FitResult(
            mutation,
            np.array(self.values),
            len(self.values) - 1,
            n_evaluations,
            self.stopped_by,
            np.empty(0),
        )
