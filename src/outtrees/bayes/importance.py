"""Draws of θ weighted to the exact posterior, from q(θ) and what surrounds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.arguments import check_count
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.importance import weighted_draws
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.inference.variational import fit_variational, variational_trees
from outtrees.models.base import Mutation
from outtrees.models.conjugate import Posterior
from outtrees.trees import OutTreeDistribution


@dataclass(frozen=True)
class ImportanceSample:
    """Parameters with weights that turn them into draws from the exact posterior.

    Every number here is sampled. `pareto_k` below 0.7 says that the weights can be trusted
    (Vehtari and others, 2024); above, q misses part of the posterior, and both `log_evidence`
    and `effective_draws` are too good to be true.
    """

    mutations: list[Mutation]  # n draws
    log_weights: Array  # (n,), raw: log p(θ) + log p(X | θ) − log proposal(θ)
    weights: Array  # (n,), Pareto-smoothed, sum 1
    log_evidence: float  # log of the mean raw weight: an estimate of log p(X)
    standard_error: float  # of log_evidence, first order
    effective_draws: float  # 1 / Σ weights²
    pareto_k: float  # shape of the largest weights' tail; nan with fewer than 25 draws


def trees_given(
    posterior: Posterior,
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
) -> OutTreeDistribution:
    """Return the distribution over trees given θ, with the root's parameters integrated out."""
    return OutTreeDistribution(mutation.log_conditional(X, X), posterior.log_root(X))


def importance_sample(
    posterior: Posterior,  # fitted to X
    X: ArrayLike,  # (T, D)
    n_draws: int = 200,
    random_state: Any = None,
) -> ImportanceSample:
    """Return draws of θ with weights p(θ) p(X | θ) / proposal(θ).

    p(X | θ) sums over all trees exactly, so the tree takes no part in the weights: what they
    correct is q(θ) and its independence of the tree. Their mean estimates the evidence, without
    bias, which the bound of variational Bayes lies below. O(n_draws T³).

    q alone is too narrow, and knows one reading of the records. Proposals are q, those of other
    fixed points (parents and children exchanged, all parents equally likely, trees of likely
    parameters among 60 from the prior), each of them with a half and a fifth of its statistics,
    which is wider, and the prior, so that no weight exceeds the likelihood by much.
    Then, four times, q after one step from the edges as these draws are weighted, and θ given one
    tree, of trees drawn as they are weighted: over all trees the mixture of these is the posterior
    itself. A draw is weighted against all proposals together.

    Examples
    --------
    >>> from outtrees.inference.variational import fit_posterior
    >>> from outtrees.models.conjugate import GaussianPosterior
    >>> X = np.random.default_rng(0).normal(size=(30, 1))
    >>> fit = fit_posterior(GaussianPosterior(transition="zero"), X)
    >>> importance_sample(fit.posterior, X, 200, random_state=0).effective_draws > 60
    True
    """
    check_count("importance_sample", "n_draws", n_draws, 2)
    rng = as_generator(random_state)
    records = np.asarray(X, dtype=np.float64)
    later = n_draws // (2 * _ROUNDS)  # in each round
    draws = _Draws(posterior, records, rng)
    first = _tempered(_fixed_points(posterior, records), (1.0, 0.5, 0.2))
    draws.add([*first, posterior.prior()], n_draws - _ROUNDS * later)
    for _ in range(_ROUNDS if later else 0):
        chances = np.exp(draws.log_weights() - logsumexp(draws.log_weights()))
        edges = supports_of(posterior, draws.mutations, chances, records)[0]
        near = _tempered([posterior.update(records, edges)], (1.0, 0.4))
        near += [posterior.update(records, tree) for tree in draws.trees(chances)]
        draws.add(near, later)
    logs = draws.log_weights() - log_number_of_trees(len(records))
    found = weighted_draws(np.empty((len(logs), 0)), logs)
    return ImportanceSample(
        draws.mutations,
        logs,
        found.weights,
        found.log_evidence,
        found.standard_error,
        found.effective_draws,
        found.pareto_k,
    )


class _Draws:
    """Draws of θ from several proposals, each weighted against all of them together."""

    def __init__(self, posterior: Posterior, X: Array, rng: np.random.Generator) -> None:
        self.posterior, self.X, self.rng = posterior, X, rng
        self.mutations: list[Mutation] = []
        self.log_z: list[float] = []
        self.proposals: list[Posterior] = []
        self.numbers: list[int] = []  # of draws from each proposal
        self.ratios = np.empty((0, 0))  # (draws, proposals), log proposal(θ) − log p(θ)

    def add(self, proposals: Sequence[Posterior], n: int) -> None:
        """Draw n times, as often from each of these proposals as can be."""
        known = len(self.mutations)
        for i, proposal in enumerate(proposals):
            self.numbers.append(n // len(proposals) + (i < n % len(proposals)))
            for _ in range(self.numbers[-1]):
                self.mutations.append(proposal.draw(self.rng))
                trees = trees_given(self.posterior, self.mutations[-1], self.X)
                self.log_z.append(trees.log_z)
        new = _log_ratios(self.mutations[known:], self.proposals)
        self.ratios = np.vstack([self.ratios, new])
        self.ratios = np.hstack([self.ratios, _log_ratios(self.mutations, proposals)])
        self.proposals += proposals

    def log_weights(self) -> Array:
        """Return log p(θ) + log p(X | θ) − log proposal(θ) of each draw, where p(θ) cancels."""
        shares = np.array(self.numbers) / sum(self.numbers)
        return np.asarray(np.array(self.log_z) - logsumexp(self.ratios, axis=1, b=shares))

    def trees(self, chances: Array) -> Iterator[Array]:
        """Yield the edges (T, T) of a few trees, each given a draw chosen by its chance."""
        T = len(self.X)
        # In one order of the records, so that which tree is drawn does not depend on theirs.
        order = np.lexsort(self.X.T)
        at = (self.rng.random() + np.arange(_TREES)) / _TREES  # evenly, so that few repeat
        for i in np.searchsorted(np.cumsum(chances), at * chances.sum()):
            trees = trees_given(self.posterior, self.mutations[i], self.X[order])
            parents = trees.sample(1, self.rng)[0]
            children = np.flatnonzero(parents >= 0)
            edges = np.zeros((T, T))
            edges[order[children], order[parents[children]]] = 1.0
            yield edges


def _log_ratios(mutations: Sequence[Mutation], proposals: Sequence[Posterior]) -> Array:
    """Return log proposal(θ) − log p(θ), (draws, proposals)."""
    found = [-proposal.log_prior_ratios(mutations) for proposal in proposals]
    return np.array(found).reshape(len(proposals), len(mutations)).T


_ROUNDS = 4  # of proposals that go by what was drawn before
_TREES = 12  # of each round, whose parameters are proposed
_FROM_PRIOR, _MOST_STARTS = 60, 6  # draws whose trees are compared, and how many of them are starts
_MOST_FIXED_POINTS = 200  # records up to which other fixed points than the fit's are looked for
_SAME_SUPPORTS = 0.02  # up to which two fixed points are one
_NEGLIGIBLE = 1e-4  # weight of draws whose trees are left out of supports


def _fixed_points(posterior: Posterior, X: Array) -> list[Posterior]:
    """Return the posterior and those in which variational Bayes ends from other starts."""
    found = [posterior]
    T = len(X)
    if T > _MOST_FIXED_POINTS:
        return found
    known = [variational_trees(posterior, X).edge_marginals]
    turned = known[0].T
    prior, rng = posterior.prior(), np.random.default_rng(0)
    drawn = [trees_given(prior, prior.draw(rng), X) for _ in range(_FROM_PRIOR)]
    drawn.sort(key=lambda trees: -trees.log_z)
    likely = [trees.edge_marginals for trees in drawn[:_MOST_STARTS]]
    for edges in (turned, (1 - np.eye(T)) / T, *likely, *(W.T for W in likely[:2])):
        fit = fit_variational(posterior.update(X, edges), X, max_iter=60).posterior
        supports = variational_trees(fit, X).edge_marginals  # in no units
        if min(abs(supports - other).max() for other in known) > _SAME_SUPPORTS:
            found.append(fit)
            known.append(supports)
    return found


def _tempered(posteriors: Sequence[Posterior], shares: Sequence[float]) -> list[Posterior]:
    """Return each posterior with these shares of its statistics, as far as they are proper."""
    result = []
    for posterior in posteriors:
        for share in shares:
            try:
                result.append(posterior.with_statistics(share * posterior.statistics))
            except ValueError:  # no posterior has them; the whole ones always are
                continue
    return result


def supports_of(
    posterior: Posterior,
    mutations: Sequence[Mutation],
    weights: Array,  # (n,), sum 1
    X: Array,  # (T, D)
) -> tuple[Array, Array]:
    """Return edge (T, T) [child, parent] and root probabilities (T,), averaged over draws."""
    edges, roots, total = np.zeros((len(X), len(X))), np.zeros(len(X)), 0.0
    for mutation, weight in zip(mutations, weights, strict=True):
        if weight > _NEGLIGIBLE * weights.max():
            trees = trees_given(posterior, mutation, X)
            edges += weight * trees.edge_marginals
            roots += weight * trees.root_marginals
            total += weight
    return edges / total, roots / total


def parameter_quantiles(
    mutations: Sequence[Mutation],
    weights: Array,  # (n,), sum 1
    probabilities: Sequence[float],
) -> dict[str, Array]:
    """Return quantiles of each parameter over weighted draws, in the first axis.

    Examples
    --------
    >>> from outtrees.models import PoissonMutation
    >>> draws = [PoissonMutation(root_rate=[1], immigration=[a], branching=[0]) for a in range(9)]
    >>> parameter_quantiles(draws, np.full(9, 1 / 9), [0.1, 0.5])["immigration"]
    array([[0.],
           [4.]])
    """
    named = [mutation._named() for mutation in mutations]
    result = {}
    for name in named[0]:
        values = np.array([draw[name] for draw in named])
        flat = values.reshape(len(values), -1)
        order = np.argsort(flat, axis=0)
        mass = np.cumsum(np.asarray(weights)[order], axis=0)
        ordered = np.take_along_axis(flat, order, axis=0)
        rows = [np.minimum((mass < p).sum(axis=0), len(values) - 1) for p in probabilities]
        quantiles = [ordered[row, np.arange(flat.shape[1])] for row in rows]
        result[name] = np.array(quantiles).reshape(len(probabilities), *values.shape[1:])
    return result
