"""`outtrees convert`: results into other tools' formats, and theirs into tables."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from outtrees.cli.errors import CommandError
from outtrees.cli.options import choice, common_options, model_option, seed_option, share
from outtrees.cli.results import saved_ancestry
from outtrees.cli.screen import running

# Help must not import the library, so the names stand twice; a test compares them.
FORMATS = [
    *("auspice", "microreact", "microbetrace", "epicontacts", "dot", "nexus"),
    *("geff", "ctc", "anndata", "treedata", "arviz"),
]


@click.command("convert")
@click.argument("source", type=click.Path(), metavar="RESULTS|FILE")
@click.argument("more", type=click.Path(), nargs=-1, metavar="[FILE]...")
@click.option(
    "--to",
    type=click.Choice([*FORMATS, "csv"]),
    required=True,
    help="Format. csv: a table from tracks (GEFF, CTC) or DELTA items.",
)
@click.option(
    "--out",
    type=click.Path(),
    metavar="PATH",
    help="File or folder to write; a name for the format in this folder by default.",
)
@choice("--tree", ["consensus", "mode", "sample"], "Which tree of the results.")
@share(
    "--min-support",
    "Of candidate parents that are not in the tree, where the format lists them.",
    0.01,
)
@click.option(
    "--draws",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Number of draws of parameters and trees, for arviz.",
)
@model_option
@seed_option
@common_options
def command(**options: Any) -> None:
    """Write RESULTS of `outtrees ancestry` (a folder or its model) in another tool's format.

    With --to csv, turn a FILE of another tool into a table for `outtrees ancestry`: a GEFF folder,
    tracks of the Cell Tracking Challenge (res_track.txt, or the folder with it and label images),
    or DELTA items (and the files of its characters).
    """
    with running("convert", options) as screen:
        source, to = Path(options["source"]), options["to"]
        out = Path(options["out"]) if options["out"] is not None else _default(source, to)
        if out.exists():
            raise CommandError(f"{str(out)!r} is there already; name another --out", 3)
        if not out.absolute().parent.is_dir():
            raise CommandError(
                f"{str(out.parent)!r} is no folder; make it, or name another --out", 3
            )
        if to == "csv":
            from outtrees.io import write_csv

            table = _read(source, [Path(name) for name in options["more"]])
            write_csv(out, dict(table))
            screen.say(f"{len(table)} records with {len(table.columns)} columns")
            screen.say(_next(out, table))
        else:
            if options["more"]:
                raise CommandError(f"--to {to} takes one folder or model of results; got several")
            saved_ancestry(source, options["max_bytes"]).write(
                to,
                out,
                options["tree"],
                min_support=options["min_support"],
                n_draws=options["draws"],
                random_state=options["seed"],
            )
        screen.summary["files"] = {out.name: str(out)}
        screen.say(f"written: {out}")


def _default(source: Path, to: str) -> Path:
    if to == "csv":
        return Path(f"{source.stem}.csv")
    from outtrees.io import FORMATS as known

    return Path(known[to].name)


def _next(out: Path, table: Any) -> str:
    """Return what to do with the table."""
    words = ["outtrees", "ancestry", str(out), "--id", table.columns[0]]
    if "begin" in table.columns:
        words += ["--date", "begin", "--until", "end"]
    told = f"next: {shlex.join(words)}"
    if "parent" in table.columns:
        told += "; add --ignore parent to find the parents anew, they count as known otherwise"
    return told


def _read(source: Path, more: list[Path]) -> Any:
    """Return the table of a file, by what the file is."""
    from outtrees.io import read_ctc, read_delta, read_geff
    from outtrees.io.readers import TRACKS

    if source.is_dir():
        tracks = any((source / name).is_file() for name in TRACKS)
        if not tracks and (source / "model.safetensors").is_file():
            raise CommandError(
                f"--to csv makes tables of other tools' files; {str(source)!r} holds results, "
                "which are tables already: records.csv, parents.csv. Open these, or name another "
                "--to"
            )
        return read_ctc(source) if tracks else read_geff(source)
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {str(source)!r}")
    with source.open("rb") as file:
        start = file.read(2**20)
    if b"*" in start:
        return read_delta(source, *more)
    return read_ctc(source)
