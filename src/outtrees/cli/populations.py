"""`outtrees populations`: who came from whom, in each of many populations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from outtrees._common.text import counted
from outtrees.cli.ancestry import check_options, load, make_model
from outtrees.cli.ancestry import command as ancestry
from outtrees.cli.cost import Cost, only_checked
from outtrees.cli.errors import CommandError
from outtrees.cli.inputs import tell_records
from outtrees.cli.options import SectionedCommand, check_scheduler, scheduler_option, together
from outtrees.cli.results import check_folder, name_files
from outtrees.cli.screen import Screen, running
from outtrees.errors import Message

if TYPE_CHECKING:
    from outtrees.ancestry.populations import Populations
    from outtrees.records import Records

# Options of `outtrees ancestry` that make no sense for many populations: names of single records,
# matrices of all pairs, and checkpoints, which every population is; and what is asked of one fit.
_ELSEWHERE = {
    "group": None,
    "distances": None,
    "log_weights": None,
    "contacts": None,
    "contacts_directed": False,
    "stays": None,
    "introductions": (),
    "root": None,
    "checkpoint": None,
    "calibrate": None,
    "max_children": None,
    "group_spread": False,
}


@click.command("populations", cls=SectionedCommand)
@together(
    click.option(
        "--by",
        metavar="COLUMN",
        required=True,
        help="Column that names the population of each record.",
    ),
    section="Table",
)
@scheduler_option
def command(**options: Any) -> None:
    """Probable parents of every record of TABLE, each population fitted on its own.

    Populations go to several cores (--jobs, all by default) or machines (--scheduler); results do
    not depend on which. Writes parents.csv and populations.csv to --out, and a file for each
    population as soon as it is done; a run that was interrupted resumes where it stopped.
    """
    options = {**options, **_ELSEWHERE, "group": options["by"]}
    with running("populations", options) as screen:
        from outtrees.ancestry import Ancestry
        from outtrees.ancestry.populations import Populations, fit_populations

        check_options(options)
        check_scheduler(options["scheduler"])
        if options["out"] is None:
            raise CommandError(
                "--out must be a folder; got none. Name a folder: the "
                "results of populations go to files"
            )
        check_folder(options["out"])
        given = load(options, unique_within="group")
        tell_records(screen, given.records)
        for sentence in given.notes:
            screen.say(sentence)
        populations = Populations(given.records)
        if only_checked(screen, _cost(populations, given.cost, options), options["check"]):
            return
        model = make_model(Ancestry, given, options)
        with screen.counting("populations") as progress:
            found = fit_populations(
                model,
                given.records,
                out=options["out"],
                min_support=options["min_support"],
                n_jobs=_jobs(options),
                scheduler=options["scheduler"],
                progress=progress,
            )
        _tell(screen, found)
        if len(found.failures) == len(found.table["population"]):
            raise CommandError("no population could be fitted; the reasons stand above")


# The options of `outtrees ancestry` come before those of its own.
command.params = [p for p in ancestry.params if p.name not in _ELSEWHERE] + command.params


def _jobs(options: Mapping[str, Any]) -> int | None:
    """Return how many populations at a time: all cores here, what there is on a scheduler."""
    if options["jobs"] is None:
        return -1 if options["scheduler"] is None else None
    return int(options["jobs"])


def _cost(populations: Populations, whole: Cost, options: Mapping[str, Any]) -> Cost:
    """Return what it takes: the largest populations together in memory, all of them in time."""
    from joblib import effective_n_jobs

    sizes = populations.sizes()
    jobs = effective_n_jobs(_jobs(options)) if options["scheduler"] is None else 1
    largest = sorted(sizes, key=lambda name: sizes[name])[-jobs:]
    where = "" if options["scheduler"] is None else ", by one worker"
    return whole._replace(
        what=f"ancestry of {counted(len(sizes), 'population')}{where}",
        groups=list(sizes.values()),
        evaluations=whole.evaluations / jobs,
        guessed=None if whole.guessed is None else whole.guessed / jobs,
        memory=sum(_memory(populations[name][0], options) for name in largest),
        remedy="Use fewer --jobs, --candidates knn, or a machine with more memory.",
    )


def _memory(records: Records, options: Mapping[str, Any]) -> int:
    """Return the bytes that one population takes here."""
    from outtrees.candidates.plan import MOST_DENSE, table_bytes

    if options["scheduler"] is not None:  # fitted elsewhere, cut out and packed here
        return 24 * sum(column.values.size for column in records.columns)
    way = options["candidates"]
    if way == "auto":
        way = "dense" if len(records) <= MOST_DENSE else "knn"
    return table_bytes(records, way, options["n_candidates"])


def _tell(screen: Screen, found: Any) -> None:
    """Print a row for each population, and a line for each that failed."""
    from outtrees.ancestry.populations import LABELS, PARENTS, POPULATIONS

    table = dict(found.table)
    failures = found.failures
    fitted = [i for i, reason in enumerate(table.pop("failure")) if not reason]
    shown = {name: [cells[i] for i in fitted] for name, cells in table.items()}
    shown["converged"] = ["yes" if yes else "no" for yes in shown["converged"]]
    if fitted:
        screen.say()
        screen.table(shown, whole=f"all are in {found.folder / POPULATIONS}")
        right, records = sum(shown["expected_right"]), sum(shown["records"])
        share = f"{right:.1f} of {records} ({right / records:.0%})"
        screen.say(f"\nexpected number of right parents: {share}, in the consensus trees")
    unsettled = shown["converged"].count("no")
    if unsettled:
        screen.warn(f"{counted(unsettled, 'population')} had not converged; raise --max-iter")
    for name, reason in failures.items():
        screen.warn(Message(f"population {name!r} could not be fitted: ", reason))
    names = [name for name in (PARENTS, LABELS, POPULATIONS) if (found.folder / name).exists()]
    screen.summary["files"] = {name: str(found.folder / name) for name in names}
    name_files(screen)
    screen.summary["populations"] = len(table["population"])
    screen.summary["failures"] = failures
    screen.summary["expected_right"] = sum(shown["expected_right"])
