"""Groups of columns, each with a model of its own: what products of models share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from outtrees._common.edges import EdgeList, Ints
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Mutation, named_parts
from outtrees.models.posterior import Posterior


class Grouped:
    """A product over groups of columns, for mutations and for posteriors alike.

    A product is a frozen dataclass with the fields `groups`, (model, columns) pairs or one model
    that stands for a copy of it for every column, and `parts`, the started models, one per group.
    """

    _family: ClassVar[type]  # what the models are
    groups: Any
    parts: Any

    def __post_init__(self) -> None:
        if isinstance(self.groups, self._family):
            return
        owner, family = type(self).__name__, self._family.__name__
        columns: list[Any] = []
        for group in self.groups:
            pair = isinstance(group, tuple) and len(group) == 2
            if not (pair and isinstance(group[0], self._family)):
                raise ValueError(
                    f"{owner} expects groups as ({family.lower()}, columns) pairs; got "
                    f"{group!r}; write for example (Gaussian{family}(), [0, 1])."
                )
            columns.extend(np.atleast_1d(np.asarray(group[1])).tolist())
        whole = all(isinstance(c, int) and not isinstance(c, bool) for c in columns)
        if not columns or not whole or sorted(columns) != list(range(len(columns))):
            raise ValueError(
                f"{owner} expects each of the columns 0, 1, ..., D − 1 in exactly one "
                f"group, but the groups hold {columns}; list every column once."
            )

    @property
    def _templates(self) -> list[Any]:
        if isinstance(self.groups, self._family):
            return [self.groups]
        return [model for model, _ in self.groups]

    @property
    def _columns(self) -> list[list[int]]:
        return [np.atleast_1d(np.asarray(columns)).tolist() for _, columns in self.groups]

    def _start(self, X: Array, random_state: Any) -> Self:
        if isinstance(self.groups, self._family):
            each: Sequence[Any] = [(self.groups, [d]) for d in range(X.shape[1])]
            return replace(self, groups=each)._start(X, random_state)  # type: ignore[type-var]
        D = sum(len(columns) for columns in self._columns)
        if X.shape[1] != D:
            raise ValueError(
                f"{type(self).__name__} knows {D} columns, but X has {X.shape[1]}; put every "
                "column of X in a group."
            )
        rng = as_generator(random_state)
        parts = [
            model.start(X[:, columns], rng)
            for model, columns in zip(self._templates, self._columns, strict=True)
        ]
        return replace(self, parts=tuple(parts))  # type: ignore[type-var]

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.parts is None else sum(len(columns) for columns in self._columns)

    @property
    def allows_missing(self) -> bool:
        """Whether some part accepts NaN cells; each decides for its own columns."""
        return any(model.allows_missing for model in self._templates)

    @property
    def parent_free(self) -> bool:
        """Whether all parts ignore the parent."""
        return all(model.parent_free for model in self._templates)

    def _each(self, *arrays: Array) -> list[tuple[Any, ...]]:
        """Return (part, its columns of each array) for each group."""
        return [
            (part, *[array[:, columns] for array in arrays])
            for part, columns in zip(self.parts, self._columns, strict=True)
        ]

    def _check_values(self, X: Array, name: str) -> None:
        if self.parts is not None:
            for part, block in self._each(X):
                part._checked(block, name)


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
    >>> from outtrees.models import GaussianMutation, PoissonMutation
    >>> X = np.column_stack([[0.1, 1.2, 0.7, 0.5], [3, 0, 1, 2]])
    >>> mutation = ProductMutation([(GaussianMutation(), [0]), (PoissonMutation(), [1])]).start(X)
    >>> mutation.log_conditional(X, X).shape
    (4, 4)
    """

    _family: ClassVar[type] = Mutation
    groups: Sequence[tuple[Mutation, Sequence[int]]] | Mutation = ()
    _: KW_ONLY
    parts: Any = field(default=None, repr=False)  # mutations with parameters, one per group

    def _named(self) -> dict[str, Array]:
        return named_parts(self.parts)

    # Densities and samples: logs add, columns are put side by side -------------------------------

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        return np.asarray(
            sum(part._log_conditional(c, p) for part, c, p in self._each(children, parents))
        )

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        blocks = self._each(children, parents)
        return np.asarray(sum(part._log_edges(c, p, child, parent) for part, c, p in blocks))

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        return np.asarray(
            sum(part._log_by_class(x, weights, r) for part, x, r in self._each(X, records))
        )

    def _log_anywhere(self, children: Array) -> Array | None:
        parts = [part._log_anywhere(block) for part, block in self._each(children)]
        return None if any(log_f is None for log_f in parts) else sum(parts)

    def _gains(self, children: Array, parents: Array, child: Ints, parent: Ints) -> list[Array]:
        """Return log(p_g / f_g) of listed pairs for each group, all ≥ 0."""
        gains = []
        for part, c, p in self._each(children, parents):
            log_ratio = part._log_excess(c, p, child, parent) - part._log_anywhere(c)[child]
            gains.append(np.logaddexp(0.0, log_ratio))
        return gains

    def _log_excess(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        log_f = None if self.parent_free else self._log_anywhere(children)
        if log_f is None:
            return super()._log_excess(children, parents, child, parent)
        # Π p_g − Π f_g without a difference of like numbers: all gains are positive.
        gain = np.sum(self._gains(children, parents, child, parent), axis=0)
        return log_f[child] + _log_expm1(gain)

    def _embeddings(self, children: Array, parents: Array) -> list[tuple[Array, Array]] | None:
        spaces = []
        for part, c, p in self._each(children, parents):
            found = part._embeddings(c, p)
            # Distances add over groups; sums of several components do not factor.
            if found is None or len(found) > 1 or (found and part._log_anywhere(c[:1]) is not None):
                return None
            spaces += found
        if not spaces:
            return []
        return [tuple(np.hstack(side) for side in zip(*spaces, strict=True))]  # type: ignore[list-item]

    def _log_root(self, X: Array) -> Array:
        return np.asarray(sum(part._log_root(block) for part, block in self._each(X)))

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

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return np.concatenate([part._gradient(b, edge_marginals) for part, b in self._each(X)])

    def _split_shares(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> list[tuple[Any, ...]]:
        """Return (part, its columns, edges, weights of its log e and log f) for each group.

        With gains r_g = log(p_g / f_g) and R their sum, a pair whose group g is not from anywhere
        has the share (1 − e^−r_g) / (1 − e^−R) of the excess, and one whose group g is from
        anywhere, while another is not, the rest of it.
        """
        if anywhere is None:  # some group always depends on the parent
            return [
                (part, *part._split(block, edges.child, edges.parent, excess))
                for part, block in self._each(X)
            ]
        gains = self._gains(X, X, edges.child, edges.parent)
        whole = np.sum(gains, axis=0)
        used = whole > 0
        result = []
        for (part, block), gain in zip(self._each(X), gains, strict=True):
            share = np.divide(
                np.expm1(-gain), np.expm1(-whole), out=np.zeros_like(whole), where=used
            )
            elsewhere = edges.by_child(excess * (1.0 - share))
            result.append((part, block, edges, excess * share, anywhere + elsewhere))
        return result

    def _refit_split(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> Self:
        shares = self._split_shares(X, edges, excess, anywhere)
        return replace(self, parts=tuple(part._refit_split(*share) for part, *share in shares))

    def _gradient_split(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> Array:
        shares = self._split_shares(X, edges, excess, anywhere)
        return np.concatenate([part._gradient_split(*share) for part, *share in shares])

    def _params(self) -> Array:
        return np.concatenate([part.params for part in self.parts])

    def _with_params(self, params: Array) -> Self:
        ends = np.cumsum([part.n_parameters for part in self.parts])[:-1]
        blocks = np.split(params, ends)
        parts = [part.with_params(b) for part, b in zip(self.parts, blocks, strict=True)]
        return replace(self, parts=tuple(parts))

    def _log_prior(self) -> float:
        return float(sum(part.log_prior() for part in self.parts))


def _log_expm1(x: Array) -> Array:
    """Return log(e^x − 1) for x ≥ 0, −inf at 0.

    Examples
    --------
    >>> _log_expm1(np.array([0.0, np.log(2.0), 800.0]))
    array([-inf,   0., 800.])
    """
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-x))


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
        return np.asarray(sum(part._expected_log_conditional(c, p) for part, c, p in pairs))

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        return np.asarray(
            sum(part._log_predictive(c, p) for part, c, p in self._each(children, parents))
        )

    def _log_root(self, X: Array) -> Array:
        return np.asarray(sum(part._log_root(block) for part, block in self._each(X)))

    def _kl(self) -> float:
        return float(sum(part._kl() for part in self.parts))

    # Statistics stand side by side ---------------------------------------------------------------

    @property
    def statistics(self) -> Array:
        """The statistics of all groups."""
        return np.concatenate([part.statistics for part in self.parts])

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        pairs = self._each(children, parents)
        return np.concatenate([part._statistics_of(c, p, weights) for part, c, p in pairs])

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
        return float(sum(part._log_prior_ratio(theta) for part, theta in pairs))
