"""`outtrees diseases`: published times from case to case."""

from __future__ import annotations

from typing import Any

import click

from outtrees.cli.options import common_options
from outtrees.cli.screen import running


@click.command("diseases")
@common_options
def command(**options: Any) -> None:
    """Print the published waiting times that --disease NAME knows, with their sources."""
    with running("diseases", options) as screen:
        from outtrees.datasets.diseases import DISEASES

        # Aliases and authors are in the JSON only: lines would be cut.
        fields = ("name", "kind", "law", "mean", "sd", "doi")
        shown = {field: [getattr(row, field) for row in DISEASES] for field in fields}
        screen.say("times from case to case, in days:")
        screen.table(shown)
        screen.summary["diseases"] = [
            {**row._asdict(), "aliases": list(row.aliases)} for row in DISEASES
        ]
