"""
Write your own column kind: directions
======================================

For those who extend the library. A column whose cells are directions (the heading of a cell, of a bird, of a
flight) is neither a number nor a category: 359° is next to 1°. One class teaches the library how such a cell
changes from parent to child. It then works in tables, densities, labels, imputation and Bayesian fits.
"""

# %%
# The change
# ----------
# A child's direction is its parent's plus a turn from a von Mises distribution with concentration κ. Over k
# unobserved links turns add up; the sum is close to the von Mises distribution with mean resultant length
# A(κ)ᵏ. Without a parent a direction is uniform.
#
# A `CellKernel` says
#
# - what of a pair of cells matters (`_joined`: the turn),
# - its log-density (`_log_pairs`), and that of a cell without a parent (`_log_cell`),
# - its parameters, free of constraints (`params`, `with_params`), where to start, and their prior,
# - how to draw cells, which hidden cells are possible (`states`), and itself in words (`describe`).
#
# Slopes are found by differences unless you write them.

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import i0e, i1e

from outtrees.models.column import CellKernel


@dataclass(frozen=True, eq=False)
class Heading(CellKernel):
    """A direction in radians that turns by a von Mises angle in each link."""

    log_kappa: float = 1.0

    def _kappa(self, k):
        """Return the concentration of k turns: its mean resultant length is A(κ)ᵏ."""
        kappa = np.exp(self.log_kappa)
        if k == 1:
            return kappa
        length = (i1e(kappa) / i0e(kappa)) ** k
        return brentq(lambda c: i1e(c) / i0e(c) - length, 1e-9, kappa)

    def _joined(self, x, y):
        return np.mod(x - y + np.pi, 2 * np.pi) - np.pi

    def _log_pairs(self, cells, k, elapsed):
        kappa = self._kappa(k)
        return kappa * (np.cos(cells[:, 0]) - 1) - np.log(2 * np.pi * i0e(kappa))

    def _log_cell(self, x):
        return np.full(len(x), -np.log(2 * np.pi))

    def start(self, values):
        return replace(self, log_kappa=1.0)

    @property
    def params(self):
        return np.array([self.log_kappa])

    def with_params(self, params):
        return replace(self, log_kappa=float(np.clip(params[0], -5, 8)))

    def log_prior(self):
        return -0.5 * ((self.log_kappa - 1) / 2) ** 2

    def sample(self, parents, k, rng):
        return np.mod(parents + rng.vonmises(0.0, self._kappa(k), parents.shape), 2 * np.pi)

    def sample_alone(self, n, rng):
        return rng.uniform(0, 2 * np.pi, size=(n, 1))

    def states(self, values):
        return np.arange(90) * (2 * np.pi / 90), np.full(90, 2 * np.pi / 90)

    def describe(self):
        return f"a link turns it by a von Mises angle with κ = {np.exp(self.log_kappa):.3g}"


# %%
# Checks
# ------
# Before anything else: densities must integrate to one, and draws must follow them.

turns = np.linspace(-np.pi, np.pi, 2001)[:, None]
for k in (1, 2, 3):
    total = np.trapezoid(np.exp(Heading(1.5)._log_pairs(turns, k, None)), turns[:, 0])
    print(f"{k} links: the density integrates to {total:.6f}")
drawn = Heading(1.5).sample(np.zeros((20_000, 1)), 1, np.random.default_rng(0))
kappa = np.exp(1.5)
print(f"mean cosine of draws {np.cos(drawn).mean():.3f}, expected {i1e(kappa) / i0e(kappa):.3f}")

# %%
# Use in a table
# --------------
# Sixty migrating cells inherit their heading from eight founders; the truth is drawn from the kind itself.

from outtrees import Ancestry

rng = np.random.default_rng(1)
parent, heading, day = [], [], []
for i in range(60):
    parent.append(-1 if i < 8 else int(rng.integers(max(0, i - 16), i)))
    if i < 8:
        heading.append(Heading().sample_alone(1, rng))
        day.append(float(rng.uniform(0, 2)))
    else:
        heading.append(Heading(4.0).sample(heading[parent[i]], 1, rng))
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
# Wrapped in a `ColumnMutation` the kind serves every estimator of rows of numbers.

from outtrees import OutTreeDensity
from outtrees.models import ColumnMutation

density = OutTreeDensity(ColumnMutation(Heading())).fit(np.concatenate(heading))
# sphinx_gallery_thumbnail_number = 2
density.plot()

# %%
# A kind of the package
# ---------------------
# ``docs/architecture.md`` lists the places: the kind's name in ``records/column.py``, how it is recognised in
# ``records/kinds.py``, one branch in ``ancestry/columns.py``, one line in ``io/model_classes.py``, and one in
# ``tests/models/test_kinds.py``, which then checks it against enumeration, quadrature and simulation like all others.
