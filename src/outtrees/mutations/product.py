"""Product mutation: groups of columns that mutate independently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from outtrees.mutations.base import Mutation
from outtrees.mutations.checks import Array
from outtrees.mutations.grouped import Grouped


@dataclass(frozen=True, eq=False, repr=False)
class ProductMutation(Grouped, Mutation):
    """p(child | parent) = Π_g p_g(columns g of the child | columns g of the parent).

    Parameters
    ----------
    groups : sequence of (mutation, columns), or one mutation
        Columns are positions in the records; each column belongs to exactly one group. One
        mutation alone stands for a copy of it for every column.

    Notes
    -----
    The columns of a child mutate independently, yet they share the parent: given all records,
    columns depend on each other through it.

    Examples
    --------
    >>> from outtrees.mutations import GaussianMutation, PoissonMutation
    >>> X = np.column_stack([[0.1, 1.2, 0.7, 0.5], [3, 0, 1, 2]])
    >>> mutation = ProductMutation([(GaussianMutation(), [0]), (PoissonMutation(), [1])]).start(X)
    >>> mutation.log_conditional(X, X).shape
    (4, 4)
    """

    _family: ClassVar[type] = Mutation
    groups: Sequence[tuple[Mutation, Sequence[int]]] | Mutation = ()
    _: KW_ONLY
    parts: Any = field(default=None, repr=False)  # mutations with parameters, one per group

    # Densities and samples: logs add, columns are put side by side -------------------------------

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        return sum(part._log_conditional(c, p) for part, c, p in self._each(children, parents))

    def _log_child(self, children: Array) -> Array:
        return sum(part._log_child(c) for part, c in self._each(children))

    def _log_root(self, X: Array) -> Array:
        return sum(part._log_root(block) for part, block in self._each(X))

    def _joined(self, blocks: list[Array]) -> Array:
        result = np.empty((len(blocks[0]), self.n_features or 0))
        for columns, block in zip(self._columns, blocks, strict=True):
            result[:, columns] = block
        return result

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        return self._joined([part._sample(block, rng) for part, block in self._each(parents)])

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        return self._joined([part._sample_root(n, rng) for part in self.parts])

    # Learning: parameters and objective fall apart by group --------------------------------------

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        parts = [part._refit(block, edge_marginals) for part, block in self._each(X)]
        return replace(self, parts=tuple(parts))

    def _refit_children(self, X: Array, weights: Array) -> Self:
        parts = [part._refit_children(block, weights) for part, block in self._each(X)]
        return replace(self, parts=tuple(parts))

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return np.concatenate([part._gradient(b, edge_marginals) for part, b in self._each(X)])

    def _gradient_children(self, X: Array, weights: Array) -> Array:
        return np.concatenate([part._gradient_children(b, weights) for part, b in self._each(X)])

    def _params(self) -> Array:
        return np.concatenate([part.params for part in self.parts])

    def _with_params(self, params: Array) -> Self:
        ends = np.cumsum([part.n_parameters for part in self.parts])[:-1]
        blocks = np.split(params, ends)
        parts = [part.with_params(b) for part, b in zip(self.parts, blocks, strict=True)]
        return replace(self, parts=tuple(parts))

    def _log_prior(self) -> float:
        return sum(part.log_prior() for part in self.parts)
