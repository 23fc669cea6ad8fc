"""The kernels that the contract is tested on, away from their start, with all cells there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from outtrees.models.columns import (
    ColumnKernel,
    Counts,
    Drift,
    Reversion,
    Sticky,
    Substitution,
    Waiting,
)


def densities(kernel, children, parents, k):
    """Return p(child | parent, k links) for all pairs (n, m)."""
    child, parent = np.indices((len(children), len(parents))).reshape(2, -1)
    pairs = kernel.pairs(children, parents, child, parent)
    return np.exp(kernel.log_steps(pairs, k)).reshape(len(children), len(parents))


def weighted_sum(kernel, pairs, weights, elapsed=None):
    """Return Σ w·log_steps + log_prior, what an M-step must not lower; 0·(−inf) counts as 0."""
    total = kernel.log_prior()
    for k, w in enumerate(weights, start=1):
        log_p = kernel.log_steps(pairs, k, elapsed)
        total += float(w[w > 0] @ log_p[w > 0])
    return total


def legendre(low, high, n):
    """Return nodes (n, 1) and weights (n,) of a quadrature between two numbers."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (low + (nodes + 1) * (high - low) / 2)[:, None], weights * (high - low) / 2


def dates(days):
    days = np.asarray(days, dtype=float).ravel()
    return np.column_stack([days, days, 0 * days, 0 * days])


@dataclass(frozen=True)
class KernelCase:
    name: str
    kernel: ColumnKernel  # with parameters that no start has
    column: np.ndarray  # (T, D), cells of a table
    points: np.ndarray  # (n, D), all cells a child may have …
    weights: np.ndarray  # (n,), … and their quadrature weights
    vary: Callable  # (kernel, unconstrained parameters) → kernel
    starts: tuple  # of an independent optimiser over those parameters
    alone: tuple | None = None  # cells and weights without a parent, where they differ
    composes: bool = True  # rounded dates do so only before rounding
    discrete: bool = True
    accuracy: float = 1e-9  # of the quadrature


def _started(kernel, column, **parameters):
    return replace(kernel.start(column), **parameters)


def _drift(name, column, points, weights, offset=True):
    D = column.shape[1]
    step = np.array([0.4, -0.2])[:D] if offset else np.zeros(D)
    cov = np.array([[0.5, 0.15], [0.15, 0.3]])[:D, :D]

    def vary(kernel, params):
        lower = np.zeros((D, D))
        lower[np.tril_indices(D)] = params[: D * (D + 1) // 2]
        lower[np.diag_indices(D)] = np.exp(lower[np.diag_indices(D)])
        moved = params[-D:] if offset else np.zeros(D)
        return replace(kernel, cov=lower @ lower.T, mean_step=moved)

    n = D * (D + 1) // 2 + D * offset
    kernel = _started(Drift(offset=offset), column, mean_step=step, cov=cov)
    starts = (np.zeros(n), np.full(n, -0.5))
    return KernelCase(name, kernel, column, points, weights, vary, starts, discrete=False)


def _reversion():
    column = _RNG.normal(1.0, 2.0, size=(10, 1))
    points, weights = legendre(-25, 25, 300)

    def vary(kernel, params):
        share, step, log_variance = params
        variance = float(np.exp(log_variance))
        return replace(kernel, share=float(np.clip(share, 0, 1.25)), step=step, variance=variance)

    kernel = _started(Reversion(), column, share=0.6, step=0.3, variance=0.8)
    starts = (np.array([0.5, 0.0, 0.0]), np.array([1.0, 0.5, 1.0]))
    return KernelCase("reversion", kernel, column, points, weights, vary, starts, discrete=False)


def _plane():
    x, w = legendre(-12, 12, 120)
    points = np.array(list(product(x[:, 0], x[:, 0])))
    return points, np.outer(w, w).ravel()


def _sticky(name, target):
    column = np.array([0, 0, 1, 2, 2, 2, 0, 1, 0, 0], dtype=float)[:, None]
    kernel = _started(Sticky(("a", "b", "c"), target=target), column, stickiness=0.7)
    return KernelCase(
        name,
        kernel,
        column,
        np.arange(3.0)[:, None],
        np.ones(3),
        lambda kernel, params: replace(kernel, stickiness=_share(params[0])),
        (np.array([-2.0]), np.array([0.0]), np.array([3.0])),
    )


def _share(x):
    """Return a number between 0 and 1, and never quite either."""
    return float(1e-12 + (1 - 2e-12) / (1 + np.exp(-x)))


def _counts(name, column):
    column = np.array(column, dtype=float)[:, None]
    points = np.arange(200.0)[:, None]
    return KernelCase(
        name,
        _started(Counts(), column, survival=0.65),
        column,
        points,
        np.ones(len(points)),
        lambda kernel, params: replace(kernel, survival=_share(params[0])),
        (np.array([-2.0]), np.array([0.0]), np.array([3.0])),
    )


def _waiting(name, kernel, column, points, weights, alone, **options):
    column = dates(column)
    parameters = {"log_mean": np.log(5.0), "log_shape": np.log(4.0)}
    return KernelCase(
        name,
        _started(kernel, column, **parameters),
        column,
        dates(points),
        weights,
        lambda kernel, params: kernel._moved(params),
        () if kernel.table else (np.array([1.0, 0.5]), np.array([2.0, 1.5])),
        alone=(dates(alone[0]), alone[1]),
        **options,
    )


def _substitution(name, letters, model="JC69"):
    C, rng = len(letters), np.random.default_rng(4)
    column = rng.choice(C, p=[0.7, *[0.3 / (C - 1)] * (C - 1)], size=(12, 3)).astype(float)
    points = np.array(list(product(range(C), repeat=3)), dtype=float)

    def vary(kernel, params):
        kappa = float(np.exp(params[1])) if model == "K80" else kernel.kappa
        return replace(kernel, rate=float(np.exp(np.clip(params[0], -12, np.log(2)))), kappa=kappa)

    n = 2 if model == "K80" else 1
    return KernelCase(
        name,
        _started(Substitution(tuple(letters), model), column, rate=0.15, kappa=3.5),
        column,
        points,
        np.ones(len(points)),
        vary,
        (np.full(n, -3.0), np.full(n, -0.5)),
    )


_RNG = np.random.default_rng(20)
_DAYS = np.array([0, 3, 4, 4, 7, 9, 9, 12, 15, 20], dtype=float)
CASES = [
    _drift("drift-1d", _RNG.normal(size=(10, 1)), *legendre(-16, 16, 200)),
    _drift("drift-2d", _RNG.normal(size=(10, 2)), *_plane()),
    _drift("place", _RNG.normal(size=(10, 2)), *_plane(), offset=False),
    _reversion(),
    _sticky("sticky", "marginal"),
    _sticky("sticky-uniform", "uniform"),
    _counts("counts", [2, 3, 2, 4, 3, 2, 3, 1, 3, 2]),
    _counts("counts-overdispersed", [0, 9, 1, 4, 12, 2, 0, 1, 3, 7]),
    _waiting(
        "waiting-days",
        Waiting(),
        _DAYS,
        np.arange(200.0),
        np.ones(200),
        (np.arange(21.0), np.ones(21)),
        composes=False,
    ),
    _waiting(
        "waiting-weeks",
        Waiting(unit=7.0),
        7 * _DAYS,
        np.arange(0, 400, 7.0),
        np.ones(58),
        (np.arange(0, 147, 7.0), np.ones(21)),
        composes=False,
    ),
    _waiting(
        "waiting-exact",
        Waiting(unit=0.0),
        _DAYS,
        *legendre(0, 90, 400),
        legendre(0, 20, 5),
        discrete=False,
        accuracy=1e-6,  # the density of a sum has a kink where the middle cell meets the child
    ),
    _waiting(
        "waiting-table",
        Waiting(table=(0.1, 0.2, 0.0, 0.4, 0.3)),
        _DAYS,
        np.arange(40.0),
        np.ones(40),
        (np.arange(21.0), np.ones(21)),
    ),
    _substitution("jc69", "ACGT"),
    _substitution("k80", "ACGT", "K80"),
    _substitution("two-letters", "01"),
    _substitution("five-letters", "ABCDE"),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name, scope="session")
def kernel_case(request):
    return request.param
