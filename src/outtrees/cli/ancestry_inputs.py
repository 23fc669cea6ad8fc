"""From the options of `outtrees ancestry` to records, matrices and an estimator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from outtrees.cli.cost import Cost
from outtrees.cli.failing import CommandError
from outtrees.cli.generation_time import read_generation_time
from outtrees.cli.inputs import asked_kinds, load_records

if TYPE_CHECKING:
    from outtrees.records import Records

# What a fit takes, in sums over all trees as dense as those of the trial. Measured on 50 to 600
# records: 14 to 160 with dates, whose order leaves few cycles, 110 to 870 without.
_DATED, _UNDATED = 40, 350
# Of a fit on candidates, in seconds: at the start, for each record, and for each pair of records
# that is looked at; and the share of pairs within the windows of dates.
_SPARSE_SECONDS, _IN_WINDOW = (15.0, 6e-4, 2e-8), 0.2
# Options that the estimator takes under the same name.
_SAME = (
    *("id", "roots", "root", "generations", "background", "strict_dates", "ties", "clock"),
    "group_spread",
    *("waiting_mean", "waiting_sd", "date_uncertainty", "until", "censored", "substitution"),
    *("max_iter", "candidates", "n_candidates"),
)


class Given(NamedTuple):
    """Everything read from files."""

    records: Records
    distances: Any  # (T, T) in the order of the records, or None
    log_weights: Any  # (T, T), or None
    generation_time: list[float] | None
    known_parents: dict[str, str | None]
    forbidden: list[tuple[str, str]]
    notes: list[str]  # sentences on how something was read
    cost: Cost
    warning: str = ""  # if not all pairs of records take part
    calibrate: dict[str, str | None] | None = None  # known parents that are not imposed


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other, before any file is opened."""
    if options["generation_time"] is not None:
        for name in ("waiting_mean", "waiting_sd"):
            if options[name] is not None:
                raise CommandError(
                    f"--generation-time and --{name.replace('_', '-')} contradict each other: the "
                    "table says how long children wait; leave one of them out"
                )
    if options["log_weights"] is not None and options["distances"] is not None:
        raise CommandError(
            "--log-weights and --distances contradict each other: log-weights are ready to use; "
            "leave one of them out"
        )
    both = set(options["known_parent"]) & set(options["forbid"])
    if both:
        pair = sorted(both)[0]
        raise CommandError(
            f"--known-parent {pair} and --forbid {pair} contradict each other; leave one out"
        )
    if options["censored"] is not None and options["date"] is None:
        raise CommandError("--censored says which dates are open, but --date names none; add it")


def load(options: Mapping[str, Any], unique_within: str = "table") -> Given:
    """Return everything that the options name, read and matched by identity."""
    records = load_records(options, unique_within, **_roles(options))
    notes, table = [], None
    if options["generation_time"] is not None:
        table, sentence = read_generation_time(
            options["generation_time"], options["encoding"], options["max_bytes"]
        )
        notes.append(sentence)
    _check_dated(records, options)
    cost, warning = _cost(records, options)
    ids = records.ids
    place = {name: row for row, name in enumerate(ids)}
    if options["root"] is not None and options["root"] not in place:
        meant = "for any number of roots pass --roots any; " * (options["root"] == "any")
        raise CommandError(f"--root {options['root']!r} is no record; {meant}{_some(ids)}")
    return Given(
        records=records,
        distances=_matrix(options, "distances", place),
        log_weights=_matrix(options, "log_weights", place),
        generation_time=table,
        known_parents=_known_parents(options, place),
        forbidden=[pair_of(text, place, "--forbid") for text in options["forbid"]],
        notes=notes,
        cost=cost,
        warning=warning,
        calibrate=_calibrate(options, place),
    )


def _calibrate(options: Mapping[str, Any], place: Mapping[str, int]) -> Any:
    if options["calibrate"] is None:
        return None
    from outtrees.cli.known_parents import read_known_parents

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


def _check_dated(records: Records, options: Mapping[str, Any]) -> None:
    """Refuse waiting times where no column says when."""
    if any(column.kind == "date" for column in records.columns):
        return
    for name in ("generation_time", "waiting_mean", "waiting_sd", "clock", "date_uncertainty"):
        if options[name]:
            raise CommandError(
                f"--{name.replace('_', '-')} needs dates, but no column holds any; name one with "
                f"--date (columns: {', '.join(map(repr, _named(records)))})"
            )


def _named(records: Records) -> list[str]:
    return [column.name for column in records.columns[:10]]


def _roles(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return kind → columns, from the options that name columns."""
    return {
        "date": [name for name in (options["date"], options["until"]) if name is not None],
        "categorical": options["censored"],
        "label": options["label"],
        "parent": options["parent_column"],
        "group": options["group"],
    }


def _known_parents(options: Mapping[str, Any], place: Mapping[str, int]) -> dict[str, str | None]:
    known: dict[str, str | None] = {}
    for text in options["known_parent"]:
        child, parent = pair_of(text, place, "--known-parent")
        if known.setdefault(child, parent) != parent:
            raise CommandError(
                f"--known-parent gives {child!r} two parents, {known[child]!r} and {parent!r}; "
                "keep one"
            )
        if child == options["root"]:
            raise CommandError(
                f"--root {child!r} and --known-parent {text} contradict each other; leave one out"
            )
    return known


def pair_of(text: str, place: Mapping[str, int], option: str) -> tuple[str, str]:
    """Return (child, parent) of CHILD=PARENT; names may hold equals signs.

    Examples
    --------
    >>> pair_of("a=b=c", {"a=b": 0, "c": 1}, "--forbid")
    ('a=b', 'c')
    """
    cuts = [i for i, letter in enumerate(text) if letter == "="]
    pairs = [(text[:i].strip(), text[i + 1 :].strip()) for i in cuts]
    found = [pair for pair in pairs if pair[0] in place and pair[1] in place]
    if len(found) != 1:
        if not pairs:
            raise CommandError(f"{option} expects CHILD=PARENT, but got {text!r}")
        strangers = [name for name in pairs[0] if name not in place]
        wrong = f"{strangers[0]!r} is no record" if strangers else "several readings fit"
        raise CommandError(f"{option} {text}: {wrong}; {_some(list(place))}")
    if found[0][0] == found[0][1]:
        raise CommandError(f"{option} {text}: a record cannot be its own parent")
    return found[0]


def _some(ids: Sequence[str]) -> str:
    from outtrees.records.column import first_ten

    return f"records are called {first_ten(ids)}"


def _matrix(options: Mapping[str, Any], name: str, place: Mapping[str, int]) -> Any:
    """Return a matrix in the order of the records, None if there is none."""
    path = options[name]
    if path is None:
        return None
    from outtrees.records import read_matrix
    from outtrees.records.column import first_ten

    ids, matrix = read_matrix(path, encoding=options["encoding"], max_bytes=options["max_bytes"])
    strangers = [name for name in ids if name not in place]
    without = [name for name in place if name not in set(ids)]
    if strangers or without:
        parts = []
        if strangers:
            parts.append(f"{len(strangers)} are no records: {first_ten(strangers)}")
        if without:
            parts.append(f"{len(without)} records are not in it: {first_ten(without)}")
        raise CommandError(
            f"{path!r}: identities do not match those of {options['table']!r}; {'; '.join(parts)}. "
            "Name the same records in both, or another column with --id"
        )
    where = {name: row for row, name in enumerate(ids)}
    order = [where[name] for name in place]
    return matrix[order][:, order]


def _cost(records: Records, options: Mapping[str, Any]) -> tuple[Cost, str]:
    """Return what the run will cost, and a sentence if not all pairs take part."""
    import numpy as np

    from outtrees.candidates.plan import table_plan
    from outtrees.records.column import counted

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


def make_model(Ancestry: Any, given: Given, options: Mapping[str, Any]) -> Any:
    """Return the estimator with the options given."""
    return Ancestry(
        **{name: options[name] for name in _SAME},
        # The records are read already; later ones, to be placed among them, are read alike.
        kinds=asked_kinds(options["kinds"], {"ignore": options["ignore"], **_roles(options)}),
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
            checkpoint=checkpoint,
        )
    finally:
        model.progress = None  # a bar cannot be saved
