"""EM over candidate parents, which are searched anew as the mutation changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.arguments import check_count, check_option
from outtrees._common.types import Array
from outtrees.candidates.matrix_search import NEIGHBOURS, nearest_parents
from outtrees.candidates.parent_sample import OtherParents
from outtrees.inference.candidate_objective import CandidateObjective
from outtrees.inference.em import fit_em
from outtrees.inference.objective import FitResult, OnStep
from outtrees.inference.stages import Track
from outtrees.models.base import Mutation
from outtrees.models.edges import Ints

# Records sampled at random, for each one, from those that no shell around it holds.
N_OTHERS = 32
# Steps after each search but the last, which is followed until nothing is gained.
_STEPS = (3, 6, 12)
# `tol` is for so many records; of more records each step is allowed to leave more.
_TOL_RECORDS = 1000


@dataclass(frozen=True)
class CandidateFit(FitResult):
    """A fit over candidates.

    Attributes
    ----------
    table : array of shape (T, k)
        The candidates of each record under the mutation reached.
    searches : tuple of int
        The number of steps taken before each search; between searches `log_likelihoods` never
        fall, at a search they may.
    """

    table: Ints
    searches: tuple[int, ...]


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
    track: Track | None = None,
) -> CandidateFit:
    """Return the fit by EM when each record has `n_candidates` possible parents one by one.

    The candidates are the likeliest parents under the present mutation (`nearest_parents`); all
    others are represented by a random sample (`OtherParents`): without it a fit that sees near
    parents only would learn that parents are near. Accelerated EM (`fit_em`)
    raises the log posterior of that list for 3 steps, searches anew, for 6 and for 12 more steps
    likewise. The objective is another one after a search, and may be lower. The fourth list is
    kept, and the fit has converged when two steps in a row gain tol nats or less on it (for each
    1,000 records): that is what a fit over all pairs means by it, for a fixed list.

    A step costs O(T (k + m) D) and one sparse elimination, a search about O(T log T) for Gaussian
    mutations in few dimensions (see `nearest_parents`, also for neighbours="approximate"). With
    n_candidates ≥ T − 1 this is `fit_em`, to rounding.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> start = GaussianMutation(transition="identity").start(X)
    >>> fit = fit_candidate_em(start, X, 8, random_state=0)
    >>> fit.converged, fit.table.shape, fit.searches[0]
    (True, (40, 8), 0)
    """
    check_count("fit_candidate_em", "n_candidates", n_candidates, 1)
    check_count("fit_candidate_em", "n_others", n_others, 0)
    check_option("fit_candidate_em", "neighbours", neighbours, NEIGHBOURS)
    records = np.asarray(X, dtype=np.float64)
    T = len(records)
    others = OtherParents(T, n_others, random_state)
    tolerance = tol * max(1.0, T / _TOL_RECORDS)
    everything = n_candidates >= T - 1
    values: list[Array] = []
    searches: list[int] = []
    n_iter, n_evaluations = 0, 0
    rounds = (max_iter,) if everything else (*_STEPS, max_iter)
    track = track or Track()
    for steps in rounds:
        searches.append(n_iter)
        stage, objective = track.next_stage(), None
        if everything or not stage.finished:
            table = nearest_parents(mutation, records, n_candidates, neighbours)
        if not stage.finished:
            sample = others.drawn(mutation, records, table)
            objective = CandidateObjective(records, table, *sample)
        fit = fit_em(
            mutation,
            records,
            max_iter=min(steps, max_iter - n_iter),
            tol=tolerance,
            on_step=on_step if on_step is None or len(searches) == 1 else _LaterSteps(on_step),
            verbose=verbose,
            objective=objective,
            stage=stage,
        )
        mutation = fit.mutation
        values.append(fit.log_likelihoods if not values else fit.log_likelihoods[1:])
        n_iter += fit.n_iter
        n_evaluations += fit.n_evaluations
        if fit.stopped_by == "validation" or n_iter >= max_iter:
            break
    return CandidateFit(
        mutation=mutation,
        log_likelihoods=np.concatenate(values),
        n_iter=n_iter,
        n_evaluations=n_evaluations,
        # Nothing left to gain on a list that was not the last one is not the end.
        stopped_by="max_iter"
        if fit.stopped_by == "tol" and len(searches) < len(rounds)
        else fit.stopped_by,
        validation_scores=np.empty(0),
        table=table if everything else nearest_parents(mutation, records, n_candidates, neighbours),
        searches=tuple(searches),
    )


class _LaterSteps:
    """Passes on every step but the first call, the start, which was seen already."""

    def __init__(self, on_step: OnStep) -> None:
        self._on_step, self._begun = on_step, False

    @property
    def state(self) -> Any:
        """What the listener keeps."""
        return self._on_step.state  # type: ignore[attr-defined]

    @state.setter
    def state(self, kept: Any) -> None:
        self._begun = True  # of a fit that goes on
        self._on_step.state = kept  # type: ignore[attr-defined]

    def __call__(self, mutation: Mutation) -> bool:
        if not self._begun:
            self._begun = True
            return False
        return self._on_step(mutation)
