"""Draws of θ weighted to the exact posterior, from q(θ) and what surrounds it."""

from __future__ import annotations

from collections.abc import Sequence
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
    fixed points (parents and children exchanged, all parents equally likely, trees of parameters
    from the prior), and each of them with a half and a fifth of its statistics, which is wider;
    then q after one step from the edges as these draws are weighted. A draw is weighted against
    all proposals together.

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
    proposals = _tempered(_fixed_points(posterior, records), (1.0, 0.5, 0.2))
    mutations: list[Mutation] = []
    log_z: list[float] = []
    numbers: list[int] = []

    def draw(among: Sequence[Posterior], n: int) -> None:
        for i, proposal in enumerate(among):
            numbers.append(n // len(among) + (i < n % len(among)))
            for _ in range(numbers[-1]):
                mutations.append(proposal.draw(rng))
                log_z.append(trees_given(posterior, mutations[-1], records).log_z)

    def weights() -> Array:
        # log p(θ) cancels: −log_prior_ratio is log q(θ) − log p(θ) of each proposal.
        logs = [[-q.log_prior_ratio(m) for q in proposals] for m in mutations]
        shares = np.array(numbers) / sum(numbers)
        return np.asarray(np.array(log_z) - logsumexp(np.array(logs), axis=1, b=shares))

    draw(proposals, (n_draws + 1) // 2)
    if n_draws // 2:
        chances = np.exp(weights() - logsumexp(weights()))
        edges = supports_of(posterior, mutations, chances, records)[0]
        later = _tempered([posterior.update(records, edges)], (1.0, 0.4))
        proposals = [*proposals, *later]
        draw(later, n_draws // 2)
    logs = weights() - log_number_of_trees(len(records))
    found = weighted_draws(np.empty((len(logs), 0)), logs)
    return ImportanceSample(
        mutations,
        logs,
        found.weights,
        found.log_evidence,
        found.standard_error,
        found.effective_draws,
        found.pareto_k,
    )


_MOST_FIXED_POINTS = 200  # records up to which other fixed points than the fit's are looked for
_NEGLIGIBLE = 1e-4  # weight of draws whose trees are left out of supports


def _fixed_points(posterior: Posterior, X: Array) -> list[Posterior]:
    """Return the posterior and those in which variational Bayes ends from other starts."""
    found = [posterior]
    T = len(X)
    if T > _MOST_FIXED_POINTS:
        return found
    turned = variational_trees(posterior, X).edge_marginals.T
    prior, rng = posterior.prior(), np.random.default_rng(0)
    drawn = trees_given(prior, prior.draw(rng), X).edge_marginals
    for edges in (turned, (1 - np.eye(T)) / T, drawn):
        fit = fit_variational(posterior.update(X, edges), X, max_iter=60).posterior
        statistics = fit.statistics
        apart = [abs(statistics - other.statistics).max() for other in found]
        if min(apart) > 1e-2 * abs(statistics).max():
            found.append(fit)
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
