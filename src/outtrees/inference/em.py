"""Expectation maximisation over the hidden tree, accelerated without giving up its monotony."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.types import Array
from outtrees.inference.objective import FitResult, Objective, OnStep, Point, Progress
from outtrees.inference.stages import EmStage, Track, TrackedStage
from outtrees.models.base import Mutation

_MEMORY = 8  # points that the quadratic model of the log posterior is built from
_FLAT = 1e-8  # curvatures below this share of the typical one are rounding


def fit_em(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    accelerate: bool = True,
    on_step: OnStep | None = None,
    verbose: int = 0,
    objective: Objective | None = None,
    stage: TrackedStage | None = None,
) -> FitResult:
    """Return the fit by EM from the mutation's present parameters.

    A step of EM computes the edge marginals W and raises Σ W log p(x_u | x_v) + log_prior by
    `refit`, which raises log Z + log_prior. EM alone converges linearly; with `accelerate` its step
    is the preconditioner of a quasi-Newton step (after Jamshidian and Jennrich's acceleration
    of EM). From the last points θ_i with gradients g_i and EM steps z_i, and their differences
    S, Y and V as columns, take

        θ + z − (S + V) γ,   (SᵀY) γ = Sᵀg.

    It is the maximum of a quadratic function over all directions visited, and does not depend on
    the units of the parameters. A proposal that lowers the log posterior is dropped for the plain
    step, so the recorded sequence never falls. Each evaluation costs O(T³ + T² D).

    Parameters
    ----------
    tol : float
        The fit ends after two steps in a row that raise the log posterior by tol nats or less.
    on_step : callable, optional
        Called with the mutation after each step; True ends the fit.
    objective : Objective, optional
        What is raised; by default the log posterior summed over all trees.
    stage : TrackedStage, optional
        Where each step is noted; a fit that was interrupted goes on from what is noted there, with
        the same bits.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit = fit_em(GaussianMutation(transition="identity").start(X), X)
    >>> fit.converged, bool(np.diff(fit.log_likelihoods).min() >= 0)
    (True, True)
    """
    stage = Track().next_stage() if stage is None else stage
    reached: EmStage | None = stage.reached
    if reached is not None and on_step is not None:
        on_step.state = reached.watched  # type: ignore[attr-defined]
    if reached is not None and reached.finished:
        return _result(reached)
    objective = Objective(X) if objective is None else objective
    here = objective.at(mutation if reached is None else reached.mutation)
    progress = Progress(here, tol, on_step, verbose, reached)
    points: deque[tuple[Array, Array, Array]] = deque(maxlen=_MEMORY)
    if reached is not None:
        objective.n_evaluations = reached.n_evaluations
        points.extend(reached.points)

    def noted(finished: bool) -> EmStage:
        found = EmStage(
            here.mutation,
            np.array(progress.values),
            progress.n_small,
            objective.n_evaluations,
            () if finished else tuple(points),
            getattr(on_step, "state", None),
            progress.stopped_by,
            finished,
        )
        stage.record(found)
        return found

    for _ in range(len(progress.values) - 1, max_iter):
        plain = here.refit()
        there = None
        if accelerate:
            step = plain.params - here.params
            points.append((here.params, step, here.gradient))
            if len(points) > 1:
                there = _proposed(objective, here, points)
                if there is None:
                    while len(points) > 1:  # curvature seen on the way here misled: forget it
                        points.popleft()
        if there is None:
            there = objective.at(plain)
        if there.log_posterior < here.log_posterior:
            _refuse_a_real_fall(here, there)
            progress.stuck()
            break
        here = there
        if progress.accept(here, objective.n_evaluations):
            break
        noted(finished=False)
    return _result(noted(finished=True))


def _result(end: EmStage) -> FitResult:
    return FitResult(
        end.mutation,
        end.values,
        len(end.values) - 1,
        end.n_evaluations,
        end.stopped_by,  # type: ignore[arg-type]
        np.empty(0),
    )


def _proposed(
    objective: Objective, here: Point, points: deque[tuple[Array, Array, Array]]
) -> Point | None:
    """Return the accelerated point if there is one that does not lower the log posterior."""
    params, steps, gradients = (np.array(values).T for values in zip(*points, strict=True))
    # Parameters may run to infinity, as the logit of a weight that vanishes; EM knows the way.
    if not (np.isfinite(steps).all() and np.isfinite(gradients).all()):
        return None
    S, V, Y = (np.diff(values, axis=1) for values in (params, steps, gradients))
    curvature = -(S.T @ Y + Y.T @ S) / 2
    scale = np.sqrt(np.abs(np.diag(curvature)))
    if not (scale > 0).all():
        return None
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    concave = values > _FLAT  # elsewhere the quadratic has no maximum to go to
    basis = vectors[:, concave] / scale[:, None]
    gamma = -basis @ ((basis.T @ (S.T @ here.gradient)) / values[concave])
    step = steps[:, -1] - (S + V) @ gamma
    if not step @ here.gradient > 0:
        return None
    there = objective.at_params(here.mutation, here.params + step)
    return there if there is not None and there.log_posterior >= here.log_posterior else None


def _refuse_a_real_fall(here: Point, there: Point) -> None:
    fall = here.log_posterior - there.log_posterior
    if fall > 1e-7 * max(1.0, abs(here.log_posterior)):
        raise ArithmeticError(
            f"{type(here.mutation).__name__}.refit lowered the log posterior from "
            f"{here.log_posterior} to {there.log_posterior}; a step of EM cannot, so its refit "
            "does not raise Σ W log p + log_prior"
        )
