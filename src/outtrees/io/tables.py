"""Tables of results: named columns that print themselves and go where they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ROWS_SHOWN = 30


class Table(Mapping[str, list[Any]]):
    """Columns of equal length, by name.

    Examples
    --------
    >>> table = Table({"child": ["b", "c"], "parent": ["a", ""], "support": [0.9, 0.25]})
    >>> print(table)
    child  parent  support
    b      a         0.900
    c                0.250
    >>> table["child"], list(table.rows())[0]
    (['b', 'c'], ('b', 'a', 0.9))
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = {name: list(cells) for name, cells in columns.items()}
        lengths = {len(cells) for cells in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of a table are expected to be equally long; got {lengths}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values()), []))

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        return zip(*self._columns.values(), strict=True)

    def head(self, n: int) -> Table:
        """Return the first n rows."""
        return Table({name: cells[:n] for name, cells in self._columns.items()})

    def to_pandas(self) -> Any:
        """Return a pandas data frame; pandas must be installed."""
        import pandas as pd

        return pd.DataFrame(self._columns)

    def __str__(self) -> str:
        shown = self.head(_ROWS_SHOWN)
        texts = [[name, *map(_text, cells)] for name, cells in shown.items()]
        widths = [max(map(len, column), default=0) for column in texts]
        right = [_is_number(cells) for cells in shown.values()]
        lines = []
        for row in zip(*texts, strict=True):
            cells = (
                f"{cell:>{width}}" if to_right else f"{cell:{width}}"
                for cell, width, to_right in zip(row, widths, right, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        if self.n_rows > _ROWS_SHOWN:
            lines.append(f"… {self.n_rows - _ROWS_SHOWN} more rows")
        return "\n".join(lines)

    __repr__ = __str__


def _text(cell: Any) -> str:
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _is_number(cells: Sequence[Any]) -> bool:
    return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)
