"""The command `outtrees`, its subcommands loaded when asked for, and how it ends."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from outtrees import __version__
from outtrees.cli.errors import CommandError, exit_code, one_line

# Each is the `command` of the module of its name, which is not imported for the list in the help.
COMMANDS = {
    "ancestry": "Who came from whom: probable parents, trees, a report.",
    "populations": "The same for many populations, on many machines.",
    "density": "Log-densities: outliers, and a model of the records.",
    "label": "Probable labels of the records that have none.",
    "impute": "Empty cells filled in, with their uncertainty.",
    "sample": "A new population drawn from a saved model.",
    "show": "A saved model in words.",
    "convert": "Results in other tools' formats; their tracks and items as tables.",
    "what-if": "How supports change if a parent is supposed or ruled out.",
    "app": "A page on this machine: drop files, run, read the report.",
    "diseases": "Published waiting times, for --disease.",
    "demo": "Example files, and what to type next.",
}
_NOBODY_READS = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1
MOVED = {
    "reproduce": "the experiments of the paper are no longer a command of outtrees; in a clone of "
    "the repository, run 'python -m paper' instead",
}


class OrderlyCommand(click.Command):
    """A command that ends in one line and an exit code, whatever goes wrong."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it before click prints an empty line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # the terminal shows ^C on this line
            raise click.Abort from None
        except BrokenPipeError:  # as of `outtrees … | head`, which has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _NOBODY_READS

    def main(  # type: ignore[override]  # failures always end the process here
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run and leave with the exit code; failures are one line unless --debug is given."""
        arguments = list(sys.argv[1:] if args is None else args)
        _steady_streams()
        with _orderly_end():
            code = self._outcome(arguments, prog_name or "outtrees", extra)
        sys.exit(code)

    def _outcome(self, arguments: list[str], prog_name: str, extra: dict[str, Any]) -> int:
        """Run and return the exit code."""
        try:
            extra["standalone_mode"] = False
            extra["obj"] = arguments  # what was typed, for the provenance of results
            code = super().main(arguments, prog_name, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            return error.exit_code
        except Exception as error:
            if "--debug" in arguments:
                import traceback

                click.echo(traceback.format_exc(), err=True, nl=False)
            click.echo(f"outtrees: {one_line(error)}", err=True)
            return exit_code(error)
        return code if isinstance(code, int) else 0


class LazyGroup(OrderlyCommand, click.Group):
    """Commands that are imported when their name is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, None if there is none."""
        if cmd_name in MOVED:
            raise CommandError(MOVED[cmd_name])
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(_module(cmd_name)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _module(command: str) -> str:
    return f"outtrees.cli.{command.replace('-', '_')}"


def _steady_streams() -> None:
    """Make printing safe whatever the terminal's alphabet."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Let SIGTERM raise, like Ctrl-C, so that temporary files are removed on the way out."""
    if threading.current_thread() is not threading.main_thread():  # signals come elsewhere
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@click.group(
    "outtrees",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success; 2 wrong input; 3 file error; 4 too little memory; "
    "130 interrupted.",
)
@click.version_option(version=__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Who came from whom: probabilities summed exactly over all trees.

    Each record descends from one unknown parent record.

    \b
    outtrees ancestry cases.csv --id case --date onset --sequences dna.fasta --out results/
    """
