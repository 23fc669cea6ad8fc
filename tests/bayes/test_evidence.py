"""Models compared by bounds of their evidence."""

import numpy as np
import pytest

from outtrees.bayes.evidence import compare_evidence, following_the_tree
from outtrees.datasets import make_out_tree
from outtrees.models import GaussianMutation
from outtrees.models.conjugate import GaussianPosterior


def test_evidence_finds_the_columns_that_are_inherited():
    rng = np.random.default_rng(3)
    inherited, _ = make_out_tree(
        60,
        GaussianMutation(
            transition="identity", mutation_cov=[[0.01]], root_mean=[0.0], root_cov=[[1.0]]
        ),
        rng,
    )
    X = np.column_stack([inherited, rng.normal(size=60)])
    parzen = GaussianPosterior(transition="identity")
    models = {str(c): following_the_tree(c, 2, parzen) for c in ([], [0], [1], [0, 1])}
    table = compare_evidence(models, X)
    assert table.models[0] == "[0]"
    assert (np.diff(table.lower_bounds) <= 0).all()
    assert table.probabilities.sum() == pytest.approx(1.0)
    assert str(table).splitlines()[1].startswith("[0]")
    with pytest.raises(ValueError, match="positions 0 … 1"):
        following_the_tree([2], 2)
    with pytest.raises(ValueError, match="at least one posterior"):
        compare_evidence({}, X)
