"""Where mutations and trees meet: the tdid likelihood, its gradient, and predictive densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.arguments import check_count, check_edges
from outtrees._common.edges import chunks
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.trees import OutTreeDistribution


def tree_distribution(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
) -> OutTreeDistribution:
    """Return the distribution over the out-trees of the records, given the mutation.

    An out-tree's probability is proportional to p(x_r) Π p(x_u | x_π(u)) (paper, eq. 1). The
    weights cost O(T² D) here; what the distribution costs is said there.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
    >>> tree_distribution(GaussianMutation(transition="identity").start(X), X)
    OutTreeDistribution(4 records, roots='single')
    """
    return OutTreeDistribution(mutation.log_conditional(X, X), mutation.log_root(X))


def candidate_trees(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    child: ArrayLike,  # (E,)
    parent: ArrayLike,  # (E,)
) -> OutTreeDistribution:
    """Return the distribution over those out-trees of the records whose edges are listed.

    Its log_z leaves out all other trees, so log Z ≥ its log_z: **a lower bound**, and
    log_z − (T − 1) log T is a lower bound of the tdid log-likelihood. With all T (T − 1) pairs
    listed both are exact. The weights cost O(E D) here; what the distribution costs is said there.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
    >>> mutation = GaussianMutation(transition="identity").start(X)
    >>> some = candidate_trees(mutation, X, [0, 1, 2, 2, 3], [1, 0, 3, 1, 2])
    >>> some.log_z < tree_distribution(mutation, X).log_z
    True
    """
    records = np.asarray(X)
    check_edges(child, parent, len(records), "candidate_trees")
    log_weight = mutation.log_beta_edges(records, child, parent)
    return OutTreeDistribution.from_candidates(
        child, parent, log_weight, mutation.log_root(records)
    )


def log_number_of_trees(n_samples: int) -> float:
    """Return (T − 1) log T: there are T^(T−1) out-trees on T records.

    Examples
    --------
    >>> round(np.exp(log_number_of_trees(3)))
    9
    """
    return (n_samples - 1) * float(np.log(n_samples))


def log_likelihood(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
) -> float:
    """Return the tdid log-likelihood log p(X) = log Z − (T − 1) log T (paper, eq. 3).

    All out-trees are equally likely beforehand. p(X) integrates to one over all T records
    together, does not depend on their order, and is the iid likelihood if the conditional ignores
    the parent (Theorem 1). Exact; O(T³).

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> iid = GaussianMutation(transition="zero").start(X)
    >>> bool(np.isclose(log_likelihood(iid, X), iid.log_root(X).sum()))
    True
    """
    return tree_distribution(mutation, X).log_z - log_number_of_trees(len(np.asarray(X)))


def parent_free_log_likelihood(mutation: Mutation, X: ArrayLike) -> float:
    """Return the log-likelihood of records under a mutation that ignores the parent. O(T).

    With p(x_u | x_v) = c_u for every parent, each record is the root of T^(T−2) trees, and

        log p(X) = Σ_u log c_u + log (1/T) Σ_r p(x_r) / c_r,   p the root's density.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(10, 2))
    >>> iid = GaussianMutation(transition="zero").start(X)
    >>> bool(abs(parent_free_log_likelihood(iid, X) - log_likelihood(iid, X)) < 1e-9)
    True
    """
    records = np.asarray(X, dtype=np.float64)
    of_child = leaf_log_density(mutation, records[:1], records)
    ratios = mutation.log_root(records) - of_child
    return float(of_child.sum() + logsumexp(ratios) - np.log(len(records)))


def log_posterior_and_gradient(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
) -> tuple[float, Array]:
    """Return log p(X | θ) + log_prior(θ), and its gradient with respect to `mutation.params`.

    The paper's gradient (section 4) in terms of the edge marginals W: ∂ log Z / ∂θ =
    Σ_uv W_uv ∂ log p(x_u | x_v) / ∂θ. The root's density holds no parameter of θ. O(T³ + T² D).

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> mutation = GaussianMutation(transition="scalar").start(X)
    >>> value, gradient = log_posterior_and_gradient(mutation, X)
    >>> gradient.shape == mutation.params.shape
    True
    """
    tree = tree_distribution(mutation, X)
    value = tree.log_z + mutation.log_prior() - log_number_of_trees(tree.n_records)
    return value, mutation.gradient(X, tree.edge_marginals, tree.root_marginals)


def log_predictive_ratio(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    X_new: ArrayLike,  # (U, D)
) -> float:
    """Return the paper's test log-likelihood of all new records together (section 4).

        log p(X ∪ X_new) − log p(X),   p(X) = Z / T^(T−1)

    **This is not a normalised density**, although the paper says so: it compares populations of
    T + U and of T records, and a new record may also be the parent of old ones, whose density
    then is one of two steps instead of one. Its integral over X_new can be far from one; it is
    one if the conditional ignores the parent. Do not put it beside the log-density of another
    estimator: `leaf_log_density` and `normalised_log_predictive` are made for that. It depends
    on which records are passed together. Exact; O((T + U)³).

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(20, 1))
    >>> iid = GaussianMutation(transition="zero").start(X)
    >>> ratio = log_predictive_ratio(iid, X, [[0.0], [1.0]])
    >>> bool(np.isclose(ratio, iid.log_root([[0.0], [1.0]]).sum()))
    True
    """
    old, new = np.asarray(X), np.asarray(X_new)
    return log_likelihood(mutation, np.vstack([old, new])) - log_likelihood(mutation, old)


def leaf_log_density(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    X_new: ArrayLike,  # (U, D)
) -> Array:
    """Return log (1/T) Σ_v p(x | x_v) for each new record x, shape (U,).

    The density of a new record that is a leaf below a record chosen at random: normalised
    exactly, and the same whatever other records are passed with it. With transition = identity it
    is a Parzen estimate, with a parent-free conditional the iid density. O(U T D), with memory
    for a bounded number of pairs at a time.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> window = GaussianMutation(transition="identity", mutation_cov=[[1.0]])
    >>> leaf_log_density(window, [[-1.0], [1.0]], [[0.0]]) + 0.5 * np.log(2 * np.pi)
    array([-0.5])
    """
    parents, children = np.asarray(X), np.asarray(X_new)
    if mutation.parent_free:
        parents = parents[:1]  # every parent says the same
    return mean_over_parents(mutation.log_conditional, parents, children)


def leave_one_out_log_density(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
) -> Array:
    """Return log 1/(T − 1) Σ_{v ≠ u} p(x_u | x_v) for each record u, shape (T,).

    How well the others predict each record, with the parameters of the mutation as they are.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> window = GaussianMutation(transition="identity", mutation_cov=[[1.0]])
    >>> leave_one_out_log_density(window, [[0.0], [0.0], [2.0]]) + 0.5 * np.log(2 * np.pi)
    array([-0.56621917, -0.56621917, -2.        ])
    """
    records = np.asarray(X)
    if mutation.parent_free:
        return leaf_log_density(mutation, records, records)
    result = np.empty(len(records))
    for rows in chunks(len(records), len(records)):
        logs = mutation.log_conditional(records[rows], records).copy()
        own = np.arange(rows.start, rows.stop)
        logs[own - rows.start, own] = -np.inf
        result[rows] = logsumexp(logs, axis=1)
    return np.asarray(result - np.log(len(records) - 1))


def mean_over_parents(
    log_conditional: Callable[[Array, Array], Array],  # (n, D), (T, D) -> (n, T)
    parents: Array,  # (T, D)
    children: Array,  # (U, D)
) -> Array:
    """Return log (1/T) Σ_v p(x | x_v) for each child x, with a bounded number of pairs at a time.

    Examples
    --------
    >>> def distance(children, parents):
    ...     return -np.abs(children - parents.T)
    >>> mean_over_parents(distance, np.array([[0.0], [0.0]]), np.array([[1.0], [2.0]]))
    array([-1., -2.])
    """
    result = np.empty(len(children))
    for rows in chunks(len(children), len(parents)):
        result[rows] = logsumexp(log_conditional(children[rows], parents), axis=1)
    result -= np.log(len(parents))
    return result


def log_predictive_ratio_each(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    X_new: ArrayLike,  # (U, D)
) -> Array:
    """Return `log_predictive_ratio` of each new record on its own, shape (U,).

    The weights of all new records are computed together, and log Z of the old ones once; each
    record then costs one elimination of T + 1 nodes, O(T³). (Eliminating the new record first
    adds d_u c_v / Σc to each β_uv, with c its weights as a child and d as a parent. In the
    out-Laplacian that is diag(d) − d cᵀ/Σc: the second term has rank one, but the first has
    full rank, so no formula for small changes applies.)

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(20, 1))
    >>> mutation = GaussianMutation().start(X)
    >>> both = log_predictive_ratio_each(mutation, X, [[0.0], [1.0]])
    >>> bool(np.isclose(both[1], log_predictive_ratio(mutation, X, [[1.0]])))
    True
    """
    old, new = np.asarray(X), np.asarray(X_new)
    T = len(old)
    before = tree_distribution(mutation, old)
    log_beta, log_root = np.full((T + 1, T + 1), -np.inf), np.empty(T + 1)
    log_beta[:T, :T], log_root[:T] = before.log_beta, before.log_root
    correction = log_number_of_trees(T) - log_number_of_trees(T + 1) - before.log_z
    result = np.empty(len(new))
    for rows in chunks(len(new), 2 * T):
        as_child = mutation.log_conditional(new[rows], old)  # (n, T)
        as_parent = mutation.log_conditional(old, new[rows])  # (T, n)
        as_root = mutation.log_root(new[rows])
        for i, row in enumerate(range(rows.start, rows.stop)):
            log_beta[T, :T], log_beta[:T, T], log_root[T] = as_child[i], as_parent[:, i], as_root[i]
            result[row] = OutTreeDistribution(log_beta, log_root).log_z + correction
    return result


class NormalisedPredictive(NamedTuple):
    """The predictive ratio of single records divided by its integral, which is estimated."""

    log_density: Array  # (U,), conditional on the estimated integral
    log_integral: float  # log ∫ ratio(x) dx, sampled
    standard_error: float  # of log_integral, and so of every log_density
    effective_draws: float  # (Σ w)² / Σ w² of the importance weights


def normalised_log_predictive(
    mutation: Mutation,
    X: ArrayLike,  # (T, D)
    X_new: ArrayLike,  # (U, D)
    n_draws: int = 1000,
    random_state: Any = None,
) -> NormalisedPredictive:
    """Return the paper's ratio of each new record by itself, divided by its integral.

        log p(x | X) = ratio(x) − log ∫ exp ratio(y) dy,   ratio = `log_predictive_ratio`

    The integral is estimated by importance sampling from the leaf predictive, the mean of
    exp(ratio(y) − leaf(y)) over n_draws independent draws y; its standard error comes with it
    (sampled, first order). The weights are bounded but for the trees whose root is the new
    record; few effective draws mean that those matter, and that the error is understated.
    O((n_draws + U) T³).

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(20, 1))
    >>> iid = GaussianMutation(transition="zero").start(X)
    >>> result = normalised_log_predictive(iid, X, [[0.0]], n_draws=5, random_state=0)
    >>> bool(abs(result.log_integral) < 1e-12)  # an iid ratio integrates to one as it is
    True
    """
    check_count("normalised_log_predictive", "n_draws", n_draws, 2)
    rng = as_generator(random_state)
    old = np.asarray(X)
    draws = mutation.sample(old[rng.integers(len(old), size=n_draws)], rng)
    log_weights = log_predictive_ratio_each(mutation, old, draws)
    log_weights -= leaf_log_density(mutation, old, draws)
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    mean = float(weights.mean())
    log_integral = float(top + np.log(mean))
    error = float(weights.std(ddof=1)) / (mean * float(np.sqrt(n_draws)))
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    log_ratio = log_predictive_ratio_each(mutation, old, X_new)
    return NormalisedPredictive(log_ratio - log_integral, log_integral, error, effective)
