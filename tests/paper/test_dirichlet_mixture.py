"""The infinite mixture: an average over partitions, in the units of the data."""

import numpy as np
import pytest

from paper.dirichlet_mixture import DirichletProcessMixture


def test_density_integrates_to_one_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(100, 1, (30, 1)), rng.normal(120, 3, (30, 1))])
    model = DirichletProcessMixture(n_sweeps=120, n_warmup=60, random_state=0).fit(X)
    grid = np.linspace(-400, 620, 40_001)
    total = np.trapezoid(np.exp(model.score_samples(grid[:, None])), grid)
    assert total == pytest.approx(1.0, abs=5e-3)  # tails of the Student t beyond the grid


def test_chains_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="n_warmup must be less than n_sweeps"):
        DirichletProcessMixture(n_sweeps=10, n_warmup=10).fit(np.eye(3))
