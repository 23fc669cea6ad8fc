"""Tails of a gamma in logs: against finite sums, and across the border where a double ends."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from outtrees.models.columns.gamma_tails import log_tails


@pytest.mark.parametrize(
    ("shape", "far"), [(1, 5000.0), (2, 710.0), (30, 900.0), (1000, 2600.0), (10_000, 14_500.0)]
)
def test_upper_tails_of_whole_shapes_are_finite_sums(shape, far):
    """P(X > x) = e^−x Σ_{i < shape} x^i / i!."""
    for x in (far, 1.3 * far, 20 * far):
        i = np.arange(shape)
        right = -x + logsumexp(i * np.log(x) - gammaln(i + 1))
        assert log_tails(float(shape), np.array([x]))[1][0] == pytest.approx(right, abs=1e-8)


@pytest.mark.parametrize("shape", [300, 1000, 10_000])
def test_lower_tails_of_whole_shapes_are_sums_too(shape):
    """P(X < x) = e^−x Σ_{i ≥ shape} x^i / i!, of which these terms are all that count."""
    for x in (1e-3, 1.0, shape / 20):
        i = np.arange(shape, shape + 500)
        right = -x + logsumexp(i * np.log(x) - gammaln(i + 1))
        assert log_tails(float(shape), np.array([x]))[0][0] == pytest.approx(right, rel=1e-11)


@pytest.mark.parametrize("shape", [0.3, 1.0, 7.5, 400.0, 20_000.0])
def test_no_step_where_the_formula_changes(shape):
    """A fine walk into both tails: log-concave or not, slopes change a little at a time."""
    sd = shape**0.5
    out = shape + np.linspace(20 * sd + 500, 60 * sd + 900, 4001)
    inside = np.geomspace(
        max(shape - 60 * sd, 0.05 * shape), max(shape - 10 * sd, 0.1 * shape), 4001
    )
    _, above = log_tails(shape, out)
    assert (np.diff(above) < 0).all()
    assert np.abs(np.diff(above, 2)).max() < 1e-3 * np.abs(np.diff(above)).max() + 1e-9
    if shape > 300:
        below, _ = log_tails(shape, inside)
        assert (np.diff(below) > 0).all()
        assert np.abs(np.diff(below, 2)).max() < 0.02 * np.abs(np.diff(below)).max()


def test_the_ends():
    below, above = log_tails(3.0, np.array([0.0]))
    assert below[0] == -np.inf
    assert above[0] == 0.0
