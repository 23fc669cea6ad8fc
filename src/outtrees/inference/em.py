"""Expectation maximisation over the hidden tree, accelerated, and monotone all the same.

`fit_em` sums over all trees. `fit_candidate_em` looks at each record's likeliest parents, which it
searches again as the mutation changes; between searches it climbs in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.arguments import check_count, check_option
from outtrees._common.types import Array
from outtrees.candidates.matrix_search import NEIGHBOURS, nearest_parents
from outtrees.candidates.parent_sample import OtherParents
from outtrees.inference.ascent import FitResult, OnStep, Progress, StoppedBy, Watcher, ascend
from outtrees.inference.checkpoint import Checkpoint
from outtrees.inference.objective import CandidateObjective, DenseObjective, Objective, Point
from outtrees.models.base import Mutation
from outtrees.trees import OutTreeDistribution

_MEMORY = 8  # points that the quadratic model of the log posterior is built from
_FLAT = 1e-8  # curvatures below this share of the typical one are rounding

# For candidates: records sampled at random, for each one, from those that no shell around it holds.
N_OTHERS = 32
# Steps after each search but the last, which is followed until nothing is gained.
_STEPS = (3, 6, 12)
# `tol` is for so many records; of more records each step is allowed to leave more.
_TOL_RECORDS = 1000


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
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    """Return the fit by EM from the mutation's present parameters.

    A step of EM computes the edge marginals W and raises Σ W log p(x_u | x_v) + log_prior by
    `refit`, which raises log Z + log_prior. EM alone converges linearly; with `accelerate` its step
    is the preconditioner of a quasi-Newton step (after Jamshidian and Jennrich's acceleration
    of EM). From the last points θ_i with gradients g_i and EM steps z_i, and their differences
    S, Y and V as columns, take

        θ + z − (S + V) γ,   (SᵀY) γ = Sᵀg.

    It is the maximum of a quadratic function over all directions visited, and does not depend on
    the units of the parameters. A proposal that lowers the log posterior is discarded for the plain
    step, so the recorded sequence never falls. Each evaluation costs O(T³ + T² D).

    Parameters
    ----------
    tol : float
        The fit ends after two steps in a row that raise the log posterior by tol nats or less.
    on_step : callable, optional
        Called with the mutation after each step; True ends the fit.
    objective : Objective, optional
        What is raised; by default the log posterior summed over all trees.
    checkpoint : Checkpoint, optional
        Keeps what each step reaches; an interrupted fit resumes from it, with the same bits.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit = fit_em(GaussianMutation(transition="identity").start(X), X)
    >>> fit.converged, bool(np.diff(fit.log_likelihoods).min() >= 0)
    (True, True)
    """
    end, tree = _climb(
        mutation,
        lambda: DenseObjective(X) if objective is None else objective,
        checkpoint or Checkpoint(),
        max_iter=max_iter,
        tol=tol,
        accelerate=accelerate,
        on_step=on_step,
        verbose=verbose,
    )
    return FitResult(
        mutation=end.mutation,
        log_likelihoods=end.values,
        n_iter=len(end.values) - 1,
        n_evaluations=end.n_evaluations,
        stopped_by=end.stopped_by,
        tree=tree,
    )


def fit_candidate_em(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    n_candidates: int = 20,
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    n_others: int = N_OTHERS,
    neighbours: str = "exact",
    random_state: Any = None,
    on_step: OnStep | None = None,
    verbose: int = 0,
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    """Return the fit by EM when each record has `n_candidates` possible parents one by one.

    The candidates are the likeliest parents under the present mutation (`nearest_parents`); all
    others are represented by a random sample (`OtherParents`): without it a fit that sees near
    parents only would learn that parents are near. Accelerated EM, as in `fit_em`, raises the log
    posterior of these candidates for 3 steps, searches again, and does so for 6 and for 12 more
    steps. The objective is another one after a search, and may be lower. The fourth list is kept,
    and the fit has converged when two steps in a row gain tol nats or less on it (for each 1,000
    records): that is what a fit over all pairs means by it, for a fixed list.

    A step costs O(T (k + m) D) and one sparse elimination, a search about O(T log T) for Gaussian
    mutations in few dimensions (see `nearest_parents`, also for neighbours="approximate"). With
    n_candidates ≥ T − 1 this is `fit_em`, to rounding.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> start = GaussianMutation(transition="identity").start(X)
    >>> fit = fit_candidate_em(start, X, 8, random_state=0)
    >>> fit.converged, len(fit.searches)
    (True, 4)
    """
    check_count("fit_candidate_em", "n_candidates", n_candidates, 1)
    check_count("fit_candidate_em", "n_others", n_others, 0)
    check_option("fit_candidate_em", "neighbours", neighbours, NEIGHBOURS)
    records = np.asarray(X, dtype=np.float64)
    T = len(records)
    others = OtherParents(T, n_others, random_state)
    checkpoint = checkpoint or Checkpoint()
    rounds = (max_iter,) if n_candidates >= T - 1 else (*_STEPS, max_iter)
    values: list[Array] = []
    searches: list[int] = []
    n_iter, n_evaluations = 0, 0

    def searched() -> Objective:
        table = nearest_parents(mutation, records, n_candidates, neighbours)
        return CandidateObjective(records, table, *others.drawn(mutation, records, table))

    for steps in rounds:
        searches.append(n_iter)
        end, _ = _climb(
            mutation,
            searched,
            checkpoint,
            max_iter=min(steps, max_iter - n_iter),
            tol=tol * max(1.0, T / _TOL_RECORDS),
            on_step=on_step,
            start_was_seen=len(searches) > 1,
            verbose=verbose,
        )
        mutation = end.mutation
        values.append(end.values if not values else end.values[1:])
        n_iter += len(end.values) - 1
        n_evaluations += end.n_evaluations
        if end.stopped_by == "validation" or n_iter >= max_iter:
            break
    # Nothing left to gain on a list that was not the last one is not the end.
    early = end.stopped_by == "tol" and len(searches) < len(rounds)
    return FitResult(
        mutation=mutation,
        log_likelihoods=np.concatenate(values),
        n_iter=n_iter,
        n_evaluations=n_evaluations,
        stopped_by="max_iter" if early else end.stopped_by,
        searches=tuple(searches),
    )


class EmStage(NamedTuple):
    """One run of accelerated EM: where it stands, and all that its next step depends on."""

    mutation: Mutation
    values: Array  # log posteriors so far
    n_small: int  # small gains in a row
    n_evaluations: int
    points: tuple[tuple[Array, Array, Array], ...]  # (parameters, step, gradient) of the last steps
    watched: Any  # the state of the watcher
    stopped_by: StoppedBy
    finished: bool


def _climb(
    mutation: Mutation,
    make_objective: Callable[[], Objective],  # called only if there is a step left to take
    checkpoint: Checkpoint,
    *,
    max_iter: int,
    tol: float,
    on_step: OnStep | None,
    verbose: int,
    accelerate: bool = True,
    start_was_seen: bool = False,  # by `on_step`, in a round before
) -> tuple[EmStage, OutTreeDistribution | None]:
    """Return the end of one run of accelerated EM, and its trees where all are summed."""
    number = checkpoint.begin()
    reached: EmStage | None = checkpoint.reached(number)
    if reached is not None and isinstance(on_step, Watcher):
        on_step.state = reached.watched
    if reached is not None and reached.finished:
        return reached, None
    objective = make_objective()
    points: deque[tuple[Array, Array, Array]] = deque(maxlen=_MEMORY)
    start = objective.at(mutation if reached is None else reached.mutation)
    progress = Progress(
        objective,
        [start.value] if reached is None else reached.values.tolist(),
        tol=tol,
        verbose=verbose,
        on_step=on_step,
        n_small=0 if reached is None else reached.n_small,
    )
    if reached is not None:
        objective.n_evaluations = reached.n_evaluations
        points.extend(reached.points)
    elif on_step is not None and not start_was_seen:
        on_step(start.mutation)

    def step(here: Point) -> Point:
        plain = here.refit()
        if accelerate:
            points.append((here.params, plain.params - here.params, here.gradient))
            there = _proposed(objective, here, points)
            if there is not None:
                return there
            while len(points) > 1:  # curvature seen on the way here misled: forget it
                points.popleft()
        return objective.at(plain)

    def record(here: Point, finished: bool = False) -> EmStage:
        stage = EmStage(
            here.mutation,
            np.array(progress.values),
            progress.n_small,
            objective.n_evaluations,
            () if finished else tuple(points),
            on_step.state if isinstance(on_step, Watcher) else None,
            progress.stopped_by,
            finished,
        )
        checkpoint.record(number, stage)
        return stage

    refit = f"{type(mutation).__name__}.refit"
    end = ascend(start, step, progress, max_iter, culprit=refit, after=record)
    return record(end, finished=True), end.tree


def _proposed(
    objective: Objective, here: Point, points: deque[tuple[Array, Array, Array]]
) -> Point | None:
    """Return the accelerated point if there is one that does not lower the log posterior."""
    if len(points) < 2:
        return None
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
    return there if there is not None and there.value >= here.value else None
