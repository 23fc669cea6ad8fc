"""What a report shows, as plain data, and its way into the page as text that cannot act."""

from __future__ import annotations

import base64
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees.records.column import KINDS
from outtrees.views.layout import check_parents, tree_rows

LABEL_LENGTH = 200  # characters of a name or a cell that are shown
MAX_RECORDS = 20_000  # records in the picture
MAX_CANDIDATES = 12  # parents listed for one record, besides those of the two trees
MAX_WHAT_IF = 500  # records up to which the page itself answers "what if"
MAX_SITE_LETTERS = 400_000  # of differing sites in the page

# Marks that turn the direction of the text after them, which would let a name rewrite the page.
_DIRECTION = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}


@dataclass(frozen=True)
class ReportColumn:
    """One column of the table of records.

    `values` colour the tree: numbers, or text for categories, None where missing. `text` holds
    the cells as they were read.
    """

    name: str
    kind: str
    values: Sequence[float | str | None]  # (T,)
    text: Sequence[str]  # (T,)
    points: Sequence[tuple[float, float] | None] | None = None  # (T,), of a place: x and y
    unit: str = ""  # of the points, "km" if they are projected
    sites: ReportSites | None = None  # of a sequence


@dataclass(frozen=True)
class ReportSites:
    """Aligned sequences as differences from one of them all: the commonest letter of each site.

    A record's differences are runs: the first site, from 0, and the letters from there on; "?" is
    an unread site. None: nothing was read of this record.
    """

    reference: str
    differences: Sequence[Sequence[tuple[int, str]] | None]  # (T,)


@dataclass(frozen=True)
class ReportBeside:
    """What "what if" needs besides where edges may mean descent from beside a record."""

    direct: NDArray[np.floating]  # (M, E), the chance that they mean descent from the record
    order: NDArray[np.integer]  # (T,), of the records of the trees
    trees: int  # drawn from all members together
    least: float  # a path that is less probable is not followed further


@dataclass(frozen=True)
class ReportWeights:
    """The log-weights of all possible edges, from which the page answers "what if".

    One row for each member of the mixture (readings or posterior draws). A constant added to all
    weights of one record, its root's included, changes no answer.
    """

    child: NDArray[np.integer]  # (E,)
    parent: NDArray[np.integer]  # (E,)
    log_weight: NDArray[np.floating]  # (M, E)
    log_root: NDArray[np.floating]  # (M, T)
    weights: NDArray[np.floating]  # (M,), summing to one
    groups: NDArray[np.integer]  # (T,)
    roots: str  # "any", or "single": one in each group
    share: float = 1.0  # of the whole mixture's weight
    beside: ReportBeside | None = None


@dataclass(frozen=True)
class ReportReading:
    """One of the competing explanations: each record's best parent in it, and its support."""

    name: str
    weight: float
    parents: NDArray[np.integer]  # (T,), -1 for roots
    supports: NDArray[np.floating]  # (T,)


@dataclass(frozen=True)
class ReportInterval:
    """A parameter with its interval; `given` if it was stated, not learned."""

    name: str
    estimate: float | str
    lower: float | str
    upper: float | str
    given: bool = False


@dataclass(frozen=True)
class ReportSeries:
    """A quantity over time with its interval: when (days), estimate, lower, upper."""

    name: str
    points: Sequence[tuple[float, float, float, float]]
    note: str = ""


@dataclass(frozen=True)
class ReportEdge:
    """One candidate parent (−1: none, the record is a root) of one record, with its support.

    `evidence` says how much each evidence column speaks for this parent, in nats, relative to the
    child's average candidate.
    """

    child: int
    parent: int
    support: float
    evidence: tuple[float, ...] = ()


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; arrays have one entry for each of the T records."""

    title: str
    ids: Sequence[str]
    columns: Sequence[ReportColumn]
    edges: Sequence[ReportEdge]
    evidence_names: Sequence[str]
    consensus: NDArray[np.integer]  # (T,) parents, -1 for roots
    mode: NDArray[np.integer]  # (T,)
    dates: NDArray[np.floating] | None  # (T,) days, NaN where unknown
    calendar: bool  # whether dates count from 1970-01-01
    root_probability: NDArray[np.floating]  # (T,)
    expected_children: NDArray[np.floating]  # (T,)
    log_density: NDArray[np.floating]  # (T,)
    parameters: Sequence[str]  # one sentence each
    warnings: Sequence[str]
    trace: Sequence[float]  # penalised log-likelihood by iteration
    provenance: Mapping[str, str] = field(default_factory=dict)
    tree_file: str = "tree.newick"  # where the whole tree is, if the picture cannot hold it
    weights: ReportWeights | None = None  # None: "what if" is answered by a command only
    readings: Sequence[ReportReading] = ()
    intervals: Sequence[ReportInterval] = ()
    interval_note: str = ""  # what kind of intervals they are
    series: Sequence[ReportSeries] = ()
    draws: NDArray[np.integer] | None = None  # (K, T), drawn parents, of which supports are shares
    enough: int = 1  # of these, to answer "what if"
    fitted: bool = False  # whether supports take the fitted parameters for granted
    drawn: bool = False  # whether supports average over drawn trees, of nearest sampled ancestors


def visible(text: object, limit: int = LABEL_LENGTH) -> str:
    """Return text cut to `limit` characters in which nothing is hidden.

    Control characters, lone surrogates and marks that reverse the direction of reading are
    written as ‹U+202E›; line breaks and tabs become spaces.

    Examples
    --------
    >>> visible("abc" + chr(0x202E) + "fdp.exe")
    'abc‹U+202E›fdp.exe'
    >>> len(visible("x" * 1_000_000))
    200
    """
    whole = str(text)
    if len(whole) <= limit and whole.isprintable():  # nearly all: nothing in it can hide
        return whole
    shown = "".join(_shown(letter) for letter in whole[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _shown(letter: str) -> str:
    if letter in "\t\n\r":
        return " "
    hidden = unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or ord(letter) in _DIRECTION
    return f"‹U+{ord(letter):04X}›" if hidden else letter


def expected_right(data: ReportData) -> float:
    """Return the expected number of right parents of the consensus tree.

    The sum of the supports of its edges and roots: exact, given the fitted parameters.
    """
    consensus = check_parents(data.consensus, len(data.ids))
    return math.fsum(e.support for e in data.edges if e.parent == consensus[e.child])


def page_data(data: ReportData) -> dict[str, Any]:
    """Return what the page's script reads, as JSON types, checked and limited in size.

    At most 20,000 records, those nearest the roots of the consensus tree, and at most 12
    candidate parents of each, besides those of the consensus and of the likeliest tree.
    """
    T = len(data.ids)
    _check(data)
    trees = {"consensus": np.asarray(data.consensus), "mode": np.asarray(data.mode)}
    kept = np.arange(T)
    if T > MAX_RECORDS:
        _, depth = tree_rows(trees["consensus"])
        kept = np.sort(np.argsort(depth, kind="stable")[:MAX_RECORDS])
    shown: list[int] = kept.tolist()
    place = np.full(T + 1, -2)  # the last entry answers for "no parent"
    place[kept] = np.arange(len(kept))
    place[-1] = -1

    dates = None if data.dates is None else np.asarray(data.dates, dtype=float)[kept]

    def drawn(parents: NDArray[np.integer]) -> list[int]:
        inside = place[parents[kept]]
        # A parent outside the picture (only in the likeliest tree) leaves its child as a root.
        inside[inside == -2] = -1
        return [int(parent) for parent in inside]

    return {
        "ids": [visible(data.ids[i]) or "(no name)" for i in shown],
        "total": T,
        "columns": [_column(column, shown) for column in data.columns],
        "edges": _edges(data, trees, place),
        "evidenceNames": [visible(name) for name in data.evidence_names],
        "consensus": drawn(trees["consensus"]),
        "mode": drawn(trees["mode"]),
        "dates": None if dates is None else _numbers(dates),
        "calendar": bool(data.calendar),
        "rootProbability": _numbers(np.asarray(data.root_probability)[kept]),
        "expectedChildren": _numbers(np.asarray(data.expected_children)[kept]),
        "logDensity": _numbers(np.asarray(data.log_density)[kept]),
        "trace": _numbers(data.trace),
        "weights": None if data.weights is None or len(kept) < T else _weights(data.weights),
        "draws": None if data.draws is None else _packed(data.draws, "<i2"),
        "enough": data.enough,
        "fitted": bool(data.fitted),
        "readings": [
            {
                "name": visible(reading.name),
                "weight": _numbers([reading.weight])[0],
                "parents": place[np.asarray(reading.parents)[kept]].tolist(),
                "supports": _numbers(np.asarray(reading.supports)[kept], 5),
            }
            for reading in data.readings
        ],
        "intervals": [
            {
                "name": visible(part.name),
                **{k: _value(getattr(part, k)) for k in ("estimate", "lower", "upper")},
                "given": bool(part.given),
            }
            for part in data.intervals
        ],
        "intervalNote": visible(data.interval_note, 2000),
        "series": [
            {
                "name": visible(series.name),
                "note": visible(series.note, 2000),
                "points": [_numbers(point) for point in series.points],
            }
            for series in data.series
        ],
    }


def _column(column: ReportColumn, shown: Sequence[int]) -> dict[str, Any]:
    if column.sites is not None:
        # Sequences are shown by their differences; as one colour each they would be hashes.
        values: list[Any] = [None if column.sites.differences[i] is None else 1 for i in shown]
        texts: list[str] = ["" for _ in shown]
    else:
        values = [_value(column.values[i]) for i in shown]
        texts = [visible(column.text[i]) for i in shown]
    found = {"name": visible(column.name), "kind": column.kind, "values": values, "text": texts}
    if column.points is not None:
        points = [column.points[i] for i in shown]
        found["points"] = [None if point is None else _numbers(point, 9) for point in points]
        found["unit"] = visible(column.unit)
    if column.sites is not None:
        runs = [column.sites.differences[i] for i in shown]
        found["reference"] = column.sites.reference
        found["differences"] = [
            None if run is None else [[int(at), letters] for at, letters in run] for run in runs
        ]
    return found


def _packed(array: Any, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode("ascii")


def _weights(weights: ReportWeights) -> dict[str, Any]:
    """Return the weights, all digits of them, as text that takes little room."""
    order = np.argsort(weights.child, kind="stable")
    # Edges that weigh nothing in any member are only listed: they may be found from beside others.
    weighed = np.isfinite(weights.log_weight[:, order]).any(axis=0)
    found: dict[str, Any] = {
        "child": _packed(weights.child[order], "<u2"),
        "parent": _packed(weights.parent[order], "<u2"),
        "weighed": _packed(np.flatnonzero(weighed), "<u4"),
        "logWeight": _packed(weights.log_weight[:, order[weighed]], "<f8"),
        "logRoot": _packed(weights.log_root, "<f8"),
        "weights": [float(weight) for weight in weights.weights],
        "groups": np.asarray(weights.groups).tolist(),
        "single": weights.roots == "single",
        "share": float(weights.share),
    }
    if weights.beside is not None:
        direct = _packed(weights.beside.direct[:, order[weighed]], "<f8")
        found["beside"] = asdict(weights.beside) | {
            "direct": direct,
            "order": weights.beside.order.tolist(),
        }
    return found


def _edges(
    data: ReportData, trees: Mapping[str, NDArray[np.integer]], place: NDArray[np.integer]
) -> list[list[Any]]:
    """Return [child, parent, support, evidence…] of the edges in the picture, best first."""
    rank = np.zeros(len(data.ids), dtype=int)
    rows = []
    for edge in sorted(data.edges, key=lambda e: (e.child, -e.support, e.parent)):
        rank[edge.child] += 1
        in_a_tree = any(parents[edge.child] == edge.parent for parents in trees.values())
        child, parent = int(place[edge.child]), int(place[edge.parent])
        if (rank[edge.child] <= MAX_CANDIDATES or in_a_tree) and child >= 0 and parent >= -1:
            rows.append([child, parent, *_numbers([edge.support, *edge.evidence], 5)])
    return rows


def _numbers(values: Any, digits: int = 12) -> list[Any]:
    """Return short numbers for JSON, which knows neither infinity nor NaN."""
    numbers: list[Any] = []
    for value in map(float, values):
        if math.isfinite(value):
            numbers.append(float(f"{value:.{digits}g}"))
        else:
            numbers.append(None if math.isnan(value) else ("inf" if value > 0 else "-inf"))
    return numbers


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value if value is None else visible(value)
    return _numbers([value])[0]


def _check(data: ReportData) -> None:
    """Raise ValueError that names the field if the parts of a report do not fit together."""
    T = len(data.ids)
    if T == 0:
        raise ValueError("a report needs at least one record, but ids is empty")
    parts: dict[str, Any] = {
        name: getattr(data, name)
        for name in ("consensus", "mode", "root_probability", "expected_children", "log_density")
    }
    parts |= {"dates": data.dates} if data.dates is not None else {}
    for column in data.columns:
        if column.kind not in KINDS:
            raise ValueError(
                f"the kind of column {visible(column.name)!r} must be one of {', '.join(KINDS)}; "
                f"got {column.kind!r}"
            )
        parts[f"values of column {visible(column.name)!r}"] = column.values
        parts[f"text of column {visible(column.name)!r}"] = column.text
        if column.points is not None:
            parts[f"points of column {visible(column.name)!r}"] = column.points
        if column.sites is not None:
            parts[f"sites of column {visible(column.name)!r}"] = column.sites.differences
    for name, part in parts.items():
        if len(part) != T:
            raise ValueError(f"{name} must have one entry per record; got {len(part)} for {T}")
    for name in ("root_probability", "expected_children", "log_density", "trace"):
        if np.isnan(np.asarray(getattr(data, name), dtype=float)).any():
            raise ValueError(f"{name} must hold numbers; got NaN")
    check_parents(data.mode, T)
    _check_extras(data)
    _check_edges(data, check_parents(data.consensus, T))


def _check_extras(data: ReportData) -> None:
    """Raise ValueError if weights, readings or series do not fit the records."""
    T = len(data.ids)
    for reading in data.readings:
        check_parents(reading.parents, T)
    for series in data.series:
        if not np.isfinite(np.asarray(series.points, dtype=float)).all():
            raise ValueError(f"series {visible(series.name)!r} must hold numbers; got NaN or inf")
    w = data.weights
    if w is None:
        return
    M, E = np.shape(w.log_weight)
    if (
        w.log_root.shape != (M, T)
        or len(w.weights) != M
        or not (len(w.child) == len(w.parent) == E)
    ):
        raise ValueError(
            f"weights must be ({M}, {E}) of edges and ({M}, {T}) of roots; got {len(w.child)} "
            f"edges, roots {w.log_root.shape} and {len(w.weights)} members"
        )
    both = np.concatenate([np.ravel(w.log_weight), np.ravel(w.log_root)])
    if np.isnan(both).any() or np.isposinf(both).any():
        raise ValueError("weights must be logs of finite numbers; got NaN or infinity")


def _check_edges(data: ReportData, consensus: NDArray[np.intp]) -> None:
    """Raise ValueError that names the edge if the candidate parents are not those of the trees."""
    T = len(data.ids)
    supported = np.zeros(T, dtype=bool)
    seen = set()
    for edge in data.edges:
        name = f"edge {edge.child} from {edge.parent}"
        if not (0 <= edge.child < T and -1 <= edge.parent < T and edge.child != edge.parent):
            raise ValueError(f"{name}: must join two different records from 0 to {T - 1}, or -1")
        if (edge.child, edge.parent) in seen:
            raise ValueError(f"{name} is listed twice; list each candidate parent once")
        seen.add((edge.child, edge.parent))
        if not -1e-6 <= edge.support <= 1 + 1e-6:  # room for the rounding of a sum
            raise ValueError(f"{name}: support must lie between 0 and 1; got {edge.support}")
        if len(edge.evidence) != len(data.evidence_names) or any(map(math.isnan, edge.evidence)):
            raise ValueError(
                f"{name}: evidence must be {len(data.evidence_names)} numbers, one for each of "
                f"evidence_names; got {edge.evidence}"
            )
        supported[edge.child] |= edge.parent == consensus[edge.child]
    if not supported.all():
        record = int(np.flatnonzero(~supported)[0])
        raise ValueError(
            f"edges must list the consensus parent of every record; record {record} "
            f"({visible(data.ids[record], 40)!r}) lacks {consensus[record]}"
        )
