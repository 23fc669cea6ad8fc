"""Parameters drawn given a tree, against their posteriors in closed form or by quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import invwishart

from outtrees.models import CategoricalMutation, GaussianMutation, MixtureMutation
from outtrees.models.covariance import InverseWishart
from outtrees.models.regression import PairMoments

N_DRAWS = 600


def within(draws, expected, errors=4.5):
    """Whether the mean of independent draws is within some standard errors of what is expected."""
    error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    return bool((np.abs(np.mean(draws, axis=0) - expected) <= errors * error + 1e-12).all())


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_covariances_have_the_inverse_wishart_law(kind):
    rng = np.random.default_rng(0)
    scatter = np.array([[9.0, 3.0], [3.0, 5.0]]) if kind == "full" else np.diag([9.0, 9.0])
    law = InverseWishart(kind, 12.0, scatter)
    draws = np.array([law.draw(rng) for _ in range(N_DRAWS)])
    if kind == "full":
        other = invwishart(12, scatter).rvs(N_DRAWS, random_state=1)
        assert within(draws, invwishart(12, scatter).mean())
        np.testing.assert_allclose(
            np.log(np.linalg.det(draws)).std(), np.log(np.linalg.det(other)).std(), rtol=0.12
        )
    else:
        degrees = 12.0 if kind == "diag" else 24.0
        total = 9.0 if kind == "diag" else 18.0
        assert within(draws[:, 0, 0], total / (degrees - 2))
        assert (draws[:, 0, 1] == 0).all()


def moments(n=30, D=2, seed=0):
    rng = np.random.default_rng(seed)
    parents = rng.normal(size=(n, D)) + 1.0
    children = parents @ np.array([[0.5, 0.1], [0.0, 0.5]]).T + 0.3 + 0.4 * rng.normal(size=(n, D))
    return (
        children,
        parents,
        PairMoments(
            weight=float(n),
            centre=np.zeros(D),
            child_sum=children.sum(axis=0),
            parent_sum=parents.sum(axis=0),
            child_child=children.T @ children,
            child_parent=children.T @ parents,
            parent_parent=parents.T @ parents,
        ),
    )


@pytest.mark.parametrize("transition", ["full", "scalar", "identity", "zero"])
def test_gaussian_draws_scatter_around_the_best_fit(transition):
    _, parents, known = moments()
    part = GaussianMutation(transition=transition, prior_strength=0).start(parents)
    best = part._refit_moments(known)
    rng = np.random.default_rng(0)
    draws = [part._drawn(known, rng) for _ in range(N_DRAWS)]
    matrices = np.array([d.transition_matrix for d in draws])
    assert within(matrices, best.transition_matrix)
    if transition in ("identity", "zero"):
        assert (matrices == matrices[0]).all()
    n, D = 30.0, 2
    columns = {"full": 2.0, "diag": 1.0, "scalar": 0.5}.get(transition, 0.0)
    degrees = n - columns - (transition != "identity")
    assert within([d.mutation_cov for d in draws], n * best.mutation_cov / (degrees - D - 1))
    if transition == "full":
        # Given cov, Var(A_ij) = cov_ii (centred Σ x xᵀ)⁻¹_jj; cov is averaged over its draws.
        centred = known.parent_parent - np.outer(known.parent_sum, known.parent_sum) / n
        mean_cov = np.mean([d.mutation_cov for d in draws], axis=0)
        expected = np.outer(np.diag(mean_cov), np.diag(np.linalg.inv(centred)))
        np.testing.assert_allclose(matrices.var(axis=0), expected, rtol=0.25)
    if transition == "zero":
        assert within([d.offset for d in draws], known.child_sum / n)
        spread = np.mean([d.mutation_cov for d in draws], axis=0) / n
        np.testing.assert_allclose(np.cov(np.array([d.offset for d in draws]).T), spread, rtol=0.25)


def test_no_links_leave_the_prior():
    _, parents, known = moments()
    part = GaussianMutation(transition="identity", prior_strength=20.0).start(parents)
    nothing = PairMoments(
        0.0,
        known.centre,
        *[
            np.zeros_like(v)
            for v in (
                known.child_sum,
                known.parent_sum,
                known.child_child,
                known.child_parent,
                known.parent_parent,
            )
        ],
    )
    rng = np.random.default_rng(0)
    draws = [part._drawn(nothing, rng).mutation_cov for _ in range(N_DRAWS)]
    assert within(draws, 20.0 * part.prior_cov / (20.0 - 2 - 1))


def test_stickiness_has_its_posterior():
    """Alternating kept links and s reaches the law that quadrature gives."""
    X = np.array([[0.0], [0.0], [0.0], [1.0], [2.0]])
    part = CategoricalMutation(prior_strength=2.0).start(X)
    pairs = np.array([[6.0, 1.0, 0.0], [2.0, 3.0, 0.0], [0.0, 1.0, 1.0]])
    grid = np.linspace(1e-6, 1 - 1e-6, 4001)
    m = part.marginals[0]
    log_density = np.log(grid * (1 - grid))  # ν/2 = 1
    for a in range(3):
        for b in range(3):
            log_density += pairs[a, b] * np.log(grid * (a == b) + (1 - grid) * m[a])
    density = np.exp(log_density - log_density.max())
    density /= trapezoid(density, grid)
    mean = trapezoid(grid * density, grid)
    spread = np.sqrt(trapezoid((grid - mean) ** 2 * density, grid))
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(2000):
        part = part._drawn([np.pad(pairs, ((0, 1), (0, 1)))], rng)
        draws.append(part.stickiness[0])
    # Successive draws are correlated: as good as a third of their number at least.
    assert abs(np.mean(draws) - mean) < 4.5 * spread / np.sqrt(600)
    np.testing.assert_allclose(np.std(draws), spread, rtol=0.12)


def test_tables_and_weights_are_dirichlet():
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    part = CategoricalMutation(kind="full", prior_strength=3.0).start(X)
    pairs = np.array([[6.0, 1.0, 0.0], [2.0, 3.0, 0.0], [0.0, 1.0, 1.0]])
    rng = np.random.default_rng(0)
    draws = [
        part._drawn([np.pad(pairs, ((0, 1), (0, 1)))], rng).full_matrices[0] for _ in range(N_DRAWS)
    ]
    alpha = pairs + 1.0 + 3.0 * part.marginals[0][:, None]
    assert within(draws, alpha / alpha.sum(axis=0))
    mixture = replace(MixtureMutation(n_iid=2), weight_concentration=2.0)
    weights = np.exp(
        [mixture._reweighed([], [5.0, 0.0, 11.0], rng).log_weights for _ in range(N_DRAWS)]
    )
    assert within(weights, np.array([7.0, 2.0, 13.0]) / 22.0)
