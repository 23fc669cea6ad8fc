"""The records: identities, columns, and what is known of who came from whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.text import counted, first_ten, html_table, quoted, shown
from outtrees.errors import RecordsError
from outtrees.records.column import Column

if TYPE_CHECKING:
    from outtrees.records.samples import Samples


@dataclass(frozen=True, eq=False)
class Records:
    """What was observed, of T records.

    Attributes
    ----------
    ids : tuple of str
        All different; in groups that were read with unique_within="group", within each.
    columns : tuple of Column
    known_parents : mapping of int to int
        From the row of a child to that of its parent; −1 for a record known to be a root.
    groups : array of shape (T,), or None
        Positions in `group_names`: only records of the same group can be related.
    ignored : tuple of str
        Columns left out.
    provenance : mapping of str to str
        From the name of each input file, without its folder, to its sha256.
    roles : tuple of (column, role, reason)
        The columns that became identities, parents, introductions or groups, or were ignored.
    group_names : tuple of str
    until : str or None
        The column of dates that says when records ended, if the table was made to say so.
    notes : tuple of str
        Sentences on how the table was read.
    samples : Samples, or None
        If records are hosts with several samples, or variants within samples are known.

    Examples
    --------
    >>> from outtrees.records import read_records
    >>> records = read_records(
    ...     {"id": ["a", "b", "c", "d"], "ward": ["N", "N", "S", ""], "age": [31.5, 40, 7, 68]}
    ... )
    >>> print(records.describe())
    4 records
    column  kind         values     missing  why this kind
    id      id           a, b, ...        0  called id
    ward    categorical  N, S             1  text, 2 values that recur
    age     continuous   7 to 68          0  numbers with decimals
    """

    ids: tuple[str, ...]
    columns: tuple[Column, ...]
    known_parents: Mapping[int, int] = field(default_factory=dict)
    groups: NDArray[np.intp] | None = None  # (T,)
    ignored: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[tuple[str, str, str], ...] = ()
    group_names: tuple[str, ...] = ()
    until: str | None = None
    notes: tuple[str, ...] = ()
    samples: Samples | None = None

    def __post_init__(self) -> None:
        homes = self.groups if self.groups is not None else np.zeros(len(self.ids), dtype=np.intp)
        if len(set(zip(homes.tolist(), self.ids, strict=True))) != len(self.ids):
            raise RecordsError("identities must differ; rename the repeats")
        for column in self.columns:
            if len(column) != len(self.ids):
                raise RecordsError(
                    f"column {quoted(column.name)} has {len(column)} cells for {len(self.ids)} "
                    "records; give one for each"
                )

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        """Return what `describe` says as a notebook shows it; names are text, never markup."""
        title, head, *rows = self._described()
        told = "".join(f"<p>{escape(text)}</p>" for text in (title[0], *self.notes))
        return told + html_table(head, rows, right={3})

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Parameters
        ----------
        name : str
            The name of a column.

        Returns
        -------
        Column
            Its cells.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        raise KeyError(f"no column {quoted(name)}; the columns are {first_ten(names)}")

    def take(self, rows: Any) -> Self:
        """Return these records only, in this order; rows are positions or a mask.

        What is known of a parent that is not taken is forgotten.

        Parameters
        ----------
        rows : array of int or bool
            Positions, or a mask.

        Returns
        -------
        Records
            These records.
        """
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        rows = np.arange(len(self))[rows.astype(np.intp)]  # negative positions made positive
        place = {int(row): i for i, row in enumerate(rows)}
        known = {
            place[child]: -1 if parent < 0 else place[parent]
            for child, parent in self.known_parents.items()
            if child in place and (parent < 0 or parent in place)
        }
        return replace(
            self,
            ids=tuple(self.ids[i] for i in rows.tolist()),
            columns=tuple(column.take(rows) for column in self.columns),
            known_parents=known,
            groups=None if self.groups is None else self.groups[rows],
            samples=None if self.samples is None else self.samples.take(rows),
        )

    def describe(self) -> str:
        """Return an aligned table of the columns, their kinds, and why they have them.

        Returns
        -------
        str
            The table; the first line counts the records.
        """
        (title,), *lines = self._described()
        width = [max(len(line[i]) for line in lines) for i in range(4)]
        rows = [
            f"{a:{width[0]}}  {b:{width[1]}}  {c:{width[2]}}  {d:>{width[3]}}  {e}".rstrip()
            for a, b, c, d, e in lines
        ]
        return "\n".join([title, *self.notes, *rows])

    def _described(self) -> list[tuple[str, ...]]:
        """Return how many records there are, the head of a table of the columns, and its rows."""
        lines = []
        for name, role, reason in self.roles:
            values, missing = self._role_summary(role)
            lines.append((shown(name, 24), role, values, missing, reason))
        for c in self.columns:
            lines.append((shown(c.name, 24), c.kind, c.summary, str(c.n_missing), c.reason))
        lines.sort(key=lambda line: line[1] == "ignored")
        read = [name for name in self.provenance if not name.endswith(" in memory")]
        files = ", ".join(map(shown, read))
        title = counted(len(self), "record") + (f" from {files}" if files else "")
        return [(title,), ("column", "kind", "values", "missing", "why this kind"), *lines]

    def _role_summary(self, role: str) -> tuple[str, str]:
        """Return the summary of values and the number of missing cells."""
        if role == "id":
            few = ", ".join(shown(name, 12) for name in self.ids[:2])
            return few + (", ..." if len(self) > 2 else ""), "0"
        if role == "parent":
            roots = sum(parent < 0 for parent in self.known_parents.values())
            known = len(self.known_parents)
            return f"{known - roots} known, {roots} roots", str(len(self) - known)
        if role == "introduction":
            roots = sum(parent < 0 for parent in self.known_parents.values())
            return counted(roots, "introduction"), ""
        if role == "group" and self.groups is not None:
            return f"{len(np.unique(self.groups))} groups", "0"
        return "", ""
