"""Waiting times that are tried where none is given, and how much each reading of a table weighs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from outtrees.candidates.windows import waiting_of
from outtrees.models.columns import Lineage, Waiting
from outtrees.models.columns.waiting import guessed_wait

Array = NDArray[np.float64]

# So many means, evenly on a logarithmic scale from the typical gap between dates to half of the
# whole time.
_MEANS = 8
# Cells that follow each other for other reasons than descent (siblings that fall ill together)
# also tell waiting times apart, so evidence among them counts for this many nats in all.
_MOST_EVIDENCE = 10.0
_GUESS_SPREAD = 1.0  # standard deviation of the log of a wait about `guessed_wait`, beforehand
_SHORT = 2.0  # waits shorter than so many of the shortest one tried are siblings'
_MOST_WEIGHT = 0.95  # readings that together weigh less than the rest of it are dropped


class Explained(Protocol):
    """What a reading is weighed by."""

    @property
    def lineage(self) -> Lineage:
        """Its parameters."""

    @property
    def gain(self) -> float:
        """Log p(cells | dates)."""


P = TypeVar("P", bound=Explained)


def waiting_means(kernel: Waiting, cells: Array) -> list[float]:
    """Return the mean waiting times that are tried: one if it is given.

    Examples
    --------
    >>> days = np.array([[float(t), t, 0, 0] for t in (0, 3, 5, 9, 20)])
    >>> [round(mean, 1) for mean in waiting_means(Waiting().start(days), days)]
    [3.5, 4.1, 4.7, 5.5, 6.4, 7.4, 8.6, 10.0]
    """
    if kernel.mean is not None:
        return [kernel.mean]
    known = cells[~np.isnan(cells).any(axis=1)]
    start, end = np.unique(known[:, 0]), np.sort(np.maximum(known[:, 0], known[:, 1]))
    before = np.searchsorted(end, start, side="left")
    gaps = (start - end[np.maximum(before - 1, 0)])[before > 0]
    gap = float(np.median(gaps)) if len(gaps) else 0.0
    span = float(np.ptp(start)) if len(start) > 1 else 1.0
    low = max(gap, kernel.unit, 1e-3 * span)
    return [float(mean) for mean in np.geomspace(low, max(span / 2, 2 * low), _MEANS)]


class ReadingWeights:
    """The weights of readings, by what the first climbs of all waiting times showed.

    Two ways to weigh them are mixed. Either the cells tell which waiting time is right, and what
    a reading explains counts. Or records are likest to those of about their own date, as siblings
    are (sisters in an embryo, animals that one dog bit): then nothing in the cells tells it, and
    all readings count as much as they do beforehand. The second is as likely as the shortest
    waiting times are by what they explain. Decided once: later on the shortest may be dropped.
    """

    def __init__(self, first: Sequence[Explained], values: Sequence[Array]) -> None:
        self.values = values
        self.siblings = siblings_chance(
            [point.lineage for point in first], np.array([point.gain for point in first]), values
        )

    def by_evidence(self, points: Sequence[Explained]) -> Array:
        """Return the weights if the cells tell the waiting time (n,)."""
        return reading_weights(np.array([p.gain for p in points]), self._beforehand(points))

    def _beforehand(self, points: Sequence[Explained]) -> Array:
        """Return the log-weights beforehand, those of one mean waiting time together (n,)."""
        lineages = [point.lineage for point in points]
        means = np.round(np.log(mean_waits(lineages)), 9)
        _, kind, number = np.unique(means, return_inverse=True, return_counts=True)
        return waiting_priors(lineages, self.values) - np.log(number[kind.ravel()])

    def __call__(self, points: Sequence[Explained]) -> Array:
        """Return the weights of readings that end in these points (n,)."""
        if len(points) == 1:
            return np.ones(1)
        beforehand = np.exp(self._beforehand(points))
        told = self.by_evidence(points)
        mixed = (1 - self.siblings) * told + self.siblings * beforehand / beforehand.sum()
        return np.asarray(mixed)

    def that_count(self, points: Sequence[P]) -> list[P]:
        """Return the fewest points that hold nearly all of the weight, in their order."""
        weights = self(points)
        order = np.argsort(-weights, kind="stable")
        before = np.cumsum(weights[order]) - weights[order]
        return [points[i] for i in np.sort(order[before < _MOST_WEIGHT])]


def siblings_chance(lineages: Sequence[Lineage], gains: Array, values: Sequence[Array]) -> float:
    """Return the chance that likeness is that of siblings: of the shortest waits tried.

    Where children wait from their parent's end, short waits are what one expects.
    """
    if len(lineages) == 1 or not len(_moments_in_time(lineages[0], values)):
        return 0.0
    means = mean_waits(lineages)
    short = means < _SHORT * means.min()
    return float(reading_weights(gains)[short].sum()) if not short.all() else 0.0


def mean_waits(lineages: Sequence[Lineage]) -> Array:
    """Return the mean waiting time of each reading (n,), 1 without dates."""
    kernels = map(waiting_of, lineages)
    return np.array([1.0 if kernel is None else kernel.moments[0] for kernel in kernels])


def reading_weights(gains: Array, log_priors: Array | float = 0.0) -> Array:
    """Return the weights of readings with these gains (n,), which sum to 1.

    Examples
    --------
    >>> reading_weights(np.array([0.1, 0.0])).round(2), reading_weights(np.array([600.0, 540.0]))
    (array([0.52, 0.48]), array([0.73105858, 0.26894142]))
    """
    top = float(gains.max())
    scale = min(1.0, _MOST_EVIDENCE / top) if top > 0 else 1.0
    logs = scale * (gains - top) + log_priors
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def waiting_priors(lineages: Sequence[Lineage], values: Sequence[Array]) -> Array:
    """Return the log prior weights of readings by their mean waiting times, up to a constant.

    The mean is within a factor of e of `guessed_wait` by one standard deviation. Where children
    wait from their parent's end there is no such guess.
    """
    dates = _moments_in_time(lineages[0], values)
    if len(dates) < 3:
        return np.zeros(len(lineages))
    guess = guessed_wait(float(np.ptp(dates)), len(dates))
    off = np.log(mean_waits(lineages)) - np.log(guess if guess > 0 else 1.0)
    return np.asarray(-0.5 * (off / _GUESS_SPREAD) ** 2)


def _moments_in_time(lineage: Lineage, values: Sequence[Array]) -> Array:
    """Return the known dates, none where children wait from their parent's end."""
    if lineage.dates is None:
        return np.zeros(0)
    start, end = values[lineage.dates][:, :2].T
    known = np.isfinite(start)
    return np.zeros(0) if (end[known] != start[known]).any() else start[known]


def with_wait(lineage: Lineage, mean: float, sd: float) -> Lineage:
    """Return the lineage with this waiting time."""
    kernel = waiting_of(lineage)
    assert kernel is not None  # only tables with dates have a waiting time
    assert lineage.dates is not None
    return lineage.with_kernel(lineage.dates, kernel.at(mean, sd))
