"""The kernels that the contract is tested on, away from their start, with all cells there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from outtrees.models.columns import (
    ColumnKernel,
    Counts,
    Drift,
    GroupedDrift,
    Reversion,
    Spots,
    Sticky,
    Substitution,
    Waiting,
)

from ..angle import Angle


def densities(kernel, children, parents, k):
    """Return p(child | parent, k links) for all pairs (n, m)."""
    child, parent = np.indices((len(children), len(parents))).reshape(2, -1)
    pairs = kernel.pairs(children, parents, child, parent)
    return np.exp(kernel.log_steps(pairs, k)).reshape(len(children), len(parents))


def weighted_sum(kernel, pairs, weights, elapsed=None):
    """Return Σ w·log_steps over k and edges; 0·(−inf) counts as 0."""
    total = 0.0
    for k, w in enumerate(weights, start=1):
        log_p = kernel.log_steps(pairs, k, elapsed)
        total += float(w[w != 0] @ log_p[w != 0])
    return total


def richardson(value, params, step=4e-3):
    """Return ∂ value/∂params: two central differences, their leading errors cancelled.

    The error is of the order of step⁴; another formula and step than `differences` has.
    """
    result = np.empty(len(params))
    for i in range(len(params)):
        unit = np.eye(len(params))[i]
        wide, narrow = (
            (value(params + h * unit) - value(params - h * unit)) / (2 * h)
            for h in (step, step / 2)
        )
        result[i] = (4 * narrow - wide) / 3
    return result


def assert_slopes_agree(found, value, params, tol=2e-7):
    """`found` is ∂ value/∂params, to within tol of the largest."""
    assert_near(found, richardson(value, params), tol)


def assert_near(found, right, tol):
    """The slopes agree to within tol of the largest."""
    assert found.shape == right.shape
    np.testing.assert_allclose(found, right, rtol=tol, atol=tol * (1 + abs(right).max(initial=0)))


def climbed(kernel, pairs, weights, elapsed=None):
    """Return the kernel at the maximum of Σ w·log_steps + log_prior, found by its slopes."""
    if not len(kernel.params):
        return kernel

    def loss(params):
        moved = kernel.with_params(params)
        slopes = moved.slopes(pairs, weights, elapsed) + moved.prior_slopes()
        return -weighted_sum(moved, pairs, weights, elapsed) - moved.log_prior(), -slopes

    found = minimize(
        loss,
        kernel.params,
        jac=True,
        method="L-BFGS-B",
        # Only from below: were all bounded on both sides, SciPy's first step would be unscaled,
        # far into where nothing has a slope.
        bounds=[(x - 60, None) for x in kernel.params],
        options={"ftol": 1e-13, "gtol": 1e-7, "maxiter": 500},
    )
    return kernel.with_params(found.x)


def legendre(low, high, n):
    """Return nodes (n, 1) and weights (n,) of a quadrature between two numbers."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (low + (nodes + 1) * (high - low) / 2)[:, None], weights * (high - low) / 2


def tangents(centre, n):
    """Return nodes (n, 1) and weights (n,) of a quadrature over all numbers, for long tails."""
    angle, weights = legendre(-np.pi / 2, np.pi / 2, n)
    return centre + np.tan(angle), weights / np.cos(angle[:, 0]) ** 2


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
    alone: tuple | None = None  # cells and weights without a parent, where they differ
    composes: bool = True  # rounded dates do so only before rounding, long tails not at all
    discrete: bool = True
    long_tail: bool = False  # no fourth moment
    accuracy: float = 1e-9  # of the quadrature


def _started(kernel, column, **parameters):
    return replace(kernel.start(column), **parameters)


def _drift(name, column, points, weights, kernel=None, **options):
    kernel = kernel or Drift()
    D = 1 if points.shape[1] == 1 or kernel.ends else 2
    step = np.array([0.4, -0.2])[:D] if kernel.offset else np.zeros(D)
    cov = np.array([[0.5, 0.15], [0.15, 0.3]])[:D, :D]
    parameters = {"mean_step": step, "cov": cov, "rate": 0.7 * kernel.clock}
    if isinstance(kernel, GroupedDrift):
        parameters["scales"] = np.array([0.5, 1.7])
    kernel = _started(kernel, column, **parameters)
    return KernelCase(name, kernel, column, points, weights, discrete=False, **options)


def _reversion(name, points, weights, tail=None, **options):
    column = np.random.default_rng(21).normal(1.0, 2.0, size=(10, 1))
    kernel = _started(Reversion(tail=tail), column, share=0.6, step=0.3, variance=0.8)
    return KernelCase(name, kernel, column, points, weights, discrete=False, **options)


def _in_group(g, points):
    return np.column_stack([points, np.full(len(points), float(g))])


def _wide_plane():
    x, w = tangents(0.0, 160)
    return np.array(list(product(x[:, 0], x[:, 0]))), np.outer(w, w).ravel()


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
    )


def _spots(name):
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.5], [5.0, 5.0]])
    column = corners[[0, 0, 1, 2, 2, 2, 0, 1, 3, 0]]
    kernel = _started(Spots(), column, stays=0.6, near=0.7, reach=1.5)
    return KernelCase(name, kernel, column, corners, np.ones(4), composes=False)


def _counts(name, column):
    column = np.array(column, dtype=float)[:, None]
    points = np.arange(200.0)[:, None]
    return KernelCase(
        name,
        _started(Counts(), column, survival=0.65),
        column,
        points,
        np.ones(len(points)),
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
        alone=(dates(alone[0]), alone[1]),
        **options,
    )


def _substitution(name, letters, model="JC69", clock=False):
    C, rng = len(letters), np.random.default_rng(4)
    column = rng.choice(C, p=[0.7, *[0.3 / (C - 1)] * (C - 1)], size=(12, 3)).astype(float)
    points = np.array(list(product(range(C), repeat=3)), dtype=float)

    return KernelCase(
        name,
        _started(Substitution(tuple(letters), model, clock), column, rate=0.15, kappa=3.5),
        column,
        points,
        np.ones(len(points)),
    )


_RNG = np.random.default_rng(20)
_DAYS = np.array([0, 3, 4, 4, 7, 9, 9, 12, 15, 20], dtype=float)
CASES = [
    _drift("drift-1d", _RNG.normal(size=(10, 1)), *legendre(-16, 16, 200)),
    _drift("drift-2d", _RNG.normal(size=(10, 2)), *_plane()),
    _drift("place", _RNG.normal(size=(10, 2)), *_plane(), Drift(offset=False)),
    _drift("drift-clock", _RNG.normal(size=(10, 1)), *legendre(-16, 16, 200), Drift(clock=True)),
    _drift(
        "drift-ends",  # of one coordinate: first and last value
        _RNG.normal(size=(10, 2)),
        np.repeat(legendre(-16, 16, 200)[0], 2, axis=1),
        legendre(-16, 16, 200)[1],
        Drift(ends=True),
    ),
    _drift(
        "grouped",
        _in_group(1, _RNG.normal(size=(10, 2))),
        _in_group(1, _plane()[0]),
        _plane()[1],
        GroupedDrift(offset=False),
    ),
    _drift(
        "drift-tail",
        _RNG.normal(size=(10, 1)),
        *tangents(0.0, 400),
        Drift(tail=3.0),
        composes=False,
        long_tail=True,
    ),
    _drift(
        "place-tail",
        _RNG.normal(size=(10, 2)),
        *_wide_plane(),
        Drift(offset=False, tail=3.0),
        composes=False,
        long_tail=True,
        accuracy=1e-5,  # of two coordinates at once: the corner is not smooth
    ),
    _reversion("reversion", *legendre(-25, 25, 300)),
    _reversion("reversion-tail", *tangents(0.0, 400), tail=3.0, composes=False, long_tail=True),
    _sticky("sticky", "marginal"),
    _sticky("sticky-uniform", "uniform"),
    _spots("spots"),
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
    *(
        _waiting(
            f"waiting-days-{law}",
            Waiting(law=law),
            _DAYS,
            np.arange(400.0),
            np.ones(400),
            (np.arange(21.0), np.ones(21)),
            composes=False,
        )
        for law in ("lognormal", "weibull")
    ),
    *(
        _waiting(
            f"waiting-exact-{law}",
            Waiting(unit=0.0, law=law),
            _DAYS,
            *legendre(0, 150, 800),
            legendre(0, 20, 5),
            discrete=False,
            composes=False,
            accuracy=2e-5,  # the density has a kink at the parent's date
        )
        for law in ("lognormal", "weibull")
    ),
    KernelCase(
        "angle",
        Angle(log_spread=-0.7),
        np.random.default_rng(22).uniform(0, 2 * np.pi, size=(10, 1)),
        *legendre(0, 2 * np.pi, 120),
        discrete=False,
    ),
    _substitution("jc69", "ACGT"),
    _substitution("k80", "ACGT", "K80"),
    _substitution("jc69-clock", "ACGT", clock=True),
    _substitution("two-letters", "01"),
    _substitution("five-letters", "ABCDE"),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name, scope="session")
def kernel_case(request):
    return request.param
