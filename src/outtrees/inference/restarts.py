"""The best fit over several starts, with or without records held out to stop early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.arguments import check_option
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.inference.ascent import FitResult, Watcher, best_fit, distinct_starts
from outtrees.inference.checkpoint import Checkpoint
from outtrees.inference.em import fit_candidate_em, fit_em
from outtrees.inference.gradient import fit_gradient, fit_lbfgs
from outtrees.inference.likelihood import leaf_log_density, parent_free_log_likelihood
from outtrees.models import CategoricalMutation, GaussianMutation
from outtrees.models.base import Mutation

SOLVERS: dict[str, Callable[..., FitResult]] = {
    "em": fit_em,
    "lbfgs": fit_lbfgs,
    "gradient": fit_gradient,
}


def fit_mutation(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    *,
    solver: str = "em",
    max_iter: int = 200,
    tol: float = 1e-4,
    n_init: int = 1,
    random_state: Any = None,
    X_validation: ArrayLike | None = None,  # (V, D)
    n_iter_no_change: int = 10,
    verbose: int = 0,
    n_candidates: int | None = None,
    checkpoint: Checkpoint | None = None,
    neighbours: str = "exact",
) -> FitResult:
    """Return the best fit over the starts of the mutation.

    Starts are those of `starts`; for a Gaussian whose start is left open, then also the best
    fit with parents and children exchanged (`GaussianMutation.turned`). The best fit has the
    highest log posterior; with validation records, the highest mean leaf log-density of these, and
    then the mutation is the one at the step where that was highest, and a fit ends after
    `n_iter_no_change` steps without a new best. `n_evaluations` counts all starts.

    With `n_candidates` each fit is `fit_candidate_em`, over that many possible parents of each
    record (solver "em" alone); its log posterior is an estimate. They are looked up as
    `neighbours` says, "exact" or "approximate".

    With a `checkpoint` (solver "em") an interrupted fit resumes; `random_state` must then be the
    same int.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit_mutation(GaussianMutation(transition="zero"), X).n_iter <= 2
    True
    """
    check_option("fit_mutation", "solver", solver, SOLVERS)
    if n_candidates is not None and solver != "em":
        raise ArgumentError(
            Option("solver"),
            f" must be 'em' for a fit over candidates; got {solver!r}. Change it, or fit all pairs "
            "(",
            Option("candidates", "dense"),
            ").",
        )
    records = np.asarray(X, dtype=np.float64)
    if n_candidates is not None:  # the sample of parents is drawn among records
        records = records[record_order(records)]
    # Drawn first: every start is judged on the same sample of parents.
    seed = None if n_candidates is None else int(as_generator(random_state).integers(2**31))

    def run(start: Mutation) -> FitResult:
        if start.parent_free and not len(start.params):  # `start` was the whole fit
            value = np.array([parent_free_log_likelihood(start, records)])
            return FitResult(start, value, n_iter=0, n_evaluations=0, stopped_by="tol")
        stopper = None
        if X_validation is not None:
            stopper = EarlyStopping(records, np.asarray(X_validation), n_iter_no_change)
        options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "verbose": verbose}
        if solver == "em":
            options["checkpoint"] = checkpoint
        if n_candidates is not None:
            options |= {"neighbours": neighbours, "random_state": seed}
            fit = fit_candidate_em(start, records, n_candidates, on_step=stopper, **options)
        else:
            fit = SOLVERS[solver](start, records, on_step=stopper, **options)
        if stopper is not None:
            scores = np.array(stopper.scores)
            fit = replace(fit, mutation=stopper.best, validation_scores=scores, tree=None)
        return fit

    def turned(best: FitResult) -> Mutation | None:
        found = isinstance(best.mutation, GaussianMutation) and _open_start(mutation)
        return best.mutation.turned() if found else None  # type: ignore[attr-defined]  # Gaussian

    return best_fit(starts(mutation, records, n_init, random_state), run, _merit, turned)


def _open_start(mutation: Mutation) -> bool:
    return getattr(mutation, "start_correlation", 0.0) is None


def starts(mutation: Mutation, X: Array, n_init: int, random_state: Any) -> list[Mutation]:
    """Return the mutations that a fit begins from, each different.

    The mutation's own start; where its correlation between parent and child is left open
    (start_correlation=None), also the iid solution, from which the paper begins: each leads to
    the better maximum on some data. Where the start is random, n_init of them.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> [start.transition_matrix[0, 0].round(2) for start in starts(GaussianMutation(), X, 1, 0)]
    [np.float64(0.84), np.float64(0.0)]
    """
    templates = [mutation]
    fixed = getattr(mutation, "transition", None) in ("identity", "zero")
    if _open_start(mutation) and not fixed:
        templates.append(replace(mutation, start_correlation=0.0))  # type: ignore[type-var]
    # The first start takes the seed as it is: its mixture is the one scikit-learn's users know.
    seeds = [random_state, *as_generator(random_state).integers(2**31, size=n_init - 1).tolist()]
    if isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        seeds[0] = int(as_generator(random_state).integers(2**31))
    return distinct_starts(templates, X, lambda: seeds, lambda start: start.params)


def with_known_values(mutation: Mutation, X: Array) -> Mutation:
    """Return the mutation with the values that may occur taken from all records.

    A part of the records may lack a category that the others hold; which categories exist is no
    parameter to be learned.
    """
    if isinstance(mutation, CategoricalMutation) and mutation.categories is None:
        columns = [column[~np.isnan(column)] for column in X.T]
        return replace(mutation, categories=[np.unique(column).tolist() for column in columns])
    return mutation


class EarlyStopping(Watcher):
    """Keeps the mutation that is best on the validation records."""

    def __init__(self, X: Array, X_validation: Array, patience: int) -> None:
        self._X, self._X_validation, self._patience = X, X_validation, patience
        self.scores: list[float] = []
        self.best: Mutation

    @property
    def state(self) -> tuple[tuple[float, ...], Mutation]:
        """The scores so far, and the best mutation."""
        return tuple(self.scores), self.best

    @state.setter
    def state(self, kept: tuple[tuple[float, ...], Mutation]) -> None:
        self.scores, self.best = list(kept[0]), kept[1]

    def __call__(self, mutation: Mutation) -> bool:
        """Return whether the last steps brought no new best."""
        score = float(leaf_log_density(mutation, self._X, self._X_validation).mean())
        if not self.scores or score > max(self.scores):
            self.best = mutation
        self.scores.append(score)
        return len(self.scores) - 1 - int(np.argmax(self.scores)) >= self._patience


def _merit(fit: FitResult) -> float:
    if len(fit.validation_scores):
        return float(fit.validation_scores.max())
    return float(fit.log_likelihoods[-1])
