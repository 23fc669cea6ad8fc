"""Samples of hosts: several of one host, and how frequent variants are within them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.text import counted, first_ten, quoted
from outtrees.errors import Option, RecordsError
from outtrees.records.column import MISSING, Array, Column
from outtrees.records.contacts import _places, _require
from outtrees.records.files import MAX_BYTES, Source, read_source
from outtrees.records.reading import read_text
from outtrees.records.sequences import DNA
from outtrees.records.table import Table, table_of

if TYPE_CHECKING:
    from outtrees.records.records import Records

Index = NDArray[np.intp]

# Names of columns, in small letters, in order of preference.
_VARIANTS = {
    "sample": ("sample", "record", "case", "id", "name", "sample_id", "case_id"),
    "position": ("position", "pos", "site"),
    "base": ("base", "alt", "variant", "allele", "letter", "nucleotide"),
    "frequency": ("frequency", "freq", "af", "share", "alt_freq"),
}
_ROUNDED = 0.02  # of frequencies that add up to 1
LEAST_FREQUENCY = 0.03  # of a variant; rarer ones are taken for errors of sequencing


@dataclass(frozen=True, eq=False)
class Samples:
    """What was seen of the hosts that are the records of a table.

    Attributes
    ----------
    table : Records
        One record for each sample, with the columns of dates and sequences.
    host : array of shape (M,)
        The row of each sample's host.
    several : bool
        Whether the table says which samples are of one host.
    at : array of shape (V, 2)
        Sample and site (from 0) of each variable site.
    shares : array of shape (V, 4)
        How frequent A, C, G and T are there.
    """

    table: Records
    host: Index
    several: bool = True
    at: Index = field(default_factory=lambda: np.empty((0, 2), dtype=np.intp))
    shares: Array = field(default_factory=lambda: np.empty((0, 4)))

    def take(self, rows: Index) -> Samples:
        """Return the samples of these hosts only."""
        place = np.full(int(max(self.host.max(), rows.max(initial=0))) + 1, -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.host] >= 0)
        among = np.isin(self.at[:, 0], kept)
        at = np.column_stack([np.searchsorted(kept, self.at[among, 0]), self.at[among, 1]])
        table = self.table.take(kept)
        return replace(
            self, table=table, host=place[self.host][kept], at=at, shares=self.shares[among]
        )


class VariantList(NamedTuple):
    """Variants as a file lists them."""

    title: str
    samples: list[str]
    sites: list[int]  # from 0
    bases: list[str]
    frequencies: list[float]
    references: list[str]  # the base that all the rest has; "" if it is that of the sequence


# Several samples of one host -----------------------------------------------------------------


def by_host(records: Records, name: str | None) -> Records:
    """Return hosts as the records, with their samples beside them; as they are if name is None.

    A host has the date and the sequence of its first sample with a sequence, and in other columns
    the first cells that are known.

    Raises
    ------
    RecordsError
        If a sample has no host, or the table no such column, no dates or no sequences.

    Examples
    --------
    >>> from outtrees.records import read_records
    >>> table = {"sample": ["a1", "a2", "b1"], "who": ["a", "a", "b"], "day": [1, 9, 4]}
    >>> dna = {"a1": "ACGTACGT", "a2": "ACGTACGA", "b1": "ACGTACGT"}
    >>> kinds = {"who": "categorical", "day": "date"}
    >>> hosts = by_host(read_records(table, id="sample", kinds=kinds, sequences=dna), "who")
    >>> hosts.ids, hosts.samples.table.ids, hosts.samples.host.tolist()
    (('a', 'b'), ('a1', 'a2', 'b1'), [0, 0, 1])
    """
    if name is None:
        return records
    if name not in [column.name for column in records.columns]:
        names = [column.name for column in records.columns]
        raise RecordsError(
            Option("host"),
            f" must name a column that says whose samples these are; got {quoted(name)}, and the "
            f"columns are {first_ten(names)}. Correct the name.",
            column=name,
        )
    cells = records.column(name).text
    for row in np.flatnonzero(records.column(name).missing)[:1].tolist():
        raise RecordsError(
            f"sample {quoted(records.ids[row])} must have a host in column {quoted(name)}; its "
            "cell is empty. Fill it in, with a name of its own if nothing is known",
            column=name,
        )
    kept = [c for c in records.columns if c.kind in ("date", "sequence")]
    if {c.kind for c in kept} != {"date", "sequence"}:
        raise RecordsError(
            Option("host"),
            " needs columns of dates and of sequences, by which samples of one host differ; one "
            "is lacking. Add it, or keep one row for each host.",
        )
    place = {host: i for i, host in enumerate(dict.fromkeys(cells))}
    host = np.array([place[cell] for cell in cells])
    if records.groups is not None:
        pairs = np.unique(np.column_stack([host, records.groups]), axis=0)[:, 0]
        for h in pairs[1:][pairs[1:] == pairs[:-1]][:1].tolist():
            raise RecordsError(
                f"the samples of host {quoted(list(place)[h])} must be in one group; they are in "
                "several. Give hosts of different groups different names",
                column=name,
            )
    read = ~next(c for c in kept if c.kind == "sequence").missing
    days = next(c for c in kept if c.kind == "date").values[:, 0]
    order = np.lexsort((np.arange(len(host)), days, host))  # unknown dates last
    first = [min(order[host[order] == h], key=lambda row: not read[row]) for h in range(len(place))]
    columns = [
        c.take(first) if c in kept else c.take(_first_known(c, host, order, first))
        for c in records.columns
        if c.name != name
    ]
    known = {}
    for u, v in records.known_parents.items():
        if v < 0 or host[u] != host[v]:
            known[int(host[u])] = -1 if v < 0 else int(host[v])
    return replace(
        records,
        ids=tuple(place),
        columns=tuple(columns),
        known_parents=known,
        groups=None if records.groups is None else records.groups[first],
        roles=(*records.roles, (name, "host", "asked for")),
        notes=(
            *records.notes,
            f"{counted(len(host), 'sample')} of {counted(len(place), 'host')}: parents are hosts",
        ),
        samples=Samples(_bare(records, kept), host),
    )


def _bare(records: Records, columns: Iterable[Column]) -> Records:
    """Return records with these columns and nothing that is known of parents."""
    return type(records)(records.ids, tuple(columns))


def _first_known(column: Column, host: Index, order: Index, first: list[Any]) -> list[Any]:
    """Return the row of each host's first sample that this column knows."""
    rows = list(first)
    for row in order[::-1].tolist():
        if not column.missing[row]:
            rows[host[row]] = row
    return rows


# Variants ------------------------------------------------------------------------------------


def read_variants(
    source: Any,
    *,
    encoding: str = "utf-8",
    quotes: bool = True,
    max_bytes: int = MAX_BYTES,
    missing: Iterable[str] = MISSING,
) -> VariantList:
    """Return variants within samples: a VCF file, or a table sample, position, base, frequency.

    Positions count from 1. A VCF has a column for each sample, with AF or AD; insertions and
    deletions in it are passed over. Capitals in the names of columns do not matter, and a few
    other names are known (id, site, alt, af, …).

    Examples
    --------
    >>> table = {"sample": ["a", "b"], "position": [7, 7], "base": ["T", "T"]}
    >>> found = read_variants(table | {"frequency": [0.2, 0.1]})
    >>> found.samples, found.sites, found.frequencies
    (['a', 'b'], [6, 6], [0.2, 0.1])
    """
    if isinstance(source, (str, bytes)) or hasattr(source, "__fspath__"):
        file = read_source(source, max_bytes, spreadsheets=True)
        if file.extension == ".vcf" or file.data.startswith(b"##fileformat=VCF"):
            return _of_vcf(*_rows_of_vcf(file, file.text(encoding).splitlines()))
    table = read_text(source, encoding=encoding, quotes=quotes, max_bytes=max_bytes)
    table = table.known(set(missing))
    place = _places(table, _VARIANTS)
    _require(table, place, tuple(_VARIANTS), "variants")
    samples, positions, bases, shares = (table.cells[place[name]] for name in _VARIANTS)
    found = VariantList(table.title, [], [], [], [], [])
    listed: set[tuple[str, int, str]] = set()
    for row, cells in enumerate(zip(samples, positions, bases, shares, strict=True)):
        sample, position, base, share = cells
        if not all(cells):
            raise table.error(row, None, "a variant needs all of its four cells; fill in the rest")
        if base.upper() not in tuple(DNA):
            raise table.error(
                row, None, f"base must be A, C, G or T; got {quoted(base)}. Leave the row out"
            )
        frequency = _number(table, row, share)
        site = _site(table, row, position)
        if (sample, site, base.upper()) in listed:
            raise table.error(
                row, None, "this sample, position and base have a row already; keep one of them"
            )
        listed.add((sample, site, base.upper()))
        found.samples.append(sample)
        found.sites.append(site)
        found.bases.append(base.upper())
        found.frequencies.append(frequency)
        found.references.append("")
    return found


def _site(table: Table, row: int, cell: str) -> int:
    if not cell.isdecimal() or int(cell) < 1:
        raise table.error(row, None, f"position must be a number from 1; got {quoted(cell)}")
    return int(cell) - 1


def _number(table: Table, row: int, cell: str) -> float:
    try:
        share = float(cell)
    except ValueError:
        share = np.nan
    if not 0 <= share <= 1:
        raise table.error(
            row, None, f"frequency must be between 0 and 1; got {quoted(cell)}. Write 0.2 for 20 %"
        )
    return share


def _rows_of_vcf(file: Source, lines: list[str]) -> tuple[Table, list[str], list[list[str]]]:
    """Return the table of a VCF file, its header and its rows, which have as many fields."""
    starts = [i for i, line in enumerate(lines) if line.startswith("#CHROM")]
    if not starts:
        raise RecordsError(f"{file.name} must have a line that begins with #CHROM; add it")
    at_lines = [i for i in range(starts[0] + 1, len(lines)) if lines[i].strip()]
    rows = [lines[i].split("\t") for i in at_lines]
    header = lines[starts[0]].split("\t")
    for row, i in zip(rows, at_lines, strict=True):
        if len(row) != len(header):
            raise RecordsError(
                f"{file.name} line {i + 1}: {len(row)} fields, header has {len(header)};"
                " correct it",
                file=file.name,
            )
    return table_of(header, rows, [i + 1 for i in at_lines], file), header, rows


def _of_vcf(table: Table, header: list[str], rows: list[list[str]]) -> VariantList:
    if len(header) < 10:
        raise RecordsError(
            f"{table.title} must have a column for each sample; got none. Merge the files of the "
            "samples, or give a table sample, position, base, frequency",
            file=table.file,
        )
    found = VariantList(table.title, [], [], [], [], [])
    seen = False
    counted_at: set[tuple[str, int]] = set()
    for i, row in enumerate(rows):
        chromosome, position, _, reference, others, *_ = row
        if chromosome != rows[0][0]:
            raise table.error(
                i,
                None,
                f"variants must be of one sequence; got {quoted(rows[0][0])} and "
                f"{quoted(chromosome)}. Give the rows of one of them",
            )
        fields = row[8].split(":")
        seen |= not {"AF", "AD"}.isdisjoint(fields)
        # Insertions and deletions have longer texts; "." is a site without variants.
        if others == "." or reference.upper() not in tuple(DNA):
            continue
        site = _site(table, i, position)
        for sample, cell in zip(header[9:], row[9:], strict=True):
            parts = dict(zip(fields, cell.split(":"), strict=False))
            known = [name for name in ("AF", "AD") if set(parts.get(name, ".")) - set(".,")]
            if not known:
                continue
            if known[0] == "AD" and (sample, site) in counted_at:
                raise table.error(
                    i,
                    None,
                    "AD of a position must be in one row, since reads are counted together; got "
                    "several. Join them (bcftools norm -m +)",
                )
            counted_at.add((sample, site))
            shares = _shares(table, i, sample, known[0], parts[known[0]], others.count(",") + 1)
            for base, share in zip(others.upper().split(","), shares, strict=True):
                if base in tuple(DNA):
                    found.samples.append(sample.strip())
                    found.sites.append(site)
                    found.bases.append(base)
                    found.frequencies.append(share)
                    found.references.append(reference.upper())
    if not seen:
        raise RecordsError(
            f"{table.title}: variants must have AF or AD for each sample; got neither. Write them, "
            "or give a table sample, position, base, frequency",
            file=table.file,
        )
    return found


def _shares(table: Table, row: int, sample: str, name: str, cell: str, n: int) -> list[float]:
    """Return the frequencies of n bases from a cell of AF or AD."""
    # Merged files have "." for bases that a sample's own file did not list.
    texts = ["0" if text == "." else text for text in cell.split(",")]
    if name == "AD":
        counts = [_count(table, row, text) for text in texts]
        texts = [str(count / max(sum(counts), 1)) for count in counts[1:]]
    if len(texts) != n:
        raise table.error(
            row,
            None,
            f"{name} of {quoted(sample)} must have one number for each base (AD also for the "
            f"reference); got {quoted(cell)}. Correct it",
        )
    return [_number(table, row, text) for text in texts]


def _count(table: Table, row: int, cell: str) -> int:
    if not cell.isdecimal():
        raise table.error(row, None, f"AD must be counts of reads; got {quoted(cell)}. Correct it")
    return int(cell)


def with_variants(records: Records, variants: VariantList | None) -> Records:
    """Return records with the variants of their samples.

    What the frequencies of a site leave has the reference's base, in a table that of the sequence.
    Variants below 3 % are left out, and so are those of samples that are not in the table.

    Raises
    ------
    RecordsError
        If there is no DNA, a site lies outside, frequencies add up to more than one, or nothing
        says what has the rest.
    """
    if variants is None:
        return records
    title = variants.title
    samples = records.samples
    if samples is None:
        kept = [c for c in records.columns if c.kind in ("date", "sequence")]
        samples = Samples(_bare(records, kept), np.arange(len(records)), several=False)
    dna = [c for c in samples.table.columns if c.kind == "sequence" and c.levels == tuple(DNA)]
    if len(dna) != 1:
        raise RecordsError(
            f"{title}: variants need one column of DNA in the table; got {len(dna)}. Give ",
            Option("sequences"),
            " too",
        )
    if not variants.samples:
        raise RecordsError(
            f"{title} must have single bases that differ within samples; got none. Leave it out"
        )
    place = {name: row for row, name in enumerate(samples.table.ids)}
    unknown = sorted(set(variants.samples) - set(place))
    if len(unknown) == len(set(variants.samples)):
        raise RecordsError(
            f"{title}: samples must have the names of the table ({first_ten(list(place))}); got "
            f"{first_ten(unknown)}. Rename them"
        )
    at, shares = [], []
    for (row, site), (share, reference) in sorted(_by_site(variants, place).items()):
        where = f"{title}, position {site + 1} of {quoted(samples.table.ids[row])}"
        n_sites = dna[0].values.shape[1]
        if site >= n_sites:
            raise RecordsError(
                f"{where}: positions must be those of the alignment, 1 to {n_sites}. Align the "
                "sequences to the same reference"
            )
        share = _completed(share, reference, dna[0].values[row, site], where)
        if (share > 0).sum() > 1:
            at.append((row, site))
            shares.append(share)
    note = f"{counted(len(at), 'variable site')} within samples from {title}"
    if unknown:
        note += f"; those of {first_ten(unknown)} are not used: no such sample"
    samples = replace(
        samples,
        at=np.array(at, dtype=np.intp).reshape(-1, 2),
        shares=np.array(shares).reshape(-1, 4),
    )
    return replace(records, samples=samples, notes=(*records.notes, note))


def _by_site(
    variants: VariantList, place: dict[str, int]
) -> dict[tuple[int, int], tuple[Array, str]]:
    """Return the frequencies that are listed for each sample and site, and the reference's base."""
    sites: dict[tuple[int, int], tuple[Array, str]] = {}
    for sample, site, base, frequency, reference in zip(*variants[1:], strict=True):
        if sample in place:
            share, _ = sites.setdefault((place[sample], site), (np.zeros(4), reference))
            share[DNA.index(base)] += frequency
    return sites


def _completed(share: Array, reference: str, letter: float, where: str) -> Array:
    """Return the frequencies of all bases at a site, with what is left given to the other one."""
    left = 1 - share.sum()
    if left < -_ROUNDED:
        raise RecordsError(
            f"{where}: frequencies must add up to at most 1; got {share.sum():.3g}. Correct it"
        )
    if left > _ROUNDED:
        own = float(DNA.index(reference)) if reference else letter
        if np.isnan(own) or (not reference and share[int(own)] > 0):
            raise RecordsError(
                f"{where}: frequencies must add up to 1 where the base of the rest is not known; "
                f"got {share.sum():.3g}. Add a row for the other base"
            )
        share[int(own)] += left
    share = np.where(share < LEAST_FREQUENCY, 0.0, share)
    return np.asarray(share / share.sum())
