"""EM for the lineage of a table: constraints, an exact objective that only rises, recovery."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from outtrees.ancestry.em import fit_lineage

from lineages import random_table
from oracles.enumeration import EnumeratedDistribution
from outtrees import NoSpanningTreeError
from outtrees.ancestry.posterior import weighed_trees
from outtrees.candidates import possible_edges
from outtrees.models.columns import Counts, Drift, Lineage, Sticky, Substitution, Waiting

# Which edges are possible ----------------------------------------------------------------------


def pairs_of(edges):
    return set(zip(edges.child.tolist(), edges.parent.tolist(), strict=True))


def everything(T):
    return {(u, v) for u in range(T) for v in range(T) if u != v}


def test_without_constraints_every_pair_is_possible():
    edges = possible_edges(4)
    assert pairs_of(edges) == everything(4)
    assert edges.root_allowed.all()
    assert (edges.groups == 0).all()


def test_edges_stay_within_groups():
    edges = possible_edges(5, groups=np.array([1, 4, 1, 4, 9]))
    assert pairs_of(edges) == {(0, 2), (2, 0), (1, 3), (3, 1)}
    np.testing.assert_array_equal(edges.groups, [1, 4, 1, 4, 9])


def test_known_parents():
    edges = possible_edges(4, known_parents={1: 3, 2: -1})
    kept = {(u, v) for u, v in everything(4) if u in (0, 3)} | {(1, 3)}
    assert pairs_of(edges) == kept
    np.testing.assert_array_equal(edges.root_allowed, [True, False, True, True])


def test_forbidden_pairs_and_forbidden_roots():
    edges = possible_edges(3, forbidden=[(0, 1), (2, -1)])
    assert pairs_of(edges) == everything(3) - {(0, 1)}
    np.testing.assert_array_equal(edges.root_allowed, [True, True, False])
    assert pairs_of(possible_edges(3, forbidden=iter([(0, 1)]))) == everything(3) - {(0, 1)}


def test_a_root_is_the_only_one_of_its_group():
    edges = possible_edges(5, groups=np.array([0, 0, 0, 1, 1]), root=1)
    np.testing.assert_array_equal(edges.root_allowed, [False, True, False, True, True])
    assert pairs_of(edges) == {(0, 1), (0, 2), (2, 0), (2, 1), (3, 4), (4, 3)}


def test_constraints_that_agree_with_each_other():
    edges = possible_edges(3, known_parents={0: -1, 1: 0}, root=0)
    assert pairs_of(edges) == {(1, 0), (2, 0), (2, 1)}
    np.testing.assert_array_equal(edges.root_allowed, [True, False, False])


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"known_parents": {1: 0}, "forbidden": [(1, 0)]}, r"0 is given as the parent of record 1"),
        ({"known_parents": {1: 0}, "forbidden": [(1, 0)]}, r"that pair is forbidden; drop one"),
        ({"known_parents": {1: 1}}, r"no record is its own parent; drop"),
        ({"known_parents": {1: 0}, "root": 1}, r"the child is given as the root; drop one"),
        ({"known_parents": {1: 3}, "groups": [0, 0, 1, 1]}, r"in different groups; drop one"),
        ({"known_parents": {1: -1}, "root": 0}, r"1 is known to be a root, but .*record 0.*drop"),
        ({"known_parents": {1: -1}, "forbidden": [(1, -1)]}, r"1 is known to be a root, but forb"),
        ({"root": 2, "forbidden": [(2, -1)]}, r"2 is given as the root, but forbidden.*drop one"),
        ({"known_parents": {1: 2, 2: 1}}, r"round in a circle, 1 → 2 → 1; drop one"),
        ({"known_parents": {0: 1, 1: 2, 2: 3, 3: 1}}, r"in a circle, 1 → 3 → 2 → 1; drop one"),
    ],
)
def test_contradictions(constraints, message):
    if "groups" in constraints:
        constraints = {**constraints, "groups": np.array(constraints["groups"])}
    with pytest.raises(NoSpanningTreeError, match=message):
        possible_edges(4, **constraints)


@pytest.mark.parametrize(
    "constraints",
    [
        {"known_parents": {4: 0}},
        {"known_parents": {-1: 0}},
        {"known_parents": {0: 4}},
        {"known_parents": {0: -2}},
        {"forbidden": [(0, 7)]},
        {"root": 4},
        {"root": -1},
    ],
)
def test_records_that_do_not_exist(constraints):
    with pytest.raises(ValueError, match=r"records 0 … 3 are expected.*correct the pair"):
        possible_edges(4, **constraints)


def test_long_chains_of_known_parents_are_no_circle():
    T = 1500
    edges = possible_edges(T, known_parents={u: u - 1 for u in range(T)})
    assert len(edges.child) == T - 1


# The objective ---------------------------------------------------------------------------------


def dense(T, pairs, log_weight):
    matrix = np.full((T, T), -np.inf)
    matrix[pairs.child, pairs.parent] = log_weight
    return matrix


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_objective_by_enumeration(roots):
    """Every tree of five records, every probability, written out from the fitted parameters."""
    T = 5
    kernels, values = random_table(3, T=T)
    fit = fit_lineage(Lineage(kernels, 2), values, possible_edges(T), roots=roots, max_iter=3)
    log_beta, log_root = fit.lineage.log_beta(fit.pairs), fit.lineage.log_root(values)
    prior = fit.lineage.log_prior()
    if roots == "any":
        rate = fit.root_rate
        n_parents = np.bincount(fit.pairs.child, minlength=T)
        log_beta = log_beta + np.log((1 - rate) / n_parents[fit.pairs.child])
        log_root = log_root + np.log(rate)
        prior += np.log(rate) + 9 * np.log(1 - rate)  # Beta: one root in ten records
    slow = EnumeratedDistribution(dense(T, fit.pairs, log_beta), log_root, roots)
    assert fit.objectives[-1] == pytest.approx(slow.log_z + prior, abs=1e-9)
    np.testing.assert_allclose(
        fit.trees.edge_marginals, slow.edge_marginals[fit.pairs.child, fit.pairs.parent], atol=1e-10
    )


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize(
    "generations", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))]
)
@pytest.mark.parametrize("strict", [True, False])
def test_no_iteration_lowers_the_objective(roots, generations, strict):
    """All kinds of columns, missing cells."""
    kernels, values = random_table(10 * generations + strict, T=12, strict=strict)
    lineage = Lineage(kernels, generations)
    fit = fit_lineage(lineage, values, possible_edges(12), roots=roots, max_iter=10, tol=0.0)
    rises = np.diff(fit.objectives)
    assert (rises >= -1e-8 * np.abs(fit.objectives[:-1])).all()
    assert fit.objectives[-1] - fit.objectives[0] > 1  # there was something to learn


@pytest.mark.parametrize("kind", range(8))
def test_no_iteration_lowers_the_objective_of_one_column(kind):
    """Alone, a column's own mistake cannot hide behind the gains of the others."""
    for seed in range(2):
        kernels, values = random_table(seed, T=12, missing=0.1, strict=False)
        lineage = Lineage([kernels[kind]], 2)
        fit = fit_lineage(
            lineage, [values[kind]], possible_edges(12), roots="any", max_iter=15, tol=0.0
        )
        rises = np.diff(fit.objectives)
        assert (rises >= -1e-8 * np.maximum(np.abs(fit.objectives[:-1]), 1.0)).all()


def test_progress_convergence_and_the_better_of_two_starts():
    kernels, values = random_table(5, T=12)
    seen = []
    edges = possible_edges(12)
    fit = fit_lineage(
        Lineage(kernels), values, edges, max_iter=200, progress=lambda i, value: seen.append(i)
    )
    assert fit.converged
    assert seen == list(range(1, len(seen) + 1))
    stopped = fit_lineage(Lineage(kernels), values, edges, max_iter=1, tol=0.0)
    assert not stopped.converged
    assert len(stopped.objectives) == 2
    only = fit_lineage(Lineage(kernels), values, edges, max_iter=0)
    assert len(only.objectives) == 1
    again = weighed_trees(fit.lineage, values, fit.edges, fit.pairs, "single", fit.root_rate)
    assert again.log_z == pytest.approx(fit.trees.log_z, rel=1e-12)


def test_impossible_orders_leave_the_list():
    kernels, values = random_table(7, T=10, missing=0.0)
    fit = fit_lineage(Lineage(kernels), values, possible_edges(10), max_iter=1)
    days = values[-1][:, 0]
    assert (days[fit.pairs.child] >= days[fit.pairs.parent]).all()
    assert len(fit.pairs.child) == sum(
        days[u] >= days[v] for u in range(10) for v in range(10) if u != v
    )


def test_constraints_are_obeyed():
    kernels, values = random_table(8, T=8, strict=False)
    edges = possible_edges(8, known_parents={3: 1}, forbidden=[(5, 2)], root=0)
    fit = fit_lineage(Lineage(kernels), values, edges, max_iter=3)
    chance = dense(8, fit.pairs, fit.trees.edge_marginals)
    assert chance[3, 1] == pytest.approx(1.0)
    assert chance[5, 2] == -np.inf
    assert fit.trees.root_marginals[0] == pytest.approx(1.0)


# Recovery --------------------------------------------------------------------------------------


# A changed value goes anywhere alike: with the column's own marginal as target, the truth would be
# another model than the one fitted, and its stickiness another number.
CATEGORY = Sticky(tuple("abcd"), target="uniform")


def simulated(seed, T=300, L=400):
    """Return a table grown from known parameters, and the parents."""
    rng = np.random.default_rng(seed)
    start = [
        np.zeros((1, 1)),
        np.zeros((1, 1)),
        np.full((1, 1), 5.0),
        rng.integers(4, size=(1, L)).astype(float),
        np.zeros((1, 4)),
    ]
    truth = [
        replace(Drift().start(np.array([[0.0], [1.0]])), mean_step=np.array([0.5]), cov=np.eye(1)),
        replace(CATEGORY.start(np.arange(4.0)[:, None]), stickiness=0.85),
        Counts(mean=5.0, survival=0.8),
        replace(Substitution().start(start[3]), rate=0.005),
        replace(Waiting().start(np.zeros((2, 4))), log_mean=np.log(6.0), log_shape=np.log(9.0)),
    ]
    values, parents = start, [-1]
    while len(parents) < T:  # each record of the last generation has one to three children
        last = np.arange(len(parents))[-max(1, len(parents) // 2) :]
        chosen = np.repeat(last, rng.integers(1, 3, size=len(last)))[: T - len(parents)]
        drawn = [k.sample(v[chosen], 1, rng) for k, v in zip(truth, values, strict=True)]
        values = [np.vstack([v, d]) for v, d in zip(values, drawn, strict=True)]
        parents += chosen.tolist()
    return values, np.array(parents)


def test_parameters_are_recovered():
    """300 records: errors of four standard errors of what the true tree would give.

    One sd is 0.06 for a step and a spread of one, 0.025 for stickiness and survival, 4 % for the
    rate of 600 substitutions, 0.12 days for the mean wait. Unknown parents add to that: most are
    settled by 400 sites and the dates.
    """
    values, parents = simulated(1)
    kernels = [Drift(), CATEGORY, Counts(), Substitution(), Waiting()]
    fit = fit_lineage(Lineage(kernels), values, possible_edges(300), max_iter=40)
    drift, sticky, counts, sequence, wait = fit.lineage.kernels
    assert drift.mean_step[0] == pytest.approx(0.5, abs=0.24)
    assert drift.cov[0, 0] ** 0.5 == pytest.approx(1.0, abs=0.24)
    assert sticky.stickiness == pytest.approx(0.85, abs=0.1)
    assert counts.survival == pytest.approx(0.8, abs=0.1)
    assert sequence.rate == pytest.approx(0.005, rel=0.16)
    assert np.exp(wait.log_mean) == pytest.approx(6.0, abs=0.5)
    right = fit.trees.consensus()
    share = (right.parents == parents).mean()
    assert share > 0.95
    # Calibration: the expected number of right parents is near the number.
    assert right.expected_right / 300 == pytest.approx(share, abs=0.03)


# A negative control ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ByFrequency(Substitution):
    """Sequences without a parent as products of the letters' frequencies: what not to do."""

    log_frequency: Any = field(default=None, repr=False, kw_only=True)  # (C, L)

    def start(self, values):
        counts = np.array([(values == a).sum(axis=0) for a in range(4)]) + 0.25
        return replace(super().start(values), log_frequency=np.log(counts / counts.sum(axis=0)))

    def log_alone(self, values):
        codes = values.astype(int)
        return self.log_frequency[codes, np.arange(codes.shape[1])].sum(axis=1)

    def refit_alone(self, values, weights):
        return self


def outbreak(seed, T=60, L=300):
    """Return sequences and dates; record 1 founds a branch of about a third of all records."""
    rng = np.random.default_rng(seed)
    sequences, days, branch = [rng.integers(4, size=L)], [0.0], [0]

    def infect(parent, n_changes, which):
        child = sequences[parent].copy()
        sites = rng.choice(L, size=n_changes, replace=False)
        child[sites] = (child[sites] + rng.integers(1, 4, size=n_changes)) % 4
        sequences.append(child)
        days.append(days[parent] + rng.gamma(4.0, 1.25))
        branch.append(which)

    infect(0, 2, 1)
    for _ in range(T - 2):
        which = int(rng.random() > 0.65)
        infect(int(rng.choice(np.flatnonzero(np.array(branch) == which))), rng.poisson(2.0), which)
    dates = np.column_stack([days, days, np.zeros(T), np.zeros(T)])
    return np.array(sequences, dtype=float), dates


@pytest.mark.slow
def test_letters_frequencies_would_call_founders_of_branches_introductions():
    """One introduction only: every other root is wrong. 12 tables, means over them."""
    founder, others = {}, {}
    for model in (Substitution, ByFrequency):
        roots = []
        for seed in range(12):
            sequences, dates = outbreak(seed)
            lineage = Lineage([model(), Waiting(mean=5.0, sd=2.5, unit=0.0)], background=False)
            fit = fit_lineage(
                lineage, [sequences, dates], possible_edges(60), roots="any", max_iter=40
            )
            roots.append(fit.trees.root_marginals)
        founder[model] = np.mean([r[1] for r in roots])
        others[model] = np.mean([r[1:].sum() for r in roots])
    assert founder[Substitution] < 0.05
    assert founder[ByFrequency] > 0.15
    assert others[Substitution] < 2.0
    assert others[ByFrequency] > 3.0
