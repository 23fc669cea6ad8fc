"""The mixture that `OutTreeDensity(mutation="auto")` fits, on data where the answer is known."""

import numpy as np
import pytest

from outtrees.density.stacking import default_mutations, stack_mutations
from outtrees.inference.likelihood import leaf_log_density
from outtrees.models import GaussianMutation


def test_the_stack_is_a_normalised_mutation():
    X = np.random.default_rng(1).normal(size=(40, 1))
    mutations = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    stack = stack_mutations(mutations, X, cv=3, random_state=0)
    grid = np.linspace(-9, 9, 4001)[:, None]
    density = np.exp(leaf_log_density(stack.mutation, X, grid))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1.0, abs=1e-6)
    again = stack_mutations(mutations, X, cv=3, random_state=0)
    np.testing.assert_array_equal(stack.weights, again.weights)


@pytest.mark.slow
def test_curves_and_columns_are_told_apart():
    """A noisy circle asks for maps or windows, integer codes for columns."""
    rng = np.random.default_rng(2)
    t = rng.uniform(0, 2 * np.pi, 90)
    circle = np.c_[np.cos(t), np.sin(t)] + 0.05 * rng.normal(size=(90, 2))
    codes = rng.integers(3, size=(90, 3)).astype(float)
    mutations = default_mutations(90)
    on_circle = stack_mutations(mutations, circle, cv=2, random_state=0, max_iter=30).weights
    on_codes = stack_mutations(mutations, codes, cv=2, random_state=0, max_iter=30).weights
    columns = np.array(["columns" in name for name in mutations])
    assert on_circle[columns].sum() < 0.2
    assert on_codes[columns].sum() > 0.8
