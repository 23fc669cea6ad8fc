"""Supports and evidence from weighted draws, against every tree of four records."""

import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.enumeration import all_trees
from outtrees.bayes.importance import importance_sample, supports_of
from outtrees.inference.variational import fit_posterior, variational_trees
from outtrees.models.conjugate import GaussianPosterior

X = np.random.default_rng(3).normal(size=(4, 2)).cumsum(axis=0)


def exact(posterior):
    """Return edge probabilities (T, T) and the log evidence, θ integrated out of every tree."""
    trees, logs = list(all_trees(len(X))), []
    edges = np.zeros((len(trees), len(X), len(X)))
    for number, parents in enumerate(trees):
        seen, total = edges[number], 0.0
        for u, v in enumerate(parents):
            if v < 0:
                total += posterior.log_root(X[[u]])[0]
                continue
            total += posterior.update(X, seen).log_predictive(X[[u]], X[[v]])[0, 0]
            seen[u, v] = 1.0
        logs.append(total)
    chances = np.exp(np.array(logs) - logsumexp(logs))
    return np.einsum("t,tuv->uv", chances, edges), logsumexp(logs) - np.log(len(trees))


# Links of four records can be fitted without any rest by a whole matrix: its narrow modes are many,
# and some are missed.
@pytest.mark.parametrize(("transition", "bar"), [("full", 0.2), ("identity", 0.1)])
def test_supports_are_those_of_all_trees(transition, bar):
    fit = fit_posterior(GaussianPosterior(transition=transition, fit_offset=True), X)
    edges, evidence = exact(fit.posterior)
    sample = importance_sample(fit.posterior, X, 200, random_state=0)
    found = supports_of(fit.posterior, sample.mutations, sample.weights, X)[0]
    assert abs(found - edges).max() < bar
    assert abs(sample.log_evidence - evidence) < 0.5
    if transition == "full":  # negative control: one reading alone is far off
        alone = variational_trees(fit.posterior, X).edge_marginals
        assert abs(alone - edges).max() > 2 * bar
