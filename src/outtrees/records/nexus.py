"""Character matrices of NEXUS files, read with dendropy."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from outtrees._common.text import first_ten, quoted, shown
from outtrees.errors import RecordsError, library
from outtrees.records.column import Column, with_sets
from outtrees.records.files import Source
from outtrees.records.kinds import sequence_column

# Looks at the end of the file after which a reader is taken to be caught there.
_PATIENCE = 10_000
_SEQUENCES = ("dna", "rna", "nucleotide", "protein")


class _EndlessError(Exception):
    """dendropy asks for more after the end, and would forever."""


class _End(str):
    """The empty text at the end of a file, which counts how often it is looked at."""

    looks = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        self.looks += 1
        if self.looks > _PATIENCE:
            raise _EndlessError
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


class _Text(io.StringIO):
    """Text for dendropy, whose loops over a block that never ends do not end either."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._end = _End()

    def read(self, size: int | None = -1) -> str:
        return super().read(size) or self._end


def read_nexus(source: Source, encoding: str = "utf-8") -> tuple[list[str], list[Column]]:
    """Return taxa and columns of the character blocks of a NEXUS file.

    DNA, RNA and protein blocks become one sequence column each, continuous blocks one column a
    character, all others one categorical column a character. "?" and "-" are missing, and so are
    polymorphic cells such as {01}, whose states their text keeps ("wine / water"). Names of
    characters and states are those of CHARSTATELABELS, where the file has one matrix. Underscores
    in names are kept.
    """
    dendropy = library(
        "dendropy",
        f"{source.name} is a NEXUS file, which needs dendropy; pip install 'outtrees[nexus]'",
    )
    text = source.text(encoding)
    bare = _without_comments(text)
    if not re.search(r"\bend(block)?\s*;\s*$", bare, re.IGNORECASE):
        raise RecordsError(f"{source.name} is truncated: 'end;' must stand at its end")
    try:
        data = _read(dendropy, text)
    except _EndlessError:
        raise RecordsError(
            f"{source.name} cannot be read as NEXUS: it ends within a block; close every comment, "
            "statement (';') and block ('end;')"
        ) from None
    except RecursionError:
        raise RecordsError(f"{source.name}: brackets are nested too deep for NEXUS") from None
    except Exception as error:  # dendropy raises whatever its tokenizer ran into
        raise RecordsError(
            f"{source.name} cannot be read as NEXUS: {shown(' '.join(str(error).split()), 200)}"
        ) from None
    matrices = [matrix for matrix in data.char_matrices if len(matrix)]
    if not matrices:
        raise RecordsError(
            f"{source.name} has no characters; it must have a DATA or CHARACTERS block"
        )
    taxa = [taxon.label for taxon in matrices[0]]
    _check_taxa(source, taxa, [taxon.label for taxon in matrices[0].taxon_namespace], bare)
    columns: list[Column] = []
    labels = _labels(bare) if len(matrices) == 1 else {}
    for matrix in matrices:
        if {taxon.label for taxon in matrix} != set(taxa) or len(matrix) != len(taxa):
            raise RecordsError(
                f"{source.name}: all character blocks must hold the same taxa; write the missing "
                "ones with '?' for every character"
            )
        columns += _columns(source, matrix, taxa, len(columns), labels)
    return taxa, columns


def _without_comments(text: str) -> str:
    """Return the text with a blank for each [comment] outside 'words'; an open one stays.

    Not a regular expression: it would look for the end of the file from every open bracket.
    """
    parts = []
    begun = at = 0
    while (opened := text.find("[", at)) >= 0:
        quote = text.find("'", at, opened)
        closed = text.find("]" if quote < 0 else "'", (opened if quote < 0 else quote) + 1)
        if closed < 0:
            break
        if quote < 0:
            parts += [text[begun:opened], " "]
            begun = closed + 1
        at = closed + 1
    return "".join([*parts, text[begun:]])


def _read(dendropy: Any, text: str) -> Any:
    """Return dendropy's data set of a text, in time that grows with its length.

    dendropy itself compares each label with all those before it, and lists every number of a set
    of characters, such as 1-999999999.
    """
    from dendropy.dataio.nexusreader import NexusReader

    class Taxa(dendropy.TaxonNamespace):
        def __init__(self, *args: Any, **options: Any) -> None:
            self._found: dict[str, list[Any]] = {}
            super().__init__(*args, **options)

        def add_taxon(self, taxon: Any) -> None:
            if taxon not in self._taxon_accession_index_map:
                self._found.setdefault(str(taxon.label).lower(), []).append(taxon)
            super().add_taxon(taxon)

        def _lookup_label(
            self,
            label: str,
            is_case_sensitive: bool | None = None,
            first_match_only: bool = False,
            error_if_not_found: bool = False,
        ) -> Any:
            found = self._found.get(str(label).lower(), [])
            if is_case_sensitive or (is_case_sensitive is None and self.is_case_sensitive):
                found = [taxon for taxon in found if taxon.label == label]
            if not found and error_if_not_found:
                raise LookupError(label)
            if not found:
                return None
            return found[0] if first_match_only else list(found)

    class Data(dendropy.DataSet):
        def new_taxon_namespace(self, *args: Any, **options: Any) -> Any:
            taxa = Taxa(*args, **options)
            self.add_taxon_namespace(taxa)
            return taxa

    class Reader(NexusReader):
        def _parse_charset_statement(self, *_: Any, **__: Any) -> None:
            self._nexus_tokenizer.skip_to_semicolon()

    data = Data()
    Reader(preserve_underscores=True).read_dataset(
        _Text(text), data, exclude_trees=True, state_alphabet_factory=dendropy.StateAlphabet
    )
    return data


def _check_taxa(source: Source, taxa: list[str], declared: list[str], text: str) -> None:
    """Refuse a matrix with fewer taxa than the file says it has."""
    written = set(taxa)
    without = [label for label in declared if label not in written]
    if without:
        raise RecordsError(
            f"{source.name}: {len(without)} taxa have no characters: {first_ten(without)}; write "
            "'?' for every character"
        )
    promised = {int(n) for n in re.findall(r"\bntax\s*=\s*(\d{1,9})", text, re.IGNORECASE)}
    if promised and len(taxa) not in promised:
        raise RecordsError(
            f"{source.name}: ntax is {max(promised)}, but there are {len(taxa)} taxa; correct it"
        )


def _labels(text: str) -> dict[int, tuple[str, dict[str, str]]]:
    """Return number → name, and symbol → name of the states, of CHARSTATELABELS."""
    statement = re.search(r"\bcharstatelabels\b", text, re.IGNORECASE)
    if statement is None:
        return {}
    named = re.search(r'\bsymbols\s*=\s*"([^"]*)"', text, re.IGNORECASE)
    symbols = "01" if named is None else "".join(named[1].split())
    # Words, quoted words (a quotation mark inside is doubled), and the three signs between them.
    words = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^\s,/;']+)|([,/;]))")
    found: dict[int, tuple[str, dict[str, str]]] = {}
    number, name, states, inside = 0, "", list[str](), False
    at = statement.end()
    while (word := words.match(text, at)) is not None:
        at = word.end()
        if word[3] == "/":
            inside = True
        elif word[3]:
            if number:
                found[number] = (name, dict(zip(symbols, states, strict=False)))
            number, name, states, inside = 0, "", [], False
            if word[3] == ";":
                break
        else:
            plain = word[2] if word[1] is None else word[1].replace("''", "'")
            if inside:
                states.append(plain)
            elif not number and plain.isdecimal():
                number = int(plain[:9])
            else:
                name = plain
    return found


def _columns(
    source: Source,
    matrix: object,
    taxa: list[str],
    first: int,
    labels: dict[int, tuple[str, dict[str, str]]],
) -> list[Column]:
    rows = {taxon.label: matrix[taxon] for taxon in matrix}  # type: ignore[attr-defined,index]
    kind = matrix.data_type  # type: ignore[attr-defined]
    why = f"{kind} characters of {source.name}"
    if kind in _SEQUENCES:
        name = f"sequence{first + 1}" if first else "sequence"
        texts = ["".join(_symbol(state) or "?" for state in rows[taxon]) for taxon in taxa]
        letters = "protein" if kind == "protein" else "dna"

        def where(row: int) -> str:
            return f"{source.name}, taxon {quoted(taxa[row])}"

        return [sequence_column(name, texts, where, why, letters)]
    n = max(len(row) for row in rows.values())
    short = next((taxon for taxon in taxa if len(rows[taxon]) != n), None)
    if short is not None:
        raise RecordsError(
            f"{source.name}: taxon {quoted(short)} must have {n} characters; got "
            f"{len(rows[short])}. Fill it up with '?'"
        )
    columns = []
    taken: set[str] = set()
    for c in range(n):
        label, states = labels.get(c + 1, ("", {}))
        name = label or f"c{first + c + 1}"
        name = f"{name} ({c + 1})" if name in taken else name
        taken.add(name)
        if len(set(states.values())) < len(states):
            states = {}  # two states of one name stay apart by their symbols
        if kind == "continuous":
            numbers = [float(rows[taxon][c]) for taxon in taxa]
            text = tuple(f"{number:g}" for number in numbers)
            values = np.array(numbers)[:, None]
            columns.append(Column(name, "continuous", values, None, text, reason=why))
            continue
        symbols = [_symbol(rows[taxon][c]) for taxon in taxa]
        cells = [states.get(symbol, symbol) for symbol in symbols]
        sets = [[states.get(s, s) for s in _members(rows[taxon][c])] for taxon in taxa]
        levels = tuple(sorted({cell for cell in cells if cell}.union(*sets)))
        code = {level: float(i) for i, level in enumerate(levels)}
        values = np.array([code.get(cell, np.nan) for cell in cells])[:, None]
        text = tuple(cell or " / ".join(words) for words, cell in zip(sets, cells, strict=True))
        reason = with_sets(why, sum(map(bool, sets)))
        columns.append(Column(name, "categorical", values, levels, text, reason=reason))
    return columns


def _members(state: object) -> list[str]:
    """Return the symbols of a polymorphic or uncertain state such as {01}; none of "?"."""
    if getattr(state, "symbol", None):
        return []
    members = getattr(state, "member_states", None) or ()
    return [symbol for member in members if (symbol := _symbol(member))]


def _symbol(state: object) -> str:
    """Return the symbol of one certain state, "" of anything else."""
    symbol = str(getattr(state, "symbol", None) or "")
    return "" if symbol in ("?", "-") else symbol
