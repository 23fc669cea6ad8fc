"""A mixture of distributions over the same trees: parameters that are not known for certain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.random import RandomState, as_generator
from outtrees.errors import NoSpanningTreeError
from outtrees.trees.distribution import Consensus, OutTreeDistribution, Tree
from outtrees.trees.weights import Floats, Ints

_MODES = 16  # parts among whose most probable trees the mixture's is sought


class OutTreeMixture:
    """Several distributions over the trees of one list of edges, each with its weight.

    Answers what a distribution answers, averaged exactly: probabilities by their weights, what
    follows from knowing a parent by weights that this knowledge changes, too.

    Parameters
    ----------
    parts : sequence of distributions
        Over the same list of possible edges.
    weights : sequence of float
        Positive; made to sum to one.
    groups : array of shape (T,), optional
        As the parts were given them.

    Examples
    --------
    >>> edges = [1, 2, 2], [0, 0, 1]
    >>> parts = [
    ...     OutTreeDistribution.from_candidates(*edges, log_weight, [0.0, -9.0, -9.0])
    ...     for log_weight in ([0, 2, 0], [0, 0, 2])
    ... ]
    >>> OutTreeMixture(parts, [1, 1]).edge_marginals.round(2)
    array([1. , 0.5, 0.5])
    """

    def __init__(
        self,
        parts: Sequence[OutTreeDistribution],
        weights: Sequence[float],
        groups: ArrayLike | None = None,
    ) -> None:
        self.parts, self.groups = tuple(parts), groups
        raw = np.asarray(weights, dtype=np.float64)
        self.weights = raw / raw.sum()

    @property
    def n_records(self) -> int:
        """The number of records."""
        return self.parts[0].n_records

    @cached_property
    def edge_marginals(self) -> Floats:
        """The probability of each listed edge (E,)."""
        pairs = zip(self.weights, self.parts, strict=True)
        return np.asarray(sum(w * part.edge_marginals for w, part in pairs))

    @cached_property
    def root_marginals(self) -> Floats:
        """The probability of each record being a root (T,)."""
        pairs = zip(self.weights, self.parts, strict=True)
        return np.asarray(sum(w * part.root_marginals for w, part in pairs))

    def number_of_roots(self) -> Floats:
        """Return the probabilities of 0, 1, 2, … roots."""
        found = [part.number_of_roots() for part in self.parts]
        result = np.zeros(max(map(len, found)))
        for weight, chances in zip(self.weights, found, strict=True):
            result[: len(chances)] += weight * chances
        return result

    def log_prob(self, parents: Ints) -> float:
        """Return the log-probability of one tree (T,)."""
        logs = np.array([float(part.log_prob(parents)) for part in self.parts])
        return float(logsumexp(logs + np.log(self.weights)))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Ints:
        """Return n trees (n, T), drawn exactly: first the part, then its tree."""
        rng = as_generator(random_state)
        if n == 0:
            return self.parts[0].sample(0, rng)
        numbers = rng.multinomial(n, self.weights)
        drawn = [
            part.sample(int(number), rng)
            for part, number in zip(self.parts, numbers, strict=True)
            if number
        ]
        return np.concatenate(drawn)[rng.permutation(n)]

    def mode(self) -> Tree:
        """Return the most probable of the heaviest parts' most probable trees.

        Of at most 16 parts: no formula is known for the mode of a mixture.
        """
        heaviest = np.argsort(-self.weights, kind="stable")[:_MODES]
        modes = [self.parts[i].mode().parents for i in heaviest]
        found = {parents.tobytes(): parents for parents in modes}  # most are the same
        logs = {key: self.log_prob(parents) for key, parents in found.items()}
        best = max(logs, key=lambda key: logs[key])
        return Tree(found[best], logs[best])

    def consensus(self) -> Consensus:
        """Return the tree with the most expected right parents."""
        part = self.parts[0]
        # The most probable tree where log-weights are the supports themselves.
        best = OutTreeDistribution.from_candidates(
            part.child,
            part.parent,
            np.where(self.edge_marginals > 0, self.edge_marginals, -np.inf),
            np.where(self.root_marginals > 0, self.root_marginals, -np.inf),
            roots=part.roots,
            groups=self.groups,
        ).mode()
        right = float(self.root_marginals[best.parents < 0].sum())
        listed = np.flatnonzero(best.parents[part.child] == part.parent)
        return Consensus(best.parents, right + float(self.edge_marginals[listed].sum()))

    def given(
        self,
        parent: Mapping[int, int] | None = None,
        not_parent: Iterable[tuple[int, int]] = (),
        root: int | None = None,
    ) -> OutTreeMixture:
        """Return the mixture in which this is known; parts that foresaw it gain weight."""
        pairs = list(not_parent)
        known, logs = [], []
        excluded: NoSpanningTreeError | None = None
        for part, weight in zip(self.parts, self.weights, strict=True):
            try:
                found = part.given(parent, pairs, root)
                log_chance = found.log_z - part.log_z
            except NoSpanningTreeError as error:  # this part excludes what is known
                excluded = error
                continue
            known.append(found)
            logs.append(float(log_chance + np.log(weight)))
        if excluded is not None and not known:
            raise excluded
        chances = np.exp(np.array(logs) - max(logs))
        kept = [i for i, chance in enumerate(chances) if chance > 0]
        return OutTreeMixture(
            [known[i] for i in kept], [float(chances[i]) for i in kept], self.groups
        )
