"""New records as leaves, categories as dummies, and weights of several mutations."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from outtrees.imputation.leaves import leaf_cells
from outtrees.imputation.model import hidden_model
from outtrees.imputation.sampler import draw_rows
from outtrees.imputation.stack import (
    Dummies,
    Table,
    TableModel,
    default_models,
    stack_cells,
    stacking_weights,
)
from outtrees.inference.likelihood import leaf_log_density
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    MixtureMutation,
    ProductMutation,
)

RNG = np.random.default_rng(4)
X = np.column_stack([RNG.normal(size=(20, 2)) @ [[1.0, 0.5], [0.0, 1.0]], RNG.integers(3, size=20)])
GROUPS = [(GaussianMutation(), [0, 1]), (CategoricalMutation(kind="full"), [2])]


def test_complete_new_records_have_the_leaf_density():
    mutation = ProductMutation(GROUPS).start(X)
    new = X[:4] + np.array([0.3, -0.2, 0.0])
    found = leaf_cells(hidden_model(mutation), new, X[None])
    np.testing.assert_allclose(found.log_density, leaf_log_density(mutation, X, new), rtol=1e-9)
    np.testing.assert_array_equal(found.mean, new)
    assert (found.variance == 0).all()


@pytest.mark.parametrize("kinds", [1, 2])
def test_hidden_cells_of_a_leaf_are_a_mixture_over_parents(kinds):
    """One by one: every parent, every kind, a Gaussian conditioned by hand."""
    parts = [
        ProductMutation(GROUPS),
        ProductMutation([(GROUPS[1][0], [2]), (GROUPS[0][0], [0, 1])]),
    ]
    mutation = MixtureMutation(parts[:kinds]).start(X)
    shifted = mutation.with_params(mutation.params + 0.2 * RNG.normal(size=mutation.n_parameters))
    model = hidden_model(shifted)
    completed = np.array([X, X[::-1] + np.array([0.1, 0.0, 0.0])])
    new = np.array([[0.5, np.nan, 1.0], [np.nan, -0.3, np.nan], [np.nan, np.nan, np.nan]])
    found = leaf_cells(model, new, completed)
    for row, x in enumerate(new):
        seen = ~np.isnan(x[:2])
        weights, means, seconds, chances = [], [], [], []
        for parent in completed.reshape(-1, 3):
            for k in range(kinds):
                m = model.edges.transition[k] @ parent[:2] + model.edges.offset[k]
                S = model.edges.cov[k]
                w = np.exp(model.log_weights[k])
                cell, var = m.copy(), np.diag(S).copy()
                if seen.any():
                    w *= multivariate_normal(m[seen], S[np.ix_(seen, seen)]).pdf(x[:2][seen])
                    gain = S[:, seen] @ np.linalg.inv(S[np.ix_(seen, seen)])
                    cell = m + gain @ (x[:2] - m)[seen]
                    var = np.diag(S - gain @ S[seen])
                table = np.exp(model.log_tables[0][k][:, int(parent[2])])
                if not np.isnan(x[2]):
                    w *= table[int(x[2])]
                    table = np.eye(3)[int(x[2])]
                weights.append(w)
                means.append(cell)
                seconds.append(var + cell**2)
                chances.append(table)
        p = np.array(weights) / np.sum(weights)
        mean, second = p @ np.array(means), p @ np.array(seconds)
        np.testing.assert_allclose(found.mean[row, :2][~seen], mean[~seen], rtol=1e-9)
        np.testing.assert_allclose(found.variance[row, :2][~seen], (second - mean**2)[~seen])
        np.testing.assert_allclose(found.chances[0][row], p @ np.array(chances), rtol=1e-9)
        np.testing.assert_allclose(
            found.log_density[row], np.log(np.mean(weights) * kinds), atol=1e-12
        )


def test_dummies_and_back():
    table = np.column_stack([X, RNG.integers(2, size=20)])
    table[3, 2] = np.nan
    coding = Dummies.of(table, [2, 3], [3, 2])
    encoded = coding.encode(table)
    assert encoded.shape == (20, 2 + 2 + 1)
    assert np.isnan(encoded[3, 2:4]).all()
    assert np.isnan(encoded).sum() == 2
    known = np.delete(table, 3, axis=0)
    np.testing.assert_array_equal(coding.decode(coding.encode(known)), known)
    undecided = coding.chances(np.zeros((1, 5)))  # the mean of every dummy
    np.testing.assert_allclose(undecided[0][0], coding.shares[0])
    np.testing.assert_allclose(undecided[1][0], coding.shares[1])


def test_stacking_weights_are_the_best_on_the_simplex():
    errors = RNG.normal(size=(3, 200)) * [[1.0], [0.7], [2.0]] + 0.3 * RNG.normal(size=200)
    found = stacking_weights(errors)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(), 1.0)
    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 51) for b in np.linspace(0, 1 - a, 51)]
    best = min(np.mean((np.array(w) @ errors) ** 2) for w in grid)
    assert np.mean((found @ errors) ** 2) <= best + 1e-9
    np.testing.assert_allclose(stacking_weights(errors[:, :5]), 1 / 3)


def test_the_mutation_that_recovers_cells_gets_the_weight():
    """Two tight pairs of columns: a cloud knows them, independent columns know nothing."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(60, 2))
    cells = np.column_stack([base, base + 0.05 * rng.normal(size=(60, 2))])
    cells[rng.random(cells.shape) < 0.1] = np.nan
    offered = {
        "columns": TableModel(GaussianMutation(transition="zero", prior_strength=1e6), True),
        "cloud": TableModel(GaussianMutation(transition="zero"), True),
    }
    chains = {"n_chains": 1, "n_draws": 4, "burn_in": 0, "n_kept": 4}
    stack = stack_cells(offered, Table(cells, [], []), max_iter=2, chains=chains, rng=rng)
    assert stack.weights["cloud"] > 0.95
    assert stack.losses["cloud"] < 0.5 * stack.losses["columns"]
    assert list(stack.fitted) == ["cloud"]


def test_default_models_fit_the_size_of_the_table():
    assert "clouds + window" in default_models(Table(np.zeros((40, 2)), [], []))
    assert "clouds + window" not in default_models(Table(np.zeros((10, 2)), [], []))


def test_rows_are_drawn_by_their_weights_and_never_where_it_is_zero():
    rng = np.random.default_rng(0)
    log_weights = np.tile(np.log([0.2, 0.5, 0.3, 1e-320]), (20000, 1))
    log_weights[:, 3] = -np.inf
    counts = np.bincount(draw_rows(log_weights, rng), minlength=4) / 20000
    assert counts[3] == 0
    np.testing.assert_allclose(counts[:3], [0.2, 0.5, 0.3], atol=4 * np.sqrt(0.25 / 20000))
