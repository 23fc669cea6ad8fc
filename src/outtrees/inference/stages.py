"""What a fit of several stages has reached, so that it can go on after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Stage(NamedTuple):
    """One climb: parameters after the last M-step, and the objectives before it."""

    parameters: Any
    root_rate: float
    objectives: tuple[float, ...]
    converged: bool
    finished: bool


class EmStage(NamedTuple):
    """One run of accelerated EM: where it stands, and all that its next step depends on."""

    mutation: Any
    values: Any  # log posteriors so far
    n_small: int  # small gains in a row
    n_evaluations: int
    points: tuple[Any, ...]  # (parameters, step, gradient) of the last steps
    watched: Any  # what is known of validation records
    stopped_by: str
    finished: bool


class Track:
    """The stages of a fit, in order; `keep` is called with all of them after each iteration.

    A fit that is given the stages of an interrupted one goes on where that one stood. Whatever is
    not in a stage is computed again from it, so both end with the same bits.

    Examples
    --------
    >>> kept = []
    >>> track = Track(keep=lambda stages: kept.append(len(stages)))
    >>> track.record(0, Stage("a", 0.1, (-3.0,), False, False))
    >>> track.record(1, Stage("b", 0.1, (), False, False))
    >>> kept, Track(track.stages).reached(1).parameters, Track().reached(0)
    ([1, 2], 'b', None)
    """

    def __init__(
        self,
        stages: Sequence[Any] = (),
        keep: Callable[[Sequence[Any]], None] | None = None,
        seed: int | None = None,
    ) -> None:
        self.stages = list(stages)
        self.seed = seed  # of a fit to which none was given
        self._keep = keep
        self._begun = 0

    def reached(self, number: int) -> Any:
        """Return what the numbered stage had reached, None if it had not begun."""
        return self.stages[number] if number < len(self.stages) else None

    def record(self, number: int, stage: Any) -> None:
        """Note what the numbered stage has reached."""
        self.stages[number:] = [stage]
        if self._keep is not None:
            self._keep(self.stages)

    def next_stage(self) -> TrackedStage:
        """Return the stage after those asked for before, the first one at first."""
        self._begun += 1
        return TrackedStage(self, self._begun - 1)


class TrackedStage:
    """One stage of a track: what it had reached, and where to note what it reaches."""

    def __init__(self, track: Track, number: int) -> None:
        self._track, self._number = track, number

    @property
    def reached(self) -> Any:
        """What the stage has reached, None if it has not begun."""
        return self._track.reached(self._number)

    @property
    def finished(self) -> bool:
        """Whether the stage had come to its end."""
        return self.reached is not None and self.reached.finished

    def record(self, reached: Any) -> None:
        """Note what the stage has reached."""
        self._track.record(self._number, reached)
