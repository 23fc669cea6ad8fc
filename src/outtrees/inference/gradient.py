"""Gradient ascent on the tdid posterior: L-BFGS, and steepest ascent with line search."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, minimize

from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.inference.ascent import FitResult, OnStep, Progress, ascend
from outtrees.inference.objective import DenseObjective, Objective, Point
from outtrees.models.base import Mutation

_SUFFICIENT = 1e-4  # share of the gain promised by the slope that a step must bring
_SHORTEST = 2.0**-60


def fit_lbfgs(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    on_step: OnStep | None = None,
    verbose: int = 0,
) -> FitResult:
    """Return the fit by L-BFGS on `params` from the mutation's present parameters.

    Each evaluation takes log Z and the edge marginals, O(T³ + T² D). Stops as `fit_em` does.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit = fit_lbfgs(GaussianMutation(transition="identity").start(X), X)
    >>> fit.converged, bool(np.diff(fit.log_likelihoods).min() >= 0)
    (True, True)
    """
    objective = DenseObjective(X)
    here = objective.at(mutation)
    origin, units = _finite(here), _units(here)
    progress = _begun(objective, here, tol, on_step, verbose)
    accepted: Point = here
    last: tuple[Array, Point] = (np.zeros_like(origin), here)

    def point_at(z: Array) -> Point | None:
        """Return the point at origin + units · z, without asking the engine twice in a row."""
        nonlocal last
        if not np.array_equal(z, last[0]):
            point = objective.at_params(mutation, origin + units * z)
            if point is None:
                return None
            last = (z.copy(), point)
        return last[1]

    def loss(z: Array) -> tuple[float, Array]:
        point = point_at(z)
        if point is None:
            # Nothing is there. The line search interpolates, so infinity would only give it NaN:
            # a wall above all values, sloping back to where the search came from.
            back = z - (accepted.params - origin) / units
            height = abs(accepted.value) + 1e3
            return height, height * back / float(back @ back)
        return -point.value, -units * point.gradient

    def after_step(intermediate_result: OptimizeResult) -> None:
        nonlocal accepted
        point = point_at(intermediate_result.x)
        if point is None or point.value < accepted.value:
            return
        accepted = point
        if progress.accept(point):
            raise StopIteration

    found = minimize(
        loss,
        np.zeros_like(origin),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 0.0},
    )
    if progress.stopped_by == "max_iter" and found.status != 1:  # 1: iterations exhausted
        # No step along the last direction raised the value. That is the end of the digits if a
        # step of EM promises no gain either, and a failure otherwise.
        promised = accepted.gradient @ (accepted.refit().params - accepted.params)
        if float(promised) <= 2 * max(tol, 1e-6):
            progress.stuck()
    return _result(accepted, objective, progress)


def fit_gradient(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    on_step: OnStep | None = None,
    verbose: int = 0,
) -> FitResult:
    """Return the fit by gradient ascent with line search, as in the paper (section 4).

    A step is halved until it brings its share of the gain that the slope promises; while it is
    searched for, log Z alone is computed, and the marginals where it ends. The length tried
    first is the one that the last two gradients suggest (Barzilai and Borwein). Steepest ascent
    depends on the units of the parameters and is slow: prefer `fit_em`. Stops as `fit_em` does.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit = fit_gradient(GaussianMutation(transition="identity").start(X), X)
    >>> fit.converged, bool(np.diff(fit.log_likelihoods).min() >= 0)
    (True, True)
    """
    objective = DenseObjective(X)
    here: Point = objective.at(mutation)
    _finite(here)
    units = _units(here)
    progress = _begun(objective, here, tol, on_step, verbose)
    length = 1.0

    def step(here: Point) -> Point | None:
        nonlocal length
        there = _line_search(objective, here, units, length)
        if there is not None:
            moved = (there.params - here.params) / units
            bend = float(moved @ (units * (here.gradient - there.gradient)))
            # Without concavity between the two points no length can be read off: try a longer one.
            length = float(moved @ moved) / bend if bend > 0 else 4.0 * length
        return there

    return _result(ascend(here, step, progress, max_iter), objective, progress)


def _begun(
    objective: Objective, start: Point, tol: float, on_step: OnStep | None, verbose: int
) -> Progress:
    if on_step is not None:
        on_step(start.mutation)
    return Progress(objective, [start.value], tol=tol, verbose=verbose, on_step=on_step)


def _result(end: Point, objective: Objective, progress: Progress) -> FitResult:
    return FitResult(
        mutation=end.mutation,
        log_likelihoods=np.array(progress.values),
        n_iter=len(progress.values) - 1,
        n_evaluations=objective.n_evaluations,
        stopped_by=progress.stopped_by,
        tree=end.tree,
    )


def _line_search(objective: Objective, here: Point, units: Array, length: float) -> Point | None:
    direction = units**2 * here.gradient
    slope = float(here.gradient @ direction)
    shortest = length * _SHORTEST
    while length > shortest and slope > 0:
        there = objective.at_params(here.mutation, here.params + length * direction)
        wanted = here.value + _SUFFICIENT * length * slope
        if there is not None and there.value >= wanted:
            return there
        length /= 2
    return None


def _units(here: Point) -> Array:
    """Return a unit for each parameter, such that the log posterior bends alike in all of them.

    A step of EM is the gradient times an inverse curvature, so the ratio of the two gives the
    square of the unit. Without this the data's units would decide how fast a fit is.
    """
    step = np.abs(here.refit().params - here.params)
    slope = np.abs(here.gradient)
    known = (step > 0) & (slope > 0) & np.isfinite(step)
    squared = np.divide(step, slope, out=np.zeros_like(step), where=known)
    if not known.any():
        return np.ones_like(step)
    return np.sqrt(np.where(known, squared, np.median(squared[known])))


def _finite(here: Point) -> Array:
    """Return the parameters to start from, or say why no gradient leads away from them."""
    if not np.isfinite(here.params).all():
        raise ArgumentError(
            f"{type(here.mutation).__name__} starts at the edge of its parameters (a probability "
            "or rate of exactly 0 or 1), where no gradient leads away; use ",
            Option("solver", "em"),
            ", prior_strength > 0 or another start_correlation.",
        )
    return here.params
