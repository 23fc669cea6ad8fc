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
        stages: Sequence[Stage] = (),
        keep: Callable[[Sequence[Stage]], None] | None = None,
    ) -> None:
        self.stages = list(stages)
        self._keep = keep

    def reached(self, number: int) -> Stage | None:
        """Return what the numbered stage had reached, None if it had not begun."""
        return self.stages[number] if number < len(self.stages) else None

    def record(self, number: int, stage: Stage) -> None:
        """Note what the numbered stage has reached."""
        self.stages[number:] = [stage]
        if self._keep is not None:
            self._keep(self.stages)
