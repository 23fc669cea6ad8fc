"""Aligned sequences: FASTA files and columns of letters, as codes of an alphabet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.memory import check_memory
from outtrees._common.text import first_ten, quoted, shown
from outtrees.errors import RecordsError
from outtrees.records.column import Array
from outtrees.records.files import Source

DNA = "ACGT"
PROTEIN = "ACDEFGHIKLMNPQRSTVWY"
_GAPS = "-.?"
_VAGUE_DNA = "RYSWKMBDHVNX"
# Codes of two or three bases, as the sum of 1 (A), 2 (C), 4 (G) and 8 (T).
_SETS = dict(zip("MRWSYKVHDB", (3, 5, 9, 6, 10, 12, 7, 11, 13, 14), strict=True))
_VAGUE_PROTEIN = "BJOUXZ*"
# An alignment of DNA is mostly letters that say which base; proteins can be spelled with the
# ambiguity codes, but hardly with A, C, G and T for more than half.
_LEAST_CERTAIN = 0.5
_HARMLESS = 2**26  # bytes for which nobody is asked
_SHORTEST = 20  # what is taken for DNA without being asked


class Alignment(NamedTuple):
    """Sequences of equal length as codes."""

    values: Array  # (T, sites), codes into the alphabet, NaN where ambiguous, a gap or missing
    alphabet: tuple[str, ...]
    digests: tuple[str, ...]  # "" for a record without a sequence
    sets: NDArray[np.uint8] | None = None  # (T, sites), as `Column` has them


def align(
    sequences: Sequence[str], where: Callable[[int], str], letters: str | None = None
) -> Alignment:
    """Return sequences as codes; "" is a record without one.

    DNA or RNA (A, C, G, T; U is read as T) if nothing but the IUPAC codes occurs and at least half
    of the letters are one of the four; else protein (20 letters) if nothing but those and the
    ambiguity codes B, J, O, U, X, Z and * occurs; else any text, each character a letter. Case is
    ignored. Ambiguity codes, N (of DNA), "-", "." and "?" are missing; which bases a code of DNA
    stands for is kept beside (`sets`).

    Parameters
    ----------
    sequences : sequence of str, one for each record
    where : function
        From a row to the words that name it in a message.
    letters : {"dna", "protein"}, optional
        If it is known which they are.

    Raises
    ------
    RecordsError
        If two lengths differ; it names the record.

    Examples
    --------
    >>> found = align(["acgu", "ACN-"], lambda row: f"row {row}")
    >>> "".join(found.alphabet), found.values.tolist()
    ('ACGT', [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, nan, nan]])
    >>> align(["ACGU", "ARN-"], lambda row: f"row {row}").sets.tolist()
    [[1, 2, 4, 8], [1, 5, 15, 15]]
    """
    rows = [row for row, sequence in enumerate(sequences) if sequence]
    if not rows:
        raise RecordsError(
            f"{where(0)}: no record has a sequence; give one or leave the column out"
        )
    lengths = np.array([len(sequences[row]) for row in rows])
    usual = int(np.bincount(lengths).argmax())
    wrong = np.flatnonzero(lengths != usual)
    if len(wrong):
        row, other = rows[wrong[0]], rows[int(np.flatnonzero(lengths == usual)[0])]
        more = f" ({len(wrong)} records in all differ)" if len(wrong) > 1 else ""
        raise RecordsError(
            f"{where(row)}: the sequence must have {usual} sites, as in {where(other)}; got "
            f"{lengths[wrong[0]]}{more}. Align the sequences"
        )
    # Sixteen times the letters: as code points, as codes, and while one becomes the other.
    needed = 16 * usual * len(sequences)
    if needed > _HARMLESS:
        check_memory(
            f"sequences of {len(sequences)} records with {usual} sites need",
            needed,
            "Give fewer records or sites.",
        )
    # Code points in one go: no loop over characters.
    whole = "".join(sequences[row] for row in rows)
    points = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype="<u4").copy()
    small = (points >= ord("a")) & (points <= ord("z"))
    points[small] -= 32
    counts = np.bincount(points)  # by code point: a million at most
    found = np.flatnonzero(counts)
    alphabet, codes = _alphabet([chr(point) for point in found], counts[found], letters)
    code_of = np.full(len(counts), np.nan)
    code_of[found] = codes
    values = np.full((len(sequences), usual), np.nan)
    values[rows] = code_of[points].reshape(len(rows), usual)
    digests = [""] * len(sequences)
    for row, line in zip(rows, points.reshape(len(rows), usual), strict=True):
        digests[row] = hashlib.sha256(line.tobytes()).hexdigest()[:12]
    sets = None
    if "".join(alphabet) == DNA and any(chr(point) in _SETS for point in found):
        bits = np.full(len(counts), 15, dtype=np.uint8)
        for point, code in zip(found.tolist(), codes.tolist(), strict=True):
            bits[point] = _SETS.get(chr(point), 15) if np.isnan(code) else 1 << int(code)
        sets = np.full(values.shape, 15, dtype=np.uint8)
        sets[rows] = bits[points].reshape(len(rows), usual)
    return Alignment(values, tuple(alphabet), tuple(digests), sets)


def _alphabet(found: list[str], counts: NDArray[np.intp], letters: str | None) -> tuple[str, Array]:
    """Return the alphabet, and for each letter found its code or NaN."""
    number = dict(zip(found, counts.tolist(), strict=True))
    certain = sum(number.get(letter, 0) for letter in DNA + "U")
    vague = sum(number.get(letter, 0) for letter in _VAGUE_DNA if letter not in "NX")
    of_dna = set(found) <= set(DNA + "U" + _VAGUE_DNA + _GAPS)
    of_protein = set(found) <= set(PROTEIN + _VAGUE_PROTEIN + _GAPS)
    mostly_certain = certain >= _LEAST_CERTAIN * (certain + vague)
    if of_dna and (letters == "dna" or (letters is None and mostly_certain)):
        alphabet, missing, same = DNA, _VAGUE_DNA + _GAPS, {"U": "T"}
    elif of_protein:
        alphabet, missing, same = PROTEIN, _VAGUE_PROTEIN + _GAPS, {}
    else:
        alphabet = "".join(letter for letter in found if letter not in _GAPS)
        missing, same = _GAPS, {}
    code = {letter: float(i) for i, letter in enumerate(alphabet)}
    codes = [np.nan if x in missing else code[same.get(x, x)] for x in found]
    return alphabet, np.array(codes)


def looks_like_dna(cells: Sequence[str]) -> bool:
    """Return whether all cells are DNA of one length, 20 sites at least."""
    size = len(cells[0])
    if size < _SHORTEST or any(len(cell) != size for cell in cells):
        return False
    letters = set().union(*cells)
    return letters <= set((DNA + "U" + _VAGUE_DNA + _GAPS) + (DNA + "U" + _VAGUE_DNA).lower())


class Named(NamedTuple):
    """Sequences with their names and the lines on which they begin."""

    names: list[str]
    sequences: list[str]
    lines: list[int]


def read_fasta(source: Source, encoding: str = "utf-8") -> Named:
    """Return the sequences of a FASTA file, each with the whole of its header line.

    Raises
    ------
    RecordsError
        If text stands before the first header, a header or a sequence is empty.
    """
    names: list[str] = []
    lines: list[int] = []
    parts: list[list[str]] = []
    for number, line in enumerate(source.text(encoding).splitlines(), start=1):
        if line.startswith(">"):
            names.append(line[1:].strip())
            lines.append(number)
            parts.append([])
            if not names[-1]:
                raise RecordsError(
                    f"{source.name} line {number}: a name must follow '>'; got none. Write one"
                )
        elif not line.strip() or line.startswith(";"):  # old comments
            continue
        elif not names:
            raise RecordsError(
                f"{source.name} line {number}: '>' and a name must come first; got "
                f"{quoted(line)}. Write the name of the sequence above it"
            )
        else:
            parts[-1].append("".join(line.split()))
    sequences = ["".join(part) for part in parts]
    for name, sequence, number in zip(names, sequences, lines, strict=True):
        if not sequence:
            raise RecordsError(
                f"{source.name} line {number}: {quoted(name)} has no sequence; write N for every "
                "site if it is unknown"
            )
    if not names:
        raise RecordsError(f"{source.name} has no sequences; it is empty")
    return Named(names, sequences, lines)


def check_unique(
    names: Sequence[str],
    lines: Sequence[int],
    title: str,
    word: str,
    remedy: str = "rename or remove the repeats",
) -> None:
    """Refuse names that occur twice; the message names them and their lines or rows."""
    if len(set(names)) == len(names):
        return
    seen: dict[str, list[int]] = {}
    for name, line in zip(names, lines, strict=True):
        seen.setdefault(name, []).append(line)
    twice = {name: where for name, where in seen.items() if len(where) > 1}
    listed = []
    for name, where in twice.items():
        some = ", ".join(map(str, where[:5])) + (", …" if len(where) > 5 else "")
        listed.append(f"{shown(name, 30)} ({word}s {some})")
    raise RecordsError(
        f"{title}: identities must differ; got {len(twice)} that occur more than once: "
        f"{first_ten(listed)}; {remedy}"
    )
