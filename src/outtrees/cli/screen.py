"""What is printed, and where: results on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from numbers import Integral, Real
from typing import Any

import click

from outtrees._common.progress import silenced, under_way
from outtrees.cli.errors import flat, told
from outtrees.errors import message_of

FORMAT = 1  # of the JSON summary: raised when a field is renamed, removed or means something else
ROWS_ON_SCREEN = 40
_PLAIN_WIDTH = 120  # of tables that go to a file or a pipe
_BAR = 20
_FIRST, _FEW = 40, 10  # lines on the screen of a long list; so few more are not worth a cut


_ITERATIONS = (
    "{task.description}",
    "BarColumn",
    "iteration {task.completed}, penalised log-likelihood {task.fields[value]}",
    "TimeElapsedColumn",
)
_UNITS = (
    *("{task.description}", "BarColumn", "MofNCompleteColumn", "TimeElapsedColumn"),
    *("TimeRemainingColumn", "{task.fields[last]}"),
)


class Screen:
    """Prints for people, or one JSON object for programs.

    Parameters
    ----------
    quiet : bool
        Print nothing but the JSON object.
    as_json : bool
        Print `summary` as JSON on stdout at the end, and everything else on stderr.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self.summary: dict[str, Any] = {"format": FORMAT}
        self._warned: list[str] = []

    def say(self, text: str = "") -> None:
        """Print lines of text."""
        if not self.quiet:
            click.echo(text, err=self.as_json)

    def warn(self, text: str) -> None:
        """Print a warning on stderr, once."""
        line = told(text)
        if line not in self._warned:
            self._warned.append(line)
            if not self.quiet:
                click.echo(f"warning: {line}", err=True)

    @contextmanager
    def warnings_told(self) -> Iterator[None]:
        """Print Python's warnings, raised inside, as lines; also if an error ends the block."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Notes between libraries are not for the user of a command.
            for category in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)
            try:
                yield
            finally:
                for warning in caught:
                    self.warn(message_of(warning.message))

    def table(
        self,
        columns: Mapping[str, Sequence[Any]],
        *,
        bar: str | None = None,
        whole: str = "",
        limit: int = ROWS_ON_SCREEN,
    ) -> None:
        """Print a table, cut after `limit` rows with a note that says where the whole is.

        The column called `bar` holds numbers between 0 and 1, which are drawn as well.
        """
        if self.quiet:
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        rows = list(zip(*columns.values(), strict=True))
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name, cells in columns.items():
            number = all(isinstance(cell, Real) for cell in cells)
            table.add_column(
                Text(printable(name)),
                justify="right" if number else "left",
                no_wrap=True,
                overflow="ellipsis",
            )
        if bar is not None:
            table.add_column("", no_wrap=True)
        for row in rows[:limit]:
            cells = [Text(printable(cell)) for cell in row]
            if bar is not None:
                share = float(dict(zip(columns, row, strict=True))[bar])
                cells.append(Text("█" * round(_BAR * share), style="blue"))
            table.add_row(*cells)
        stream = sys.stderr if self.as_json else sys.stdout
        console = Console(file=stream, highlight=False, markup=False, emoji=False)
        if not console.is_terminal:
            console.width = _PLAIN_WIDTH
        with console.capture() as capture:
            console.print(table)
        self.say("\n".join(line.rstrip() for line in capture.get().splitlines()))
        if len(rows) > limit:
            self.say(f"… {len(rows) - limit:,} more rows{whole and '; ' + whole}")

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[[int, float], None]]:
        """Yield a function of (iteration, log-likelihood + log-prior) that moves a bar on stderr.

        On a terminal only: a file or a pipe would keep every position of the bar.
        """
        with self._bar(title, _ITERATIONS, total, value="…") as update:

            def move(iteration: int, objective: float) -> None:
                update(completed=min(iteration, total), value=f"{objective:.2f}")

            yield move

    @contextmanager
    def counting(self, title: str) -> Iterator[Callable[..., None]]:
        """Yield a function of (done, total, last = "") that moves a bar of units of work on stderr.

        On a terminal only.
        """
        with self._bar(title, _UNITS, None, last="") as update:

            def move(done: int, total: int, last: str = "") -> None:
                update(completed=done, total=total, last=last)

            yield move

    @contextmanager
    def _bar(
        self, title: str, columns: Sequence[str], total: int | None, **fields: Any
    ) -> Iterator[Callable[..., None]]:
        """Yield what moves a bar of these columns: classes of rich.progress, or texts."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda **changes: None
            return
        from rich import progress
        from rich.console import Console

        made = [
            getattr(progress, name)() if name.isalpha() else progress.TextColumn(name)
            for name in columns
        ]
        with (
            progress.Progress(*made, console=Console(stderr=True), transient=True) as bar,
            silenced(),
        ):
            task = bar.add_task(title, total=total, **fields)
            yield lambda **changes: bar.update(task, **changes)
            bar.refresh()  # work may end between two repaints

    @contextmanager
    def busy(self, title: str) -> Iterator[None]:
        """Show on a terminal that something is under way."""
        if self.quiet or not sys.stderr.isatty():
            yield  # lines of progress tell
            return
        from rich.console import Console

        with Console(stderr=True).status(title), silenced():
            yield

    def finish(self) -> None:
        """Print the summary, if it was asked for as JSON."""
        if self.as_json:
            self.summary["warnings"] = self._warned
            click.echo(json.dumps(jsonable(self.summary), allow_nan=False, ensure_ascii=True))


@contextmanager
def running(command: str, options: Mapping[str, Any], *, ends: bool = True) -> Iterator[Screen]:
    """Yield the screen; limit the cores, print warnings, and lines of progress if it `ends`.

    The summary is printed at the end, unless an error is.
    """
    from outtrees import __version__

    screen = Screen(options["quiet"], options["as_json"])
    if screen.quiet:
        os.environ["OUTTREES_QUIET"] = "1"  # heeded by outtrees._common.progress
        os.environ["OUTTREES_COMPILE_QUIETLY"] = "1"  # heeded by outtrees._common.compiled
    screen.summary.update({"command": command, "version": __version__, "seed": options.get("seed")})
    lines: AbstractContextManager[None] = nullcontext()
    if ends and not sys.stderr.isatty():  # where no bar can be shown
        lines = under_way(f"outtrees {command}", steady=True)
    with screen.warnings_told(), _cores(options.get("jobs")), lines:
        yield screen
        screen.finish()


@contextmanager
def _cores(jobs: int | None) -> Iterator[None]:
    from threadpoolctl import threadpool_limits

    from outtrees._common.threads import own_threads

    with threadpool_limits(jobs), own_threads():
        yield


def shortened(lines: Sequence[str], what: str, last: int = 20) -> str:
    """Return lines for a screen: of too many the first 40 and the last.

    Examples
    --------
    >>> shortened([str(n) for n in range(1000)], "lines").splitlines()[39:42]
    ['39', '… 940 more lines', '980']
    """
    rest = len(lines) - _FIRST - last
    if rest > _FEW:
        lines = [*lines[:_FIRST], f"… {rest:,} more {what}", *lines[len(lines) - last :]]
    return "\n".join(lines)


def printable(cell: Any) -> str:
    r"""Return a cell of a table as text that cannot steer a terminal.

    Examples
    --------
    >>> printable(0.98765), printable("a\x1b[2Jb"), printable(None), printable("")
    ('0.988', 'a\\x1b[2Jb', '', '')
    """
    if cell is None:
        return ""
    if isinstance(cell, Integral):
        return str(cell)
    if isinstance(cell, Real):
        number = float(cell)
        return f"{number:.3f}" if abs(number) < 1e4 else f"{number:.6g}"
    return flat(str(cell)[:200])


def jsonable(value: Any) -> Any:
    """Return a value in types that JSON knows; infinities and NaN become null.

    Examples
    --------
    >>> jsonable({"a": (1, float("inf")), "b": "x"})
    {'a': [1, None], 'b': 'x'}
    """
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        return jsonable(value.tolist())
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
