"""`outtrees what-if`: how supports change if a parent is supposed or ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from outtrees.cli.errors import CommandError, sound_model
from outtrees.cli.options import Finite, Size, common_options, out_folder
from outtrees.cli.results import MODEL, check_folder, csv_writer, name_files, write_files
from outtrees.cli.screen import running

CHANGES = "what_if.csv"


@click.command("what-if")
@click.argument("model", type=click.Path(), metavar="MODEL|FOLDER")
@click.option(
    "--suppose",
    metavar="CHILD=PARENT",
    multiple=True,
    help="Suppose that this is the parent; CHILD= alone: that there is none. May be repeated.",
)
@click.option(
    "--rule-out",
    metavar="CHILD=PARENT",
    multiple=True,
    help="Suppose that this is not the parent; CHILD= alone: that there is one. May be repeated.",
)
@click.option(
    "--introduction",
    metavar="ID",
    multiple=True,
    help="Suppose that this record has no parent in the table. May be repeated.",
)
@click.option(
    "--min-change",
    type=Finite(0, 1),
    default=0.01,
    show_default=True,
    help="Do not list supports that change less than this.",
)
@click.option(
    "--max-bytes", type=Size(), default="4294967296", help="Refuse larger models.  [default: 4G]"
)
@out_folder
@common_options
def command(**options: Any) -> None:
    """Print how the supports of a fitted table change, nothing fitted again.

    MODEL is the model that `outtrees ancestry` saved, or the FOLDER it wrote.
    """
    with running("what-if", options) as screen:
        from outtrees.ancestry import Ancestry
        from outtrees.io import load

        if not (options["suppose"] or options["rule_out"] or options["introduction"]):
            raise CommandError(
                "nothing is supposed; give --suppose, --rule-out or --introduction at least once"
            )
        if options["out"] is not None:
            check_folder(options["out"], (CHANGES,))
        path = Path(options["model"])
        path = path / MODEL if path.is_dir() else path
        model = load(path, max_bytes=options["max_bytes"])
        if not isinstance(model, Ancestry):
            raise CommandError(
                f"{str(path)!r} must be a model of 'outtrees ancestry'; it is a "
                f"{type(model).__name__}"
            )
        with sound_model(path, model):
            ids = model.records.ids
            known: dict[str, str | None] = dict.fromkeys(options["introduction"])
            known |= dict(_pair(text, ids, "--suppose") for text in options["suppose"])
            excluded = [_pair(text, ids, "--rule-out") for text in options["rule_out"]]
        table = model.what_if(known, options["min_change"], not_parent=excluded)
        screen.summary["changes"] = [row._asdict() for row in table]
        write_files(screen, options["out"], {CHANGES: csv_writer(dict(table))}, (CHANGES,))
        if len(table):
            screen.table({**dict(table), "parent": [name or "(root)" for name in table["parent"]]})
        else:
            screen.say(f"no support changes by {options['min_change']:g} or more")
        name_files(screen)
        screen.finish()


def _pair(text: str, ids: Sequence[str], option: str) -> tuple[str, str | None]:
    """Return child and parent of CHILD=PARENT; names may hold equals signs."""
    known = set(ids)
    for at in (i for i, sign in enumerate(text) if sign == "="):
        child, parent = text[:at], text[at + 1 :]
        if child in known and (parent in known or not parent):
            return child, parent or None
    raise CommandError(
        f"{option} must name two records, CHILD=PARENT; got {text!r}. A record is called, for "
        f"example, {ids[0]!r}"
    )
