"""A mutation as hidden cells see it: kinds of links, linear in some columns, tables in others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.models import ColumnMutation, MixtureMutation, ProductMutation
from outtrees.models.base import Mutation
from outtrees.models.covariance import cholesky, inverse, log_normal

Blocks = list[tuple[Any, list[int]]]  # mutations with parameters, and their columns


@dataclass(frozen=True)
class LinearEdges:
    """K kinds of links: child = transition · parent + offset + N(0, cov).

    A root is a link of a kind whose transition is zero: offset and cov are then the mean and
    covariance of the root.
    """

    transition: Array  # (K, D, D) [child, parent]
    offset: Array  # (K, D)
    cov: Array  # (K, D, D)

    @cached_property
    def precision(self) -> Array:
        """Inverses of the covariances, (K, D, D)."""
        return np.array([inverse(cov) for cov in self.cov]).reshape(self.cov.shape)

    @cached_property
    def pulled(self) -> Array:
        """Precision times transition, (K, D, D)."""
        return self.precision @ self.transition

    @cached_property
    def pulled_back(self) -> Array:
        """What a child says of its parent's precision: Aᵀ P A, (K, D, D)."""
        return np.swapaxes(self.transition, 1, 2) @ self.pulled

    @cached_property
    def log_precision(self) -> Array:
        """Log determinants of the precisions, (K,)."""
        factors = [cholesky(cov, "mutation_cov") for cov in self.cov]
        return np.array([-2.0 * np.log(np.diag(factor)).sum() for factor in factors])


class Regressions(NamedTuple):
    """Hidden cells of records regressed on the observed ones, for each of some covariances."""

    whitener: Array  # (…, n, D, D) B with B Bᵀ = inverse of the observed part of cov, else zero
    gain: Array  # (…, n, D, D) hidden by observed, else zero
    rest: Array  # (…, n, D, D) covariance left of hidden cells, else zero
    log_constant: Array  # (…, n) of the density of the observed cells

    @classmethod
    def of(cls, cov: Array, hidden: NDArray[np.bool_]) -> Self:
        """Return the regressions of records (n, D) with these hidden cells; cov is (…, D, D)."""
        seen, cov = ~hidden, cov[..., None, :, :]
        both = seen[:, :, None] & seen[:, None, :]
        root = np.linalg.cholesky(np.where(both, cov, np.eye(hidden.shape[1])))
        whitener = np.swapaxes(np.linalg.inv(root), -1, -2) * both
        half = cov * (hidden[:, :, None] & seen[:, None, :]) @ whitener
        rest = cov * (hidden[:, :, None] & hidden[:, None, :]) - half @ np.swapaxes(half, -1, -2)
        log_size = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        log_constant = -log_size - 0.5 * seen.sum(axis=1) * np.log(2 * np.pi)
        return cls(whitener, half @ np.swapaxes(whitener, -1, -2), rest, log_constant)


@dataclass(frozen=True)
class HiddenModel:
    """p(child | parent) = Σ_k weight_k N(continuous columns) Π_d table_d[child's, parent's value].

    Kinds 0 … K − 1 are links, the kinds after them are those of a root. Categorical cells are
    positions in `levels`, so that records are float arrays throughout.
    """

    mutation: Mutation
    continuous: list[int]
    categorical: list[int]
    levels: list[Array]  # of the categorical columns, (C_d,) each
    log_weights: Array  # (K,)
    log_root_weights: Array  # (R,)
    edges: LinearEdges  # K + R kinds, on the continuous columns
    log_tables: list[Array]  # (K + R, C_d, C_d) [child, parent], one for each categorical column

    @property
    def n_kinds(self) -> int:
        """K, the number of kinds of links."""
        return len(self.log_weights)

    @cached_property
    def parent_free(self) -> NDArray[np.bool_]:
        """Which kinds ignore the parent, (K,)."""
        K = self.n_kinds
        free = ~self.edges.transition[:K].any(axis=(1, 2))
        for table in self.log_tables:
            free &= (table[:K] == table[:K, :, :1]).all(axis=(1, 2))
        return np.asarray(free)

    @cached_property
    def stacked_tables(self) -> Array:
        """The tables of all categorical columns in one array, (E, K + R, C, C), −inf beyond."""
        most = max((len(names) for names in self.levels), default=1)
        result = np.full((len(self.levels), len(self.edges.offset), most, most), -np.inf)
        for d, table in enumerate(self.log_tables):
            C = table.shape[1]
            result[d, :, :C, :C] = table
        return result

    def log_kinds(self, X: Array) -> list[Array]:
        """Return log weight_k p_k(x_u | x_v) of complete records for each kind, [child, parent].

        Of shape (T, T), or (T, 1) for a kind that ignores the parent.
        """
        T = len(X)
        result = []
        cells = X[:, self.continuous]
        codes = X[:, self.categorical].astype(np.intp)
        for k in range(self.n_kinds):
            parents = cells[:1] if self.parent_free[k] else cells
            total = np.full((T, len(parents)), self.log_weights[k])
            if self.continuous:
                means = parents @ self.edges.transition[k].T + self.edges.offset[k]
                total = total + log_normal(cells, means, self.edges.cov[k])
            for d, table in enumerate(self.log_tables):
                by_child = table[k][codes[:, d]]
                total = total + np.take(by_child, codes[: len(parents), d], axis=1)
            result.append(total)
        return result

    def log_chosen(self, X: Array, parents: NDArray[np.intp]) -> Array:
        """Return log weight_k p_k(x_u | its parent) for each record and kind, (T, K + R).

        −inf where a root's kind meets a record with a parent, or the other way round.
        """
        T, K = len(X), self.n_kinds
        kinds = K + len(self.log_root_weights)
        result = np.tile(np.concatenate([self.log_weights, self.log_root_weights]), (T, 1))
        cells = X[:, self.continuous]
        above = cells[parents]
        codes = X[:, self.categorical].astype(np.intp)
        for k in range(kinds):
            if self.continuous:
                error = cells - above @ self.edges.transition[k].T - self.edges.offset[k]
                scatter = np.einsum("ui,ij,uj->u", error, self.edges.precision[k], error)
                constant = self.edges.log_precision[k] - len(self.continuous) * np.log(2 * np.pi)
                result[:, k] += 0.5 * (constant - scatter)
            for d, table in enumerate(self.log_tables):
                result[:, k] += table[k][codes[:, d], codes[parents, d]]
        is_root = parents < 0
        result[is_root, :K] = -np.inf
        result[~is_root, K:] = -np.inf
        return result

    def log_root(self, X: Array) -> Array:
        """Return the log-density of each complete record as a root, (T,)."""
        alone = np.full(len(X), -1)
        return np.asarray(logsumexp(self.log_chosen(X, alone), axis=1))


def hidden_model(mutation: Mutation) -> HiddenModel:
    """Return the mutation as kinds of links; refuse one that cannot be written so.

    Gaussian and categorical mutations are one kind, a product of them too; a mixture has the
    kinds of all its components.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> hidden_model(MixtureMutation().start(X, 0)).n_kinds
    2
    """
    kinds = _kinds(mutation)
    roots = _kinds(mutation, roots=True)
    first = kinds[0][1]
    continuous = sorted(c for part, columns in first for c in columns if _linear(part))
    categorical = sorted(c for part, columns in first for c in columns if not _linear(part))
    for _, blocks in kinds:
        if sorted(c for part, columns in blocks for c in columns if _linear(part)) != continuous:
            raise ValueError(
                "hidden cells need components that agree on which columns are continuous; use "
                "GaussianMutation and CategoricalMutation on the same columns in each of them."
            )
    D, both = len(continuous), [*kinds, *roots]
    transition, offset = np.zeros((len(both), D, D)), np.zeros((len(both), D))
    cov = np.zeros((len(both), D, D))
    levels: dict[int, Array] = {}
    tables: dict[int, list[Array]] = {c: [] for c in categorical}
    for k, (_, blocks) in enumerate(both):
        is_root = k >= len(kinds)
        for part, columns in blocks:
            if _linear(part):
                at = [continuous.index(c) for c in columns]
                if is_root:
                    part._require_root()
                    offset[k, at], cov[k][np.ix_(at, at)] = part.root_mean, part.root_cov
                else:
                    transition[k][np.ix_(at, at)] = part.transition_matrix
                    offset[k, at], cov[k][np.ix_(at, at)] = part.offset, part.mutation_cov
                continue
            for d, c in enumerate(columns):
                levels[c] = part.levels[d]
                marginal = np.repeat(part.marginals[d][:, None], len(part.levels[d]), axis=1)
                tables[c].append(marginal if is_root else part.matrices[d])
    with np.errstate(divide="ignore"):
        log_tables = [np.log(np.array(tables[c])) for c in categorical]
    return HiddenModel(
        mutation=mutation,
        continuous=continuous,
        categorical=categorical,
        levels=[levels[c] for c in categorical],
        log_weights=np.array([w for w, _ in kinds]),
        log_root_weights=np.array([w for w, _ in roots]),
        edges=LinearEdges(transition, offset, cov),
        log_tables=log_tables,
    )


def continuous_columns(mutation: Any, D: int) -> list[int]:
    """Return the columns of D that Gaussians describe, also before `start`."""
    if isinstance(mutation, MixtureMutation):
        return continuous_columns((mutation.parts or mutation._templates())[0], D)
    if isinstance(mutation, ProductMutation):
        if isinstance(mutation.groups, Mutation):
            return continuous_columns(mutation.groups, D)
        groups = zip(mutation._templates, mutation._columns, strict=True)
        return sorted(own[c] for part, own in groups for c in continuous_columns(part, len(own)))
    return list(range(D)) if _linear(mutation) else []


def check_columns(mutation: Mutation, D: int, categorical: list[int]) -> None:
    """Refuse a mutation whose continuous columns are not those of the table."""
    expected = [c for c in range(D) if c not in categorical]
    found = continuous_columns(mutation, D)
    if found != expected:
        raise ValueError(
            f"{type(mutation).__name__} takes the columns {found} as continuous, but those of the "
            f"table are {expected}; name the categorical columns in categorical, or use a "
            "ProductMutation with a group for each kind."
        )


def on_states(
    mutation: Mutation,
    cells: NDArray[Any],  # (T, D)
    categorical: list[int],
) -> tuple[Mutation, dict[int, Array]]:
    """Return the mutation for cells that are codes, and what the codes of each column stand for.

    Concerns the kinds of columns that are summed over a grid (`ColumnMutation`) and are not given
    as categories already.
    """
    points: dict[int, Array] = {}

    def moved(part: Any, columns: list[int]) -> Any:
        if isinstance(part, MixtureMutation) and part.components is not None:
            return replace(part, components=[moved(c, columns) for c in part.components])
        if isinstance(part, ProductMutation):
            groups = part.groups
            if isinstance(groups, Mutation):
                groups = [(groups, [d]) for d in range(len(columns))]
            inner = [(one, np.atleast_1d(own).tolist()) for one, own in groups]
            return ProductMutation(
                [(moved(one, [columns[c] for c in own]), own) for one, own in inner]
            )
        if not isinstance(part, ColumnMutation) or columns[0] in categorical:
            return part
        part = part.on_states(cells[:, columns].astype(np.float64))
        points[columns[0]] = part.points
        return part

    return moved(mutation, list(range(cells.shape[1]))), points


def _linear(part: Mutation) -> bool:
    return part.hidden_cells == "linear"


def _kinds(mutation: Any, *, roots: bool = False) -> list[tuple[float, Blocks]]:
    """Return (log weight, blocks) for each kind of link, or of root."""
    if not isinstance(mutation, MixtureMutation):
        return [(0.0, _blocks(mutation))]
    weighed = list(zip(mutation.log_weights, mutation.parts, strict=True))
    if roots:
        weights = zip(mutation.root_weights, mutation.parts, strict=True)
        weighed = [(np.log(w), part) for w, part in weights if w > 0]
    kinds = ((w, inner) for w, part in weighed for inner in _kinds(part, roots=roots))
    return [(float(w + inner), blocks) for w, (inner, blocks) in kinds]


def _blocks(mutation: Any) -> Blocks:
    if mutation.hidden_cells is not None:
        return [(mutation, list(range(mutation.n_features or 0)))]
    if isinstance(mutation, ProductMutation):
        groups = zip(mutation.parts, mutation._columns, strict=True)
        return [
            (inner, [columns[c] for c in own])
            for part, columns in groups
            for inner, own in _blocks(part)
        ]
    raise ArgumentError(
        "hidden cells can be integrated out for Gaussian and categorical mutations, their products "
        f"and mixtures of these; got {mutation!r}. Use one of these, for instance ",
        Option("mutation", "mixture"),
        ".",
    )
