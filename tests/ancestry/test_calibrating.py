"""Supports after known parents, and under a limit on children."""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from oracles.enumeration import EnumeratedDistribution
from outtrees import Ancestry, NoSpanningTreeError, RecordsError
from outtrees.ancestry.limited_children import limited_supports, limited_table
from outtrees.datasets import make_outbreak
from outtrees.io import load, save

CASES = {
    "case": ["a", "b", "c", "d", "e"],
    "onset": ["2020-03-01", "2020-03-04", "2020-03-05", "2020-03-05", "2020-03-08"],
    "ward": ["N", "N", "S", "N", "S"],
}


@pytest.fixture(scope="module")
def outbreak():
    return make_outbreak(40, random_state=3)


@pytest.fixture(scope="module")
def found(outbreak):
    kinds = {"ward": "categorical"}
    return Ancestry(id="case", kinds=kinds, roots="any").fit(
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
    gain = [f.trees.given(known).log_z - f.trees.log_z for f in (found.fitted, changed)]
    assert gain[1] > gain[0]
    assert calibrated.log_likelihood_ == found.log_likelihood_
    assert any("known parents ask for" in sentence for sentence in calibrated.describe())
    assert not any("known parents ask for" in sentence for sentence in found.describe())
    back = load(save(calibrated, tmp_path / "model"))
    assert list(back.parents().rows()) == list(calibrated.parents().rows())
    assert list(back.column_evidence().rows()) == list(calibrated.column_evidence().rows())
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
    with pytest.raises(RecordsError, match=r"at least 20 known parents .* but there are 5"):
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
    with pytest.raises(RecordsError, match=r"but there are 0 \(parents that were given to the fit"):
        given.calibrate(told)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_limited_supports_are_those_of_every_tree(roots):
    found = Ancestry(id="case", roots=roots, waiting_mean=3.5, waiting_sd=2.0).fit(CASES)
    found.root_rate_ = 0.05  # so few roots that the limit matters; only roots="any" reads it
    trees, T = found.fitted.trees, 5
    log_beta = np.full((T, T), -np.inf)
    log_beta[trees.child, trees.parent] = trees.log_weight
    slow = EnumeratedDistribution(log_beta, trees.log_root, roots)
    children = (slow.trees[:, :, None] == np.arange(T)).sum(axis=1)
    weight = slow.probabilities * (children.max(axis=1) <= 1)
    weight = weight / weight.sum()
    table = found.limited_parents(1, min_support=0.0, n_sweeps=2000, random_state=0)
    place = {name: i for i, name in enumerate(found.records.ids)} | {"": -1}
    assert len(table["child"]) == len(trees.child) + T
    bound = False
    for child, parent, support, error, _ in table.rows():
        right = weight @ (slow.trees[:, place[child]] == place[parent])
        assert abs(support - right) <= 5 * error + 2e-3  # as in the tests of the sampler
        bound |= abs(found.fitted.support_of[place[child], place[parent]] - right) > 0.05
    assert bound  # the limit changes something


def test_where_a_limit_cannot_bind_supports_are_exact_and_groups_do_not_meet():
    both = {name: cells + cells[:4] for name, cells in CASES.items()}
    both["case"] = list("abcdefghi")
    both["site"] = ["one"] * 5 + ["two"] * 4
    kinds = {"site": "group"}
    found = Ancestry(id="case", kinds=kinds, waiting_mean=3.5, waiting_sd=2.0).fit(both)
    exact = found.limited_parents(4, min_support=0.0)
    assert exact["support"] == found.parents(0.0)["support"]
    assert set(exact["error"]) == {0.0}
    part = limited_supports(found.fitted, 3, 200, 2, np.random.default_rng(0))
    second = found.fitted.edges.groups[found.fitted.trees.child] == 1
    np.testing.assert_array_equal(part.edges[second], found.fitted.trees.edge_marginals[second])
    assert part.edge_errors[~second].max() > 0
    sums = np.bincount(found.fitted.trees.child, part.edges, minlength=9) + part.roots
    np.testing.assert_allclose(sums, 1.0)


def test_chains_that_disagree_are_told():
    found = Ancestry(id="case", waiting_mean=3.5, waiting_sd=2.0).fit(CASES)
    with pytest.raises(ValueError, match="max_children must be an integer of at least 1"):
        found.limited_parents(0)
    mixed = limited_supports(found.fitted, 1, 200, 2, np.random.default_rng(0))
    limited_table(mixed, found.fitted, 0.1)  # a warning would fail the test
    with pytest.warns(UserWarning, match=r"had not mixed \(largest R̂ 1.20, .* raise n_sweeps"):
        limited_table(mixed._replace(r_hat=1.2), found.fitted, 0.1)


def test_supports_under_a_limit_have_exponents_of_their_own(found, outbreak, tmp_path):
    told = {name: infector or None for name, infector in outbreak.infectors.items()}
    most = max(Counter(filter(None, told.values())).values())
    with pytest.raises(RecordsError, match=f"'.*' is the known parent of {most}; correct"):
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
    counted = replace(found.fitted, lineage=replace(found.lineage_, exponents=exponents))
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
    found = Ancestry(id="id", kinds={"site": "group", "day": "date"}).fit(table)
    twice = {**parents, "g0_1": None}  # two roots of a group that has one
    with pytest.raises(NoSpanningTreeError, match="separate groups"):
        found.calibrate(twice, max_children=2)
    path = found.calibrate(parents, max_children=1, random_state=0)
    assert any("more than 1 child, columns count" in sentence for sentence in path.describe())
    with pytest.raises(ValueError, match="max_children must be an integer"):
        found.limited_parents([2])


def test_groups_that_cannot_obey_are_named_and_noisy_exponents_told(monkeypatch):
    table, parents = families()
    kinds = {"site": "group", "day": "date"}
    # In the second group all can only descend from its first record.
    forbidden = [(f"g1_{u}", f"g1_{v}") for u in range(2, 14) for v in range(1, u)]
    star = Ancestry(id="id", kinds=kinds, forbidden=forbidden).fit(table)
    told = {name: parent for name, parent in parents.items() if not name.startswith("g1")}
    told["g1_1"] = "g1_0"
    with pytest.raises(NoSpanningTreeError, match="among the relatives of 'g1_0': no out-tree"):
        star.limited_parents(2, n_sweeps=20)
    with pytest.raises(NoSpanningTreeError, match="among the relatives of 'g1_0': no out-tree"):
        star.calibrate(told, max_children=2)
    monkeypatch.setattr("outtrees.ancestry.calibration._MUCH_ERROR", 0.0)
    plain = Ancestry(id="id", kinds=kinds).fit(table)
    some = {name: parent for name, parent in parents.items() if not name.endswith("_5")}
    with pytest.warns(UserWarning, match="sampling leaves the exponents unsure by 0"):
        plain.calibrate(some, max_children=2, n_sweeps=20, random_state=0)
