"""The models that the contract is tested on, each away from its start, and slow twins for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np
import pytest
from scipy import stats

from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    ColumnMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    Mutation,
    PoissonMutation,
    ProductMutation,
    make_mutation,
)
from outtrees.models.columns import Counts, Drift, Reversion, Sticky

from .angle import Angle

T = 12


def column(kind, rng):
    """Return T cells of a column, and its support: all values with their quadrature weights."""
    if kind == "real":
        grid = np.linspace(-14.0, 14.0, 281)
        return rng.normal(0.3, 1.2, T), grid, np.full(281, grid[1] - grid[0])
    if kind == "count":
        return rng.poisson(2.5, T).astype(float), np.arange(61.0), np.ones(61)
    if kind == "angle":
        grid = np.linspace(0.0, 2 * np.pi, 361)[:-1]
        return rng.uniform(0, 2 * np.pi, T), grid, np.full(360, grid[1])
    levels = np.array(kind, dtype=float)
    return (
        np.concatenate([levels, rng.choice(levels, T - len(levels))]),
        levels,
        np.ones(len(levels)),
    )


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], Mutation]
    columns: tuple

    @cached_property
    def _parts(self):
        rng = np.random.default_rng(7)
        return [column(kind, rng) for kind in self.columns]

    @cached_property
    def X(self):
        return np.column_stack([values for values, _, _ in self._parts])

    @cached_property
    def support(self):
        """Return points (n, D) and weights (n,) such that weights @ f(points) is ∫ f."""
        grids = np.meshgrid(*[points for _, points, _ in self._parts], indexing="ij")
        weights = np.meshgrid(*[weights for _, _, weights in self._parts], indexing="ij")
        points = np.column_stack([g.ravel() for g in grids])
        return points, np.prod([w.ravel() for w in weights], axis=0)

    @cached_property
    def started(self):
        return self.make().start(self.X, random_state=3)

    @cached_property
    def mutation(self):
        """The model away from its start, where no accident of the start can hide a mistake."""
        step = np.random.default_rng(11).normal(size=self.started.n_parameters)
        return self.started.with_params(self.started.params + 0.25 * step)

    @cached_property
    def edge_marginals(self):
        weights = np.random.default_rng(5).gamma(0.5, size=(T, T))
        np.fill_diagonal(weights, 0.0)
        weights *= (np.random.default_rng(6).uniform(0.7, 1.0, T) / weights.sum(axis=1))[:, None]
        return weights


def _scaled_linear(x, z):
    return 0.5 * float(x @ z)


REAL1, REAL2 = ("real",), ("real", "real")
ABC, AB, THREE_BITS = (2.0, 5.0, 7.0), (-1.0, 4.0), ((0, 1), (0, 1), (0, 1))


def _gaussian(**options):
    return lambda: GaussianMutation(**options)


CASES = [
    *[
        Case(f"gaussian-{t}-{c}", _gaussian(transition=t, covariance=c), REAL2)
        for t in ("full", "diag", "scalar", "identity", "zero")
        for c in ("full", "diag", "spherical")
    ],
    Case("gaussian-1d", _gaussian(), REAL1),
    Case("gaussian-no-prior", _gaussian(prior_strength=0), REAL2),
    Case("gaussian-no-offset", _gaussian(fit_offset=False, prior_strength=5.0), REAL2),
    Case("gaussian-scalar-no-offset", _gaussian(fit_offset=False, transition="scalar"), REAL2),
    Case("gaussian-zero-no-offset", _gaussian(fit_offset=False, transition="zero"), REAL2),
    Case("gaussian-drift", _gaussian(fit_offset=True, transition="identity"), REAL2),
    Case("gaussian-iid-start", _gaussian(start_correlation=0.0), REAL2),
    Case("kernel-rbf", lambda: KernelMutation(n_landmarks=5), REAL2),
    Case("kernel-rbf-1d", lambda: KernelMutation(n_landmarks=None, gamma=0.7), REAL1),
    Case("kernel-polynomial", lambda: KernelMutation("polynomial", degree=2, ridge=9.0), REAL2),
    Case("kernel-linear", lambda: KernelMutation("linear", covariance="spherical"), REAL2),
    Case("kernel-callable", lambda: KernelMutation(_scaled_linear, fit_offset=False), REAL2),
    Case("mixture", lambda: MixtureMutation(n_iid=2, n_local=2), REAL2),
    Case("mixture-iid", lambda: MixtureMutation(n_iid=2, n_local=0, covariance="diag"), REAL2),
    Case("mixture-local", lambda: MixtureMutation(n_iid=0, n_local=2), REAL1),
    Case("mixture-flat-weights", lambda: MixtureMutation(weight_concentration=1.0), REAL1),
    Case(
        "mixture-of-kinds",
        lambda: MixtureMutation(
            [KernelMutation(n_landmarks=4), GaussianMutation(transition="zero"), GaussianMutation()]
        ),
        REAL2,
    ),
    Case(
        "mixture-of-matrices",
        lambda: MixtureMutation([CategoricalMutation("full"), CategoricalMutation("sticky")]),
        (ABC, AB),
    ),
    Case("sticky", CategoricalMutation, (ABC, AB)),
    Case("sticky-no-prior", lambda: CategoricalMutation(prior_strength=0), (ABC, AB)),
    Case("categorical-full", lambda: CategoricalMutation("full"), (ABC, AB)),
    Case("poisson", PoissonMutation, ("count", "count")),
    Case("poisson-no-prior", lambda: PoissonMutation(prior_strength=0), ("count",)),
    Case("bernoulli", BernoulliMutation, THREE_BITS),
    Case("bernoulli-no-prior", lambda: BernoulliMutation(prior_strength=0), THREE_BITS),
    Case(
        "product",
        lambda: ProductMutation(
            [
                (GaussianMutation(), [2]),
                (CategoricalMutation(), [0]),
                (PoissonMutation(), [1]),
            ]
        ),
        (AB, "count", "real"),
    ),
    Case("columns", lambda: make_mutation("columns"), REAL2),
    Case("column-sticky", lambda: ColumnMutation(Sticky(("a", "b", "c"))), ((0, 1, 2),)),
    Case("column-counts", lambda: ColumnMutation(Counts()), ("count",)),
    Case("column-reversion", lambda: ColumnMutation(Reversion()), REAL1),
    Case("column-drift", lambda: ColumnMutation(Drift()), REAL2),
    Case("column-angle", lambda: ColumnMutation(Angle()), ("angle",)),
    Case(
        "product-iid-in-mixture",
        lambda: MixtureMutation(
            [
                ProductMutation([(GaussianMutation(transition="zero"), [c]) for c in (0, 1)]),
                GaussianMutation(transition="identity"),
            ]
        ),
        REAL2,
    ),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name, scope="session")
def case(request):
    return request.param


# Slow twins: one pair at a time, as the formulas read -----------------------------------------


@singledispatch
def slow_log_conditional(m, child, parent):
    raise NotImplementedError(type(m))


@slow_log_conditional.register
def _(m: GaussianMutation, child, parent):
    mean = m.transition_matrix @ parent + m.offset
    return stats.multivariate_normal(mean, m.mutation_cov).logpdf(child)


@slow_log_conditional.register
def _(m: KernelMutation, child, parent):
    gamma = m.gamma if m.gamma != "scale" else m.scale_gamma
    formulas = {
        "rbf": lambda z: np.exp(-np.sum(gamma * (parent - z) ** 2)),
        "polynomial": lambda z: (np.sum(gamma * parent * z) + m.coef0) ** m.degree,
        "linear": lambda z: parent @ z,
    }
    kernel = formulas.get(m.kernel, lambda z: m.kernel(parent, z))
    mean = m.offset + sum(w * kernel(z) for w, z in zip(m.kernel_weights, m.landmarks, strict=True))
    return stats.norm(mean, np.sqrt(m.variances)).logpdf(child).sum()


@slow_log_conditional.register
def _(m: MixtureMutation, child, parent):
    densities = [np.exp(slow_log_conditional(part, child, parent)) for part in m.parts]
    return np.log(m.weights @ densities)


@slow_log_conditional.register
def _(m: CategoricalMutation, child, parent):
    result = 0.0
    for d in range(len(child)):
        a, b = [int(np.flatnonzero(m.levels[d] == x[d])[0]) for x in (child, parent)]
        if m.kind == "sticky":
            s = m.stickiness[d]
            result += np.log(s * (a == b) + (1 - s) * m.marginals[d][a])
        else:
            result += np.log(m.full_matrices[d][a, b])
    return result


@slow_log_conditional.register
def _(m: PoissonMutation, child, parent):
    return stats.poisson(m.immigration + m.branching * parent).logpmf(child).sum()


@slow_log_conditional.register
def _(m: BernoulliMutation, child, parent):
    p = [m.child_probability[int(parent[d]), d] for d in range(len(child))]
    return stats.bernoulli(p).logpmf(child).sum()


@slow_log_conditional.register
def _(m: ProductMutation, child, parent):
    groups = zip(m.parts, m.groups, strict=True)
    return sum(slow_log_conditional(part, child[c], parent[c]) for part, (_, c) in groups)


@slow_log_conditional.register
def _(m: ColumnMutation, child, parent):
    return slow_kernel(m.kernel, child, parent)


@singledispatch
def slow_kernel(kernel, child, parent):
    """Return the log-density of one link between known cells, as the formulas read."""
    raise NotImplementedError(type(kernel))


@slow_kernel.register
def _(kernel: Sticky, child, parent):
    s, (a,), (b,) = kernel.stickiness, child, parent
    return np.log(s * (a == b) + (1 - s) * kernel.marginal[int(a)])


@slow_kernel.register
def _(kernel: Counts, child, parent):
    (x,), (y,), a = child, parent, kernel.survival
    j = np.arange(min(x, y) + 1)
    arrived = stats.poisson((1 - a) * kernel.mean).pmf(x - j)
    return np.log(stats.binom(y, a).pmf(j) @ arrived)


@slow_kernel.register
def _(kernel: Reversion, child, parent):
    mean = kernel.share * parent + kernel.step
    return stats.norm(mean, np.sqrt(kernel.variance)).logpdf(child).sum()


@slow_kernel.register
def _(kernel: Drift, child, parent):
    return stats.multivariate_normal(parent + kernel.mean_step, kernel.cov).logpdf(child)


@slow_kernel.register
def _(kernel: Angle, child, parent):
    turns = child - parent + 2 * np.pi * np.arange(-30, 31)
    return np.log(stats.norm(0, np.exp(kernel.log_spread)).pdf(turns).sum())


@pytest.fixture(name="slow_log_conditional", scope="session")
def _slow_log_conditional():
    return slow_log_conditional
