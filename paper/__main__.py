"""`python -m paper`: the figures and tables of the paper, made anew."""

from __future__ import annotations

from typing import Any

import click

from outtrees.cli.group import OrderlyCommand
from paper import EXPERIMENTS, experiment


@click.command("paper", cls=OrderlyCommand)
@click.argument("name", type=click.Choice([*EXPERIMENTS, "all"]))
@click.option(
    "--folds",
    type=click.IntRange(min=1),
    help="Number of folds, where there are any; the paper's (or what the page says) if not given.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Units at a time."
)
@click.option(
    "--out",
    type=click.Path(),
    metavar="FOLDER",
    default="reproduced",
    show_default=True,
    help="Where pages, pictures and numbers go; what is finished there is not run again.",
)
@click.option(
    "--data",
    type=click.Path(),
    metavar="PATH",
    help="figure3, figure4: a matrix of species and characters, or a folder of them.",
)
@click.option("--quick", is_flag=True, help="A small form of each, in seconds.")
@click.option(
    "--check", is_flag=True, help="Say what would be run and what is finished; do not run."
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors (and --json).")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="A summary as JSON on stdout, everything else on stderr.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(**options: Any) -> None:
    """Make NAME of the paper, or all of them: a page with picture or table and raw numbers.

    Each unit of work (a method on a fold of a data set) is written when it is done; a command that
    was interrupted goes on where it stopped. Seeds are fixed.
    """
    from pathlib import Path

    from outtrees.cli.results import check_folder
    from outtrees.cli.screen import running

    names = list(EXPERIMENTS) if options["name"] == "all" else [options["name"]]
    # --jobs counts units here: each has one thread of its own.
    with running("paper", {**options, "jobs": None, "seed": None}) as screen:
        check_folder(options["out"])
        out = Path(options["out"])
        data = None if options["data"] is None else Path(options["data"])
        if data is not None and not data.exists():
            raise FileNotFoundError(2, "no such file or folder", str(data))
        if options["check"]:
            _tell_finished(screen, out, names)
            return
        screen.summary["pages"] = {}
        for name in names:
            with screen.counting(name) as progress:
                page = experiment(name)(
                    out,
                    folds=options["folds"],
                    n_jobs=options["jobs"],
                    quick=options["quick"],
                    data=data,
                    progress=progress,
                )
            screen.summary["pages"][name] = str(page)
            screen.say(f"{name}: {page}")
        screen.finish()


def _tell_finished(screen: Any, out: Any, names: list[str]) -> None:
    table: dict[str, list[Any]] = {"experiment": names, "units finished": [], "page": []}
    for name in names:
        table["units finished"].append(len(list((out / name / "units").glob("*.json"))))
        page = out / name / f"{name}.md"
        table["page"].append(str(page) if page.is_file() else "not yet")
    screen.table(table)
    screen.summary["finished"] = table
    screen.say("checked only; nothing was run and nothing written")
    screen.finish()


if __name__ == "__main__":
    command(prog_name="python -m paper")
