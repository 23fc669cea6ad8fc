"""The families that `BayesianOutTree(mutation="auto")` mixes, by densities of records left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.selection import stacking_shares
from outtrees.inference.variational import VariationalFit, fit_posterior, variational_trees
from outtrees.models.conjugate import (
    GaussianPosterior,
    KernelPosterior,
    MixturePosterior,
    Posterior,
    ProductPosterior,
)
from outtrees.trees import OutTreeDistribution

_LEAST_EDGE = 1e-3  # children less likely than this stay where they are


@dataclass(frozen=True)
class VariationalStack:
    """A mixture of fitted posteriors, and how its weights were found."""

    posterior: MixturePosterior
    names: list[Any]  # of all families, in the order given
    weights: Array  # (n_families,)
    log_densities: Array  # (n_families, T), each record's with the others given
    fits: list[VariationalFit]  # of all families


def leave_one_out(
    posterior: Posterior,  # fitted to X
    X: ArrayLike,  # (T, D)
    trees: OutTreeDistribution | None = None,  # q over the trees of X, if it is known
) -> Array:
    """Return for each record its predictive log-density given the others, shape (T,).

        log 1/(T−1) Σ_{v≠u} ∫ q_{−u}(θ) p(x_u | x_v, θ) dθ,

    where q_{−u} is q without what the edges of u added to it. Statistics add, so those of u's
    edge to its parent are taken away again, and u's children are given their other likely
    parents, without a second fit. An approximation: other edges, and what is hidden in edges,
    keep their probabilities. O(T³) once, then about O(T D) and one update a record.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> fit = fit_posterior(GaussianPosterior(transition="identity"), X)
    >>> leave_one_out(fit.posterior, X).shape
    (30,)
    """
    records = np.asarray(X, dtype=np.float64)
    trees = variational_trees(posterior, records) if trees is None else trees
    W = trees.edge_marginals
    total = posterior._statistics_of(records, records, W)
    result = np.empty(len(records))
    for u in range(len(records)):
        others = np.delete(np.arange(len(records)), u)
        # Where parents do not matter, children would have been the same without u.
        likely = (W[others, u] > _LEAST_EDGE) & (not posterior.parent_free)
        children = others[likely]
        # Statistics are linear in the weights, so all that changes is taken in one go.
        change = np.zeros((1 + len(children), len(records)))
        change[0] = -W[u]
        change[1:, u] = -W[children, u]
        change[1:, others] = W[children, u][:, None] * _other_parents(trees, children, others)
        rows = records[np.append(u, children)]
        statistics = total + posterior._statistics_of(rows, records, change)
        without = posterior._with_statistics(statistics)
        log_pairs = without._log_predictive(rows[:1], records[others])
        result[u] = logsumexp(log_pairs) - np.log(len(others))
    return result


def _other_parents(
    trees: OutTreeDistribution,
    children: NDArray[np.intp],  # (n,)
    others: NDArray[np.intp],  # (m,), without the record that is left out
) -> Array:
    """Return the probabilities (n, m) of each child's parents among the others.

    By their marginals, which know that nobody descends from a descendant; by their weights alone
    where hardly anything but the record left out was likely.
    """
    marginals = np.maximum(trees.edge_marginals[np.ix_(children, others)], 0.0)
    left = marginals.sum(axis=1, keepdims=True)
    by_weight = softmax(trees.log_beta[np.ix_(children, others)], axis=1)
    return np.where(left > _LEAST_EDGE, marginals / np.where(left > 0, left, 1.0), by_weight)


def default_families(n_records: int) -> dict[str, Posterior]:
    """Return the families that `BayesianOutTree(mutation="auto")` mixes.

    Clouds around the parent and elsewhere, clouds alone (up to one for every 32 records, of which
    those not needed empty out), curves (children displaced by one or two linear maps, or drawn to
    a smooth function of the parent), and columns with values of their own, such as counts and
    codes, at two scales.
    """
    many = max(2, n_records // 32)
    map_ = GaussianPosterior(prior_strength=0.1)
    sharp = MixturePosterior(n_iid=2, n_local=3, prior_strength=0.01)
    return {
        "clouds + Parzen": MixturePosterior(n_iid=min(3, many)),
        "clouds": MixturePosterior(n_iid=many, n_local=0),
        "linear map": GaussianPosterior(start_correlation=0.9),
        "cloud + 2 linear maps": MixturePosterior(n_iid=1, n_local=2, local=map_),
        "kernel": KernelPosterior(),
        "columns": ProductPosterior(MixturePosterior(n_iid=2)),
        "columns, sharp": ProductPosterior(sharp),
    }


def stack_posteriors(
    families: Mapping[Any, Posterior],
    X: ArrayLike,  # (T, D)
    *,
    n_jobs: int | None = None,
    random_state: Any = None,
    **fit_options: Any,
) -> VariationalStack:
    """Return the mixture of the families that predicts each record best from all others.

    Each family is fitted once, to all records; the weights maximise
    Σ_t log Σ_c w_c p_c(x_t | the others), with the densities of `leave_one_out` (stacking, Smyth
    and Wolpert 1999). No record is set aside. Weights by the evidence alone would put everything
    on one family, the best by itself, where a mixture predicts better than each.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> families = {t: GaussianPosterior(transition=t) for t in ("zero", "identity")}
    >>> round(float(stack_posteriors(families, X, random_state=0).weights.sum()), 6)
    1.0
    """
    records = np.asarray(X, dtype=np.float64)
    seed = int(as_generator(random_state).integers(2**31))
    done = Parallel(n_jobs=n_jobs)(
        delayed(_fitted)(family, records, seed, fit_options) for family in families.values()
    )
    fits = [fit for fit, _ in done]
    log_densities = np.array([densities for _, densities in done])
    weights, kept, shares = stacking_shares(log_densities)
    parts = tuple(fits[c].posterior for c in kept)
    mixture = replace(
        MixturePosterior(components=parts), parts=parts, counts=shares * (len(records) - 1.0)
    )
    return VariationalStack(mixture, list(families), weights, log_densities, fits)


def _fitted(
    family: Posterior, X: Array, seed: int, fit_options: Mapping[str, Any]
) -> tuple[VariationalFit, Array]:
    fit = fit_posterior(family, X, random_state=seed, **fit_options)
    densities = leave_one_out(fit.posterior, X, fit.tree)
    return replace(fit, tree=None), densities  # the mixture has trees of its own
