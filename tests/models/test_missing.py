"""Missing cells are summed over, not skipped."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    ProductMutation,
)
from outtrees.models.tables import looked_up

CODES, BITS = [(0.0, 1.0, 2.0), (0.0, 3.0)], [(0.0, 1.0), (0.0, 1.0)]
MODELS = [
    (CategoricalMutation("sticky"), CODES),
    (CategoricalMutation("full"), CODES),
    (BernoulliMutation(), BITS),
]


def completions(model, record):
    return product(*[model.levels[d] if np.isnan(x) else (x,) for d, x in enumerate(record)])


@pytest.fixture(params=MODELS, ids=["sticky", "full", "bernoulli"])
def mutation(request):
    template, columns = request.param
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice(levels, 25) for levels in columns])
    X[rng.random(X.shape) < 0.3] = np.nan
    started = template.start(X)
    moved = started.with_params(started.params + rng.normal(size=started.n_parameters))
    return moved, X


def test_missing_cells_equal_the_sum_over_hidden_values(mutation):
    model, X = mutation
    log_pairs = model.log_conditional(X, X)
    for u, v in product(range(8), range(8)):
        # Known parents' cells are given; hidden ones follow the root's distribution.
        hidden_parents = np.array(list(completions(model, X[v])))
        masked = np.where(np.isnan(X[v]), hidden_parents, np.nan)
        log_terms = [
            model.log_root([mask])[0] + model.log_conditional([child], [parent])[0, 0]
            for child in completions(model, X[u])
            for mask, parent in zip(masked, hidden_parents, strict=True)
        ]
        np.testing.assert_allclose(log_pairs[u, v], logsumexp(log_terms), atol=1e-12)


def test_unknown_parent_pays_the_marginal_under_stickiness():
    X = np.array([[0.0], [1.0], [1.0], [np.nan]])
    model = CategoricalMutation(prior_strength=0, start_correlation=0.9).start(X)
    log_pairs = model.log_conditional(X, X)
    np.testing.assert_allclose(np.exp(log_pairs[:3, 3]), [1 / 3, 2 / 3, 2 / 3])
    np.testing.assert_allclose(log_pairs[3], 0.0)
    np.testing.assert_allclose(np.exp(model.log_root(X)), [1 / 3, 2 / 3, 2 / 3, 1.0])


def test_refit_climbs_and_gradient_holds_with_missing_cells(mutation):
    model, X = mutation
    W = np.random.default_rng(1).random((25, 25)) / 25
    base, gradient = model.params, model.gradient(X, W)
    for i in range(len(base)):
        step = 1e-5 * np.eye(len(base))[i]
        change = [model.with_params(base + s).objective(X, W) for s in (step, -step)]
        np.testing.assert_allclose(gradient[i], (change[0] - change[1]) / 2e-5, atol=1e-6)
    values = [model.objective(X, W)]
    for _ in range(60):
        model = model.refit(X, W)
        values.append(model.objective(X, W))
    assert (np.diff(values) >= -1e-10).all()
    assert values[-1] > values[0] + 0.1
    np.testing.assert_allclose(model.gradient(X, W), 0.0, atol=1e-6)


def test_samples_are_complete_and_a_hidden_parent_gives_marginal_children(mutation):
    model, _ = mutation
    hidden = np.full((20000, 2), np.nan)
    children = model.sample(hidden, np.random.default_rng(2))
    assert not np.isnan(children).any()
    for d, levels in enumerate(model.levels):
        for a in levels:
            cell = np.full((1, 2), np.nan)
            cell[0, d] = a
            p = np.exp(model.log_conditional(cell, hidden[:1])[0, 0])
            error = np.sqrt(p * (1 - p) / 20000)
            assert abs((children[:, d] == a).mean() - p) < 4 * error


def test_missing_cells_in_a_product_need_a_part_that_takes_them():
    X = np.array([[0.0, 0.5], [np.nan, 1.5], [1.0, 2.0]])
    groups = [(CategoricalMutation(), [0]), (GaussianMutation(), [1])]
    started = ProductMutation(groups).start(X)
    assert np.isfinite(started.log_conditional(X, X)).all()
    with pytest.raises(ValueError, match="GaussianMutation expects complete records"):
        started.log_conditional(X[:, ::-1] * np.nan, X)
    with pytest.raises(ValueError, match="column 1 has only missing cells"):
        CategoricalMutation().start([[0.0, np.nan], [1.0, np.nan]])


@pytest.mark.parametrize("sizes", [(3, 2), (20,), (20, 3), (3, 20, 14)])
def test_tables_of_few_and_of_many_values_are_looked_up_alike(sizes):
    """Sums over columns, pair by pair; an unknown child weighs 0."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(c + 1, c + 1)) for c in sizes]
    for table in tables:
        table[-1] = 0.0
    children, parents = (
        np.column_stack([rng.integers(0, c + 1, size=n) for c in sizes]) for n in (9, 7)
    )
    right = [[sum(t[u[d], v[d]] for d, t in enumerate(tables)) for v in parents] for u in children]
    np.testing.assert_allclose(looked_up(tables, children, parents), right, atol=1e-12)
