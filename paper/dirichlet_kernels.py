"""One sweep of a collapsed Gibbs sampler for normal clusters, compiled.

A cluster holds the normal inverse-Wishart posterior of its members: their number, the mean of μ,
and the lower Cholesky factor of the scatter Ψ. A member that comes or goes changes Ψ by rank one.
Loops over columns are written out: array expressions would take four times as long to compile.
"""

from __future__ import annotations

import math

import numpy as np

from outtrees._common.compiled import compiled


@compiled
def change_factor(factor, vector, sign):  # type: ignore[no-untyped-def]
    """Change L, L Lᵀ = Ψ, to that of Ψ ± v vᵀ in place; v is used up. Whether it was possible."""
    D = len(vector)
    for i in range(D):
        squared = factor[i, i] ** 2 + sign * vector[i] ** 2
        if not squared > 0.0:
            return False
        new = math.sqrt(squared)
        cosine, sine = new / factor[i, i], vector[i] / factor[i, i]
        factor[i, i] = new
        for j in range(i + 1, D):
            factor[j, i] = (factor[j, i] + sign * sine * vector[j]) / cosine
            vector[j] = cosine * vector[j] - sine * factor[j, i]
    return True


@compiled
def log_student(x, count, mean, factor, kappa, nu):  # type: ignore[no-untyped-def]
    """Return the log-density of x in a cluster, mean and covariance integrated out. O(D²)."""
    D = len(x)
    dof, weight = nu + count, kappa + count
    spread = (weight + 1.0) / weight
    log_det, squared = 0.0, 0.0
    white = np.empty(D)
    for i in range(D):
        rest = x[i] - mean[i]
        for j in range(i):
            rest -= factor[i, j] * white[j]
        white[i] = rest / factor[i, i]
        squared += white[i] ** 2
        log_det += math.log(factor[i, i])
    return (
        math.lgamma(0.5 * (dof + 1.0))
        - math.lgamma(0.5 * (dof + 1.0 - D))
        - 0.5 * D * math.log(math.pi * spread)
        - log_det
        - 0.5 * (dof + 1.0) * math.log1p(squared / spread)
    )


@compiled
def change_members(x, k, sign, counts, means, factors, kappa, scratch):  # type: ignore[no-untyped-def]
    """Give x to cluster k (sign 1.0) or take it away (−1.0). Whether its factor could follow."""
    weight = kappa + counts[k]
    scale = math.sqrt(weight / (weight + sign))
    for i in range(len(x)):
        apart = x[i] - means[k, i]
        means[k, i] += sign * (apart / (weight + sign))
        scratch[i] = scale * apart
    counts[k] += int(sign)
    return change_factor(factors[k], scratch, sign)


@compiled
def start_cluster(k, counts, means, factors, centre, prior_factor):  # type: ignore[no-untyped-def]
    """Let cluster k have no members."""
    counts[k] = 0
    for i in range(len(centre)):
        means[k, i] = centre[i]
        for j in range(len(centre)):
            factors[k, i, j] = prior_factor[i, j]


@compiled
def gather(X, labels, k, counts, means, factors, kappa, centre, prior_factor, scratch):  # type: ignore[no-untyped-def]
    """Build cluster k from its members. O(members · D²)."""
    start_cluster(k, counts, means, factors, centre, prior_factor)
    for t in range(len(X)):
        if labels[t] == k:
            change_members(X[t], k, 1.0, counts, means, factors, kappa, scratch)


@compiled
def sweep(X, labels, n_clusters, order, uniforms, log_alpha, kappa, nu, centre, prior_factor):  # type: ignore[no-untyped-def]
    """Draw the cluster of each record in turn given all others, in place; return their number.

    P(k) ∝ members of k · p(x | members of k), P(new) ∝ α · p(x). O(T K D²).
    """
    T, D = X.shape
    counts = np.zeros(T + 1, np.intp)
    means = np.empty((T + 1, D))
    factors = np.empty((T + 1, D, D))
    scratch = np.empty(D)
    for k in range(n_clusters):
        gather(X, labels, k, counts, means, factors, kappa, centre, prior_factor, scratch)
    logs = np.empty(T + 1)
    for step in range(T):
        t = order[step]
        x = X[t]
        k = labels[t]
        labels[t] = -1
        if counts[k] == 1:  # the last cluster takes the place of the empty one
            n_clusters -= 1
            if k != n_clusters:
                start_cluster(k, counts, means, factors, means[n_clusters], factors[n_clusters])
                counts[k] = counts[n_clusters]
                for u in range(T):
                    if labels[u] == n_clusters:
                        labels[u] = k
        elif not change_members(x, k, -1.0, counts, means, factors, kappa, scratch):
            gather(X, labels, k, counts, means, factors, kappa, centre, prior_factor, scratch)
        for j in range(n_clusters):
            logs[j] = math.log(counts[j]) + log_student(
                x, counts[j], means[j], factors[j], kappa, nu
            )
        logs[n_clusters] = log_alpha + log_student(x, 0, centre, prior_factor, kappa, nu)
        top = logs[0]
        for j in range(1, n_clusters + 1):
            top = max(top, logs[j])
        total = 0.0
        for j in range(n_clusters + 1):
            logs[j] = math.exp(logs[j] - top)
            total += logs[j]
        left = uniforms[step] * total
        k = 0
        while k < n_clusters and left >= logs[k]:
            left -= logs[k]
            k += 1
        if k == n_clusters:
            start_cluster(k, counts, means, factors, centre, prior_factor)
            n_clusters += 1
        labels[t] = k
        change_members(x, k, 1.0, counts, means, factors, kappa, scratch)
    return n_clusters


@compiled
def log_evidence(X, labels, n_clusters, kappa, nu, centre, prior_factor):  # type: ignore[no-untyped-def]
    """Return log p(X | clusters), means and covariances integrated out. O(T D² + K D²).

    The product of each record's density given the members of its cluster that came before it,
    which is the same in every order.
    """
    T, D = X.shape
    counts = np.zeros(n_clusters, np.intp)
    means = np.empty((n_clusters, D))
    factors = np.empty((n_clusters, D, D))
    scratch = np.empty(D)
    for k in range(n_clusters):
        start_cluster(k, counts, means, factors, centre, prior_factor)
    total = 0.0
    for t in range(T):
        k = labels[t]
        total += log_student(X[t], counts[k], means[k], factors[k], kappa, nu)
        change_members(X[t], k, 1.0, counts, means, factors, kappa, scratch)
    return total


@compiled
def log_predictive(points, X, labels, n_clusters, log_alpha, kappa, nu, centre, prior_factor):  # type: ignore[no-untyped-def]
    """Return the log-density of each point given the clusters, Σ_k n_k t_k + α t_0 over n + α."""
    T, D = X.shape
    counts = np.zeros(n_clusters + 1, np.intp)
    means = np.empty((n_clusters + 1, D))
    factors = np.empty((n_clusters + 1, D, D))
    scratch = np.empty(D)
    for k in range(n_clusters + 1):
        gather(X, labels, k, counts, means, factors, kappa, centre, prior_factor, scratch)
    result = np.empty(len(points))
    logs = np.empty(n_clusters + 1)
    log_total = math.log(T + math.exp(log_alpha))
    for i in range(len(points)):
        for k in range(n_clusters + 1):
            share = math.log(counts[k]) if k < n_clusters else log_alpha
            logs[k] = share + log_student(points[i], counts[k], means[k], factors[k], kappa, nu)
        top, total = logs[0], 0.0
        for k in range(1, n_clusters + 1):
            top = max(top, logs[k])
        for k in range(n_clusters + 1):
            total += math.exp(logs[k] - top)
        result[i] = top + math.log(total) - log_total
    return result
