"""Supports under a limit on children: those of all trees that obey it, exact where it is void."""

from dataclasses import replace

import numpy as np
import pytest

from oracles.enumeration import EnumeratedDistribution
from outtrees import Ancestry
from outtrees.ancestry.limited_children import limited_supports, limited_table

CASES = {
    "case": ["a", "b", "c", "d", "e"],
    "onset": ["2020-03-01", "2020-03-04", "2020-03-05", "2020-03-05", "2020-03-08"],
    "ward": ["N", "N", "S", "N", "S"],
}
# Supports under a limit go by the fitted parameters.
WAITING = {"waiting_mean": 3.5, "waiting_sd": 2.0, "parameters": "fitted"}


@pytest.mark.parametrize("roots", ["single", "any"])
def test_limited_supports_are_those_of_every_tree(roots):
    found = Ancestry(id="case", roots=roots, **WAITING).fit(CASES)
    # So few roots that the limit matters; only roots="any" reads it.
    main = replace(found.readings_[0], log_introduction=-7.0)
    found.readings_, found._posterior = [main], None
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
    found = Ancestry(id="case", kinds=kinds, **WAITING).fit(both)
    exact = found.limited_parents(4, min_support=0.0)
    assert exact["support"] == found.parents(0.0)["support"]
    assert set(exact["error"]) == {0.0}
    part = limited_supports(found.fitted, 3, 200, 2, np.random.default_rng(0))
    second = found.fitted.edges.groups[found.fitted.trees.child] == 1
    np.testing.assert_array_equal(part.edges[second], found.fitted.trees.edge_marginals[second])
    assert np.abs(part.edges - found.fitted.trees.edge_marginals)[~second].max() > 1e-6
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
