"""`--scheduler`: the option that sends work to the machines of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from outtrees.cli.failing import CommandError

scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="A Dask scheduler whose workers do the work, such as tcp://host:8786.",
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
