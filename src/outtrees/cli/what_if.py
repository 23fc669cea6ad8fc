"""`outtrees what-if`: how supports change if a parent is supposed or ruled out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from outtrees.cli.errors import CommandError
from outtrees.cli.inputs import pair_of
from outtrees.cli.options import common_options, model_option, out_folder, repeated, share
from outtrees.cli.results import check_folder, csv_writer, name_files, saved_ancestry, write_files
from outtrees.cli.screen import running

CHANGES = "what_if.csv"


@click.command("what-if")
@click.argument("model", type=click.Path(), metavar="MODEL|FOLDER")
@repeated(
    "--suppose",
    "CHILD=PARENT",
    "Suppose that this is the parent; CHILD= alone: that there is none.",
)
@repeated(
    "--rule-out",
    "CHILD=PARENT",
    "Suppose that this is not the parent; CHILD= alone: that there is one.",
)
@repeated("--introduction", "ID", "Suppose that this record has no parent in the table.")
@share("--min-change", "Do not list supports that change less than this.", 0.01)
@model_option
@out_folder
@common_options
def command(**options: Any) -> None:
    """Print how the supports of a fitted table change, nothing fitted again.

    MODEL is the model that `outtrees ancestry` saved, or the FOLDER it wrote.
    """
    with running("what-if", options) as screen:
        if not (options["suppose"] or options["rule_out"] or options["introduction"]):
            raise CommandError(
                "nothing is supposed; give --suppose, --rule-out or --introduction at least once"
            )
        check_folder(options["out"], (CHANGES,))
        model = saved_ancestry(Path(options["model"]), options["max_bytes"])
        ids = model.records.ids
        known: dict[str, str | None] = dict.fromkeys(options["introduction"])
        known |= dict(pair_of(text, ids, "--suppose", root=True) for text in options["suppose"])
        excluded = [pair_of(text, ids, "--rule-out", root=True) for text in options["rule_out"]]
        table = model.what_if(known, options["min_change"], not_parent=excluded)
        screen.summary["changes"] = [row._asdict() for row in table]
        write_files(screen, options["out"], {CHANGES: csv_writer(dict(table))}, (CHANGES,))
        if len(table):
            screen.table({**dict(table), "parent": [name or "(root)" for name in table["parent"]]})
        else:
            screen.say(f"no support changes by {options['min_change']:g} or more")
        name_files(screen)
