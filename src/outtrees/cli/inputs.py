"""From the options of a command to records, and other files that commands read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from outtrees._common.text import counted, first_ten
from outtrees.cli.errors import CommandError
from outtrees.cli.screen import Screen, shortened
from outtrees.errors import Message, Option

if TYPE_CHECKING:
    from outtrees.records import Column, Records

_CLOSELY = 0.9  # a rank correlation with dates that makes whole numbers suspicious
_UNKNOWN_MARKS = {-9.0, -99.0, -999.0, -9999.0}
_UNKNOWN_WORDS = {
    *("unknown", "unk", "not known", "not available", "not applicable", "n.a.", "none", "missing"),
    *("not recorded", "not attributed", "unspecified", "undetermined", "-", "--"),
}
_LONGEST = 100_000  # units; a table is short, and a time such as 20200305 is a date


def asked_kinds(
    kinds: Iterable[str], roles: Mapping[str, str | Iterable[str] | None]
) -> dict[str, str]:
    """Return column → kind from NAME=KIND texts and from options that name columns.

    Examples
    --------
    >>> asked_kinds(["ward=categorical"], {"date": "onset", "ignore": ("note",)})
    {'ward': 'categorical', 'onset': 'date', 'note': 'ignore'}
    """
    asked: dict[str, str] = {}
    for text in kinds:
        name, _, kind = text.rpartition("=")
        _refuse_unless(name and kind, text, "--kind", "COLUMN=KIND", "ward=categorical")
        _ask(asked, name, kind.strip().lower())
    for kind, names in roles.items():
        for name in (names,) if isinstance(names, str) else names or ():
            _ask(asked, name, kind)
    return asked


def _refuse_unless(right: Any, text: str, option: str, form: str, example: str) -> None:
    if not right:
        raise CommandError(
            f"{option} must be {form}; got {text!r}. Write for example {option} {example}"
        )


def _ask(asked: dict[str, str], name: str, kind: str) -> None:
    before = asked.setdefault(name, kind)
    if before != kind:
        raise CommandError(
            f"column {name!r} is asked to be both {before} and {kind}; choose one of the two"
        )


def asked_places(places: Iterable[str]) -> dict[str, list[str]]:
    """Return place → columns from texts such as "x,y".

    Examples
    --------
    >>> asked_places(["east,north"])
    {'place': ['east', 'north']}
    """
    found: dict[str, list[str]] = {}
    for number, text in enumerate(places, start=1):
        names = [name.strip() for name in text.split(",")]
        right = 2 <= len(names) <= 3 and all(names)
        _refuse_unless(right, text, "--place", "two or three columns", "east,north")
        found["place" if number == 1 else f"place{number}"] = names
    return found


def _coordinates(texts: Iterable[str]) -> dict[str, str]:
    """Return column → file from texts such as "tract=tracts.csv"."""
    found: dict[str, str] = {}
    for text in texts:
        column, _, path = text.partition("=")
        _refuse_unless(column and path, text, "--coordinates", "COLUMN=FILE", "tract=tracts.csv")
        found[column.strip()] = path
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def load_records(options: Mapping[str, Any], unique_within: str = "table", **roles: Any) -> Records:
    """Return the records that the shared options describe; roles: kind → columns."""
    from outtrees.records import read_records
    from outtrees.records.column import MISSING

    kinds = asked_kinds(options["kinds"], {"ignore": options["ignore"], **roles})
    places = asked_places(options["places"])
    for name in (name for names in places.values() for name in names):
        if kinds.get(name, "place") != "place":
            raise CommandError(
                f"column {name!r} is asked to be both {kinds[name]} and part of a place; choose "
                "one of the two"
            )
        kinds.pop(name, None)
    return read_records(
        options["table"],
        id=options["id"],
        kinds=kinds,
        sequences=options["sequences"],
        unsequenced=options["unsequenced"],
        extra_sequences=options["extra_sequences"],
        day_first=options["day_first"],
        sheet=options["sheet"],
        places=places,
        place_end=_names(options.get("place_end") or ""),
        coordinates=_coordinates(options.get("coordinates") or ()),
        tracks=options.get("tracks", False),
        missing=(*MISSING, *options["na"]),
        unique_within=unique_within,
        encoding=options["encoding"],
        quotes=options["quotes"],
        max_bytes=options["max_bytes"],
    )


def tell_records(screen: Screen, records: Records) -> None:
    """Print the kinds of the columns and put them into the summary."""
    from outtrees.records.assembling import INTRODUCTIONS

    kinds = Counter([c.kind for c in records.columns] + [role for _, role, _ in records.roles])
    listed = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
    screen.say(shortened(records.describe().splitlines(), f"columns (in all: {listed})", 0))
    for column in records.columns:
        mark = _unknown_mark(column)
        if mark is not None:
            screen.warn(
                Message(
                    f"column {column.name!r}: {mark:g} is its only negative value; if it means "
                    "unknown, pass ",
                    Option("na", f"{mark:g}"),
                )
            )
        for word in column.levels or () if column.kind in ("categorical", "label") else ():
            if word.lower() in _UNKNOWN_WORDS:
                screen.warn(
                    Message(
                        f"column {column.name!r}: {word!r} counts as a value like others; if it "
                        "means that nothing is known, pass ",
                        Option("na", word),
                    )
                )
        if column.kind == "sequence" and column.n_missing:
            screen.say(
                f"{counted(column.n_missing, 'record')} without a sequence: all sites of "
                f"{column.name!r} count as unread there"
            )
    for name, role, reason in records.roles:
        if role == "ignored" and reason == INTRODUCTIONS:
            screen.warn(
                Message(
                    f"column {name!r} is not used; if yes in it means that a record was brought in "
                    "from elsewhere, pass ",
                    Option("introduction_column", name),
                )
            )
    for name, date in _rising(records):
        screen.warn(
            Message(
                f"column {name!r} rises with {date!r}; if it numbers the records or is another "
                "date, pass ",
                Option("ignore", name),
                " (or ",
                Option("until", name),
                ", if records ended then)",
            )
        )
    screen.summary["records"] = len(records)
    screen.summary["columns"] = [
        {"name": c.name, "kind": c.kind, "missing": c.n_missing} for c in records.columns
    ] + [{"name": name, "kind": role} for name, role, _ in records.roles]
    screen.summary["inputs"] = dict(records.provenance)


def _unknown_mark(column: Column) -> float | None:
    """Return the one negative value of a column, if it is one that often stands for unknown."""
    if column.kind not in ("continuous", "date"):
        return None
    negative = {float(value) for value in column.values.ravel() if value < 0}
    return negative.pop() if len(negative) == 1 and negative < _UNKNOWN_MARKS else None


def _rising(records: Records) -> Iterator[tuple[str, str]]:
    """Yield the columns of whole numbers that rise with the dates, and the name of those."""
    import numpy as np

    dates = [column for column in records.columns if column.kind == "date"]
    for column in records.columns:
        if column.kind not in ("count", "continuous") or not dates:
            continue
        values, when = column.values[:, 0], dates[0].values[:, 0]
        known = ~np.isnan(values) & ~np.isnan(when)
        if (values[known] != np.round(values[known])).any():
            continue
        ranks = [np.unique(cells[known], return_inverse=True)[1] for cells in (values, when)]
        # Five values or fewer rise by chance too often.
        enough = min(len(np.unique(rank)) for rank in ranks) > 5
        if enough and np.corrcoef(ranks[0], ranks[1])[0, 1] > _CLOSELY:
            yield column.name, dates[0].name


def read_generation_time(
    path: str | os.PathLike[str], encoding: str, max_bytes: int
) -> tuple[list[float], str]:
    """Return P(waiting i units), i = 0, 1, …, and a sentence that says how the file was read.

    One column: its first entry is the probability of waiting 1 unit, as tables of generation times
    are usually written. Two columns: times in whole units, and probabilities; times that are not
    listed have probability 0. A header is skipped.
    """
    from outtrees.records.files import read_source

    source = read_source(path, max_bytes)
    rows: list[tuple[int, list[float]]] = []
    for number, line in enumerate(source.text(encoding).splitlines(), start=1):
        parts = line.replace(",", " ").replace(";", " ").split()
        if not parts:
            continue
        try:
            values = [float(part.strip('"')) for part in parts]
        except ValueError:
            if rows or number > 1:
                raise CommandError(
                    f"{source.name} line {number}: all fields must be numbers; got {line[:60]!r}. "
                    "Write one probability a line, or a time and a probability"
                ) from None
            continue
        rows.append((number, values))
    if not rows:
        raise CommandError(f"{source.name} has no data rows; write one probability a line")
    width = len(rows[0][1])
    for number, values in rows:
        if len(values) != width or width > 2:
            raise CommandError(
                f"{source.name} line {number}: there must be one column "
                f"(probabilities) or two (times, probabilities); got {len(values)} fields"
            )
        if not 0 <= values[-1] < float("inf"):
            raise CommandError(
                f"{source.name} line {number}: a probability must be at least 0; got {values[-1]:g}"
            )
    if not sum(values[-1] for _, values in rows) > 0:
        raise CommandError(f"{source.name}: all probabilities are 0; at least one must be positive")
    if width == 1:
        chances = [0.0, *(values[0] for _, values in rows)]
        told = "its first entry is the probability of waiting 1 unit"
    else:
        chances = _by_time(source.name, rows)
        told = "times from its first column, probabilities from its second"
    mean = sum(i * chance for i, chance in enumerate(chances)) / sum(chances)
    return chances, f"generation times of {source.name}: {told}; mean {mean:.3g} units"


def _by_time(name: str, rows: list[tuple[int, list[float]]]) -> list[float]:
    chances: dict[int, float] = {}
    for number, (time, chance) in rows:
        if time != time or not 0 <= time <= _LONGEST or time != int(time) or int(time) in chances:
            raise CommandError(
                f"{name} line {number}: times must be different whole numbers from 0 "
                f"to {_LONGEST}; got {time:g}"
            )
        chances[int(time)] = chance
    return [chances.get(time, 0.0) for time in range(max(chances) + 1)]


def read_known_parents(
    path: str | os.PathLike[str], place: Mapping[str, int], encoding: str, max_bytes: int
) -> dict[str, str | None]:
    """Return child → parent, None for a root; the first row holds the names of the two columns."""
    from outtrees.records.files import read_source
    from outtrees.records.table import delimited_rows

    source = read_source(path, max_bytes)
    _, rows, lines = delimited_rows(source, encoding)
    known: dict[str, str | None] = {}
    for row, number in zip(rows, lines, strict=True):
        if len(row) != 2:
            raise CommandError(
                f"{source.name} line {number}: there must be two fields, child and parent; "
                f"got {len(row)}"
            )
        child, parent = (cell.strip() for cell in row)
        for name in (child, parent or child):
            if name not in place:
                raise CommandError(
                    f"{source.name} line {number}: {name[:60]!r} is not a record; name records as "
                    "the table does, and leave the parent of a root empty"
                )
        if known.setdefault(child, parent or None) != (parent or None):
            raise CommandError(
                f"{source.name} line {number}: {child!r} is given two parents; keep one"
            )
    if not known:
        raise CommandError(f"{source.name} has no data rows; write child,parent below a header")
    return known


def pair_of(
    text: str, ids: Collection[str], option: str, *, root: bool = False
) -> tuple[str, str | None]:
    """Return (child, parent) of CHILD=PARENT; names may hold equals signs.

    With `root` a parent may be left out, CHILD=, and is None.

    Examples
    --------
    >>> pair_of("a=b=c", ["a=b", "c"], "--forbid")
    ('a=b', 'c')
    >>> pair_of("c=", ["a=b", "c"], "--suppose", root=True)
    ('c', None)
    """
    cuts = [i for i, letter in enumerate(text) if letter == "="]
    pairs = [(text[:i].strip(), text[i + 1 :].strip()) for i in cuts]
    known = {*ids, ""} if root else set(ids)
    found = [pair for pair in pairs if pair[0] in ids and pair[1] in known]
    if len(found) != 1:
        if not pairs:
            raise CommandError(f"{option} must be CHILD=PARENT; got {text!r}")
        strangers = [name for name in pairs[0] if name not in known]
        wrong = f"{strangers[0]!r} is not a record" if strangers else "several readings fit"
        raise CommandError(f"{option} {text}: {wrong}; {called(ids)}")
    child, parent = found[0]
    if child == parent:
        raise CommandError(f"{option} {text}: a record cannot be its own parent")
    return child, parent or None


def called(ids: Collection[str]) -> str:
    """Return what some records are called, for a message."""
    return f"records are called {first_ten(list(ids))}"
