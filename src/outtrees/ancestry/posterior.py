"""The posterior of a fitted table: its parameters, and the distribution over trees they imply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees.ancestry.learning import Reading, Roots
from outtrees.ancestry.nearest import Ancestors, nearest_sampled, transmission_of
from outtrees.ancestry.outbreak import outbreak_of
from outtrees.candidates.edges import PossibleEdges
from outtrees.models.columns import EdgeWeights, Lineage, LineagePairs
from outtrees.models.columns.earlier import log_backgrounds
from outtrees.records import Column, Records
from outtrees.trees import OutTreeDistribution
from outtrees.trees.distribution import Consensus, Tree
from outtrees.trees.mixture import OutTreeMixture
from outtrees.trees.sparse.fronts import Plan

Array = NDArray[np.float64]
Index = NDArray[np.intp]


# Records up to which all pairs are listed, and summed by the dense engine. Of larger tables with
# dates the plausible waits are listed, and eliminated in the order of the dates, or nearly so.
MOST_PAIRED = 1000
_NEGLIGIBLE = 1e-6  # share of its reading with which a draw of parameters is left out


def supports_in(trees: Any) -> Array:
    """Return the probabilities of all possible edges, and then of being a root (E + T,)."""
    return np.append(trees.edge_marginals, trees.root_marginals)


class Member(NamedTuple):
    """One set of parameters among those that answers average over."""

    weight: float  # of all of them together 1
    lineage: Lineage
    log_introduction: float
    reading: int  # which one it belongs to


@dataclass(frozen=True, eq=False)
class Posterior:
    """Records, the readings of their table, and what follows, computed when first asked for."""

    records: Records
    names: tuple[str, ...]  # of the columns in the model
    values: tuple[Array, ...]  # their cells
    readings: tuple[Reading, ...]  # the best first
    edges: PossibleEdges  # in a possible order of dates
    roots: Roots
    whole: bool = False  # whether trees, dates and parameters of an outbreak are drawn together
    sample_dates: Array | None = None  # (M, 4), of `records.samples`, as the cells of dates

    @property
    def lineage(self) -> Lineage:
        """The parameters of the best reading."""
        return self.readings[0].lineage

    def with_exponents(self, exponents: Array | None) -> Self:
        """Return the posterior in which columns count with other exponents (C,), None: once."""
        changed = tuple(
            replace(
                reading,
                lineage=replace(reading.lineage, exponents=exponents),
                drawn=None
                if reading.drawn is None
                else replace(reading.drawn, exponents=exponents),
            )
            for reading in self.readings
        )
        result = replace(self, readings=changed)
        vars(result).update(pairs=self.pairs, backgrounds=self.backgrounds)  # nothing changes them
        return result

    @cached_property
    def pairs(self) -> LineagePairs:
        """What the parameters do not change, for each possible edge."""
        return self.lineage.pairs(self.values, self.values, self.edges.child, self.edges.parent)

    @cached_property
    def weights(self) -> EdgeWeights:
        """What the best reading weighs edges by."""
        return EdgeWeights(self.lineage, self.values, self.edges.groups, self.backgrounds)

    @cached_property
    def backgrounds(self) -> dict[int, tuple[Array, Array]]:
        """The densities of contrasted columns without a parent, which no parameter changes."""
        rows = np.arange(len(self.records))
        return log_backgrounds(self.lineage, self.values, self.edges.groups, rows)

    @cached_property
    def log_weight(self) -> Array:
        """Log-weight of each possible edge in the best reading (E,)."""
        return self.weights.log_beta_pairs(self.pairs)

    @cached_property
    def log_root(self) -> Array:
        """The log-density of each record without a parent in the best reading (T,)."""
        return self.weights.log_root

    @cached_property
    def best_trees(self) -> OutTreeDistribution:
        """The distribution over trees of the best reading."""
        return self.trees_for(self.log_weight, self.log_root)

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """All sets of parameters that answers average over: those of each reading, the best first.

        One for a reading with fitted parameters; else its draws.
        """
        result = []
        for r, reading in enumerate(self.readings):
            draws, drawn = reading.draws, reading.drawn
            if draws is None or drawn is None:
                log_root = reading.log_introduction
                result.append(Member(reading.weight, reading.lineage, log_root, r))
                continue
            n, kept = len(drawn.params), draws.weights >= _NEGLIGIBLE
            shares = reading.weight * draws.weights[kept] / draws.weights[kept].sum()
            for weight, params in zip(shares.tolist(), draws.params[kept], strict=True):
                log_root = float(params[n]) if len(params) > n else 0.0
                result.append(Member(weight, drawn.with_params(params[:n]), log_root, r))
        return tuple(result)

    @cached_property
    def trees(self) -> OutTreeDistribution | OutTreeMixture | Ancestors:
        """The distribution over trees, all readings and draws of parameters together.

        With the transmission model, over nearest sampled ancestors.
        """
        if self.whole:
            return outbreak_of(self)
        if transmission_of(self.lineage) is not None:
            return nearest_sampled(self)
        if len(self.members) == 1:
            return self.best_trees
        parts = []
        for member in self.members:
            found = EdgeWeights(member.lineage, self.values, self.edges.groups, self.backgrounds)
            log_root = found.log_root + member.log_introduction
            plan = self.best_trees.plan
            parts.append(self._trees(found.log_beta_pairs(self.pairs), log_root, plan))
        weights = [member.weight for member in self.members]
        return OutTreeMixture(parts, weights, self.edges.groups)

    @cached_property
    def choices(self) -> tuple[Index, Index]:
        """Child and parent of each possible edge, then of each record as a root: −1 (E + T,)."""
        T = len(self.records)
        child = np.append(self.edges.child, np.arange(T))
        return child, np.append(self.edges.parent, np.full(T, -1))

    def _of_reading(self, r: int) -> tuple[Array, Array]:
        """Return weights of a reading's members (n,), and their supports of `choices`."""
        trees = self.trees
        if isinstance(trees, Ancestors):
            return trees.weights, trees.part_supports
        if not isinstance(trees, OutTreeMixture):
            return np.ones(1), supports_in(trees)[None]
        here = [i for i, member in enumerate(self.members) if member.reading == r]
        return trees.weights[here], np.array([supports_in(trees.parts[i]) for i in here])

    def reading_supports(self, r: int) -> Array:
        """Return the supports of `choices` in one reading (E + T,)."""
        weights, found = self._of_reading(r)
        return np.asarray(weights @ found / weights.sum())

    @cached_property
    def n_roots(self) -> Array:
        """The probabilities of 0, 1, 2, … roots."""
        return self.trees.number_of_roots()

    @cached_property
    def support_errors(self) -> tuple[Array, Array]:
        """Monte-Carlo standard errors of the supports of edges (E,) and roots (T,), by the draws.

        0 where parameters are fitted.
        """
        E = len(self.edges.child)
        square = np.zeros(E + len(self.records))
        for r in range(len(self.readings)):
            weights, found = self._of_reading(r)
            if len(weights) > 1:
                mean = weights @ found / weights.sum()
                square += weights**2 @ (found - mean) ** 2
        errors = np.sqrt(square)
        return errors[:E], errors[E:]

    def trees_for(self, log_weight: Array, log_root: Array) -> OutTreeDistribution:
        """Return the distribution over trees for other weights of the same edges."""
        return self._trees(log_weight, log_root + self.readings[0].log_introduction)

    def _trees(
        self, log_weight: Array, log_root: Array, plan: Plan | None = None
    ) -> OutTreeDistribution:
        return self.edges.trees(log_weight, log_root, self.roots, plan=plan, method=self.method)

    @property
    def method(self) -> Literal["auto", "sparse"]:
        """The engine that sums over trees."""
        dated = self.lineage.dates is not None
        return "sparse" if dated and len(self.records) > MOST_PAIRED else "auto"

    @cached_property
    def consensus(self) -> Consensus:
        """The tree with the most expected right parents."""
        return self.trees.consensus()

    @cached_property
    def mode(self) -> Tree:
        """The most probable tree."""
        return self.trees.mode()

    @property
    def dates(self) -> Column | None:
        """The column of dates, None if there is none in the model."""
        columns = self.records.columns
        return next((c for c in columns if c.kind == "date" and c.name in self.names), None)

    @property
    def days(self) -> Array | None:
        """The date of each record (T,), None without dates."""
        return None if self.dates is None else self.dates.values[:, 0]

    @property
    def calendar(self) -> bool:
        """Whether dates are calendar dates."""
        return self.dates is not None and self.dates.calendar

    @property
    def unit_of_time(self) -> str:
        """What dates count."""
        return "units of time" if self.dates is None else self.dates.unit_of_time

    def named(self, rows: Index) -> list[str]:
        """Return the identities of these rows, empty for −1: no parent."""
        return [self.records.ids[row] if row >= 0 else "" for row in rows.tolist()]

    @cached_property
    def log_columns(self) -> Array:
        """Log p of each column and edge, over all numbers of links (C, E)."""
        steps = np.array(
            [
                self.lineage.log_columns(self.pairs, self.weights.background, k)
                for k in range(1, self.lineage.generations + 1)
            ]
        )
        with np.errstate(divide="ignore"):
            weights = np.log(self.lineage.step_weights)
        return np.asarray(logsumexp(steps + weights[:, None, None], axis=0))

    @cached_property
    def log_alone(self) -> Array:
        """Log-density of each column and record without a parent (C, T)."""
        return self.lineage.log_alone(self.weights.background)

    @cached_property
    def expected_children(self) -> Array:
        """The expected number of children of each record (T,)."""
        T = len(self.records)
        return np.bincount(self.edges.parent, self.trees.edge_marginals, minlength=T).astype(float)

    @cached_property
    def support_of(self) -> dict[tuple[int, int], float]:
        """The support of each possible edge (child, parent), and of (child, −1): a root."""
        ends = zip(*(side.tolist() for side in self.choices), strict=True)
        return dict(zip(ends, supports_in(self.trees).tolist(), strict=True))

    def supports(self, parents: Index) -> Array:
        """Return how probable each record's parent is in this tree (T,)."""
        child, parent = self.choices
        found = np.flatnonzero(parents[child] == parent)
        result = np.full(len(parents), np.nan)
        result[child[found]] = supports_in(self.trees)[found]
        if np.isnan(result).any():
            u = int(np.flatnonzero(np.isnan(result))[0])
            raise KeyError(f"{parents[u]} is not among the possible parents of {u}")
        return result
