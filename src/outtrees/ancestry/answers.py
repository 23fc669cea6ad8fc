"""What a fitted ancestry answers: parents, trees, labels, and what follows from knowing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from outtrees._common.random import as_generator
from outtrees.ancestry import later, limiting, questions, reporting
from outtrees.ancestry.fitted import Fitted
from outtrees.ancestry.given import known_parents
from outtrees.errors import RecordsError
from outtrees.io.tables import Table
from outtrees.records import Records
from outtrees.trees.arguments import check_count

Array = NDArray[np.float64]


class Answers:
    """The questions that `Ancestry` answers once it is fitted."""

    fitted: Fitted
    table_: Records
    random_state: Any
    lineage_: Any

    @property
    def records(self) -> Records:
        """The records as they were read."""
        check_is_fitted(self, "table_")
        return self.table_

    def parents(self, min_support: float = 0.1) -> Table:
        """Return the table child, parent, support, rank; a root has an empty parent. Exact."""
        return questions.parents_table(self.fitted, lambda ranked: ranked.support >= min_support)

    def credible_parents(self, level: float = 0.95) -> Table:
        """Return, for each record, the fewest parents that hold this much of the probability."""
        return questions.parents_table(self.fitted, lambda ranked: ranked.before < level)

    def tree(self, kind: str = "consensus", random_state: Any = None) -> NDArray[np.intp]:
        """Return parents (T,), −1 at roots: "consensus", "mode", or one "sample".

        The consensus has the most expected right parents, the mode is the most probable tree.
        """
        if kind == "consensus":
            return self.fitted.consensus.parents
        if kind == "mode":
            return self.fitted.mode.parents
        if kind == "sample":
            seed = self.random_state if random_state is None else random_state
            return self.fitted.trees.sample(1, as_generator(seed))[0]
        raise ValueError(f"kind is expected to be consensus, mode or sample; got {kind!r}")

    @property
    def expected_right_(self) -> float:
        """The expected number of right parents (and roots) of the consensus. Exact."""
        return float(self.fitted.consensus.expected_right)

    @property
    def n_roots_(self) -> Array:
        """The probabilities of 0, 1, 2, … roots. Exact."""
        return self.fitted.trees.number_of_roots()

    @property
    def log_likelihood_(self) -> float:
        """Log Z of the records: the log of the sum over all trees, columns counting as fitted."""
        if self.lineage_.exponents is None:
            return self.fitted.trees.log_z
        plain = replace(self.lineage_, exponents=None)
        return replace(self.fitted, lineage=plain).trees.log_z

    @property
    def records_(self) -> Table:
        """Each record's parent, support, root probability, expected children and log-density."""
        return questions.records_table(self.fitted)

    def limited_parents(
        self,
        max_children: int,
        min_support: float = 0.1,
        *,
        n_sweeps: int = 8000,
        n_chains: int = 4,
        random_state: Any = None,
    ) -> Table:
        """Return child, parent, support, error, rank if no record has more children than that.

        For cells, which divide into two, or whatever else is known to have few children. No exact
        formula is known for such trees, so supports are sampled (`outtrees.trees.limited`); `error`
        is their Monte-Carlo error, 0 in groups where the limit cannot bind. The fitted parameters
        are those without the limit, and so is everything else that this class answers. Known
        parents can calibrate these supports too: `calibrate(parents, max_children=max_children)`.
        """
        seed = self.random_state if random_state is None else random_state
        fitted = self.fitted
        most = check_count(max_children, "max_children", 1)
        # Models saved by earlier versions have none.
        exponents = getattr(self, "limited_exponents_", {}).get(most)
        if exponents is not None:
            fitted = replace(fitted, lineage=replace(self.lineage_, exponents=exponents))
        found = limiting.limited_supports(fitted, most, n_sweeps, n_chains, as_generator(seed))
        return limiting.limited_table(found, fitted, min_support)

    def predict_labels(self, n_trees: int = 500, random_state: Any = None) -> Table:
        """Return the distribution of each unknown label, with its Monte-Carlo error."""
        if not any(column.kind == "label" for column in self.records.columns):
            raise RecordsError(
                "a column of labels is expected; name it, for example kinds={'species': 'label'}"
            )
        seed = self.random_state if random_state is None else random_state
        return questions.labels_table(self.fitted, n_trees, as_generator(seed))

    def what_if(self, parent: Mapping[str, str | None], min_change: float = 0.01) -> Table:
        """Return how supports move if these records had these parents (None: were roots)."""
        known = known_parents(self.records, parent, with_table=False)
        return questions.what_if_table(self.fitted, known, min_change)

    def column_evidence(self) -> Table:
        """Return what each column contributes; see `questions.evidence_table`."""
        return questions.evidence_table(self.fitted)

    def place(
        self,
        table: Any,
        *,
        sequences: Any = None,
        unsequenced: str = "error",
        min_support: float = 0.1,
    ) -> Table:
        """Return the parents of records that came later, without a refit.

        Each is taken as a new leaf, below a fitted record or, with roots="any", a root. Columns
        that the new records lack are unknown of them.
        """
        new = table
        if not isinstance(table, Records):
            new = later.read_like(self, table, sequences, unsequenced)
        values = later.values_like(self, new)
        groups = later.groups_like(new, self.records)
        return questions.place_table(self.fitted, new.ids, values, groups, min_support)

    def simulate(self, n: int, random_state: Any = None) -> Table:
        """Return n records drawn from the fitted model, with their true parents.

        One family, so with `group_spread` all of one group, drawn at random and named.
        """
        seed = self.random_state if random_state is None else random_state
        return reporting.simulated(self.fitted, n, as_generator(seed))

    def describe(self) -> list[str]:
        """Return the fitted parameters in words, one sentence each."""
        sentences = reporting.parameter_sentences(self.fitted)
        for limit, exponents in getattr(self, "limited_exponents_", {}).items():
            sentences.append(reporting.exponent_sentence(self.fitted, exponents, limit))
        dropped = getattr(self, "dropped_mass_", None)  # models saved by earlier versions lack it
        if dropped is not None:
            sentences.append(reporting.dropped_sentence(dropped))
        return sentences
