"""Lineages and descriptions from other tools, as tables that `outtrees ancestry` reads.

GEFF graphs and track files of the Cell Tracking Challenge become one record for each track; DELTA
items (descriptions of taxa) one record for each item.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from outtrees._common.text import shown
from outtrees.errors import RecordsError, library
from outtrees.io.masks import read_centres
from outtrees.io.tables import Table
from outtrees.records.names import RESULTS

TRACKS = ("res_track.txt", "man_track.txt")  # of the Cell Tracking Challenge
SUPPORTS = "res_supports.csv"  # beside them, where `outtrees convert` wrote them
MOST_BYTES = 2**30  # of a file that is read
_TRACK = re.compile(r"\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s*")


def read_ctc(path: str | os.PathLike[str]) -> Table:
    """Return the tracks of a CTC file or folder: track, begin, end, parent, and places.

    Of a folder with label images (mask000.tif, man_track000.tif, …), x, y and perhaps z are the
    centre of each track in its first frame, x_end, … in its last. The columns fit
    `outtrees ancestry --id track --date begin --until end`; parents that the file names are in
    `parent`, empty for tracks without one. Where supports lie beside the tracks (res_supports.csv,
    as outtrees writes it), parents were found, not observed: they are in `likely_parent`, with
    `parent_support` and the `name` of each track, and count for nothing in another run.

    Parameters
    ----------
    path : path
        res_track.txt or man_track.txt, four whole numbers a line, or the folder with it.

    Returns
    -------
    Table
        One row for each track.

    Raises
    ------
    RecordsError
        If a line is not of this form, labels repeat, a track ends before it begins, or its parent
        is no track.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "res_track.txt"
    ...     _ = file.write_text("1 0 4 0\\n2 5 9 1\\n")
    ...     print(read_ctc(file))
    track  begin  end  parent
    1          0    4
    2          5    9  1
    """
    rows: list[tuple[int, ...]] = []
    folder = Path(path) if Path(path).is_dir() else None
    if folder is not None:
        path = next((folder / name for name in TRACKS if (folder / name).is_file()), folder)
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        found = _TRACK.fullmatch(line)
        if found is None:
            raise RecordsError(
                f"{shown(path)} line {number}: a line must be four whole numbers (label, begin, "
                f"end, parent); got '{shown(line)}'. Correct it"
            )
        rows.append(tuple(map(int, found.groups())))
    labels = {row[0] for row in rows}
    if not rows or len(labels) < len(rows):
        raise RecordsError(f"{shown(path)}: every track needs a label of its own, and one at least")
    for label, begin, end, parent in rows:
        if end < begin:
            raise RecordsError(f"{shown(path)}: track {label} ends ({end}) before it begins")
        if parent and parent not in labels:
            raise RecordsError(
                f"{shown(path)}: track {label} has the parent {parent}, which is none"
            )
    columns: dict[str, list[Any]] = {
        "track": [str(row[0]) for row in rows],
        "begin": [row[1] for row in rows],
        "end": [row[2] for row in rows],
        "parent": [str(row[3]) if row[3] else "" for row in rows],
    }
    if folder is None:
        return Table(columns)
    if (folder / SUPPORTS).is_file():
        columns |= _supports(folder / SUPPORTS, rows)
        del columns["parent"]
    return Table(columns | _places(folder, rows))


def _supports(path: Path, rows: list[tuple[int, ...]]) -> dict[str, list[Any]]:
    """Return the parents of the tracks as what was found, with their supports, and their names."""
    found: dict[tuple[str, str], float] = {}
    names: dict[str, str] = {}
    lines = csv.DictReader(io.StringIO(_text(path), newline=""))
    try:
        for line in lines:
            found[line["label"], line["parent"]] = float(line["support"])
            names[line["label"]] = line["name"]
    except (KeyError, TypeError, ValueError, csv.Error):
        raise RecordsError(
            f"{shown(path)} line {lines.line_num}: a line must have label, parent, support (a "
            "number) and name. Correct it, or remove the file"
        ) from None
    return {
        RESULTS[0]: [str(row[3]) if row[3] else "" for row in rows],
        RESULTS[1]: [found.get((str(row[0]), str(row[3]))) for row in rows],
        "name": [names.get(str(row[0]), "") for row in rows],
    }


def _places(folder: Path, rows: list[tuple[int, ...]]) -> dict[str, list[Any]]:
    """Return where label images show the tracks in their first frame and in their last."""
    wanted: dict[int, list[int]] = {}
    for label, *frames, _ in rows:
        for frame in set(frames):
            wanted.setdefault(frame, []).append(label)
    seen = {(frame, label): centre for frame, label, centre in read_centres(folder, wanted)}
    columns: dict[str, list[Any]] = {}
    for axis, name in enumerate("xyz"[: max(map(len, seen.values()), default=0)]):
        for suffix, when in (("", 1), ("_end", 2)):
            centres = [seen.get((row[when], row[0]), ()) for row in rows]
            columns[name + suffix] = [c[axis] if axis < len(c) else None for c in centres]
    return columns


def read_geff(path: str | os.PathLike[str]) -> Table:
    """Return the tracks of a GEFF graph: begin, end, first and last place, parent, its support.

    A track is a chain of nodes, each with one edge to the next, which has no other; it begins
    where a node has no parent or its parent has other children. Names of nodes, if the graph has
    the property `name`, name tracks of one node; others are named by their first node. Parents
    are in `parent`; where edges have the property `support`, they were found, not observed, and
    are in `likely_parent` and `parent_support`, which count for nothing in another run.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    Table
        One row for each track.

    Raises
    ------
    MissingExtraError
        If geff is not installed.
    RecordsError
        If it is no GEFF, a node has no time, or a node has several parents.

    Examples
    --------
    >>> read_geff("nothing.geff")
    Traceback (most recent call last):
    outtrees.errors.RecordsError: nothing.geff cannot be read as GEFF: ...
    """
    geff = library("geff", "GEFF needs geff; pip install geff")
    try:
        graph, metadata = geff.read(path)
    except Exception as error:  # zarr and geff raise whatever they ran into
        why = shown(" ".join(str(error).split()), 200)
        raise RecordsError(f"{shown(path)} cannot be read as GEFF: {why}") from None
    axes = [axis.name for axis in metadata.axes or []]
    time = next((a.name for a in metadata.axes or [] if a.type == "time"), "t")
    places = [name for name in axes if name != time][:3]
    if not all(time in graph.nodes[node] for node in graph):
        raise RecordsError(f"{shown(path)}: every node needs its time ({shown(time)!r})")
    for node in graph:
        if graph.in_degree(node) > 1:
            raise RecordsError(
                f"{shown(path)}: node {node} has several parents; merges are not read"
            )
    tracks = list(_tracks(graph))
    first = {track[-1]: track[0] for track in tracks}  # the last node of a track → its first
    names = {track[0]: _track_name(graph, track) for track in tracks}
    columns: dict[str, list[Any]] = {
        key: [] for key in ("track", "begin", "end", "parent", "support")
    }
    for axis in places:
        columns[axis] = []
        columns[f"{axis}_end"] = []
    for track in tracks:
        head, tail = graph.nodes[track[0]], graph.nodes[track[-1]]
        above = next(iter(graph.predecessors(track[0])), None)
        support = None if above is None else graph.edges[above, track[0]].get("support")
        cells = [names[track[0]], _plain(head[time]), _plain(tail[time])]
        cells += ["" if above is None else names[first[above]], _plain(support)]
        for axis in places:
            cells += [_plain(head.get(axis)), _plain(tail.get(axis))]
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    if all(support is None for support in columns["support"]):
        del columns["support"]
        return Table(columns)
    renamed = {"parent": RESULTS[0], "support": RESULTS[1]}
    return Table({renamed.get(name, name): cells for name, cells in columns.items()})


def _tracks(graph: Any) -> Iterable[list[Any]]:
    """Yield the chains of the graph, each from its first node to its last."""
    for node in graph:
        above = next(iter(graph.predecessors(node)), None)
        if above is not None and graph.out_degree(above) == 1:
            continue
        track = [node]
        while graph.out_degree(track[-1]) == 1:
            track.append(next(iter(graph.successors(track[-1]))))
        yield track


def _track_name(graph: Any, track: list[Any]) -> str:
    name = graph.nodes[track[0]].get("name") if len(track) == 1 else None
    return str(track[0] if name is None else name)


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value


# DELTA -------------------------------------------------------------------------------------

_MULTISTATE = ("UM", "OM")
# The number of a character, and its values with comments between.
_ATTRIBUTE = re.compile(r"(?:^|\s)(\d{1,9})(?=[,<])((?:,[^\s<]*)?(?:<[^<>]*>[^\s<]*)*)")


def read_delta(items: str | os.PathLike[str], *others: str | os.PathLike[str]) -> Table:
    """Return the items of a DELTA data set: item, and a column for each character.

    Parameters
    ----------
    items : path
        The file with ITEM DESCRIPTIONS.
    *others : path
        Files with CHARACTER LIST, CHARACTER TYPES and IMPLICIT VALUES (chars, specs), if `items`
        does not hold them.

    Returns
    -------
    Table
        One row for each item.

    Raises
    ------
    RecordsError
        If there are no ITEM DESCRIPTIONS, or one of them has no name.

    Notes
    -----
    A multistate character is the name of its state; several states are a set of names, {a / b},
    which tables keep as a set. A range of numbers (4-6, or (3-)4-6(-9)) is its middle value if
    three are given, else the mean of its normal ends. Unknown (U), variable (V) and inapplicable
    (-) are empty. An implicit value stands where an item does not say.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "items"
    ...     _ = file.write_text(
    ...         "*CHARACTER LIST\\n#1. hairs/ 1. absent/ 2. present/\\n"
    ...         "*ITEM DESCRIPTIONS\\n# Poa/ 1,2\\n# Zea/ 1,1\\n"
    ...     )
    ...     print(read_delta(file))
    item  hairs
    Poa   present
    Zea   absent
    """
    directives: dict[str, str] = {}
    for path in (*others, items):
        directives.update(_directives(_text(path)))
    if "ITE DES" not in directives:
        raise RecordsError(f"{shown(items)} must have *ITEM DESCRIPTIONS; name the file of items")
    characters = _characters(directives.get("CHA LIS", ""))
    types = _numbered(directives.get("CHA TYP", ""))
    implicit = _numbered(directives.get("IMP VAL", ""))
    found = list(_items(directives["ITE DES"], shown(items)))
    numbers = sorted(set(characters) | {n for _, values in found for n in values})
    names = {n: characters.get(n, ("", {}))[0] or f"character {n}" for n in numbers}
    columns: dict[str, list[Any]] = {"item": [name for name, _ in found]}
    for n in numbers:
        label = names[n]
        while label in columns:
            label += f" ({n})"
        kind, states = types.get(n, "UM").upper(), characters.get(n, ("", {}))[1]
        default = implicit.get(n, "").split(":")[0]
        columns[label] = [_delta_cell(values.get(n, default), kind, states) for _, values in found]
    return Table(columns)


def _directives(text: str) -> dict[str, str]:
    """Return the data of each directive by the first three letters of its words."""
    parts = re.split(r"(?:^|(?<=\s))\*[ \t]*(?=[A-Z]{3})", text)
    found: dict[str, str] = {}
    for part in parts[1:]:
        head = re.match(r"(?:[A-Z]+[ \t]*){1,4}", part)
        if head is not None:
            key = " ".join(word[:3] for word in head[0].split()[:2])
            found[key] = part[head.end() :]
    return found


def _without_comments(text: str) -> str:
    """Return text without <comments>, which may be nested."""
    kept, depth = [], 0
    for letter in text:
        depth += letter == "<"
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    return "".join(kept)


def _sections(text: str) -> Iterable[str]:
    """Yield what follows each # at the beginning of a line or after a blank."""
    return re.split(r"(?:^|(?<=\s))#", text)[1:]


def _characters(text: str) -> dict[int, tuple[str, dict[int, str]]]:
    """Return number → name and states of the characters of a list."""
    found = {}
    for part in _sections(text):
        head = re.match(r"\s*(\d{1,9})\.\s*", part)
        if head is None:
            continue
        fields = re.split(r"/(?=\s|$)", part[head.end() :])
        states = {}
        for state in fields[1:]:
            numbered = re.match(r"\s*(\d{1,9})\.\s*(.*)", state, re.DOTALL)
            if numbered is not None:
                states[int(numbered[1])] = " ".join(_without_comments(numbered[2]).split())
        found[int(head[1])] = (" ".join(_without_comments(fields[0]).split()), states)
    return found


def _numbered(text: str) -> dict[int, str]:
    """Return number → value of lists such as 1,TE 3-5,RN."""
    found = {}
    for first, last, value in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?,(\S+)", text):
        for number in range(int(first), min(int(last or first), int(first) + 100_000) + 1):
            found[number] = value
    return found


def _items(text: str, file: str) -> Iterable[tuple[str, Mapping[int, str]]]:
    """Yield the name of each item and its values by the number of the character."""
    for part in _sections(text):
        head, slash, rest = part.partition("/")
        name = " ".join(_without_comments(head).split())
        if not slash or not name:
            raise RecordsError(f"{file}: an item must be '# name/ values'; got '{shown(part)}'")
        values = {}
        for number, value in _ATTRIBUTE.findall(rest):
            values[int(number)] = value
        yield name, values


def _delta_cell(value: str, kind: str, states: Mapping[int, str]) -> Any:
    if kind == "TE":
        return " ".join(value.removeprefix(",").strip("<>").split())
    plain = _without_comments(value).removeprefix(",").strip()
    if plain.upper() in ("", "U", "V", "-"):
        return None
    if kind in _MULTISTATE:
        numbers = [int(n) for n in re.findall(r"\d{1,9}", plain)]
        if re.fullmatch(r"\d{1,9}-\d{1,9}", plain):
            numbers = list(range(numbers[0], min(numbers[1], numbers[0] + 1000) + 1))
        names = " / ".join(states.get(n) or str(n) for n in numbers)
        return f"{{{names}}}" if len(numbers) > 1 else names or None
    normal = re.sub(r"\([^)]*\)", "", plain)
    parts = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", normal.split("/")[0].split("&")[0])]
    if not parts:
        return None
    return parts[1] if len(parts) == 3 else sum(parts) / len(parts)


def _text(path: str | os.PathLike[str]) -> str:
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {str(path)!r}")
    if file.stat().st_size > MOST_BYTES:
        raise RecordsError(f"{shown(path)} is larger than 1 GiB; give a smaller file")
    return file.read_text(encoding="utf-8", errors="replace")
