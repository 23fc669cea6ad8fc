"""Importance weights with a Pareto tail."""

import numpy as np
import pytest

from outtrees.bayes.importance import smooth_weights


def test_smoothed_weights_know_a_heavy_tail_from_a_light_one():
    rng = np.random.default_rng(0)
    shapes = {k: smooth_weights(-k * np.log(rng.random(4000)))[1] for k in (0.2, 0.5, 1.0)}
    for k, estimate in shapes.items():
        assert estimate == pytest.approx(k, abs=0.2)  # about 190 tail draws: s.e. near 0.1
    logs = rng.normal(size=200)
    smoothed, _ = smooth_weights(logs)
    order = np.argsort(logs)
    assert (np.diff(smoothed[order][-40:]) >= 0).all()
    np.testing.assert_array_equal(smoothed[order][:-40], logs[order][:-40])
    assert np.isnan(smooth_weights(np.zeros(10))[1])
