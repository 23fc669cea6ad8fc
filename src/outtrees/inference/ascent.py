"""Ascent from one start: the loop, the record and the stopping rule that all fits share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from outtrees._common.progress import note
from outtrees._common.types import Array
from outtrees.models.base import Change, Mutation
from outtrees.trees import OutTreeDistribution

StoppedBy = Literal["tol", "validation", "max_iter"]


@dataclass(frozen=True)
class FitResult:
    """A fitted mutation, and how the fit went.

    Attributes
    ----------
    mutation : Mutation
        The mutation reached; the best one on the validation records if there were any.
    log_likelihoods : array of shape (n_iter + 1,)
        Penalised log-likelihoods log p(X | θ) + log_prior(θ), at the start and after each step;
        they never fall, except at a search for candidates.
    n_iter : int
        The number of steps taken.
    n_evaluations : int
        How often log Z was computed, rejected proposals and all starts included.
    stopped_by : {"tol", "validation", "max_iter"}
        What ended the fit.
    validation_scores : array, empty without validation records
        Their mean log-densities, at the start and after each step but the last one of a fit that
        ended by tol.
    searches : tuple of int, empty without candidates
        The number of steps taken before each search for candidates.
    tree : OutTreeDistribution or None
        The trees of the records given `mutation`, if the fit ended there with all trees summed.
    """

    mutation: Mutation
    log_likelihoods: Array
    n_iter: int
    n_evaluations: int
    stopped_by: StoppedBy
    validation_scores: Array = field(default_factory=lambda: np.empty(0))
    searches: tuple[int, ...] = ()
    tree: OutTreeDistribution | None = field(default=None, repr=False, compare=False)

    @property
    def converged(self) -> bool:
        """Whether a stopping rule was met before the iterations were exhausted."""
        return self.stopped_by != "max_iter"


class Point(Protocol):
    """A place that an ascent can reach."""

    @property
    def value(self) -> float:
        """What is maximised, in nats."""


class Counted(Protocol):
    """An objective that counts how often it was evaluated."""

    n_evaluations: int


P = TypeVar("P", bound=Point)
M = TypeVar("M", bound=Change)
F = TypeVar("F")  # what a fit returns


class Watcher(ABC):
    """Called with the mutation after each step of a fit; True ends the fit.

    Any callable will do; one that a checkpoint can resume has a `state`.
    """

    state: Any = None

    @abstractmethod
    def __call__(self, mutation: Mutation) -> bool:
        """Return whether the fit ends here."""


OnStep = Callable[[Mutation], bool]


class Progress:
    """The values of an ascent, and the rule that ends it: two small gains in a row.

    One small gain may be bad luck of a single step (after a rejected proposal, say).

    Parameters
    ----------
    values : iterable of float
        The value at the start, or all values of an interrupted ascent.
    of : str
        What is maximised, for messages.
    on_step : callable, optional
        Called with the mutation of the point after each step; True ends the ascent.
    """

    def __init__(
        self,
        objective: Counted,
        values: Iterable[float],
        *,
        tol: float,
        verbose: int,
        of: str = "log posterior",
        on_step: OnStep | None = None,
        n_small: int = 0,
    ) -> None:
        self.values = list(values)
        self.n_small = n_small  # small gains in a row
        self.of = of
        self.stopped_by: StoppedBy = "max_iter"
        self._objective, self._tol, self._verbose, self._on_step = objective, tol, verbose, on_step

    def accept(self, point: Any) -> bool:
        """Record a step; return whether it was the last."""
        gain = point.value - self.values[-1]
        self.values.append(point.value)
        note(f"{self.of} {point.value:.2f} after {len(self.values) - 1} steps")
        if self._verbose:
            print(
                f"iteration {len(self.values) - 1}: {self.of} {point.value:.6f}, "
                f"gain {gain:.2e}, {self._objective.n_evaluations} evaluations"
            )
        self.n_small = self.n_small + 1 if gain <= self._tol else 0
        if self.n_small >= 2:
            self.stopped_by = "tol"
        elif self._on_step is not None and self._on_step(point.mutation):
            self.stopped_by = "validation"
        return self.stopped_by != "max_iter"

    def stuck(self) -> None:
        """Record a step that led nowhere: the digits of the value are used up."""
        self.values.append(self.values[-1])
        self.stopped_by = "tol"


def ascend(
    here: P,
    step: Callable[[P], P | None],
    progress: Progress,
    max_iter: int,
    *,
    culprit: str = "a step",
    after: Callable[[P], object] | None = None,
) -> P:
    """Return the point where the ascent ends; the recorded values never fall.

    Parameters
    ----------
    step : callable
        From a point to the next one, or to None if no step raises the value.
    culprit : str
        What is wrong if a step lowers the value by more than rounding, for the message.
    after : callable, optional
        Called with the point after each step but the last.

    Raises
    ------
    ArithmeticError
        If a step lowers the value by more than rounding.
    """
    for _ in range(len(progress.values) - 1, max_iter):
        there = step(here)
        if there is None:
            progress.stuck()
            break
        fall = here.value - there.value
        if fall > 1e-7 * max(1.0, abs(here.value)):
            raise ArithmeticError(
                f"{culprit} lowered the {progress.of} from {here.value} to {there.value}, which a "
                "correct step cannot do; correct its formulas"
            )
        if fall > 0:
            progress.stuck()
            break
        here = there
        if progress.accept(here):
            break
        if after is not None:
            after(here)
    return here


def distinct_starts(
    templates: Iterable[M],
    X: Array,  # (T, D)
    seeds: Callable[[], Iterable[Any]],  # of the starts of one template
    coordinates: Callable[[M], Array],
) -> list[M]:
    """Return what the templates start from X with each seed, without those that were there."""
    found: list[M] = []
    for template in templates:
        for seed in seeds():
            start = template.start(X, seed)
            here = coordinates(start)
            if not any(np.array_equal(here, coordinates(other)) for other in found):
                found.append(start)
    return found


def best_fit(
    starts: Iterable[M],
    run: Callable[[M], F],
    merit: Callable[[F], float],
    turned: Callable[[F], M | None],
) -> F:
    """Return the best fit over the starts, and over where the best of them leads if turned.

    Only one fit keeps its trees at a time. `n_evaluations` of the result counts all fits.
    """
    best: Any = None
    n_evaluations = 0

    def fitted(start: M) -> None:
        nonlocal best, n_evaluations
        fit: Any = run(start)
        n_evaluations += fit.n_evaluations
        best = fit if best is None or merit(fit) > merit(best) else best

    for start in starts:
        fitted(start)
    again = turned(best)
    if again is not None:
        fitted(again)
    result: F = replace(best, n_evaluations=n_evaluations)
    return result
