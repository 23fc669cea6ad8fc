"""Links between parts, round by round."""

import numpy as np
import pytest

from outtrees.candidates.links import linked, parts_of


def chain(child, parent, parts):
    """Link the first record of each closed part but the first to the record before it."""
    first = [np.flatnonzero(parts.part == p)[0] for p in np.flatnonzero(parts.closed)]
    more = np.sort(first)[1:]
    return more, more - 1


@pytest.mark.parametrize("most_rounds", [None, 0, 1])
def test_rounds_go_on_until_nothing_is_added(most_rounds):
    child, parent = np.array([0, 1, 2, 3, 4, 5]), np.array([1, 0, 3, 2, 5, 4])
    found = linked(child, parent, 6, chain, most_rounds)
    added = [] if most_rounds == 0 else [(2, 1), (4, 3)]
    edges = [*zip(child.tolist(), parent.tolist(), strict=True), *added]
    assert list(zip(*(side.tolist() for side in found), strict=True)) == edges


def test_records_without_candidates_are_parts_of_their_own():
    found = parts_of(np.zeros(0, dtype=int), np.zeros(0, dtype=int), 3)
    assert sorted(found.part.tolist()) == [0, 1, 2]
    assert found.closed.all()
