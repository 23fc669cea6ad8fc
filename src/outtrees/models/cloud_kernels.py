"""Clusters of normal records, means and covariances integrated out, compiled.

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
def log_constant(count, factor, kappa, nu):  # type: ignore[no-untyped-def]
    """Return the part of a cluster's log-density that is the same for every x. O(D)."""
    D = len(factor)
    dof, weight = nu + count, kappa + count
    log_det = 0.0
    for i in range(D):
        log_det += math.log(factor[i, i])
    return (
        math.lgamma(0.5 * (dof + 1.0))
        - math.lgamma(0.5 * (dof + 1.0 - D))
        - 0.5 * D * math.log(math.pi * (weight + 1.0) / weight)
        - log_det
    )


@compiled
def log_student(x, constant, count, mean, factor, kappa, nu, white):  # type: ignore[no-untyped-def]
    """Return the log-density of x in a cluster, mean and covariance integrated out. O(D²)."""
    weight = kappa + count
    squared = 0.0
    for i in range(len(x)):
        rest = x[i] - mean[i]
        for j in range(i):
            rest -= factor[i, j] * white[j]
        white[i] = rest / factor[i, i]
        squared += white[i] ** 2
    return constant - 0.5 * (nu + count + 1.0) * math.log1p(squared * weight / (weight + 1.0))


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
    scratch, white = np.empty(D), np.empty(D)
    constants = np.empty(T + 1)
    alone = log_constant(0, prior_factor, kappa, nu)
    for k in range(n_clusters):
        gather(X, labels, k, counts, means, factors, kappa, centre, prior_factor, scratch)
        constants[k] = log_constant(counts[k], factors[k], kappa, nu)
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
                constants[k] = constants[n_clusters]
                for u in range(T):
                    if labels[u] == n_clusters:
                        labels[u] = k
        else:
            if not change_members(x, k, -1.0, counts, means, factors, kappa, scratch):
                gather(X, labels, k, counts, means, factors, kappa, centre, prior_factor, scratch)
            constants[k] = log_constant(counts[k], factors[k], kappa, nu)
        for j in range(n_clusters):
            logs[j] = math.log(counts[j]) + log_student(
                x, constants[j], counts[j], means[j], factors[j], kappa, nu, white
            )
        logs[n_clusters] = log_alpha + log_student(
            x, alone, 0, centre, prior_factor, kappa, nu, white
        )
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
        constants[k] = log_constant(counts[k], factors[k], kappa, nu)
    return n_clusters


@compiled
def gather_statistics(X, labels, n_clusters):  # type: ignore[no-untyped-def]
    """Return the number, the mean and the scatter about it of each cluster's records. O(T D²)."""
    T, D = X.shape
    counts = np.zeros(n_clusters)
    means = np.zeros((n_clusters, D))
    scatters = np.zeros((n_clusters, D, D))
    for t in range(T):
        k = labels[t]
        counts[k] += 1.0
        share = (counts[k] - 1.0) / counts[k]
        for i in range(D):
            apart = X[t, i] - means[k, i]
            for j in range(i + 1):  # the other half is never read
                scatters[k, i, j] += share * apart * (X[t, j] - means[k, j])
        for i in range(D):
            means[k, i] += (X[t, i] - means[k, i]) / counts[k]
    return counts, means, scatters


@compiled
def log_evidence(counts, means, scatters, kappa, nu, scales):  # type: ignore[no-untyped-def]
    """Return log p(X | clusters) from their statistics, Ψ₀ = diag(scales). O(K D³)."""
    D = len(scales)
    log_prior_det = 0.0
    for i in range(D):
        log_prior_det += math.log(scales[i])
    factor = np.empty((D, D))
    total = 0.0
    for k in range(len(counts)):
        n = counts[k]
        shift = kappa * n / (kappa + n)
        log_det = 0.0
        for i in range(D):
            for j in range(i + 1):
                value = scatters[k, i, j] + shift * means[k, i] * means[k, j]
                if i == j:
                    value += scales[i]
                for m in range(j):
                    value -= factor[i, m] * factor[j, m]
                factor[i, j] = math.sqrt(value) if i == j else value / factor[j, j]
            log_det += 2.0 * math.log(factor[i, i])
            total += math.lgamma(0.5 * (nu + n - i)) - math.lgamma(0.5 * (nu - i))
        total += 0.5 * nu * log_prior_det - 0.5 * (nu + n) * log_det
        total -= 0.5 * D * (n * math.log(math.pi) + math.log1p(n / kappa))
    return total
