"""Groups of columns that mutate independently, each with a posterior of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from outtrees._common.types import Array
from outtrees.models.conjugate.base import Posterior
from outtrees.models.grouped import Grouped
from outtrees.models.product import ProductMutation


@dataclass(frozen=True, eq=False, repr=False)
class ProductPosterior(Grouped, Posterior):
    """p(child | parent) = Π_g p_g(columns g of the child | columns g of the parent).

    Groups have independent priors, so their posteriors are independent given the trees.

    Parameters
    ----------
    groups : sequence of (posterior, columns), or one posterior
        Columns are positions in the records; each column belongs to exactly one group. One
        posterior alone stands for a copy of it for every column.

    Examples
    --------
    >>> from outtrees.models.conjugate import GaussianPosterior, PoissonPosterior
    >>> X = np.column_stack([[0.1, 1.2, 0.7, 0.5], [3, 0, 1, 2]])
    >>> groups = [(GaussianPosterior(), [0]), (PoissonPosterior(), [1])]
    >>> ProductPosterior(groups).start(X).expected_log_conditional(X, X).shape
    (4, 4)
    """

    _family: ClassVar[type] = Posterior
    groups: Sequence[tuple[Posterior, Sequence[int]]] | Posterior = ()
    _: KW_ONLY
    parts: Any = field(default=None, repr=False)  # posteriors, one per group

    # Logs and divergences add --------------------------------------------------------------------

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        pairs = self._each(children, parents)
        return sum(part._expected_log_conditional(c, p) for part, c, p in pairs)

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        return sum(part._log_predictive(c, p) for part, c, p in self._each(children, parents))

    def _expected_log_child(self, children: Array) -> Array:
        return sum(part._expected_log_child(c) for part, c in self._each(children))

    def _log_predictive_child(self, children: Array) -> Array:
        return sum(part._log_predictive_child(c) for part, c in self._each(children))

    def _log_root(self, X: Array) -> Array:
        return sum(part._log_root(block) for part, block in self._each(X))

    def _kl(self) -> float:
        return sum(part._kl() for part in self.parts)

    # Statistics stand side by side ---------------------------------------------------------------

    @property
    def statistics(self) -> Array:
        """The statistics of all groups."""
        return np.concatenate([part.statistics for part in self.parts])

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        pairs = self._each(children, parents)
        return np.concatenate([part._statistics_of(c, p, weights) for part, c, p in pairs])

    def _statistics_of_children(self, children: Array, weights: Array) -> Array:
        pairs = self._each(children)
        return np.concatenate([part._statistics_of_children(c, weights) for part, c in pairs])

    def _update(self, X: Array, edge_marginals: Array) -> Self:
        parts = [part._update(block, edge_marginals) for part, block in self._each(X)]
        return replace(self, parts=tuple(parts))

    def _with_statistics(self, statistics: Array) -> Self:
        ends = np.cumsum([len(part.statistics) for part in self.parts])[:-1]
        blocks = np.split(statistics, ends)
        parts = [p._with_statistics(b) for p, b in zip(self.parts, blocks, strict=True)]
        return replace(self, parts=tuple(parts))

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> ProductMutation:
        drawn = []
        for part, columns in zip(self.parts, self._columns, strict=True):
            drawn.append(part._draw(rng, None if root_record is None else root_record[columns]))
        groups = list(zip(drawn, self._columns, strict=True))
        return replace(ProductMutation(groups), parts=tuple(drawn))

    def _log_prior_ratio(self, mutation: ProductMutation) -> float:
        pairs = zip(self.parts, mutation.parts, strict=True)
        return sum(part._log_prior_ratio(theta) for part, theta in pairs)
