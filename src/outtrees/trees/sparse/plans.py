"""The plan of an elimination, kept for the next one over the same edges.

In EM the weights of a fixed list change at every iteration and its pattern does not. The plan is
most of the work there (METIS above all), and depends on the pattern alone but for one thing: which
node leaves last where there is one root. So a plan carries what it was made for, and is taken again
only where that is the same, array by array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outtrees.trees.sparse.components import Inner
from outtrees.trees.sparse.fronts import Dissection, Fronts, dissect, lay_out
from outtrees.trees.weights import Ints


@dataclass(frozen=True)
class Plan:
    """The fronts of one problem, and what they depend on."""

    dissection: Dissection
    last: Ints  # (C,) the node that leaves last in each component, −1 if it does not matter
    fronts: Fronts


def planned(inner: Inner, earlier: Plan | None = None) -> Plan:
    """Return the plan of a problem; of an ``earlier`` one what still holds. The same either way."""
    last = _last(inner)
    if earlier is None or not _same_pattern(inner, earlier.dissection):
        dissection = dissect(inner.first, inner.column, inner.component_first)
    elif np.array_equal(last, earlier.last):
        return earlier
    else:
        dissection = earlier.dissection
    return Plan(dissection, last, lay_out(dissection, last))


def _last(inner: Inner) -> Ints:
    """Return who leaves last: a record in the densest place, see ``OutTreeDistribution``'s anchor.

    It matters in components with one root only.
    """
    last = np.full(len(inner.single), -1, dtype=np.intp)
    for c in np.flatnonzero(inner.single):
        lo, hi = inner.component_first[c : c + 2]
        last[c] = lo + int(inner.log_scale[lo:hi].argmax())
    return last


def _same_pattern(inner: Inner, earlier: Dissection) -> bool:
    """Return whether the possible edges within components are those of the earlier problem."""
    return (
        np.array_equal(inner.first, earlier.first)
        and np.array_equal(inner.component_first, earlier.component_first)
        and np.array_equal(inner.column, earlier.column)
    )
