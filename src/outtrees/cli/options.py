"""Options that several commands share."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from outtrees.cli.errors import CommandError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class Target(click.Path):
    """A file or folder to write to: an empty name, as of a variable that is not set, is refused."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path."""
        if not os.fspath(value):
            self.fail("a name is needed; got an empty one", param, ctx)
        return super().convert(value, param, ctx)


class Size(click.ParamType):  # type: ignore[type-arg]  # older clicks take no type here
    """A number of bytes: 1000000, 500M, 4GB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", str(value).strip().lower())
        if found is None or float(found[1]) <= 0:
            self.fail(f"{value!r} is not a size; write for example 500M or 4G", param, ctx)
        return int(float(found[1]) * _UNITS[found[2]])


class Finite(click.FloatRange):
    """A number in a range, neither NaN nor infinite."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class SectionedCommand(click.Command):
    """A command whose help lists its options under headings; "Model" unless `together` says so."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section, the sections in the order of their first option."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                section = "Output" if "--help" in param.opts else getattr(param, "section", "Model")
                sections.setdefault(section, []).append(record)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def together(*decorators: Decorator, section: str | None = None) -> Decorator:
    """Return the decorators as one, in the order of the help, under one heading of it."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        params: list[Any] = function.__dict__.setdefault("__click_params__", [])
        before = len(params)
        for decorator in reversed(decorators):
            function = decorator(function)
        for param in params[before:] if section is not None else ():
            param.section = section
        return function

    return decorate


def column(name: str, help: str, **more: Any) -> Decorator:
    """Return an option that names a column."""
    return click.option(name, metavar="COLUMN", help=help, **more)


def repeated(name: str, metavar: str, help: str, *called: str) -> Decorator:
    """Return an option that may be repeated."""
    return click.option(
        name, *called, metavar=metavar, multiple=True, help=f"{help} May be repeated."
    )


def file(name: str, help: str, metavar: str | None = "FILE", **more: Any) -> Decorator:
    """Return an option that names a file to read."""
    return click.option(name, type=click.Path(), metavar=metavar, help=help, **more)


def choice(name: str, choices: Sequence[str], help: str) -> Decorator:
    """Return an option with a few possible words, the first of them by default."""
    kind = click.Choice(choices, case_sensitive=False)
    return click.option(name, type=kind, default=choices[0], show_default=True, help=help)


def positive(name: str, help: str, most: float | None = None) -> Decorator:
    """Return an option that is a number above 0."""
    return click.option(name, type=Finite(0, most, min_open=True), help=help)


def share(name: str, help: str, default: float) -> Decorator:
    """Return an option that is a number from 0 to 1, with its default."""
    return click.option(name, type=Finite(0, 1), default=default, show_default=True, help=help)


def whole_number(name: str, help: str, default: int, least: int = 1) -> Decorator:
    """Return an option that is a whole number, with its default."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, help=help)


def switch(name: str, help: str) -> Decorator:
    """Return an option that is on unless it is switched off: --name/--no-name."""
    return click.option(f"--{name}/--no-{name}", default=True, show_default=True, help=help)


def max_bytes(help: str, default: int = 2**32, called: str = "4G") -> Decorator:
    """Return the option of how large a file may be."""
    help = f"{help}  [default: {called}]"
    return click.option("--max-bytes", type=Size(), default=default, help=help)


table_options = together(
    click.argument("table", type=click.Path()),
    column("--id", "Column that names the records."),
    repeated(
        "--kind",
        "COLUMN=KIND",
        "The kind of a column: continuous, categorical, count, date, sequence, place, label, "
        "parent, group or ignore.",
        "kinds",
    ),
    repeated("--ignore", "COLUMN", "Leave a column out."),
    repeated("--place", "X,Y", "Two or three columns that together are one place.", "places"),
    file(
        "--sequences",
        "Aligned sequences (FASTA or NEXUS), matched to the records by name.",
        metavar=None,
    ),
    choice(
        "--unsequenced",
        ["error", "missing"],
        "For records without a sequence: stop with an error, or treat all their sites as missing.",
    ),
    choice(
        "--extra-sequences",
        ["error", "ignore"],
        "For sequences without a record: stop with an error, or leave them out.",
    ),
    click.option(
        "--day-first/--month-first",
        default=None,
        help="Whether 05/03/2020 is in March or in May, where the column does not show it.",
    ),
    click.option(
        "--sheet", metavar="NAME", help="Sheet of a spreadsheet (.xlsx); the first by default."
    ),
    repeated(
        "--na",
        "TEXT",
        "Another text that marks a missing value, besides empty cells, NA, NaN, null, ? and a "
        "point.",
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text files."),
    click.option(
        "--no-quotes",
        "quotes",
        flag_value=False,
        default=True,
        help="Treat quotation marks in CSV and TSV as ordinary characters.",
    ),
    max_bytes("Refuse larger files."),
    section="Table",
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of the random numbers; the same seed gives the same results.",
)

common_options = together(
    click.option("--quiet", is_flag=True, help="Print nothing but errors (and --json)."),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print a summary as JSON on stdout, everything else on stderr.",
    ),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
    section="Output",
)

fit_options = together(
    together(
        click.option("--check", is_flag=True, help="Estimate time and memory without running."),
        click.option(
            "--jobs", type=click.IntRange(min=1), help="Number of processor cores to use."
        ),
        seed_option,
        section="Computation",
    ),
    common_options,
)

model_option = max_bytes("Refuse larger models.")

out_folder = together(
    click.option(
        "--out",
        type=Target(),
        metavar="FOLDER",
        help="Folder for the results; created if it does not exist.",
    ),
    section="Output",
)

candidate_options = together(
    choice(
        "--candidates",
        ["auto", "dense", "knn"],
        "Use all possible parents (dense) or the best of each record (knn). auto: dense up to "
        "4,000 records of a group (density and label: 1,500).",
    ),
    whole_number("--n-candidates", "Number of candidate parents of each record, with knn.", 20),
    section="Computation",
)

checkpoint_option = together(
    file(
        "--checkpoint",
        "Save the state of the fit in this file; a run that was killed resumes from it.",
    ),
    section="Computation",
)

scheduler_option = together(
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the workers of a Dask scheduler, such as tcp://host:8786.",
    ),
    section="Computation",
)


def check_scheduler(address: str | None) -> None:
    """Refuse a scheduler where Dask is not installed, before any file is opened."""
    from importlib.util import find_spec

    if address is not None and find_spec("distributed") is None:
        raise CommandError(
            f"--scheduler {address} needs Dask; install it with pip install 'outtrees[dask]'"
        )


@contextmanager
def spread_over(address: str | None) -> Iterator[None]:
    """Send what goes through joblib inside the block to a scheduler, if one is given."""
    if address is None:
        yield
        return
    from outtrees.parallel.scheduler import on_scheduler

    with on_scheduler(address):
        yield
