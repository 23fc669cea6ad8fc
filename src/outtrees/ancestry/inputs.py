"""What a fit of `Ancestry` takes, by its options: records, columns, roots and constraints.

The functions are methods of the estimator, whose options they read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outtrees.ancestry import learning
from outtrees.ancestry.columns import (
    ModelColumn,
    date_cells,
    date_columns,
    matrix_column,
    model_columns,
)
from outtrees.ancestry.constraints import forbidden_pairs, known_parents, row_of
from outtrees.ancestry.learning import Roots
from outtrees.ancestry.model_choice import date_options, most_links, transmission_options
from outtrees.candidates import Constraints, constraints
from outtrees.errors import Option, RecordsError
from outtrees.models.columns import Lineage
from outtrees.records import Records, read_records
from outtrees.records.evidence import as_evidence
from outtrees.records.samples import VariantList, by_host, read_variants, with_variants

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry


def read_table(
    self: Ancestry,
    table: Any,
    sequences: Any,
    unsequenced: str,
    variants: Any = None,
    kinds: Mapping[str, str] | None = None,
    unique_within: str = "table",
) -> Records:
    """Return the records of a table; `kinds` instead of those of the options, if given."""
    host = getattr(self, "host", None)  # models of earlier versions lack it
    if variants is not None and not isinstance(variants, VariantList):
        variants = read_variants(variants)
    if isinstance(table, Records):
        if sequences is not None:
            raise RecordsError("these records are read already; join sequences when reading")
        if unique_within == "table" and len(set(table.ids)) != len(table):
            raise RecordsError(
                "identities of these records differ only within groups; fit each group on its "
                "own with fit_populations"
            )
        records = table
    else:
        columns = dict((self.kinds if kinds is None else kinds) or {})
        own = ((self.until, "date"), (self.censored, "categorical"), (host, "categorical"))
        for name, kind in own:
            if name is not None:
                columns.setdefault(name, kind)
        records = read_records(
            table,
            id=self.id,
            kinds=columns,
            sequences=sequences,
            unsequenced=unsequenced,
            unique_within=unique_within,
        )
    if records.samples is None:
        records = by_host(records, host)
    elif host is not None and not records.samples.several:
        raise RecordsError(
            "these records have variants of samples already; join the samples of a host by "
            "by_host before with_variants"
        )
    records = with_variants(records, variants)
    return as_evidence(records, (self.until, self.censored))


def sample_dates(self: Ancestry) -> Any:
    """Return the dates of all samples of the hosts (M, 4), None if each host is its one sample."""
    samples = self.table_.samples
    if samples is None:
        return None
    dates = [column for column in self.table_.columns if column.kind == "date"]
    column = samples.table.column(dates[0].name)
    return date_cells(samples.table, column, date_options(self))


def table_columns(self: Ancestry, distances: Any, log_weights: Any) -> list[ModelColumn]:
    """Return the columns as the model sees them, matrices last."""
    columns = model_columns(
        self.table_,
        date_options(self),
        clock=self.clock,
        group_spread=self.group_spread,
        substitution=self.substitution,
        kernels=self.kernels,
        transmission=transmission_options(self),
    )
    for name, given in (("distances", distances), ("log_weights", log_weights)):
        if given is not None:
            columns.append(matrix_column(name, given, self.table_))
    return columns


def table_constraints(self: Ancestry) -> Constraints:
    """Return who may descend from whom."""
    records = self.table_
    return constraints(
        len(records),
        records.groups,
        known_parents(records, self.known_parents),
        forbidden_pairs(records, self.forbidden),
        None if self.root is None else row_of(records, self.root),
        records.ids,
    )


def kind_of_roots(self: Ancestry) -> Roots:
    """How many roots there are: any number where dates order parents and children."""
    if self.roots != "auto":
        return self.roots
    dated = bool(date_columns(self.table_, (self.until, self.censored)))
    weighed = "log_weights" in self.column_names_
    roots = sum(v == -1 for v in known_parents(self.table_, self.known_parents).values())
    if roots > 1 and self.table_.groups is None:
        return "any"
    return "any" if dated and self.root is None and not weighed else "single"


def kept_columns(self: Ancestry, names: Sequence[str]) -> Sequence[str]:
    """Return the columns that are not to be left out; with several samples, the sequences."""
    for name in self.keep or ():
        if name not in names:
            raise RecordsError(
                Option("keep"),
                f" must name columns that take part, such as {names[0]!r}; got {name!r}. "
                "Correct the name.",
                column=name,
            )
    kept = list(self.keep or ())
    if self.table_.samples is not None:
        kept += [c.name for c in self.table_.columns if c.kind == "sequence" and c.name in names]
    return tuple(dict.fromkeys(kept))


def learned(
    self: Ancestry,
    columns: Sequence[ModelColumn],
    given: Constraints,
    checkpoint: str | os.PathLike[str] | None,
) -> learning.TableFit:
    """Return the readings of the table."""
    kernels = tuple(column.kernel for column in columns)
    # People who were not sampled are part of the transmission model.
    links = most_links(self) if transmission_options(self) is None else 1
    lineage = Lineage(kernels, links, self.background)
    names = [column.name for column in columns]
    kept = None
    if checkpoint is not None:
        settings = {
            "roots": self._roots,
            "keep": list(kept_columns(self, names)),
            "max_iter": self.max_iter,
            "tol": self.tol,
            # All other settings are in the columns and the constraints already.
            "columns": list(map(tuple, columns)),
            "given": tuple(given),
        }
        kept = learning.lineage_checkpoint(checkpoint, settings, lineage)
    return learning.learn(
        lineage,
        [column.values for column in columns],
        given,
        self._roots,
        keep=[names.index(name) for name in kept_columns(self, names)],
        max_iter=self.max_iter,
        tol=self.tol,
        progress=self.progress,
        say=self._say,
        checkpoint=kept,
    )
