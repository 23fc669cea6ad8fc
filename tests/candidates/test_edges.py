"""Which edges are possible: groups, known parents, forbidden pairs and roots."""

import numpy as np
import pytest

from oracles.edges import possible_edges
from outtrees import NoSpanningTreeError


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
        ({"known_parents": {1: 2, 2: 1}}, r"form a cycle, 1 → 2 → 1; drop one"),
        ({"known_parents": {0: 1, 1: 2, 2: 3, 3: 1}}, r"form a cycle, 1 → 3 → 2 → 1; drop one"),
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
    with pytest.raises(ValueError, match=r"records 0 … 3 must be given.*Correct the pair"):
        possible_edges(4, **constraints)


def test_long_chains_of_known_parents_are_no_circle():
    T = 1500
    edges = possible_edges(T, known_parents={u: u - 1 for u in range(T)})
    assert len(edges.child) == T - 1
