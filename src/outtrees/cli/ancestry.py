"""`outtrees ancestry`: who came from whom."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outtrees._common.text import counted
from outtrees.cli.cost import Cost, only_checked
from outtrees.cli.errors import CommandError, told
from outtrees.cli.inputs import (
    asked_kinds,
    called,
    load_records,
    pair_of,
    read_generation_time,
    read_known_parents,
    tell_records,
)
from outtrees.cli.options import (
    Finite,
    SectionedCommand,
    candidate_options,
    checkpoint_option,
    choice,
    column,
    file,
    fit_options,
    out_folder,
    positive,
    repeated,
    share,
    switch,
    table_options,
    together,
    whole_number,
)
from outtrees.cli.results import (
    MODEL,
    Writer,
    check_folder,
    csv_writer,
    name_files,
    where_whole,
    write_files,
)
from outtrees.cli.screen import Screen, running, shortened

if TYPE_CHECKING:
    from outtrees.records import Records

PARENTS, RECORDS, LABELS = "parents.csv", "records.csv", "labels.csv"
LIMITED = "parents_limited.csv"
# What the transmission model reports, in the order of `Spread`.
SPREAD = ("transmission.csv", "infections.csv", "links.csv", "reproduction.csv")
TREES = ("tree.newick", "tree.nexus", "tree.graphml")
REPORT = "report.html"
FILES = (PARENTS, RECORDS, LABELS, LIMITED, *SPREAD, *TREES, MODEL, REPORT)
# What a fit takes, in sums over all trees as dense as those of the trial. Measured on 50 to 600
# records: 14 to 160 with dates, whose order leaves few cycles, 110 to 870 without.
_DATED, _UNDATED = 40, 350
# Of a fit on candidates, in seconds: at the start, for each record, and for each pair of records
# that is looked at; and the share of pairs within the windows of dates.
_SPARSE_SECONDS, _IN_WINDOW = (15.0, 6e-4, 2e-8), 0.2
_WORTH_TELLING = 0.05  # weight of a reading
# Options that the estimator takes under the same name.
_SAME = (
    *("id", "roots", "root", "background", "strict_dates", "ties", "clock"),
    "group_spread",
    *("waiting_mean", "waiting_sd", "waiting_law", "disease", "transmission"),
    *("generation_mean", "generation_sd", "delay_mean", "delay_sd"),
    *("substitution_rate", "sampled", "introduction_distance", "host"),
    *("date_uncertainty", "until", "censored", "substitution"),
    *("parameters", "max_iter", "candidates", "n_candidates", "contacts_directed"),
)

_columns = together(
    column("--date", "Date of each record."),
    column("--until", "Date on which each record ended; waiting times count from it."),
    column("--censored", "1 where the true date is later than --date (censored)."),
    column("--label", "A category to predict.", multiple=True),
    column("--parent-column", "Column of known parents; empty where unknown."),
    column(
        "--introduction-column",
        "Column that says yes where a record is known to have no parent in the table.",
    ),
    column("--group", "Column of groups; parents are in the group of their child."),
    click.option(
        "--place-end",
        metavar="X,Y",
        help="Columns of the place at which each record ended, if --place is where it began.",
    ),
    repeated(
        "--coordinates",
        "COLUMN=FILE",
        "Table of where the values of a column lie: the values, and lat and lon, or x and y.",
    ),
    click.option(
        "--no-tracks",
        "tracks",
        flag_value=False,
        default=True,
        help="Read a long table (one row for each object and frame) as one record for each row.",
    ),
    section="Columns",
)
_matrices = together(
    file(
        "--distances",
        "CSV of distances between records, with names in the first row and column.",
        metavar=None,
    ),
    file(
        "--log-weights",
        "CSV of log-weights: children in rows, parents in columns.",
        metavar=None,
    ),
    file(
        "--contacts",
        "Table of pairs of records that met: columns from and to, and perhaps date and type.",
    ),
    click.option(
        "--contacts-directed",
        is_flag=True,
        help="Contacts go from the possible parent to the child; else either may be the parent.",
    ),
    file(
        "--stays",
        "Table of where records were, and when: columns record, place, from and until.",
    ),
    section="Pairs of records",
)
_trees = together(
    choice(
        "--roots",
        ["auto", "single", "any"],
        "One root, or any number of roots (introductions). auto: any number where there are "
        "dates, and neither --root nor --log-weights.",
    ),
    click.option("--root", metavar="ID", help="The root, if it is known."),
    repeated("--known-parent", "CHILD=PARENT", "A known parent."),
    repeated("--introductions", "ID,ID", "Records that are known to have no parent in the table."),
    repeated("--forbid", "CHILD=PARENT", "A parent that is excluded."),
    whole_number(
        "--links",
        "Largest number of links from a record to its parent record; ancestors between are "
        "unobserved. (The transmission model finds its own.)",
        1,
    ),
    click.option("--generations", type=click.IntRange(min=1), hidden=True),
    click.option(
        "--max-children",
        type=click.IntRange(min=1),
        metavar="N",
        help="Also report supports given that no record has more children than this (sampled).",
    ),
    section="Trees",
)
_transmission = together(
    click.option(
        "--transmission/--no-transmission",
        default=None,
        help="Whether dates are those of sampling and sequences change with time along chains of "
        "infection with unsampled people; parents are then the nearest sampled ancestors.  "
        "[default: where one of the next seven options is given, and for DNA with dates that are "
        "not called onsets]",
    ),
    positive("--generation-mean", "Mean time from infection to infection; learned if not given."),
    positive("--generation-sd", "Standard deviation of that time."),
    positive("--delay-mean", "Mean time from infection to sampling; learned if not given."),
    positive("--delay-sd", "Standard deviation of that time."),
    positive(
        "--substitution-rate",
        "Substitutions a site and day (or unit of --date); learned if not given.",
    ),
    positive("--sampled", "Share of cases that were sampled; learned if not given.", most=1),
    positive(
        "--introduction-distance",
        "Substitutions a site between the sequences of two introductions; learned if not given.",
    ),
    column("--host", "Whose sample each row is, if several are of one host; parents are hosts."),
    file(
        "--variants",
        "How frequent bases are within samples: VCF with AF or AD, or a table sample, position, "
        "base, frequency.",
    ),
    section="Transmission model",
)
_dates = together(
    positive(
        "--waiting-mean",
        "Mean time from parent to child, in days or the units of --date; many are tried if not "
        "given.",
    ),
    positive("--waiting-sd", "Standard deviation of that time."),
    click.option(
        "--waiting-law",
        type=click.Choice(["gamma", "lognormal", "weibull"]),
        help="Law of that time.  [default: gamma, or that of --disease]",
    ),
    click.option(
        "--disease",
        metavar="NAME",
        help="Take what is not given of that time from the literature on this disease; see "
        "outtrees diseases.",
    ),
    file(
        "--generation-time",
        "A table of waiting times: probabilities of 1, 2, … units, or times and probabilities.",
        metavar=None,
    ),
    click.option(
        "--date-uncertainty",
        type=Finite(0),
        default=0.0,
        help="Dates may be off by this many days (±).",
    ),
    switch("strict-dates", "Whether a parent must be earlier than its child."),
    switch("ties", "Whether a parent may have the same date as its child."),
    section="Dates and waiting times",
)
_changes = together(
    repeated(
        "--keep",
        "COLUMN",
        "A column that takes part even if it adds too little to distinguish parents from others.",
    ),
    click.option(
        "--clock",
        is_flag=True,
        help="Numbers, places and sequences change the more the more time has passed.",
    ),
    click.option(
        "--group-spread", is_flag=True, help="Estimate the spread of places for each group."
    ),
    choice("--substitution", ["JC69", "K80"], "Model of how sites change."),
    switch("background", "Whether the penalty of an outlying cell is bounded."),
    file(
        "--calibrate",
        "CSV of known parents (child, parent), used to estimate how much weight each column "
        "deserves.",
    ),
    section="How children differ from parents",
)
_computation = together(
    choice(
        "--parameters",
        ["auto", "integrated", "fitted"],
        "Average over the parameters that the table leaves possible, or take the fitted ones for "
        "granted. auto: integrated up to 300 records, 50,000 possible edges and 40 parameters.",
    ),
    whole_number("--max-iter", "Largest number of iterations.", 100),
    candidate_options,
    checkpoint_option,
    section="Computation",
)
_output = together(
    share("--min-support", "Do not list parents less probable than this.", 0.1),
    out_folder,
    section="Output",
)


@click.command("ancestry", cls=SectionedCommand)
@table_options
@_columns
@_matrices
@_dates
@_transmission
@_trees
@_changes
@_computation
@_output
@fit_options
def command(**options: Any) -> None:
    """Probable parents of every record of TABLE (CSV, TSV, Parquet, FASTA or NEXUS).

    Each column is evidence of who descends from whom; the probabilities sum over all trees. With
    --out: parents.csv, records.csv, tree.newick, tree.nexus, tree.graphml, report.html and the
    model for `outtrees show` and `outtrees sample`; of the transmission model also
    transmission.csv, infections.csv, links.csv and reproduction.csv.
    """
    with running("ancestry", options) as screen:
        from outtrees.ancestry import Ancestry

        check_options(options)
        check_folder(options["out"], FILES)
        given = load(options)
        tell_records(screen, given.records)
        for sentence in given.notes:
            screen.say(sentence)
        if given.warning:
            screen.warn(given.warning)
        if only_checked(screen, given.cost, options["check"], _trial(Ancestry, given, options)):
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
        write_files(screen, options["out"], writers(model, found), FILES, model)
        if options["checkpoint"] is not None:
            Path(options["checkpoint"]).unlink(missing_ok=True)  # no longer needed
        tell(screen, model, found, options)
        name_files(screen)


# From the options to records, matrices and an estimator --------------------------------------


# Options that name a file besides the table and the sequences.
_FILES_BESIDE = (
    "contacts",
    "stays",
    "variants",
    "distances",
    "log_weights",
    "generation_time",
    "calibrate",
)


class Given(NamedTuple):
    """Everything read from files."""

    records: Records
    distances: Any  # (T, T) in the order of the records, or None
    log_weights: Any  # (T, T), or None
    contacts: Any  # ContactList, or None
    stays: Any  # StayList, or None
    generation_time: list[float] | None
    known_parents: dict[str, str | None]
    forbidden: list[tuple[str, str | None]]
    notes: list[str]  # sentences on how something was read
    cost: Cost
    warning: str = ""  # if not all pairs of records take part
    calibrate: dict[str, str | None] | None = None  # known parents that are not imposed


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other, before any file is opened."""
    if options["disease"] is not None:
        from outtrees.datasets.diseases import waiting_time

        waiting_time(options["disease"])
    if options["generations"] is not None:
        click.echo("warning: --generations goes with version 0.3; write --links", err=True)
    if options["generation_time"] is not None:
        for name in ("waiting_mean", "waiting_sd", "waiting_law", "disease"):
            if options[name] is not None:
                why = "the table says how long children wait"
                raise _contradiction("--generation-time", f"--{name.replace('_', '-')}", why)
    if options["contacts_directed"] and options["contacts"] is None:
        raise CommandError(
            "--contacts-directed says how to read contacts, but --contacts names no file; add it"
        )
    if options["log_weights"] is not None and options["distances"] is not None:
        raise _contradiction("--log-weights", "--distances", "log-weights are ready to use")
    both = set(options["known_parent"]) & set(options["forbid"])
    if both:
        pair = sorted(both)[0]
        raise _contradiction(f"--known-parent {pair}", f"--forbid {pair}")
    if options["censored"] is not None and options["date"] is None:
        raise CommandError("--censored says which dates are open, but --date names none; add it")


def _contradiction(
    one: str, other: str, why: str = "", remedy: str = "leave one out"
) -> CommandError:
    """Return the error of two options of which one excludes the other."""
    because = f": {why}" if why else ""
    return CommandError(f"{one} and {other} contradict each other{because}; {remedy}")


def load(options: Mapping[str, Any], unique_within: str = "table") -> Given:
    """Return everything that the options name, read and matched by identity."""
    from outtrees.ancestry.model_choice import check_dated
    from outtrees.records.evidence import as_evidence
    from outtrees.records.samples import by_host, with_variants

    records = by_host(load_records(options, unique_within, **_roles(options)), options["host"])
    records = with_variants(records, _listed(options, "variants"))
    records = as_evidence(records, (options["until"], options["censored"]))
    notes, table = [], None
    if options["generation_time"] is not None:
        table, sentence = read_generation_time(
            options["generation_time"], options["encoding"], options["max_bytes"]
        )
        notes.append(sentence)
    check_dated(records, options)
    cost, warning = _cost(records, options)
    ids = records.ids
    place = {name: row for row, name in enumerate(ids)}
    if options["root"] is not None and options["root"] not in place:
        meant = "for any number of roots pass --roots any; " * (options["root"] == "any")
        raise CommandError(f"--root {options['root']!r} is not a record; {meant}{called(ids)}")
    return Given(
        records=_with_inputs(records, options),
        distances=_matrix(options, "distances", place),
        log_weights=_matrix(options, "log_weights", place),
        contacts=_listed(options, "contacts"),
        stays=_listed(options, "stays"),
        generation_time=table,
        known_parents=_known_parents(options, place),
        forbidden=[pair_of(text, place, "--forbid") for text in options["forbid"]],
        notes=notes,
        cost=cost,
        warning=warning,
        calibrate=_calibrate(options, place),
    )


def _with_inputs(records: Records, options: Mapping[str, Any]) -> Records:
    """Return the records with the hash of every other file that the run reads."""
    from outtrees.records.files import read_source

    provenance = dict(records.provenance)
    for name in _FILES_BESIDE:
        if options[name] is not None:
            source = read_source(options[name], options["max_bytes"], spreadsheets=True)
            title = source.name if source.name not in provenance else f"{source.name} ({name})"
            provenance[title] = source.sha256
    return replace(records, provenance=provenance)


def _listed(options: Mapping[str, Any], name: str) -> Any:
    """Return the contacts, stays or variants of a file, None if there is none."""
    if options[name] is None:
        return None
    from outtrees.records.column import MISSING
    from outtrees.records.contacts import read_contacts, read_stays
    from outtrees.records.samples import read_variants

    reader: Any = {"contacts": read_contacts, "stays": read_stays, "variants": read_variants}[name]
    reading = ("encoding", "quotes", "max_bytes", *(["day_first"] * (name != "variants")))
    return reader(
        options[name],
        missing=(*MISSING, *options["na"]),
        **{key: options[key] for key in reading},
    )


def _calibrate(options: Mapping[str, Any], place: Mapping[str, int]) -> Any:
    if options["calibrate"] is None:
        return None
    known = read_known_parents(
        options["calibrate"], place, options["encoding"], options["max_bytes"]
    )
    most, children = options["max_children"], Counter(filter(None, known.values()))
    for name, number in children.most_common(1):
        if most is not None and number > most:
            raise CommandError(
                f"--max-children {most} is contradicted by {options['calibrate']}, where "
                f"{name!r} has {number} children; raise it or correct the file"
            )
    return known


def _roles(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return kind → columns, from the options that name columns."""
    return {
        "date": [name for name in (options["date"], options["until"]) if name is not None],
        "categorical": [c for c in (options["censored"], options["host"]) if c is not None],
        "label": options["label"],
        "parent": options["parent_column"],
        "introduction": options["introduction_column"],
        "group": options["group"],
    }


def _known_parents(options: Mapping[str, Any], place: Mapping[str, int]) -> dict[str, str | None]:
    known: dict[str, str | None] = dict.fromkeys(_introductions(options, place))
    for text in options["known_parent"]:
        child, parent = pair_of(text, place, "--known-parent")
        if child in known and known[child] is None:
            raise _contradiction(f"--introductions {child!r}", f"--known-parent {text}")
        if known.setdefault(child, parent) != parent:
            raise CommandError(
                f"--known-parent gives {child!r} two parents, {known[child]!r} and {parent!r}; "
                "keep one"
            )
        if child == options["root"]:
            raise _contradiction(f"--root {child!r}", f"--known-parent {text}")
    return known


def _introductions(options: Mapping[str, Any], place: Mapping[str, int]) -> list[str]:
    """Return the records that are known to be roots; names may hold commas."""
    found: list[str] = []
    for text in options["introductions"]:
        names = [text] if text in place else [name.strip() for name in text.split(",")]
        for name in names:
            if name not in place:
                raise CommandError(
                    f"--introductions {text}: {name!r} is not a record; {called(place)}"
                )
        found += names
    if options["roots"] == "single" and len(set(found)) > 1 and options["group"] is None:
        several = f"{len(set(found))} --introductions"
        raise _contradiction("--roots single", several, remedy="pass --roots any")
    return found


def _matrix(options: Mapping[str, Any], name: str, place: Mapping[str, int]) -> Any:
    """Return a matrix in the order of the records, None if there is none."""
    path = options[name]
    if path is None:
        return None
    from outtrees.records import read_matrix
    from outtrees.records.matrix import in_order_of

    reading = {key: options[key] for key in ("encoding", "max_bytes")}
    ids, matrix = read_matrix(path, unknown=name == "distances", **reading)
    return in_order_of(list(place), ids, matrix, repr(path))


def _cost(records: Records, options: Mapping[str, Any]) -> tuple[Cost, str]:
    """Return what the run will cost, and a sentence if not all pairs take part."""
    import numpy as np

    from outtrees.candidates.plan import table_plan

    groups = [len(records)]
    if records.groups is not None:
        groups = np.unique(records.groups, return_counts=True)[1].tolist()
    plan = table_plan(records, options["candidates"], options["n_candidates"])
    smaller = "--candidates knn" if plan.way == "dense" else "a smaller --n-candidates"
    remedy = (
        f"Use {smaller}, split the records with --group, give fewer, or use a machine with more "
        "memory."
    )
    what = f"ancestry of {counted(len(records), 'record')}"
    dated = any(column.kind == "date" for column in records.columns)
    seconds = None
    if plan.way == "knn":
        begin, each, pair = _SPARSE_SECONDS
        pairs = sum(n * n for n in groups) * (_IN_WINDOW if dated else 1.0)
        seconds = begin + each * len(records) + pair * pairs
    factor = _DATED if dated else _UNDATED
    return Cost(what, groups, plan.needed, factor, remedy, seconds), plan.why


def _trial(Ancestry: Any, given: Given, options: Mapping[str, Any]) -> Callable[[Any], object]:
    """Return what fits some of the records, for --check."""
    from outtrees.ancestry.integration import MOST_RECORDS

    alone = given._replace(known_parents={}, forbidden=[])
    as_all = {**options, "root": None}
    if options["parameters"] == "auto" and len(given.records) > MOST_RECORDS:
        as_all["parameters"] = "fitted"  # as the whole table will have them

    def fit_some(rows: Any) -> None:
        model = make_model(Ancestry, alone, as_all)
        some = given.records.take(rows)
        names = set(some.ids)
        model.fit(
            some,
            distances=None if given.distances is None else given.distances[rows][:, rows],
            log_weights=None if given.log_weights is None else given.log_weights[rows][:, rows],
            contacts=given.contacts and given.contacts.among(names),
            stays=given.stays and given.stays.among(names),
        )
        found = find(model, options)
        if model.fitted.roots == "any":
            _ = model.n_roots_
        if options["out"] is not None:
            model.report_data("", found.spread)

    return fit_some


def make_model(Ancestry: Any, given: Given, options: Mapping[str, Any]) -> Any:
    """Return the estimator with the options given."""
    return Ancestry(
        **{name: options[name] for name in _SAME if name != "transmission"},
        transmission="auto" if options["transmission"] is None else options["transmission"],
        links=options["generations"] or options["links"],
        # The records are read already; later ones, to be placed among them, are read alike.
        kinds=asked_kinds(options["kinds"], {"ignore": options["ignore"], **_roles(options)}),
        keep=list(options["keep"]) or None,
        generation_time=given.generation_time,
        known_parents=given.known_parents or None,
        forbidden=given.forbidden or None,
        random_state=options["seed"],
    )


def fit(model: Any, given: Given, progress: Any, checkpoint: str | None = None) -> None:
    """Fit the model."""
    model.progress = progress
    try:
        model.fit(
            given.records,
            distances=given.distances,
            log_weights=given.log_weights,
            contacts=given.contacts,
            stays=given.stays,
            checkpoint=checkpoint,
        )
    finally:
        model.progress = None  # a bar cannot be saved


# Progress -----------------------------------------------------------------------------------


class ToldProgress:
    """Moves a bar with each iteration, and says in a line on stderr what comes next."""

    def __init__(self, move: Callable[[int, float], None], quiet: bool) -> None:
        self._move = move
        self._quiet = quiet
        self._begin = time.perf_counter()

    def __call__(self, iteration: int, objective: float) -> None:
        """Show the iteration and its penalised log-likelihood."""
        self._move(iteration, objective)

    def say(self, text: str) -> None:
        """Print what is under way, and after how many seconds it began."""
        if not self._quiet:
            # Not by click.echo, which passes by the bar: the line belongs above it.
            print(f"{time.perf_counter() - self._begin:6.1f} s  {told(text)}", file=sys.stderr)


@contextmanager
def told_progress(screen: Screen, total: int) -> Iterator[ToldProgress]:
    """Yield what `Ancestry` reports its progress to."""
    with screen.progress("weighing all trees", total) as move:
        yield ToldProgress(move, screen.quiet)


# What is printed and written ----------------------------------------------------------------


class Found(NamedTuple):
    """Tables that are both printed and written: some are sampled, so they are made once."""

    parents: dict[str, list[Any]]
    labels: dict[str, list[Any]] | None
    limited: dict[str, list[Any]] | None
    spread: Any = None  # of the transmission model: `Spread`


def find(model: Any, options: Mapping[str, Any]) -> Found:
    """Return the tables of parents, of labels, and of parents under a limit on children."""
    labels = dict(model.predict_labels()) if options["label"] else None
    limited = None
    if options["max_children"] is not None:
        limited = dict(model.limited_parents(options["max_children"], options["min_support"]))
    spread = model.spread(options["min_support"]) if model._is_transmission else None
    return Found(dict(model.parents(options["min_support"])), labels, limited, spread)


def writers(model: Any, found: Found) -> dict[str, Writer]:
    """Return file name → what writes it."""
    newick, nexus, graphml = TREES
    files: dict[str, Writer] = {
        PARENTS: csv_writer(found.parents),
        RECORDS: lambda path: csv_writer(model.records_)(path),
        newick: model.to_newick,
        nexus: model.to_nexus,
        graphml: model.to_graphml,
    }
    if found.limited is not None:
        files[LIMITED] = csv_writer(found.limited)
    if found.labels is not None:
        files[LABELS] = csv_writer(found.labels)
    if found.spread is not None:
        files |= {name: csv_writer(table) for name, table in zip(SPREAD, found.spread, strict=True)}
    files[REPORT] = lambda path: _write_report(path, model, found)
    return files


def _write_report(path: Path, model: Any, found: Found) -> None:
    """Write the report, with options as they are typed."""
    from dataclasses import replace

    from outtrees.views.report import write_report

    data = model.report_data(_command_line(), found.spread)
    typed = {
        "parameters": list(map(told, data.parameters)),
        "warnings": list(map(told, data.warnings)),
    }
    write_report(replace(data, **typed), path)


def _command_line() -> str:
    """Return the command as it was typed, for the report's provenance."""
    context = click.get_current_context(silent=True)
    arguments = [] if context is None else context.find_root().obj or []
    return shlex.join(["outtrees", *arguments])


def tell(screen: Screen, model: Any, found: Found, options: Mapping[str, Any]) -> None:
    """Print what was learned, the parents, and how many are expected to be right."""
    from dataclasses import asdict

    screen.say()
    sentences = [told(sentence) for sentence in model.describe()]
    screen.say(shortened(sentences, "sentences; outtrees show prints all"))
    state = "converged" if model.converged_ else "not converged: raise --max-iter"
    screen.say(
        f"log-likelihood {model.log_likelihood_:.4f} after "
        f"{counted(model.n_iter_, 'iteration')}, {state}"
    )
    _tell_columns(screen, model)
    _tell_readings(screen, model)
    table = found.parents
    screen.say(f"\nprobable parents ({_what_supports_are(screen, model)}):")
    whole = where_whole(options["out"], PARENTS)
    screen.table(_with_roots(table), bar="support", whole=whole)
    total = len(model.records)
    right = float(model.expected_right_)
    screen.say(
        f"\nexpected number of right parents: {right:.1f} of {total} ({right / total:.0%}), in the "
        "consensus tree"
    )
    if model.fitted.roots == "any":
        _tell_roots(screen, model)
    screen.summary.update(
        log_likelihood=float(model.log_likelihood_),
        converged=bool(model.converged_),
        iterations=int(model.n_iter_),
        expected_right=right,
        n_roots=model.n_roots_,
        dropped_mass=None if model.dropped_mass_ is None else asdict(model.dropped_mass_),
        parameters=sentences,
        parents=[
            {"child": child, "parent": parent or None, "support": support, "rank": rank}
            for child, parent, support, rank in zip(
                *(table[name] for name in ("child", "parent", "support", "rank")), strict=True
            )
        ],
    )
    if found.spread is not None:
        _tell_spread(screen, found.spread, options)
    if found.limited is not None:
        screen.say(
            f"\nprobable parents if no record has more than {options['max_children']} children "
            "(sampled, with their Monte-Carlo errors):"
        )
        whole = where_whole(options["out"], LIMITED)
        screen.table(_with_roots(found.limited), bar="support", whole=whole)
        screen.summary["parents_limited"] = found.limited
    if found.labels is not None:
        screen.say("\nlabels (sampled, with their Monte-Carlo errors):")
        screen.table(found.labels, whole=where_whole(options["out"], LABELS))
        screen.summary["labels"] = found.labels


def _what_supports_are(screen: Screen, model: Any) -> str:
    """Return whether supports average over parameters, with their largest Monte-Carlo error."""
    from outtrees.ancestry.integration import is_integrated

    evidence = model.log_evidence_
    screen.summary.update(
        parameters_are="integrated" if is_integrated(model.fitted) else "fitted",
        intervals=dict(model.intervals()),
        log_evidence=None if evidence is None else evidence._asdict(),
    )
    error = max(float(errors.max(initial=0.0)) for errors in model.fitted.support_errors)
    if model._is_transmission:
        return (
            "nearest sampled ancestors, averaged over drawn trees and parameters; Monte-Carlo "
            f"errors up to {error:.1g}"
        )
    if not is_integrated(model.fitted):
        return "supports are exact, given the fitted parameters"
    return (
        "sums over trees are exact, parameters are integrated out by draws; Monte-Carlo errors up "
        f"to {error:.1g}"
    )


def _with_roots(table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the table with a word where a record has no parent."""
    return {**table, "parent": [parent or "(root)" for parent in table["parent"]]}


def _tell_columns(screen: Screen, model: Any) -> None:
    """Print what each column adds, as the fit found when it tried to do without."""
    gains = {**model.column_gains_}
    screen.summary.update(column_gains=gains, left_out=list(model.left_out_))
    if gains:
        used = ["left out" if name in model.left_out_ else "used" for name in gains]
        screen.say("\nwhat each column adds to distinguish parents from others (nats):")
        screen.table({"column": list(gains), "gain": list(gains.values()), "": used})


def _tell_readings(screen: Screen, model: Any) -> None:
    """Print the competing explanations, if there are any."""
    table = dict(model.readings())
    names = list(table)
    screen.summary["readings"] = [
        dict(zip(names, row, strict=True)) for row in zip(*table.values(), strict=True)
    ]
    heavy = [i for i, weight in enumerate(table["weight"]) if weight > _WORTH_TELLING]
    if len(heavy) > 1:
        screen.say(
            "\nreadings of the table, which supports average by their weights (differ: records "
            "whose best parent is not that of the first):"
        )
        screen.table({name: [cells[i] for i in heavy] for name, cells in table.items()})


def _tell_spread(screen: Screen, spread: Any, options: Mapping[str, Any]) -> None:
    """Print the parameters of the transmission model, unsampled people, and children by week."""
    screen.summary["transmission"] = {
        name: dict(table) for name, table in zip(spread._fields, spread, strict=True)
    }
    screen.say("\nhow the infection spread (intervals hold 95 %; given parameters have none):")
    short = {
        name: [f"{x:.3g}" if isinstance(x, float) else x for x in cells]
        for name, cells in dict(spread.parameters).items()
    }
    short["given"] = ["given" if x else "learned" for x in short["given"]]
    screen.table(short)
    links = spread.links
    between = sum(s * n for s, n in zip(links["support"], links["unsampled"], strict=True))
    screen.say(f"expected number of unsampled people on these links: {between:.1f}")
    screen.say("mean number of sampled children of one case, by the parent's date:")
    screen.table(dict(spread.reproduction), whole=where_whole(options["out"], SPREAD[-1]))


def _tell_roots(screen: Screen, model: Any) -> None:
    """Print the probable numbers of introductions; entry k of `n_roots_` belongs to k roots."""
    likely = [(k, float(chance)) for k, chance in enumerate(model.n_roots_) if chance >= 0.01]
    listed = ", ".join(f"{k}: {chance:.2f}" for k, chance in likely[:10])
    screen.say(f"number of roots and its probability: {listed}")
