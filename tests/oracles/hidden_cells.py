"""The slow twin of everything about hidden cells: all trees, all kinds, all states, one by one."""

from itertools import product

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from oracles.enumeration import all_trees


def joint_gaussian(parents, edges, kinds):
    """Mean (T·D,) and covariance (T·D, T·D) of all cells of all records, given the tree."""
    T, D = len(parents), edges.offset.shape[1]
    mean, cov = np.zeros((T, D)), np.zeros((T, D, T, D))
    order = [u for u in range(T) if parents[u] < 0]
    for u in order:
        order.extend(c for c in range(T) if parents[c] == u)
    for place, u in enumerate(order):
        v, A = parents[u], edges.transition[kinds[u]]
        mean[u] = edges.offset[kinds[u]]
        cov[u, :, u] = edges.cov[kinds[u]]
        if v >= 0:
            mean[u] += A @ mean[v]
            cov[u, :, u] += A @ cov[v, :, v] @ A.T
            for w in order[:place]:
                cov[u, :, w] = A @ cov[v, :, w]
                cov[w, :, u] = cov[u, :, w].T
    return mean.ravel(), cov.reshape(T * D, T * D)


def conditioned(mean, cov, x):
    """Mean and covariance of the hidden cells of x, and the log-density of the others."""
    hidden = np.isnan(x)
    seen = ~hidden
    if not seen.any():
        return mean, cov, 0.0
    gain = cov[np.ix_(hidden, seen)] @ np.linalg.inv(cov[np.ix_(seen, seen)])
    log_z = multivariate_normal(mean[seen], cov[np.ix_(seen, seen)]).logpdf(x[seen])
    return (
        mean[hidden] + gain @ (x[seen] - mean[seen]),
        cov[np.ix_(hidden, hidden)] - gain @ cov[np.ix_(seen, hidden)],
        log_z,
    )


def enumerated(model, observed):
    """Exact mean and variance of hidden continuous cells, chances of categories, and log p."""
    T = len(observed)
    x = observed[:, model.continuous].ravel()
    n_hidden = int(np.isnan(x).sum())
    K, R = model.n_kinds, len(model.log_root_weights)
    logs, means, seconds, chances = [], [], [], []
    blanks = [np.flatnonzero(np.isnan(observed[:, c])) for c in model.categorical]
    for parents in all_trees(T):
        ranges = [range(K, K + R) if v < 0 else range(K) for v in parents]
        for kinds in product(*ranges):
            weights = np.concatenate([model.log_weights, model.log_root_weights])
            log_weight = weights[list(kinds)].sum()
            mean = second = np.zeros(0)
            if len(x):
                m, cov, log_z = conditioned(*joint_gaussian(parents, model.edges, kinds), x)
                log_weight += log_z
                mean, second = m, np.diag(cov) + m**2
            states = []
            for c, table, rows in zip(model.categorical, model.log_tables, blanks, strict=True):
                C = table.shape[1]
                filled = observed[:, c].copy()
                totals, ones = [], []
                for values in product(range(C), repeat=len(rows)):
                    filled[rows] = values
                    s = filled.astype(int)
                    above = np.where(parents < 0, 0, s[parents])
                    totals.append(table[list(kinds), s, above].sum())
                    ones.append(np.eye(C)[list(values)].reshape(len(rows), C))
                log_weight += logsumexp(totals)
                p = np.exp(np.array(totals) - logsumexp(totals))
                states.append(np.einsum("a,auc->uc", p, np.array(ones)))
            logs.append(log_weight)
            means.append(mean)
            seconds.append(second)
            chances.append(states)
    logs = np.array(logs)
    p = np.exp(logs - logsumexp(logs))
    mean, second = p @ np.array(means), p @ np.array(seconds)
    assert mean.shape == (n_hidden,)
    averaged = [
        np.einsum("a,auc->uc", p, np.array([c[d] for c in chances])) for d in range(len(blanks))
    ]
    return mean, second - mean**2, averaged, float(logsumexp(logs)) - (T - 1) * np.log(T)
