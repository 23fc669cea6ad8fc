"""Calibration by known parents: exponents of columns, and of trees with a limit on children."""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from lineages import random_table
from oracles.edges import possible_edges
from oracles.enumeration import EnumeratedDistribution
from outtrees import Ancestry, NoSpanningTreeError, RecordsError
from outtrees.ancestry.calibration import (
    PRIOR_SD,
    ExponentProblem,
    learn_exponents,
    learn_limited_exponents,
)
from outtrees.ancestry.limited_children import limited_supports
from outtrees.candidates import in_order
from outtrees.datasets import make_outbreak
from outtrees.io import load, save
from outtrees.models.columns import Drift, EdgeWeights, Lineage, Waiting
from outtrees.models.columns.earlier import with_backgrounds

T = 5  # records in a group whose trees are enumerated


@pytest.fixture(scope="module")
def outbreak():
    return make_outbreak(40, random_state=3)


@pytest.fixture(scope="module")
def found(outbreak):
    kinds = {"ward": "categorical"}
    options = {"waiting_mean": 5.0, "waiting_sd": 2.0, "keep": ["ward"]}
    return Ancestry(id="case", kinds=kinds, roots="any", **options).fit(
        outbreak.table, sequences=outbreak.sequences
    )


@pytest.fixture(scope="module")
def calibrated(found, outbreak):
    told = {name: infector or None for name, infector in outbreak.infectors.items()}
    return load_copy(found).calibrate(told)


def load_copy(found):
    copy = Ancestry(**found.get_params())
    for name, value in vars(found).items():
        if name.endswith("_"):
            setattr(copy, name, value)
    return copy


def test_every_answer_counts_columns_alike(calibrated, found, outbreak, tmp_path):
    assert len(set(calibrated.lineage_.exponents)) > 1
    changed = calibrated.fitted
    np.testing.assert_allclose(
        changed.log_alone, calibrated.lineage_.exponents[:, None] * found.fitted.log_alone
    )
    np.testing.assert_allclose(changed.log_root, changed.log_alone.sum(axis=0))
    # The known parents became more probable together, by the very formula of what_if.
    known = {
        outbreak.table["case"].index(name): outbreak.table["case"].index(infector)
        if infector
        else -1
        for name, infector in outbreak.infectors.items()
    }
    both = [f.best_trees for f in (found.fitted, changed)]
    gain = [trees.given(known).log_z - trees.log_z for trees in both]
    assert gain[1] > gain[0]
    assert calibrated.log_likelihood_ == found.log_likelihood_
    assert any("known parents ask for" in sentence for sentence in calibrated.describe())
    assert not any("known parents ask for" in sentence for sentence in found.describe())
    back = load(save(calibrated, tmp_path / "model"))
    assert list(back.parents().rows()) == list(calibrated.parents().rows())
    assert list(back.readings().rows()) == list(calibrated.readings().rows())
    first = outbreak.table["case"][0]
    late = {name: [cells[-1]] for name, cells in outbreak.table.items()} | {"case": ["late"]}
    assert back.place(late)["child"][0] == "late"
    assert len(back.what_if({outbreak.table["case"][5]: first}, 0.0)["child"])
    assert (
        Ancestry(**back.get_params())
        .fit(outbreak.table, sequences=outbreak.sequences)
        .lineage_.exponents
        is None
    )


def test_known_parents_that_teach_nothing_are_refused(found, outbreak):
    told = {name: infector or None for name, infector in outbreak.infectors.items()}
    with pytest.raises(RecordsError, match=r"at least 20 known parents .* got 5"):
        found.calibrate(dict(list(told.items())[5:10]))
    order = np.argsort(outbreak.table["onset"])
    first, last = (outbreak.table["case"][i] for i in (order[0], order[-1]))
    with pytest.raises(RecordsError, match=f"'{first}' cannot descend from '{last}'"):
        found.calibrate({**told, last: None, first: last})
    with pytest.raises(RecordsError, match="no record is called 'nobody'"):
        found.calibrate({**told, "nobody": first})
    given = Ancestry(id="case", roots="any", known_parents=told).fit(
        outbreak.table, sequences=outbreak.sequences
    )
    with pytest.raises(RecordsError, match=r"got 0 \(parents that were given to the fit"):
        given.calibrate(told)


def test_supports_under_a_limit_have_exponents_of_their_own(found, outbreak, tmp_path):
    told = {name: infector or None for name, infector in outbreak.infectors.items()}
    most = max(Counter(filter(None, told.values())).values())
    with pytest.raises(RecordsError, match=f"'.*' as the known parent of {most}. Correct"):
        found.calibrate(told, max_children=most - 1)
    with pytest.raises(ValueError, match="max_children must be an integer of at least 1"):
        found.calibrate(told, max_children=0)
    limited = load_copy(found).calibrate(told, max_children=most, random_state=0)
    assert limited.lineage_ is found.lineage_
    exponents = limited.limited_exponents_[most]
    assert found.limited_exponents_ == {}
    assert list(limited.parents().rows()) == list(found.parents().rows())
    assert any(f"no record has more than {most} children, columns" in s for s in limited.describe())
    run = {"n_sweeps": 40, "random_state": 0, "min_support": 0.0}
    counted = found.fitted.with_exponents(exponents)
    right = limited_supports(counted, most, 40, 4, np.random.default_rng(0))
    with warnings.catch_warnings(action="ignore"):  # so few sweeps do not mix
        back = load(save(limited, tmp_path / "model"))
        tables = [model.limited_parents(most, **run) for model in (limited, back, found)]
        other = [model.limited_parents(most + 1, **run) for model in (limited, found)]
    assert list(tables[0].rows()) == list(tables[1].rows()) != list(tables[2].rows())
    assert list(other[0].rows()) == list(other[1].rows())  # another limit: not calibrated
    np.testing.assert_array_equal(
        np.sort(tables[0]["support"]), np.sort(np.concatenate([right.edges, right.roots]))
    )


def families(n_groups=3, n=14):
    """Return chains of records in groups, and their parents."""
    rng = np.random.default_rng(0)
    table = {"id": [], "site": [], "day": [], "x": [], "y": []}
    parents = {}
    for g in range(n_groups):
        place = np.cumsum(rng.normal(size=(n, 2)), axis=0)
        for u in range(n):
            row = (f"g{g}_{u}", f"s{g}", 3 * u + int(rng.integers(2)), *place[u])
            for cells, value in zip(table.values(), row, strict=True):
                cells.append(value)
            parents[f"g{g}_{u}"] = f"g{g}_{u - 1}" if u else None
    return table, parents


def test_known_parents_that_no_tree_has_are_refused_under_a_limit_too():
    table, parents = families()
    kinds, wait = {"site": "group", "day": "date"}, {"waiting_mean": 3.0, "waiting_sd": 1.0}
    found = Ancestry(id="id", kinds=kinds, roots="single", **wait).fit(table)
    twice = {**parents, "g0_1": None}  # two roots of a group that has one
    with pytest.raises(NoSpanningTreeError, match="separate groups"):
        found.calibrate(twice, max_children=2)
    path = found.calibrate(parents, max_children=1, random_state=0)
    assert any("more than 1 child, columns count" in sentence for sentence in path.describe())
    with pytest.raises(ValueError, match="max_children must be an integer"):
        found.limited_parents([2])


def test_groups_that_cannot_obey_are_named_and_noisy_exponents_told(monkeypatch):
    table, parents = families()
    options = {"id": "id", "kinds": {"site": "group", "day": "date"}, "roots": "single"}
    options |= {"waiting_mean": 3.0, "waiting_sd": 1.0}
    # In the second group all can only descend from its first record.
    forbidden = [(f"g1_{u}", f"g1_{v}") for u in range(2, 14) for v in range(1, u)]
    star = Ancestry(**options, forbidden=forbidden).fit(table)
    told = {name: parent for name, parent in parents.items() if not name.startswith("g1")}
    told["g1_1"] = "g1_0"
    with pytest.raises(NoSpanningTreeError, match="among the relatives of 'g1_0' in which every"):
        star.limited_parents(2, n_sweeps=20)
    with pytest.raises(NoSpanningTreeError, match="among the relatives of 'g1_0' in which every"):
        star.calibrate(told, max_children=2)
    monkeypatch.setattr("outtrees.ancestry.calibration._MUCH_ERROR", 0.0)
    plain = Ancestry(**options).fit(table)
    some = {name: parent for name, parent in parents.items() if not name.endswith("_5")}
    with pytest.warns(UserWarning, match="sampling leaves the exponents unsure by 0"):
        plain.calibrate(some, max_children=2, n_sweeps=20, random_state=0)


# Exponents, all trees -----------------------------------------------------------------------


def problem(roots, T=5, generations=2):
    kernels, values = random_table(4, T=T)
    groups = np.zeros(T, dtype=np.intp)
    lineage = with_backgrounds(Lineage(kernels, generations).start(values), values, groups)
    edges = possible_edges(T, None, {}, [], None)
    kept = in_order(lineage, values, edges.child, edges.parent)
    edges = edges.only(kept)
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    return EdgeWeights(lineage, values, edges.groups), pairs, edges, roots, -0.5


def a_tree(weights, pairs, edges, roots, introduction):
    """Return some parents of the last records that are possible."""
    T = len(edges.groups)
    return {u: int(pairs.parent[pairs.child == u][0]) for u in (T - 2, T - 1)}


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_probability_of_known_parents_is_that_of_their_trees(roots):
    weights, pairs, edges, _, introduction = problem(roots)
    known = a_tree(weights, pairs, edges, roots, introduction)
    found = ExponentProblem(weights, pairs, edges, known, roots, introduction)
    exponents = np.random.default_rng(0).uniform(0.4, 2.0, found.n_kinds)
    T = len(edges.groups)
    lineage = replace(weights.lineage, exponents=exponents[found.kind])
    changed = EdgeWeights(lineage, weights.values, edges.groups)
    log_beta, log_root = np.full((T, T), -np.inf), changed.log_root + introduction
    log_beta[pairs.child, pairs.parent] = changed.log_beta_pairs(pairs)
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    agrees = np.all([slow.trees[:, u] == v for u, v in known.items()], axis=0)
    value, _ = found.log_known(exponents)
    assert value == pytest.approx(np.log(slow.probabilities[agrees].sum()), rel=1e-9)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_slope_is_that_of_small_steps(roots):
    parts = problem(roots, T=9)
    known = a_tree(*parts)
    found = ExponentProblem(*parts[:3], known, *parts[3:])
    at = np.random.default_rng(1).normal(0, 0.3, found.n_kinds)
    slope = found.log_known(np.exp(at))[1]
    for g in range(found.n_kinds):
        step = 1e-5 * (np.arange(found.n_kinds) == g)
        up, down = (found.log_known(np.exp(at + s))[0] for s in (step, -step))
        assert slope[g] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-7)


def crowd(rng, repeats, T=150):
    """Return a lineage with its true parameters, and places of which each is told `repeats` times.

    Each family of the forest wanders by itself; the same place in several columns is what a model
    of independent columns takes for so many witnesses.
    """
    parents = np.array([-1, *[rng.integers(max(0, t - 25), t) for t in range(1, T)]])
    place, day = np.zeros((T, 1)), np.zeros(T)
    for u in range(1, T):
        place[u] = place[parents[u]] + rng.normal()
        day[u] = u
    date = np.column_stack([day, day, 0 * day, 0 * day])
    values = [date, *[place] * repeats]
    kernels = [Waiting(mean=12.0, sd=8.0), *[Drift(offset=False)] * repeats]
    lineage = Lineage(kernels, background=False).start(values)
    walks = [replace(k, cov=np.eye(1)) for k in lineage.kernels[1:]]
    return replace(lineage, kernels=(lineage.kernels[0], *walks)), values, parents


@pytest.mark.parametrize("repeats", [1, 3])
def test_columns_that_repeat_each_other_count_as_one(repeats):
    lineage, values, parents = crowd(np.random.default_rng(2), repeats)
    T = len(parents)
    edges = possible_edges(T, None, {}, [], None)
    near = (edges.child - edges.parent <= 25) & (edges.child > edges.parent)
    edges = edges.only(near)
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    known = {u: int(parents[u]) for u in range(1, T)}
    weights = EdgeWeights(lineage, values, edges.groups)
    learned = learn_exponents(ExponentProblem(weights, pairs, edges, known))
    # 149 choices among 25 places: a standard error of about an eighth.
    np.testing.assert_allclose(learned.lineage.exponents[1:], 1 / repeats, rtol=0.4)
    assert learned.after >= learned.before
    if repeats > 1:
        assert learned.after > learned.before + 10
    changed = EdgeWeights(learned.lineage, values, edges.groups)
    again = learn_exponents(ExponentProblem(changed, pairs, edges, known))  # not twice the same
    np.testing.assert_allclose(again.lineage.exponents, learned.lineage.exponents)


# Exponents, trees with a limit on children --------------------------------------------------


def table(roots, n_groups=6):
    """Return groups of T records with wide kernels, and trees with at most one child each."""
    kernels, values = random_table(4, T=T * n_groups)
    kernels, values = ([side[c] for c in (1, 4, 7)] for side in (kernels, values))
    groups = np.repeat(np.arange(n_groups), T)
    lineage = with_backgrounds(Lineage(kernels, 2).start(values), values, groups)
    edges = possible_edges(T * n_groups, groups, {}, [], None)
    kept = in_order(lineage, values, edges.child, edges.parent)
    edges = edges.only(kept)
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    weights = EdgeWeights(lineage, values, groups)
    return weights, pairs, edges, dict(roots=roots, log_introduction=-1.5)


class Enumerated:
    """log P(known parents) under the limit by the sum over every tree of every group."""

    def __init__(self, weights, pairs, edges, known, most, roots, log_introduction):
        self.problem = ExponentProblem(weights, pairs, edges, known, roots, log_introduction)
        self.edges, self.known, self.most, self.roots = edges, known, most, roots

    def by_group(self, exponents):
        trees, _ = self.problem.trees(exponents)
        for number in range(self.edges.groups.max() + 1):
            rows = np.arange(number * T, (number + 1) * T)
            log_beta = np.full((T, T), -np.inf)
            own = self.edges.groups[trees.child] == number
            log_beta[trees.child[own] - rows[0], trees.parent[own] - rows[0]] = trees.log_weight[
                own
            ]
            slow = EnumeratedDistribution(log_beta, trees.log_root[rows], self.roots)
            children = (slow.trees[:, :, None] == np.arange(T)).sum(axis=1)
            obeys = children.max(axis=1) <= self.most
            yield rows, slow.trees[obeys], slow.probabilities[obeys]

    def log_known(self, exponents):
        total = 0.0
        for rows, trees, chances in self.by_group(exponents):
            own = {u - rows[0]: self.known[u] for u in rows if u in self.known}
            own = {u: v - rows[0] if v >= 0 else -1 for u, v in own.items()}
            has = np.all([trees[:, u] == v for u, v in own.items()] or [chances >= 0], axis=0)
            total += np.log(chances[has].sum() / chances.sum())
        return total

    def best(self):
        def loss(x):
            return x @ x / (2 * PRIOR_SD**2) - self.log_known(np.exp(x))

        start = np.zeros(self.problem.n_kinds)
        return minimize(loss, start).x


@pytest.mark.parametrize(("roots", "share"), [("single", 1.0), ("any", 0.5)])
def test_exponents_are_those_of_every_tree_that_obeys(roots, share):
    *parts, law = table(roots)
    slow = Enumerated(*parts, {}, 1, **law)
    rng = np.random.default_rng(1)
    flatter = np.full(slow.problem.n_kinds, 0.7)
    drawn = {}
    for rows, trees, chances in slow.by_group(flatter):
        tree = trees[rng.choice(len(trees), p=chances / chances.sum())]
        drawn |= {
            int(u): int(v + rows[0]) if v >= 0 else -1 for u, v in zip(rows, tree, strict=True)
        }
    told = dict(list(drawn.items())[: int(share * len(drawn))])
    if share < 1:  # a group that is known in part, and groups that are not
        del told[0]
    slow.known = told
    right = slow.best()
    rng, names = np.random.default_rng(0), [str(u) for u in range(len(parts[2].groups))]
    problem = ExponentProblem(*parts, told, **law)
    found, error = learn_limited_exponents(problem, 1, 500, rng, names)
    kind = slow.problem.kind
    off = np.log(found.exponents) - right[kind]
    # So few known parents leave about the prior's standard error, and chains a tenth of that.
    assert abs(off).max() < PRIOR_SD / 10
    assert error < 0.25
    free = learn_exponents(problem).lineage
    assert abs(np.log(free.exponents) - right[kind]).max() > PRIOR_SD / 10  # the limit counts
