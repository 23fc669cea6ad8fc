"""The mixture that `OutTreeDensity(mutation="auto")` fits, on data where the answer is known."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from outtrees import OutTreeDensity
from outtrees.datasets import make_spiral
from outtrees.density.learning import default_mutations, stack_mutations
from outtrees.inference.likelihood import leaf_log_density
from outtrees.inference.selection import _not_far_behind, select_mutation
from outtrees.models import CloudsMutation, GaussianMutation


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
def test_curves_and_skewed_columns_are_told_apart():
    """A noisy spiral in a table of few records asks for maps, skewed columns for normal scores."""
    rng = np.random.default_rng(2)
    skewed = np.exp(rng.normal(size=(120, 3)) @ np.array([[1, 0.7, 0], [0, 0.7, 0.5], [0, 0, 0.8]]))
    mutations = default_mutations()
    names = list(mutations)
    curve = stack_mutations(mutations, make_spiral(120), random_state=0, max_iter=30)
    assert curve.weights[names.index("cloud + 2 linear maps")] > 0.3
    columns = stack_mutations(mutations, skewed, random_state=0, max_iter=30)
    assert columns.weights[names.index("clouds of normal scores")] > 0.8


def test_mutations_far_behind_are_tried_once():
    X = np.random.default_rng(0).normal(size=(60, 2))
    far = GaussianMutation(transition="zero")
    near = GaussianMutation(transition="identity")
    mutations = {"near": near, "far": far}
    scored = []

    def held_out(mutation, records, fold, seed, options):
        scored.append("far" if mutation.transition == "zero" else "near")
        return np.full(len(fold), -50.0 if mutation.transition == "zero" else -3.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outtrees.inference.selection._held_out", held_out)
        selection = select_mutation(mutations, X, cv=3, race=True, random_state=0)
        assert sorted(scored) == ["far", "near", "near", "near"]
        assert selection.best == "near"
        assert selection.complete.tolist() == [0]
        assert selection.mean.tolist() == [-3.0, -50.0]
        scored.clear()
        assert select_mutation(mutations, X, cv=3, random_state=0).complete.tolist() == [0, 1]
        assert len(scored) == 6


def test_nobody_leaves_a_race_in_which_each_excludes_some_record():
    nothing = -np.inf
    assert _not_far_behind(np.array([[nothing, 0.0], [0.0, nothing]])) == [0, 1]
    assert _not_far_behind(np.array([[nothing, 0.0], [-3.0, -3.0]])) == [1]


def test_the_best_has_run_the_whole_race():
    """The first fold is easy: one that was seen there alone has the highest mean."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    mutations = {t: GaussianMutation(transition=t) for t in ("identity", "zero")}
    seen = []

    def held_out(mutation, records, fold, seed, options):
        seen.append(mutation)
        easy = len(seen) <= 2
        return np.full(len(fold), (-1.0 if easy else -90.0) - 5.0 * (mutation.transition == "zero"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outtrees.inference.selection._held_out", held_out)
        assert select_mutation(mutations, X, cv=3, race=True, random_state=0).best == "identity"


def test_stack_with_a_generator_is_the_same_again():
    X = np.random.default_rng(0).normal(size=(40, 2))
    mutations = {"clouds": CloudsMutation(n_sweeps=6, n_warmup=2)}
    for seed in (np.random.default_rng, np.random.RandomState, np.int64):
        one, other = (stack_mutations(mutations, X, cv=2, random_state=seed(3)) for _ in range(2))
        assert (one.fits[0].mutation.log_root(X) == other.fits[0].mutation.log_root(X)).all()


def test_default_density_is_never_far_behind_its_parts_nor_a_gaussian_mixture():
    """Three clouds: what a Gaussian mixture of the right size knows, the default finds."""
    rng = np.random.default_rng(4)
    middle = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    X = middle[rng.integers(3, size=160)] + rng.normal(size=(160, 2))
    train, test = X[:80], X[80:]
    model = OutTreeDensity(random_state=0).fit(train)
    mixture = GaussianMixture(3, n_init=5, random_state=0).fit(train).score(test)
    assert model.score_samples(test).mean() > mixture - 0.05
    assert model.cv_results_["weight"].sum() == pytest.approx(1.0)
    assert model.edge_marginals_.sum() + model.root_marginals_.sum() == pytest.approx(80.0)


def test_default_density_of_few_records_is_that_of_clouds():
    X = np.random.default_rng(0).normal(size=(6, 2))
    model = OutTreeDensity(random_state=0).fit(X)
    assert type(model.mutation_) is CloudsMutation
    assert np.isfinite(model.score_samples(X)).all()


def test_an_outlier_among_the_training_records_is_found_held_out():
    """In `score_samples` it has a cloud of its own; among records held out it is far behind."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(90, 2)), [[15.0, -9.0]]])
    model = OutTreeDensity(random_state=0).fit(X)
    held_out = np.sort(model.held_out_log_density_)
    assert model.held_out_log_density_.argmin() == 90
    assert held_out[1] - held_out[0] > 5.0
    assert model.score_samples(X)[90] > held_out[0] + 3.0  # why it is not looked for there
