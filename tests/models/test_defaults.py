"""Options that nobody gave, and where kernels start: the numbers that the documentation names."""

from dataclasses import fields

import numpy as np
import pytest

from outtrees.models import column, conjugate
from outtrees.models.category import BernoulliMutation, CategoricalMutation
from outtrees.models.clouds import CloudsMutation
from outtrees.models.columns import Counts, Drift, GroupedDrift, Reversion, Spots, Sticky, Waiting
from outtrees.models.columns.substitution import Substitution
from outtrees.models.count import PoissonMutation
from outtrees.models.kernel import KernelMutation
from outtrees.models.mixture import MixtureMutation
from outtrees.models.normal import GaussianMutation

NOISE = {"prior_strength": 1.0, "reg_covar": 1e-6}
DEFAULTS = {
    GaussianMutation: NOISE,
    KernelMutation: {**NOISE, "degree": 3, "coef0": 1.0, "ridge": 1.0, "n_landmarks": 100},
    MixtureMutation: {**NOISE, "n_iid": 1, "n_local": 1, "weight_concentration": 2.0, "n_init": 1},
    CategoricalMutation: {"prior_strength": 1.0, "start_correlation": 0.5},
    BernoulliMutation: {"prior_strength": 1.0, "start_correlation": 0.5},
    PoissonMutation: {"prior_strength": 1.0, "start_correlation": 0.5},
    CloudsMutation: {
        **{"n_chains": 4, "n_sweeps": 100, "n_warmup": 40, "thin": 4, "max_records": 2000},
    },
    conjugate.GaussianPosterior: {
        **NOISE,
        "mean_precision_prior": None,
        "transition_prior": 1.0,
        "transition_precision_prior": 1.0,
        "root_mean_precision_prior": 1.0,
    },
    conjugate.KernelPosterior: {
        **NOISE,
        **{"degree": 3, "coef0": 1.0, "ridge": 0.01, "n_landmarks": 100},
        **{"mean_precision_prior": 0.01, "root_mean_precision_prior": 1.0},
    },
    conjugate.MixturePosterior: {**NOISE, "n_iid": 1, "n_local": 1},
    conjugate.CategoricalPosterior: {"weight_concentration_prior": 1.0},
    conjugate.PoissonPosterior: {"prior_strength": 1.0},
    conjugate.PointPosterior: {"n_points": 100},
    Sticky: {"prior_strength": 1.0},
    Spots: {"prior_strength": 1.0},
    Counts: {"prior_strength": 1.0},
    GroupedDrift: {"group_strength": 6.0},
    Waiting: {"unit": 1.0},
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_defaults_are_those_of_the_documentation(kind):
    found = {field.name: field.default for field in fields(kind)}
    for name, default in DEFAULTS[kind].items():
        assert found[name] == default, name


@pytest.mark.parametrize("transition", ["full", "identity", "zero"])
def test_a_drift_is_as_large_as_the_noise_of_a_link_beforehand(transition):
    """One pseudo-record is behind offset 0: the offset's covariance is that of the noise."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    prior = conjugate.GaussianPosterior(transition=transition, fit_offset=True).start(X).prior()
    assert prior.gram[-1, -1] == 1.0
    given = conjugate.GaussianPosterior(
        transition=transition, fit_offset=True, mean_precision_prior=0.25
    )
    assert given.start(X).prior().gram[-1, -1] == 0.25


# Starts -------------------------------------------------------------------------------------------

NUMBERS = np.array([[0.5], [1.0], [3.0], [3.0], [7.0], [np.nan]])  # multiples of 0.5
TYPICAL = (1.4826 * 2.0) ** 2  # the median is 3, the median distance to it 2
ROUNDED = 0.5**2 / 12


def test_a_reversion_starts_with_three_quarters_and_the_columns_mean():
    kernel = Reversion().start(NUMBERS)
    known = NUMBERS[:5, 0]
    assert kernel.share == 0.75
    assert kernel.step == pytest.approx(0.25 * known.mean())
    assert kernel.variance == pytest.approx((1 - 0.75**2) * TYPICAL + ROUNDED)
    assert (kernel.centre, kernel.centre_variance) == pytest.approx((known.mean(), known.var()))
    assert kernel.unit == pytest.approx(0.1 * np.sqrt(TYPICAL))
    assert kernel.finest * kernel.unit == pytest.approx(np.sqrt(ROUNDED))


@pytest.mark.parametrize("logit", [-2.0, 0.0, 3.0])
def test_a_stationary_reversion_keeps_mean_and_variance_of_the_column(logit):
    kernel = Reversion(stationary=True).start(NUMBERS).with_params(np.array([logit]))
    spread = kernel.share**2 * kernel.centre_variance + kernel.variance
    assert spread == pytest.approx(kernel.centre_variance + ROUNDED)
    assert kernel.share * kernel.centre + kernel.step == pytest.approx(kernel.centre)


def test_a_walk_starts_with_half_of_the_typical_spread():
    kernel = Drift(clock=True).start(NUMBERS)
    np.testing.assert_allclose(kernel.cov, [[TYPICAL / 4 + ROUNDED]])
    np.testing.assert_allclose(kernel.centre, NUMBERS[:5].mean(axis=0))
    np.testing.assert_allclose(kernel.spread, [[NUMBERS[:5, 0].var(ddof=1)]])
    np.testing.assert_allclose(kernel.unit, [0.1 * np.sqrt(TYPICAL)])
    assert (kernel.rate, Drift().start(NUMBERS).rate) == (0.1, 0.0)
    assert not kernel.mean_step.any()


def test_groups_start_with_their_own_typical_variance_shrunk_by_six_links():
    own = np.array([[0.0], [1.0], [2.0], [4.0], [0.0], [10.0], [21.0]])
    cells = np.column_stack([own, [0, 0, 0, 0, 1, 1, 1]])
    kernel = GroupedDrift(offset=False).start(cells)
    typical = column.typical_variance
    ratios = [typical(own[some])[0] / typical(own)[0] for some in (slice(0, 4), slice(4, 7))]
    right = [(3 * ratios[0] + 6) / (3 + 6), (2 * ratios[1] + 6) / (2 + 6)]
    np.testing.assert_allclose(kernel.scales, right)


@pytest.mark.parametrize("known", [[2.0], [2.0, 6.0], [2.0, 6.0, 7.0]])
def test_counts_start_with_the_columns_mean_and_variance(known):
    kernel = Counts().start(np.array([*known, np.nan])[:, None])
    assert kernel.mean == pytest.approx((sum(known) + 0.5) / (len(known) + 1))
    assert kernel.variance == pytest.approx(np.var(known) if len(known) > 1 else kernel.mean)
    assert kernel.survival == 0.5
    text = kernel.describe()
    assert f"with probability 0.5, and {0.5 * kernel.mean:.3g} arrive" in text


def test_spots_and_categories_start_with_their_shares():
    places = np.array([[0.0, 0.0]] * 3 + [[1.0, 0.0]])
    spots = Spots().start(places)
    np.testing.assert_allclose(sorted(spots.marginal), [1.5 / 5, 3.5 / 5])
    assert (spots.stays, spots.near) == (0.5, 0.5)
    sticky = Sticky(("a", "b")).start(np.array([[0.0], [0.0], [0.0], [1.0]]))
    np.testing.assert_allclose(sticky.marginal, [3.5 / 5, 1.5 / 5])
    assert sticky.stickiness == 0.5


def test_sequences_start_with_frequent_letters():
    kernel = Substitution(("A", "C")).start(np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    assert kernel.rate > 0
    assert kernel.n_sites == 3


def test_a_draw_given_the_root_moves_the_roots_mean_towards_its_record():
    """μ | x ~ N(m + (x − m) / (κ + 1), …): halfway with one pseudo-record."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    posterior = conjugate.GaussianPosterior().start(X)
    x, rng = np.array([30.0, -10.0]), np.random.default_rng(1)
    means = np.array([posterior.draw(rng, root_record=x).root_mean for _ in range(400)])
    right = X.mean(axis=0) + (x - X.mean(axis=0)) / 2
    assert (abs(means.mean(axis=0) - right) < 5 * means.std(axis=0) / np.sqrt(400)).all()
