"""Every kind of column in every estimator that it says it serves.

What a kind answers is tested in `test_contract.py` (as a mutation) and in
`columns/test_kernel_contract.py` (over several links); here the estimators take it, whole.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from outtrees import Ancestry, BayesianOutTree, OutTreeClassifier, OutTreeDensity, OutTreeImputer
from outtrees.imputation.model import hidden_model
from outtrees.io import load, save
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    ColumnMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    Mutation,
    PoissonMutation,
    ProductMutation,
)
from outtrees.models.category import TableMutation
from outtrees.models.columns import Counts, Drift, EdgeWeights, Lineage, Reversion, Sticky
from outtrees.models.conjugate import (
    CategoricalPosterior,
    GaussianPosterior,
    KernelPosterior,
    MixturePosterior,
    PointPosterior,
    PoissonPosterior,
)
from outtrees.trees import OutTreeDistribution

from .angle import Angle

T = 24
TURN = 2 * np.pi / 180


@dataclass(frozen=True)
class Kind:
    name: str
    truth: Any  # a kernel with parameters that tie children to parents
    first: float
    second: float
    points: np.ndarray  # all values, and their widths
    widths: np.ndarray
    mutation: Mutation  # not started

    @property
    def X(self):
        """Return records of two clans: descendants of the first value, and of one far away."""
        rng = np.random.default_rng(3)
        cells = [np.array([self.first]), np.array([self.second])]
        for t in range(2, T):
            parent = cells[t % 2 + 2 * rng.integers(t // 2)]
            cells.append(self.truth.sample(parent[None], 1, rng)[0])
        return np.array(cells)


GRID = np.linspace(-30, 30, 1201)
STEPS = np.full(1201, GRID[1] - GRID[0])
NAMES = ("a", "b", "c")
BIT = replace(Sticky(NAMES[:2]).start(np.arange(2.0)[:, None]), stickiness=0.95)
STICKY = replace(Sticky(NAMES).start(np.arange(3.0)[:, None]), stickiness=0.9)
COUNTS = replace(Counts().start(np.array([[2.0], [12.0]])), survival=0.9)
REVERSION = Reversion(share=0.95, variance=0.1)
DRIFT = replace(
    Drift().start(np.array([[0.0], [9.0]])), cov=np.array([[0.1]]), mean_step=np.zeros(1)
)
ANGLE = Angle(log_spread=-1.5)
BITS, CODES = (np.arange(2.0), np.ones(2)), (np.arange(3.0), np.ones(3))
WHOLE = (np.arange(80.0), np.ones(80))
REAL, TURNS = (GRID, STEPS), (np.arange(180) * TURN, np.full(180, TURN))
KINDS = [
    Kind("sticky", STICKY, 0.0, 1.0, *CODES, ColumnMutation(Sticky(NAMES))),
    Kind("counts", COUNTS, 2.0, 15.0, *WHOLE, ColumnMutation(Counts())),
    Kind("reversion", REVERSION, -8.0, 2.0, *REAL, ColumnMutation(Reversion())),
    Kind("drift", DRIFT, -8.0, 2.0, *REAL, ColumnMutation(Drift())),
    Kind("angle", ANGLE, 1.0, 3.0, *TURNS, ColumnMutation(Angle())),
    Kind("category", STICKY, 0.0, 1.0, *CODES, CategoricalMutation(categories=[[0, 1, 2]])),
    Kind("full", STICKY, 0.0, 1.0, *CODES, CategoricalMutation("full", categories=[[0, 1, 2]])),
    Kind("bernoulli", BIT, 0.0, 1.0, *BITS, BernoulliMutation()),
    Kind("normal", REVERSION, -8.0, 2.0, *REAL, GaussianMutation(transition="identity")),
    Kind("linear", REVERSION, -8.0, 2.0, *REAL, GaussianMutation()),
    Kind("kernel", REVERSION, -8.0, 2.0, *REAL, KernelMutation(n_landmarks=8)),
    Kind("mixture", REVERSION, -8.0, 2.0, *REAL, MixtureMutation()),
    Kind("poisson", COUNTS, 2.0, 15.0, *WHOLE, PoissonMutation()),
]
CONJUGATE = {
    "category": CategoricalPosterior(categories=[[0, 1, 2]]),
    "full": CategoricalPosterior("full", categories=[[0, 1, 2]]),
    "normal": GaussianPosterior(transition="identity"),
    "linear": GaussianPosterior(),
    "kernel": KernelPosterior(n_landmarks=8),
    "mixture": MixturePosterior(),
    "poisson": PoissonPosterior(),
}
# These may learn that children are unlike their parents, so that clans cross along the tree.
ANY_MAP = ("full", "bernoulli", "linear", "kernel")
STUDENT = ("normal", "linear", "kernel", "mixture")  # tails of posteriors reach beyond the grid
COLUMNS = [kind for kind in KINDS if isinstance(kind.mutation, ColumnMutation)]
HIDDEN = [kind for kind in KINDS if kind.mutation.hidden_cells is not None]


def each(kinds):
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)


def test_kinds_say_whom_they_serve():
    tables = ["sticky", "counts", "angle", "category", "full", "bernoulli"]
    assert [kind.name for kind in HIDDEN] == [*tables, "normal", "linear"]


@each(KINDS)
def test_density(kind):
    model = OutTreeDensity(kind.mutation, random_state=0).fit(kind.X)
    mass = kind.widths * np.exp(model.score_samples(kind.points[:, None]))
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    # It has learned: records like those seen are likelier than under the start.
    start = kind.mutation.start(kind.X, 0)
    log_z = OutTreeDistribution(start.log_conditional(kind.X, kind.X), start.log_root(kind.X)).log_z
    assert model.tree_.log_z > log_z + 0.01


@each(COLUMNS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # three steps do
def test_density_with_candidates(kind):
    """Listed pairs are weighed as all pairs are."""
    dense = OutTreeDensity(kind.mutation, random_state=0, max_iter=3, tol=0).fit(kind.X)
    listed = OutTreeDensity(
        kind.mutation, random_state=0, max_iter=3, tol=0, candidates="knn", n_candidates=T - 1
    ).fit(kind.X)
    # atol: a step of nearly 0, in units of the spread
    np.testing.assert_allclose(
        listed.mutation_.params, dense.mutation_.params, rtol=1e-6, atol=1e-7
    )


@each(KINDS)
def test_classifier(kind):
    clan = np.arange(T) % 2
    known = np.where(np.arange(T) < 6, clan, -1)
    found = OutTreeClassifier(kind.mutation, random_state=0).fit(kind.X, known)
    np.testing.assert_allclose(found.predict_proba(kind.X).sum(axis=1), 1.0)
    if kind.name in ANY_MAP:
        return
    # Clans of categories and counts meet now and then.
    assert (found.transduction_ == clan).mean() >= 0.75


@each(HIDDEN)
def test_imputer(kind):
    X = kind.X
    holed = X.copy()
    holed[6:10] = np.nan
    other = np.where(np.arange(T) % 2, 5.0, -5.0)[:, None] + 0.01 * X  # tells the clans apart
    table = np.hstack([holed, other])
    categorical = [0] if isinstance(kind.mutation, TableMutation) else []
    mutation = ProductMutation([(kind.mutation, [0]), (GaussianMutation(), [1])])
    model = OutTreeImputer(
        mutation, categorical=categorical, max_iter=5, n_draws=20, n_chains=2, random_state=0
    )
    filled = model.fit_transform(table)
    np.testing.assert_array_equal(filled[10:], table[10:])
    centres = np.array([np.median(X[c::2]) for c in (0, 1)])
    nearest = abs(filled[6:10, :1] - centres).argmin(axis=1)
    np.testing.assert_array_equal(nearest, [0, 1, 0, 1])


@each([kind for kind in COLUMNS if kind in HIDDEN])
def test_hidden_cells_are_summed_over_the_kernel(kind):
    """The table of states is the kernel's density times the states' widths."""
    part = kind.mutation.on_states(kind.X)
    codes = np.arange(T, dtype=float)[:, None] % len(part.points)
    model = hidden_model(part.start(codes))
    kernel = model.mutation.kernel
    states, zero = model.mutation.points[:, None], np.zeros(len(model.mutation.points), dtype=int)
    every = np.arange(len(states))
    log_p = kernel.log_steps(kernel.pairs(states, states[[1]], every, zero), 1)
    expected = log_p + np.log(model.mutation.widths)
    np.testing.assert_allclose(
        model.log_tables[0][0][:, 1], expected - logsumexp(expected), atol=1e-9
    )


@each(KINDS)
def test_bayes(kind):
    mutation = CONJUGATE.get(kind.name, kind.mutation)
    model = BayesianOutTree(mutation, max_iter=40, tol=1e-2, random_state=0).fit(kind.X)
    assert (np.diff(model.lower_bounds_) >= -1e-9).all()
    mass = kind.widths * np.exp(model.score_samples(kind.points[:, None]))
    assert mass.sum() == pytest.approx(1.0, abs=1e-2 if kind.name in STUDENT else 1e-6)


@each([kind for kind in COLUMNS if kind.name in ("sticky", "counts", "angle")])
def test_points_stand_for_the_posterior(kind):
    """Mean and spread of the one parameter, against quadrature of likelihood times prior."""
    posterior = PointPosterior(kind.mutation, 200).start(kind.X, 0)
    W = np.random.default_rng(0).dirichlet(np.ones(T), size=T)
    np.fill_diagonal(W, 0.0)
    q = posterior.update(kind.X, W)
    start = posterior.mutation.params[0]
    grid = start + np.linspace(-7, 7, 281)[:, None]
    log_p = np.array([posterior.mutation.with_params(p).objective(kind.X, W) for p in grid])
    log_p -= 0.5 * ((grid[:, 0] - start) / 3) ** 2
    p = np.exp(log_p - logsumexp(log_p))
    mean = p @ grid[:, 0]
    spread = np.sqrt(p @ (grid[:, 0] - mean) ** 2)
    weights = np.exp(q._log_q())
    found = weights @ q.params_[:, 0]
    assert abs(found - mean) < 0.2 * spread
    assert np.sqrt(weights @ (q.params_[:, 0] - found) ** 2) == pytest.approx(spread, rel=0.2)


@each(COLUMNS)
def test_ancestry(kind):
    """A table with a column of the kind: supports are probabilities, and clans stay apart."""
    table = {"case": [f"c{t}" for t in range(T)], "what": kind.X[:, 0]}
    kinds = {"what": {"sticky": "categorical", "counts": "count"}.get(kind.name, "continuous")}
    kernels = {"what": kind.mutation.kernel}
    options = {"id": "case", "kinds": kinds, "random_state": 0}
    model = Ancestry(**options, kernels=kernels).fit(table)
    found = {type(kernel) for kernel in model.lineage_.kernels}
    assert type(kind.mutation.kernel) in found
    rows = [row for row in model.parents(0.0).rows() if row[1]]
    own = sum(row[2] for row in rows if (int(row[0][1:]) - int(row[1][1:])) % 2 == 0)
    total = sum(row[2] for row in rows)
    assert total <= T
    # Less than half, if the column said nothing: 11 of 23 others. Averaged over parameters, among
    # them ones with which columns say little.
    assert own > 0.57 * total
    with pytest.raises(ValueError, match=r"kernels must name columns .* got 'when'"):
        Ancestry(**options, kernels={"when": kind.mutation.kernel}).fit(table)


@each(COLUMNS)
def test_table(kind):
    """Edges of a table are weighed as by the mutation, where nothing else enters."""
    mutation = kind.mutation.start(kind.X)
    lineage = Lineage([mutation.kernel], background=False).start([kind.X])
    lineage = replace(lineage, kernels=(mutation.kernel,))
    weights = EdgeWeights(lineage, [kind.X], np.zeros(T, dtype=int))
    child, parent = np.indices((T, T)).reshape(2, -1)
    np.testing.assert_allclose(
        weights.log_beta(child, parent).reshape(T, T), mutation.log_conditional(kind.X, kind.X)
    )
    np.testing.assert_allclose(weights.log_root, mutation.log_root(kind.X))


@each(COLUMNS)
def test_saved_and_loaded(kind, tmp_path):
    mutation = kind.mutation.start(kind.X)
    save(mutation, tmp_path / "kind.safetensors", classes=[Angle])
    again = load(tmp_path / "kind.safetensors", classes=[Angle])
    np.testing.assert_array_equal(
        again.log_conditional(kind.X, kind.X), mutation.log_conditional(kind.X, kind.X)
    )
