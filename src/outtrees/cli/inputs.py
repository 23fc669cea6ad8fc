"""From the options of a command to records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from outtrees.cli.failing import CommandError

if TYPE_CHECKING:
    from outtrees.records import Records


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
        name, equals, kind = text.rpartition("=")
        if not equals or not name or not kind:
            raise CommandError(
                f"--kind expects COLUMN=KIND, but got {text!r}; write for example "
                "--kind ward=categorical"
            )
        _ask(asked, name, kind.strip().lower())
    for kind, names in roles.items():
        for name in (names,) if isinstance(names, str) else names or ():
            _ask(asked, name, kind)
    return asked


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
        if not 2 <= len(names) <= 3 or not all(names):
            raise CommandError(
                f"--place expects two or three columns, but got {text!r}; write for example "
                "--place east,north"
            )
        found["place" if number == 1 else f"place{number}"] = names
    return found


def load_records(options: Mapping[str, Any], unique_within: str = "table", **roles: Any) -> Records:
    """Return the records that the shared options describe; roles: kind → columns."""
    from outtrees.records import read_records
    from outtrees.records.reading import MISSING

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
        places=places,
        missing=(*MISSING, *options["na"]),
        unique_within=unique_within,
        encoding=options["encoding"],
        quotes=options["quotes"],
        max_bytes=options["max_bytes"],
    )
