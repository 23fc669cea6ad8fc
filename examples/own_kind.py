"""
Write your own column kind: directions
======================================

For those who extend the library. A direction, such as the heading of a cell or a bird, is neither a number nor a
category: 359° is next to 1°. One class describes how such a cell changes from parent to child. It then works in
tables, densities, labels, imputation and Bayesian fits.
"""

# %%
# The change
# ----------
# A child's direction is its parent's plus a turn from a von Mises distribution with concentration κ. The turns of k
# links add up; their sum is close to the von Mises distribution with mean resultant length A(κ)ᵏ. A direction
# without a parent is uniform.
#
# A `CellKernel` says
#
# - what it needs to know of a pair of cells (`_joined`: the turn),
# - the log-density of that (`_log_pairs`), and of a cell without a parent (`_log_cell`),
# - the numbers it learns, with their priors (`learned`), and where they start (`start`),
# - how to draw cells, which values an unknown cell may have (`states`), and a description in words.
#
# Derivatives are taken by differences unless you define `slopes`.

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import i0e, i1e

from outtrees.models.column import CellKernel, Learned
from outtrees.models.priors import Normal


@dataclass(frozen=True, eq=False)
class Heading(CellKernel):
    """A direction in radians that turns by a von Mises angle in each link."""

    kappa: float = 3.0

    def _kappa(self, k):
        """Return the concentration of k turns: its mean resultant length is A(κ)ᵏ."""
        if k == 1:
            return self.kappa
        length = (i1e(self.kappa) / i0e(self.kappa)) ** k
        return brentq(lambda c: i1e(c) / i0e(c) - length, 1e-9, self.kappa)

    def _joined(self, x, y):
        return np.mod(x - y + np.pi, 2 * np.pi) - np.pi

    def _log_pairs(self, cells, k, elapsed):
        kappa = self._kappa(k)
        return kappa * (np.cos(cells[:, 0]) - 1) - np.log(2 * np.pi * i0e(kappa))

    def _log_cell(self, x):
        return np.full(len(x), -np.log(2 * np.pi))

    def start(self, values):
        return replace(self, kappa=3.0)

    def learned(self):
        # κ is positive: it is learned as its logarithm, which is about 1 ± 2 beforehand.
        return [Learned("kappa", Normal(1.0, 2.0), "positive")]

    def sample(self, parents, k, rng):
        return np.mod(parents + rng.vonmises(0.0, self._kappa(k), parents.shape), 2 * np.pi)

    def sample_alone(self, n, rng):
        return rng.uniform(0, 2 * np.pi, size=(n, 1))

    def states(self, values):
        return np.arange(90) * (2 * np.pi / 90), np.full(90, 2 * np.pi / 90)

    def describe(self):
        return f"a link turns it by a von Mises angle with κ = {self.kappa:.3g}"


# %%
# Checks
# ------
# Test first that densities integrate to one and that draws follow them.

turns = np.linspace(-np.pi, np.pi, 2001)[:, None]
for k in (1, 2, 3):
    total = np.trapezoid(np.exp(Heading(4.5)._log_pairs(turns, k, None)), turns[:, 0])
    print(f"{k} links: the density integrates to {total:.6f}")
drawn = Heading(4.5).sample(np.zeros((20_000, 1)), 1, np.random.default_rng(0))
print(f"mean cosine of draws {np.cos(drawn).mean():.3f}, expected {i1e(4.5) / i0e(4.5):.3f}")

# %%
# Use in a table
# --------------
# Sixty migrating cells inherit their headings from eight founders. Their true headings are drawn from the kind itself.

from outtrees import Ancestry

rng = np.random.default_rng(1)
parent, heading, day = [], [], []
for i in range(60):
    parent.append(-1 if i < 8 else int(rng.integers(max(0, i - 16), i)))
    if i < 8:
        heading.append(Heading().sample_alone(1, rng))
        day.append(float(rng.uniform(0, 2)))
    else:
        heading.append(Heading(55.0).sample(heading[parent[i]], 1, rng))
        day.append(day[parent[i]] + rng.gamma(4, 0.5))
table = {
    "cell": [f"c{i:02}" for i in range(60)],
    "day": np.round(day, 2),
    "heading": np.concatenate(heading)[:, 0],
}
model = Ancestry(
    id="cell",
    kinds={"day": "date"},
    kernels={"heading": Heading()},
    waiting_mean=2.0,
    waiting_sd=1.0,
    random_state=0,
)
found = model.fit(table)
for sentence in found.describe():
    print("-", sentence)
tree = found.tree()
print(f"{np.sum(tree == parent)} of 60 right; {found.expected_right_:.1f} expected")

# %%
found.plot(color="heading")

# %%
# Use in a density
# ----------------
# In a `ColumnMutation` the kind works in every estimator for arrays.

from outtrees import OutTreeDensity
from outtrees.models import ColumnMutation

density = OutTreeDensity(ColumnMutation(Heading())).fit(np.concatenate(heading))
# sphinx_gallery_thumbnail_number = 2
density.plot()

# %%
# A kind of the package
# ---------------------
# To add a kind to the package, write its name in ``records/column.py``, how it is recognised in ``records/kinds.py``,
# one branch in ``ancestry/columns.py``, one line in ``io/model_classes.py``, and one in ``tests/models/test_kinds.py``,
# which then tests it against enumeration, quadrature and simulation (:doc:`/architecture`).
