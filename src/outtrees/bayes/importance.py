"""Draws from q(θ) reweighted to the exact posterior, and how well q did."""

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
from outtrees.inference.importance import smooth_weights
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.models.base import Mutation
from outtrees.models.conjugate import Posterior
from outtrees.trees import OutTreeDistribution


@dataclass(frozen=True)
class ImportanceSample:
    """Parameters drawn from q(θ), with weights that turn them into the exact posterior's.

    Every number here is sampled. `pareto_k` below 0.7 says that the weights can be trusted
    (Vehtari and others, 2024); above, q misses part of the posterior, and both `log_evidence`
    and `effective_draws` are too good to be true.
    """

    mutations: list[Mutation]  # n draws from q
    log_weights: Array  # (n,), raw: log p(θ) + log p(X | θ) − log q(θ)
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
    """Return draws from q(θ) with weights p(θ) p(X | θ) / q(θ).

    p(X | θ) sums over all trees exactly, so the tree takes no part in the weights: what they
    correct is q(θ) and its independence of the tree. Their mean estimates the evidence, without
    bias, which the bound of variational Bayes lies below. O(n_draws T³).

    Examples
    --------
    >>> from outtrees.inference.variational import fit_posterior
    >>> from outtrees.models.conjugate import GaussianPosterior
    >>> X = np.random.default_rng(0).normal(size=(30, 1))
    >>> fit = fit_posterior(GaussianPosterior(transition="zero"), X)
    >>> sample = importance_sample(fit.posterior, X, 50, random_state=0)
    >>> sample.effective_draws > 40  # independent records: q is nearly exact
    True
    """
    check_count("importance_sample", "n_draws", n_draws, 2)
    rng = as_generator(random_state)
    records = np.asarray(X, dtype=np.float64)
    mutations = [posterior.draw(rng) for _ in range(n_draws)]
    logs = np.array(
        [posterior.log_prior_ratio(m) + trees_given(posterior, m, records).log_z for m in mutations]
    )
    logs -= log_number_of_trees(len(records))
    log_evidence = float(logsumexp(logs) - np.log(n_draws))
    raw = np.exp(logs - log_evidence)
    error = float(raw.std(ddof=1) / np.sqrt(n_draws))
    smoothed, k = smooth_weights(logs)
    weights = np.exp(smoothed - logsumexp(smoothed))
    effective = float(1.0 / (weights**2).sum())
    return ImportanceSample(mutations, logs, weights, log_evidence, error, effective, k)


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
