"""Weights that the tests of the engine share: random, degenerate, and far out of range."""

import numpy as np


def random_weights(rng, T, scale=1.0, forbidden=0.0):
    """Return (log_beta, log_root), normal with the given sd, some entries −inf."""
    log_beta = rng.normal(size=(T, T)) * scale
    log_root = rng.normal(size=T) * scale
    log_beta[rng.random((T, T)) < forbidden] = -np.inf
    log_root[rng.random(T) < forbidden] = -np.inf
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, log_root


def clusters(rng, sizes, separation, dimensions=2):
    """Return the Gaussian log-weights of clusters on a line, ``separation`` sd apart."""
    centre = np.repeat(np.arange(len(sizes)), sizes) * float(separation)
    X = rng.normal(size=(sum(sizes), dimensions))
    X[:, 0] += centre
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    log_beta = -0.5 * squared - 0.5 * dimensions * np.log(2 * np.pi)
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, np.zeros(len(X))


def chain(rng, T, step):
    """Each record is a likely child of the one before it; the way back costs ``step`` nats."""
    log_beta = np.full((T, T), -20.0 * step) + rng.normal(size=(T, T))
    i = np.arange(T - 1)
    log_beta[i + 1, i] = 0.0
    log_beta[i, i + 1] = -float(step)
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, rng.normal(size=T)


def star(rng, T, arm):
    """Everyone descends from record 0; any other parent costs about ``arm`` nats."""
    log_beta = -arm * (1 + rng.random((T, T)))
    log_beta[:, 0] = 0.0
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, rng.normal(size=T)


def near_reducible(rng, T, bridge):
    """Two groups joined by one edge each way, of ``bridge`` nats; nothing else crosses."""
    log_beta = rng.normal(size=(T, T))
    half = T // 2
    log_beta[:half, half:] = -np.inf
    log_beta[half:, :half] = -np.inf
    log_beta[0, half] = -float(bridge)
    log_beta[half, 0] = -float(bridge) / 2
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, rng.normal(size=T)
