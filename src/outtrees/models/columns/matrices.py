"""Matrices: what is known of pairs of records as such, distances or ready log-weights."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from outtrees._common.types import Array
from outtrees.models.column import ColumnKernel, Index, Learned, Quantity
from outtrees.models.priors import LogInverseGamma


@dataclass(frozen=True, eq=False)
class Distances(ColumnKernel):
    """Distances between records: Gamma(k, scale) at k links, an exponential at one.

    The cells of this column are the records' positions in the matrix.

    Parameters
    ----------
    matrix : array of shape (T, T)
        [child, parent]; NaN where unknown.

    Notes
    -----
    A distance says nothing of where a record lies, so a record without a parent gets the density
    that the exponential of all distances has at its mean.
    """

    matrix: Any = field(default=None, repr=False)  # (T, T)
    _: KW_ONLY
    scale: float = 1.0
    typical: float = 1.0

    def start(self, values: Array) -> Self:
        """Return the kernel whose scale is the mean distance to the nearest record."""
        matrix = np.asarray(self.matrix, dtype=np.float64)
        others = np.where(np.eye(len(matrix), dtype=bool) | np.isnan(matrix), np.inf, matrix)
        known = others[np.isfinite(others)]
        typical = float(known.mean()) if len(known) and known.mean() > 0 else 1.0
        nearest = others.min(axis=1)
        near = float(nearest[np.isfinite(nearest)].mean()) if np.isfinite(nearest).any() else 0.0
        return replace(self, scale=max(near, 1e-3 * typical), typical=typical)

    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> Array:
        """Return the distance of each edge (E,)."""
        rows, columns = children[child, 0], parents[parent, 0]
        return np.asarray(self.matrix)[rows.astype(np.intp), columns.astype(np.intp)]

    def unknown_parents(self, pairs: Array) -> NDArray[np.bool_]:
        """Return which distances are unknown (E,)."""
        return np.isnan(pairs)

    def log_steps(self, pairs: Array, k: int, elapsed: Array | None = None) -> Array:
        """Return the log-density of each distance at k links, 0 where unknown (E,)."""
        with np.errstate(divide="ignore"):
            grown = (k - 1) * np.log(pairs) if k > 1 else 0.0
        value = grown - pairs / self.scale - k * np.log(self.scale) - gammaln(k)
        return np.where(np.isnan(pairs), self._log_alone, value)

    @property
    def _log_alone(self) -> float:
        return -float(np.log(self.typical)) - 1.0

    def log_alone(self, values: Array) -> Array:
        """Return the density of a typical distance, for each record (n,)."""
        return np.full(len(values), self._log_alone)

    def learned(self) -> list[Learned]:
        """Return the scale, with its inverse-gamma."""
        return [Learned("scale", LogInverseGamma(1.0, 0.1 * self.typical), "positive")]

    def slopes(self, pairs: Array, weights: Array, elapsed: Array | None = None) -> Array:
        """Return ∂/∂ log scale of Σ weights · log_steps: Σ w (distance / scale − k)."""
        known = ~np.isnan(pairs)
        links = np.arange(1, len(weights) + 1)[:, None]
        return np.array([(weights[:, known] * (pairs[known] / self.scale - links)).sum()])

    def start_grid(self) -> list[Array]:
        """Return scales from a thousandth of the mean distance up to it."""
        return [np.array([np.log(self.typical) + step]) for step in (-7.0, -5.0, -3.0, -2.0, -1.0)]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> NoReturn:
        """Refuse: distances to records that do not exist cannot be drawn."""
        raise ValueError("records known by their distances cannot be simulated; give columns")

    def sample_alone(self, n: int, rng: np.random.Generator) -> NoReturn:
        """Refuse, likewise."""
        raise ValueError("records known by their distances cannot be simulated; give columns")

    def quantities(self) -> list[Quantity]:
        """Return the mean distance of a link."""
        return [Quantity("mean", self.scale, "column")]

    def describe(self) -> str:
        """Return the mean distance of a link."""
        return f"a child is {self.scale:.3g} from its parent on average"


@dataclass(frozen=True, eq=False)
class GivenWeights(ColumnKernel):
    """Log-weights that the user computed: nothing is learned.

    Parameters
    ----------
    matrix : array of shape (T, T)
        log p(child | parent), [child, parent]; −inf forbids.
    """

    contrasted = False  # as given, they count in full

    matrix: Any = field(default=None, repr=False)

    def start(self, values: Array) -> Self:
        """Return the kernel as it is."""
        return self

    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> Array:
        """Return the log-weight of each edge (E,)."""
        rows, columns = children[child, 0], parents[parent, 0]
        return np.asarray(self.matrix)[rows.astype(np.intp), columns.astype(np.intp)]

    def log_steps(self, pairs: Array, k: int, elapsed: Array | None = None) -> Array:
        """Return the log-weights for one link; more links are impossible (E,)."""
        return pairs if k == 1 else np.full(len(pairs), -np.inf)

    def log_alone(self, values: Array) -> Array:
        """Return 0 for each record (n,): all roots are alike."""
        return np.zeros(len(values))

    def slopes(self, pairs: Array, weights: Array, elapsed: Array | None = None) -> Array:
        """Return no slopes: nothing is learned."""
        return np.empty(0)

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> NoReturn:
        """Refuse: weights say nothing of records that do not exist."""
        raise ValueError("records known by their weights cannot be simulated; give columns")

    def sample_alone(self, n: int, rng: np.random.Generator) -> NoReturn:
        """Refuse, likewise."""
        raise ValueError("records known by their weights cannot be simulated; give columns")

    def describe(self) -> str:
        """Return where the weights came from."""
        return "weights as given"
