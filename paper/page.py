"""The page of an experiment: what was found, beside what the paper says, and how."""

from __future__ import annotations

import io
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from outtrees import __version__
from outtrees._common.files import write_atomically
from outtrees.io import write_csv


class Page:
    """A page in Markdown with its pictures and raw numbers beside it, in ``out / name``.

    Parameters
    ----------
    out : path
        The folder of all experiments.
    name : str
        Of the experiment; the page is ``out / name / name.md``.
    title : str

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Page(Path(folder), "figure0", "Figure 0: nothing")
    ...     page.text("What the paper shows.")
    ...     page.table({"method": ["ours"], "error": [0.25]})
    ...     raw = page.numbers({"method": ["ours"], "error": [0.25]})
    ...     path = page.write("python -m paper figure0")
    ...     path.name, sorted(file.name for file in path.parent.iterdir())
    ('figure0.md', ['figure0.csv', 'figure0.md'])
    """

    def __init__(self, out: Path, name: str, title: str) -> None:
        self.folder = Path(out) / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._parts = [f"# {title}"]

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"## {text}")

    def text(self, text: str) -> None:
        """Add a paragraph, or several with empty lines between them."""
        self._parts.append(text.strip())

    def points(self, texts: Sequence[str]) -> None:
        """Add a list."""
        self._parts.append("\n".join(f"- {text}" for text in texts))

    def table(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Add a table; floats get three digits after the point at most."""
        self._parts.append(markdown_table(columns))

    def picture(self, figure: Any, description: str, suffix: str = "") -> Path:
        """Write a matplotlib figure as ``name + suffix + ".png"`` and show it on the page."""
        file = f"{self.name}{suffix}.png"
        buffer = io.BytesIO()
        # Without the version of matplotlib in it, the same picture is the same bytes.
        figure.savefig(buffer, format="png", dpi=100, metadata={"Software": None})
        self._parts.append(f"![{description}]({file})")
        return write_atomically(self.folder / file, buffer.getvalue())

    def numbers(self, columns: Mapping[str, Sequence[Any]], suffix: str = "") -> Path:
        """Write raw numbers as ``name + suffix + ".csv"`` and name the file on the page."""
        file = f"{self.name}{suffix}.csv"
        self._parts.append(f"Raw numbers: [{file}]({file}).")
        return write_csv(self.folder / file, columns)

    def write(self, command: str) -> Path:
        """Write the page, ending with the command, the date and the versions; return its path."""
        self.heading("Made by")
        day = datetime.now(UTC).date().isoformat()
        versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scikit-learn"))
        self._parts.append(f"    {command}")  # four spaces: a listing
        self.text(f"outtrees {__version__}, {day}, Python {platform.python_version()}, {versions}.")
        text = "\n\n".join(self._parts) + "\n"
        return write_atomically(self.folder / f"{self.name}.md", text)


def markdown_table(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return a table in Markdown.

    Examples
    --------
    >>> print(markdown_table({"method": ["a | b", "c"], "score": [-12.3456, 1]}))
    | method | score |
    |---|---|
    | a \\| b | −12.346 |
    | c | 1 |
    """
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    lines = ["| " + " | ".join(cell_text(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])


def cell_text(cell: Any) -> str:
    """Return a cell of a table: nothing for None, a true minus sign for numbers.

    Examples
    --------
    >>> cell_text(None), cell_text(-0.5), cell_text(3), cell_text("x")
    ('', '−0.5', '3', 'x')
    """
    if cell is None:
        return ""
    if isinstance(cell, Real) and not isinstance(cell, (bool, Integral)):
        text = f"{float(cell):.3f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text.replace("-", "−")
    if isinstance(cell, Integral):
        return str(cell).replace("-", "−")
    return str(cell).replace("|", "\\|").replace("\n", " ")
