"""Clusters of normal records, means and covariances integrated out, compiled.

A cluster holds the normal inverse-Wishart posterior of its members: their number, the mean of μ,
and the lower Cholesky factor of the scatter Ψ. A member that comes or goes changes Ψ by rank one.
Loops over columns are written out: array expressions would take four times as long to compile.
"""

from __future__ import annotations

import math

import numpy as np

from outtrees._common.compiled import compiled

# Of the variance that a regression leaves, of columns with variance 1: inverse gamma.
PRIOR_SHAPE, PRIOR_SCALE = 0.5, 0.01


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
def log_student_of_one(x, constant, mean, kappa, nu, centre, scales):  # type: ignore[no-untyped-def]
    """Return `log_student` for a cluster of one record: Ψ is diagonal but for it. O(D)."""
    c = kappa * (kappa + 1.0)  # κ/(κ+1) (κ+1)²: the member is that far from the centre
    apart, both, own = 0.0, 0.0, 0.0
    for i in range(len(x)):
        off, member = x[i] - mean[i], mean[i] - centre[i]
        apart += off**2 / scales[i]
        both += off * member / scales[i]
        own += member**2 / scales[i]
    squared = apart - c * both**2 / (1.0 + c * own)
    return constant - 0.5 * (nu + 2.0) * math.log1p(squared * (kappa + 1.0) / (kappa + 2.0))


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
def sweep(X, labels, n_clusters, order, uniforms, log_alpha, kappa, nu, centre, scales):  # type: ignore[no-untyped-def]
    """Draw the cluster of each record in turn given all others, in place; return their number.

    P(k) ∝ members of k · p(x | members of k), P(new) ∝ α · p(x); Ψ₀ = diag(scales). O(T K D²),
    or O(T K D) for clusters of one record.
    """
    T, D = X.shape
    prior_factor = np.diag(np.sqrt(scales))
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
            if counts[j] == 1:
                logs[j] = log_student_of_one(x, constants[j], means[j], kappa, nu, centre, scales)
            else:
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
    """Return log p(X | clusters) from their statistics, Ψ₀ = diag(scales).

    O(K D³), or O(K D) for clusters of one record.
    """
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
        if n == 1.0:  # Ψ = diag(scales) + shift · x xᵀ
            for i in range(D):
                log_det += means[k, i] ** 2 / scales[i]
            log_det = log_prior_det + math.log1p(shift * log_det)
        for i in range(D):
            total += math.lgamma(0.5 * (nu + n - i)) - math.lgamma(0.5 * (nu - i))
            if n == 1.0:
                continue
            for j in range(i + 1):
                value = scatters[k, i, j] + shift * means[k, i] * means[k, j]
                if i == j:
                    value += scales[i]
                for m in range(j):
                    value -= factor[i, m] * factor[j, m]
                factor[i, j] = math.sqrt(value) if i == j else value / factor[j, j]
            log_det += 2.0 * math.log(factor[i, i])
        total += 0.5 * nu * log_prior_det - 0.5 * (nu + n) * log_det
        total -= 0.5 * D * (n * math.log(math.pi) + math.log1p(n / kappa))
    return total


@compiled
def log_partition(log_alpha, counts):  # type: ignore[no-untyped-def]
    """Return log p(clusters) = log α^K Γ(α) / Γ(α + T) Π Γ(n_k), the Chinese restaurant's."""
    alpha = math.exp(log_alpha)
    total = len(counts) * log_alpha + math.lgamma(alpha) - math.lgamma(alpha + counts.sum())
    for n in counts:
        total += math.lgamma(n)
    return total


@compiled
def log_joint(at, counts, means, scatters):  # type: ignore[no-untyped-def]
    """Return log p(X, clusters | base) at the logarithms of α, κ, ν − D + 1 and the scales."""
    nu = math.exp(at[2]) + len(at) - 4.0
    scales = np.exp(at[3:] + at[2])
    return log_partition(at[0], counts) + log_evidence(
        counts, means, scatters, math.exp(at[1]), nu, scales
    )


@compiled
def along(step, at, direction, counts, means, scatters):  # type: ignore[no-untyped-def]
    """Return `log_joint` at `at` + step · direction; a constant less where only α is moved."""
    if direction[0] > 0.0:
        return log_partition(at[0] + step, counts)
    return log_joint(at + step * direction, counts, means, scatters)


@compiled
def slice_step(rng, at, direction, low, high, counts, means, scatters):  # type: ignore[no-untyped-def]
    """Return the next step along a direction of a chain that keeps `log_joint` (Neal 2003).

    A level below the density at 0, an interval of width 1 stepped out until both its ends lie
    lower or reach the bounds, and points in it drawn until one lies higher.
    """
    if not low < high:
        return 0.0
    level = along(0.0, at, direction, counts, means, scatters) + math.log(1.0 - rng.random())
    left = max(low, -rng.random())
    right = min(high, left + 1.0)
    while left > low and along(left, at, direction, counts, means, scatters) > level:
        left = max(low, left - 1.0)
    while right < high and along(right, at, direction, counts, means, scatters) > level:
        right = min(high, right + 1.0)
    while True:
        new = left + (right - left) * rng.random()
        if along(new, at, direction, counts, means, scatters) > level or left == right:
            return new
        if new < 0.0:
            left = new
        else:
            right = new


@compiled
def draw_base(rng, at, directions, bounds, counts, means, scatters):  # type: ignore[no-untyped-def]
    """Move the logarithms of a base along each direction (of zeros and ones) in turn, in place."""
    for direction in directions:
        low, high = -np.inf, np.inf
        for c in range(len(at)):
            if direction[c] > 0.0:
                low, high = max(low, bounds[c, 0] - at[c]), min(high, bounds[c, 1] - at[c])
        at += slice_step(rng, at, direction, low, high, counts, means, scatters) * direction


# Each column given a few columns before it --------------------------------------------------------


@compiled
def regress(gram, n, target, given, penalties, most, coefs):  # type: ignore[no-untyped-def]
    """Average regressions of a column on few of those given; return the variance of what is left.

    For each penalty (variance of noise / variance of a coefficient) columns are taken up one by
    one, the one most correlated with what is left, `most` at the most. Each step is a model: its
    coefficients are normal, the noise's variance inverse gamma, its evidence exact, and each
    number of columns as likely beforehand, whichever they are. Coefficients (written to `coefs`,
    of all columns) and variances are averaged by the models' posterior weights. `gram` holds the
    sums of products of n records. O(penalties · most · columns given · most).
    """
    d, most = len(given), min(most, len(given))
    n_models = len(penalties) * (most + 1)
    logs, variances = np.empty(n_models), np.empty(n_models)
    found = np.zeros((n_models, most))
    order = np.zeros((len(penalties), most), np.intp)
    shape, scale = PRIOR_SHAPE + 0.5 * n, PRIOR_SCALE + 0.5 * gram[target, target]
    factor, white, row = np.empty((most, most)), np.empty(most), np.empty(most)
    for p in range(len(penalties)):
        taken = np.zeros(d, np.bool_)
        rest, log_det, log_subsets = scale, 0.0, 0.0
        m = p * (most + 1)
        logs[m], variances[m] = -shape * math.log(rest), rest / (shape - 1.0)
        for k in range(most):
            best, j = -1.0, -1
            for i in range(d):  # the column most correlated with what is left
                if not taken[i] and gram[given[i], given[i]] > 0.0:
                    left = gram[given[i], target]
                    for e in range(k):
                        left -= gram[given[i], given[order[p, e]]] * found[m, e]
                    left = left**2 / gram[given[i], given[i]]
                    if left > best:
                        best, j = left, i
            if j < 0:  # constant columns only
                for e in range(m + 1, (p + 1) * (most + 1)):
                    logs[e], variances[e] = -np.inf, 1.0
                break
            taken[j], order[p, k] = True, j
            diagonal = gram[given[j], given[j]] + penalties[p]
            value = gram[given[j], target]
            for e in range(k):
                row[e] = gram[given[j], given[order[p, e]]]
                for f in range(e):
                    row[e] -= factor[e, f] * row[f]
                row[e] /= factor[e, e]
                factor[k, e] = row[e]
                diagonal -= row[e] ** 2
                value -= row[e] * white[e]
            factor[k, k] = math.sqrt(max(diagonal, penalties[p]))  # at least that, but for rounding
            white[k] = value / factor[k, k]
            rest = max(rest - 0.5 * white[k] ** 2, PRIOR_SCALE)
            log_det += math.log(factor[k, k]) - 0.5 * math.log(penalties[p])
            log_subsets += math.log((d - k) / (k + 1.0))
            m += 1
            for e in range(k, -1, -1):
                back = white[e]
                for f in range(e + 1, k + 1):
                    back -= factor[f, e] * found[m, f]
                found[m, e] = back / factor[e, e]
            logs[m] = -log_det - shape * math.log(rest) - log_subsets
            variances[m] = rest / (shape - 1.0)
    top, total, variance = logs.max(), 0.0, 0.0
    for m in range(n_models):
        weight = math.exp(logs[m] - top)
        total += weight
        variance += weight * variances[m]
        for e in range(m % (most + 1)):
            coefs[given[order[m // (most + 1), e]]] += weight * found[m, e]
    coefs /= total
    return variance / total


@compiled
def chain(gram, n, order, penalties, most):  # type: ignore[no-untyped-def]
    """Return the coefficients (D, D) of each column on those before it, and what is left (D,)."""
    coefs, variances = np.zeros_like(gram), np.empty(len(gram))
    for i in range(len(order)):
        variances[order[i]] = regress(
            gram, n, order[i], order[:i], penalties, most, coefs[order[i]]
        )
    return coefs, variances
