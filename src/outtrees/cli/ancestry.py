"""`outtrees ancestry`: who came from whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from outtrees.cli.options import (
    Finite,
    candidate_options,
    checkpoint_option,
    fit_options,
    out_folder,
    table_options,
    together,
)

_columns = together(
    click.option("--date", metavar="COLUMN", help="When a record came to be."),
    click.option(
        "--until", metavar="COLUMN", help="Until when it lasted: children wait from then."
    ),
    click.option("--censored", metavar="COLUMN", help="1 where --date lies after the last look."),
    click.option("--label", metavar="COLUMN", multiple=True, help="A category to predict."),
    click.option("--parent-column", metavar="COLUMN", help="Parents as far as they are known."),
    click.option("--group", metavar="COLUMN", help="Only records of one group can be related."),
)
_matrices = together(
    click.option("--distances", type=click.Path(), help="CSV with names on two sides."),
    click.option("--log-weights", type=click.Path(), help="CSV: children in rows, parents across."),
)
_model = together(
    click.option(
        "--roots",
        type=click.Choice(["single", "any"]),
        default="single",
        show_default=True,
        help="One first record, or any number of introductions.",
    ),
    click.option("--root", metavar="ID", help="The first record, if it is known."),
    click.option("--known-parent", metavar="CHILD=PARENT", multiple=True,
                 help="A parent that is known. May be repeated."),
    click.option("--forbid", metavar="CHILD=PARENT", multiple=True,
                 help="A pair that is ruled out. May be repeated."),
    click.option(
        "--generations",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Largest number of links from a record to its parent record.",
    ),
    click.option("--waiting-mean", type=Finite(0, min_open=True), help="From parent to "
                 "child, in days or the units of --date; learned if not given."),
    click.option("--waiting-sd", type=Finite(0, min_open=True), help="Its spread."),
    click.option("--generation-time", type=click.Path(), help="A table of waiting times: "
                 "probabilities of 1, 2, … units, or times and probabilities."),
    click.option("--date-uncertainty", type=Finite(0), default=0.0, help="± days."),
    click.option("--strict-dates/--no-strict-dates", default=True, show_default=True,
                 help="Whether a parent must be earlier."),
    click.option("--ties/--no-ties", default=True, show_default=True,
                 help="Whether a parent may have its child's date."),
    click.option("--clock", is_flag=True,
                 help="Numbers and places wander the further the more time passed."),
    click.option("--group-spread", is_flag=True,
                 help="Each group has its own spread of places."),
    click.option("--substitution", type=click.Choice(["JC69", "K80"], case_sensitive=False),
                 default="JC69", show_default=True, help="How sites change."),
    click.option("--background/--no-background", default=True, show_default=True,
                 help="Whether an outlying cell costs a bounded amount."),
    click.option("--max-iter", type=click.IntRange(min=1), default=100, show_default=True,
                 help="Largest number of iterations."),
    candidate_options,
    click.option("--calibrate", type=click.Path(), metavar="FILE", help="CSV of child and parent: "
                 "some known parents, from which is learned how much each column should count."),
    click.option("--max-children", type=click.IntRange(min=1), metavar="N", help="Also tell "
                 "supports if no record has more children (sampled)."),
    checkpoint_option,
)  # fmt: skip


@click.command("ancestry", short_help="Who came from whom: probable parents, trees, a report.")
@table_options
@_columns
@_matrices
@_model
@click.option(
    "--min-support",
    type=Finite(0, 1),
    default=0.1,
    show_default=True,
    help="Parents less probable than this are not listed.",
)
@out_folder
@fit_options
def command(**options: Any) -> None:
    """Probable parents of every record of TABLE (CSV, TSV, Parquet, FASTA or NEXUS).

    Every column says how alike parents and children are; all trees are weighed together. With
    --out: parents.csv, records.csv, tree.newick, tree.nexus, tree.graphml, report.html and the
    model for `outtrees show` and `outtrees sample`.
    """
    from outtrees.cli.ancestry_inputs import check_options, fit, load, make_model
    from outtrees.cli.ancestry_outputs import FILES, find, tell, writers
    from outtrees.cli.ancestry_progress import told_progress
    from outtrees.cli.cost import told_beforehand
    from outtrees.cli.folder import check_folder
    from outtrees.cli.outputs import name_files, write_files
    from outtrees.cli.running import estimator, running, tell_records

    with running("ancestry", options) as screen:
        Ancestry = estimator("outtrees.ancestry", "Ancestry")
        check_options(options)
        if options["out"] is not None:
            check_folder(options["out"], FILES)
        given = load(options)
        tell_records(screen, given.records)
        for sentence in given.notes:
            screen.say(sentence)
        if given.warning:
            screen.warn(given.warning)
        if told_beforehand(screen, given.cost, options["check"]):
            return
        model = make_model(Ancestry, given, options)
        with told_progress(screen, options["max_iter"]) as progress:
            fit(model, given, progress, options["checkpoint"])
        if given.calibrate:
            model.calibrate(given.calibrate)
            if options["max_children"] is not None:
                model.calibrate(given.calibrate, max_children=options["max_children"])
        for warning in model.warnings_:
            screen.warn(warning)
        found = find(model, options)
        write_files(screen, options["out"], writers(screen, model, found, options))
        if options["checkpoint"] is not None:
            Path(options["checkpoint"]).unlink(missing_ok=True)  # it has served
        tell(screen, model, found, options)
        name_files(screen)
        screen.finish()
