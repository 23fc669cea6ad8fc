"""What is under way while an ancestry is fitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from outtrees.cli.failing import spoken
from outtrees.cli.screen import Screen


class ToldProgress:
    """Moves a bar with each iteration, and says in a line on stderr what comes next."""

    def __init__(self, move: Callable[[int, float], None], quiet: bool) -> None:
        self._move = move
        self._quiet = quiet
        self._begin = time.perf_counter()

    def __call__(self, iteration: int, objective: float) -> None:
        """Show the iteration and its penalised log-likelihood."""
        self._move(iteration, objective)

    def say(self, text: str) -> None:
        """Print what is under way, and after how many seconds it began."""
        if not self._quiet:
            click.echo(f"{time.perf_counter() - self._begin:6.1f} s  {spoken(text)}", err=True)


@contextmanager
def told_progress(screen: Screen, total: int) -> Iterator[ToldProgress]:
    """Yield what `Ancestry` reports its progress to."""
    with screen.progress("weighing all trees", total) as move:
        yield ToldProgress(move, screen.quiet)
