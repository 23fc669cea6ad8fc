"""Species × characters matrices: from files, from the zoo, and generated along a known tree."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outtrees._common.types import Array
from outtrees.datasets import load_zoo, make_out_tree
from outtrees.errors import RecordsError
from outtrees.models import CategoricalMutation
from outtrees.records.files import read_source
from outtrees.records.nexus import read_nexus
from outtrees.records.table import read_delimited

NEXUS = (".nex", ".nexus", ".nxs")
TABLES = (".csv", ".tsv", ".tab")
# A label needs two classes of this many records, and this many known cells in all.
_CLASS, _KNOWN = 3, 14


@dataclass(frozen=True)
class CharacterMatrix:
    """Discrete characters of species; what is missing, inapplicable or polymorphic is NaN.

    Examples
    --------
    >>> zoo().codes.shape, zoo().name
    ((101, 17), 'zoo')
    """

    name: str
    codes: Array  # (T, D) whole numbers, NaN where not known

    @property
    def digest(self) -> str:
        """Eight letters that say whether two matrices hold the same cells."""
        return hashlib.sha256(np.ascontiguousarray(self.codes).tobytes()).hexdigest()[:8]

    @property
    def labels(self) -> list[int]:
        """The characters that can be labels: two classes of three records, 14 known cells.

        None if no other character varies, from which they could be told.
        """
        usable = []
        for d, column in enumerate(self.codes.T):
            counts = np.unique(column[~np.isnan(column)], return_counts=True)[1]
            if (counts >= _CLASS).sum() >= 2 and counts.sum() >= _KNOWN:
                usable.append(d)
        return [d for d in usable if self.without(d).shape[1]]

    def without(self, label: int) -> Array:
        """Return the other characters that vary, (T, D')."""
        others = np.delete(self.codes, label, axis=1)
        return others[:, [len(np.unique(c[~np.isnan(c)])) > 1 for c in others.T]]


def zoo() -> CharacterMatrix:
    """Return the zoo: 101 animals, 16 attributes, and their type as one more."""
    found = load_zoo()
    kinds = np.unique(found.target, return_inverse=True)[1]
    return CharacterMatrix("zoo", np.column_stack([np.asarray(found.data, float), kinds]))


def generated(n: int = 40, n_characters: int = 12, random_state: int = 6) -> CharacterMatrix:
    """Return characters of two states that mutated along one random out-tree, for trials.

    With the default seed both states of most characters are frequent.

    Examples
    --------
    >>> generated().codes.shape
    (40, 12)
    """
    states = np.array([[0.0] * n_characters, [1.0] * n_characters])
    mutation = CategoricalMutation(start_correlation=0.85).start(states)
    return CharacterMatrix("generated", make_out_tree(n, mutation, random_state)[0])


def read_characters(path: Path) -> CharacterMatrix:
    """Return the matrix of a CSV or TSV file (species in the first column), or of a NEXUS file.

    A cell of letters and digits alone is a state; "?", "-", and several states such as {01} are
    not known. A file called matrix.* is named after its folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "newts.csv"
    ...     _ = file.write_text("species,tail,crest\\na,0,1\\nb,1,?\\nc,0,{01}\\n")
    ...     read_characters(file).codes.tolist()
    [[0.0, 0.0], [1.0, nan], [0.0, nan]]
    """
    source = read_source(path)
    if source.extension in NEXUS:
        columns = [c.values[:, 0] for c in read_nexus(source)[1] if c.kind == "categorical"]
    elif source.extension in TABLES:
        table = read_delimited(source)
        cells = table.cells if table.row_names is not None else table.cells[1:]
        columns = [_codes(column) for column in cells]
    else:
        raise RecordsError(
            f"{source.name}: a matrix of characters must be a file of {', '.join(TABLES + NEXUS)}; "
            "convert it to CSV with species in the first column"
        )
    if not columns:
        raise RecordsError(f"{source.name} holds no discrete characters beside the species' names")
    name = path.parent.name if path.stem == "matrix" else path.stem
    return CharacterMatrix(name, np.column_stack(columns))


def matrices_in(data: Path) -> list[CharacterMatrix]:
    """Return the matrix of a file, or all matrices in CSV and TSV files of a folder.

    Of a folder (and those in it), tables without two characters that can be labels are passed
    over: they are lists of something else.
    """
    if not data.is_dir():
        matrix = read_characters(data)
        if not matrix.labels:
            raise RecordsError(
                f"{matrix.name}: a character that can be a label must have {_KNOWN} known cells "
                f"and two states of {_CLASS} species each, beside another that varies; got none"
            )
        return [matrix]
    files = sorted(file for suffix in TABLES for file in data.rglob(f"*{suffix}"))
    found = [matrix for file in files if (matrix := read_characters(file)) and matrix.labels[1:]]
    if not found:
        raise RecordsError(
            f"{str(data)!r} must have matrices in CSV or TSV files, each with two characters that "
            f"can be labels ({_KNOWN} known cells, two states of {_CLASS} species each); got none"
        )
    return found


def nearest(
    matrices: Sequence[CharacterMatrix], size: tuple[int, int], other: tuple[int, int]
) -> list[CharacterMatrix]:
    """Return the matrices nearer to one size (species, characters) than to the other, in logs.

    All of them, if none is.

    Examples
    --------
    >>> [m.name for m in nearest([zoo()], (30, 19), (56, 74))]
    ['zoo']
    """

    def distance(matrix: CharacterMatrix, to: tuple[int, int]) -> float:
        return float(np.linalg.norm(np.log(matrix.codes.shape) - np.log(to)))

    near = [matrix for matrix in matrices if distance(matrix, size) <= distance(matrix, other)]
    return near or list(matrices)


def _codes(cells: list[str]) -> Array:
    states = sorted({cell for cell in cells if cell.isalnum()})
    code = {state: float(i) for i, state in enumerate(states)}
    return np.array([code.get(cell, np.nan) for cell in cells])
