"""Categorical mutation: attributes that stick to the parent's value or follow a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, softmax, xlogy

from outtrees._common.arguments import check_number, check_option
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.by_class import shares_by_class
from outtrees.models.edges import Ints


@dataclass(frozen=True, eq=False, repr=False)
class CategoricalMutation(Mutation):
    """Categorical columns, each with a matrix of p(child's value a | parent's value b).

    Cells are numbers that name categories, in float arrays; NaN is a missing cell.

    Parameters
    ----------
    kind : {"sticky", "full"}
        "sticky" has one number s for each column, p(a | b) = s·[a = b] + (1 − s)·marginal_a:
        the child keeps the parent's value, or draws afresh from the marginal. At s = 0 records
        are independent, at s = 1 nothing changes, and the marginal is stationary for every s.
        "full" learns the whole matrix.
    prior_strength : float
        The pseudo-count ν of the priors. "sticky": Beta with mode 1/2,
        log_prior = Σ_d ν/2 · log(4 s (1 − s)). "full": a Dirichlet with mode at the marginal for
        each parent's value, log_prior = −ν Σ_b KL(marginal ‖ p(· | b)), 0 if records are
        independent. ν pseudo-records, spread evenly over the categories, also enter the marginal.
    start_correlation : float in [0, 1]
        The stickiness at `start`, also of "full" matrices; 0 is the iid solution.
    categories : sequence of sequences, optional
        The categories of each column; by default the values found by `start`.

    Notes
    -----
    The marginal is the frequency of each category in the data that `start` saw. It is also the
    root's distribution and is not refitted.

    A missing cell is integrated out, pair by pair: a known child with an unknown parent pays
    log Σ_b marginal_b p(a | b), which for "sticky" is log marginal_a because the marginal is
    stationary; an unknown child pays nothing. This is exact as long as each unknown cell takes
    part in one link; a record with an unknown cell that has both a parent and children links them
    through that cell, which a product of pairs cannot express.

    `refit` is the exact maximiser, save for "full" with missing parents, where it is one step of
    EM.

    Examples
    --------
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> mutation = CategoricalMutation(prior_strength=0).start(X)
    >>> mutation.matrices[0]
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> np.exp(mutation.log_conditional([[0.0]], [[0.0], [1.0], [np.nan]]))
    array([[0.75, 0.25, 0.5 ]])
    """

    kind: str = "sticky"
    prior_strength: float = 1.0
    start_correlation: float = 0.5
    categories: Sequence[Sequence[float]] | None = None
    _: KW_ONLY
    levels: Any = field(default=None, repr=False)  # D arrays (C_d,), sorted
    marginals: Any = field(default=None, repr=False)  # D arrays (C_d,)
    stickiness: Any = field(default=None, repr=False)  # (D,), for "sticky"
    full_matrices: Any = field(default=None, repr=False)  # D arrays (C_d, C_d) [child, parent]

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_option(owner, "kind", self.kind, ("sticky", "full"))
        check_number(owner, "prior_strength", self.prior_strength, 0)
        check_number(owner, "start_correlation", self.start_correlation, 0, 1)

    @property
    def allows_missing(self) -> bool:
        """NaN cells are integrated out."""
        return True

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.levels is None else len(self.levels)

    @property
    def matrices(self) -> tuple[Array, ...]:
        """One matrix p(child's value | parent's value) for each column, [child, parent]."""
        self._require_started()
        if self.kind == "full":
            return self.full_matrices
        return tuple(_sticky(s, m) for s, m in zip(self.stickiness, self.marginals, strict=True))

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        D = X.shape[1]
        if self.categories is not None and len(self.categories) != D:
            raise ValueError(
                f"CategoricalMutation expects categories for each of the {D} columns of X, but got "
                f"{len(self.categories)}; give one sequence for each column."
            )
        levels, marginals = [], []
        for d in range(D):
            present = X[~np.isnan(X[:, d]), d]
            names = np.unique(present if self.categories is None else self.categories[d])
            if len(names) == 0:
                raise ValueError(
                    f"CategoricalMutation expects a value in each column, but column {d} has only "
                    "missing cells; drop the column or give its categories."
                )
            levels.append(names.astype(np.float64))
        found = replace(self, levels=tuple(levels))
        for codes, names in zip(found._codes(X, "X").T, levels, strict=True):
            seen = np.bincount(codes, minlength=len(names) + 1)[:-1]
            counts = seen + self.prior_strength / len(names)
            total = counts.sum()
            marginals.append(counts / total if total > 0 else np.full(len(names), 1 / len(names)))
        s = self.start_correlation
        return replace(
            found,
            marginals=tuple(marginals),
            stickiness=np.full(D, float(s)) if self.kind == "sticky" else None,
            full_matrices=(
                tuple(_sticky(s, m) for m in marginals) if self.kind == "full" else None
            ),
        )

    def _codes(self, X: Array, name: str) -> NDArray[np.intp]:
        """Return the position of each cell's category, one past the end for missing cells."""
        codes = np.empty(X.shape, dtype=np.intp)
        for d, names in enumerate(self.levels):
            missing = np.isnan(X[:, d])
            code = np.minimum(np.searchsorted(names, X[:, d]), len(names) - 1)
            unknown = (names[code] != X[:, d]) & ~missing
            if unknown.any():
                row = np.flatnonzero(unknown)[0]
                raise ValueError(
                    f"CategoricalMutation expects one of {names.tolist()} in column {d}, but "
                    f"{name} has {X[row, d]:g} in row {row}; list it in categories or mark it as "
                    "missing (NaN)."
                )
            codes[:, d] = np.where(missing, len(names), code)
        return codes

    # Densities and samples ---------------------------------------------------------------------

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        child_codes, parent_codes = (
            self._codes(children, "children"),
            self._codes(parents, "parents"),
        )
        result = np.zeros((len(children), len(parents)))
        for d, log_table in enumerate(self._log_tables()):
            result += np.take(log_table[child_codes[:, d]], parent_codes[:, d], axis=1)
        return result

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        child_codes = self._codes(children, "children")
        parent_codes = self._codes(parents, "parents")
        result = np.zeros(len(child))
        for d, log_table in enumerate(self._log_tables()):
            result += log_table[child_codes[child, d], parent_codes[parent, d]]
        return result

    def _log_tables(self) -> Iterator[Array]:
        """Yield log p(a | b) of each column, the last row and column for a missing cell."""
        for matrix, marginal in zip(self.matrices, self.marginals, strict=True):
            C = len(marginal)
            table = np.ones((C + 1, C + 1))
            table[:C, :C] = matrix
            table[:C, C] = matrix @ marginal
            with np.errstate(divide="ignore"):
                yield np.log(table)

    def _log_root(self, X: Array) -> Array:
        result = np.zeros(len(X))
        for codes, marginal in zip(self._codes(X, "X").T, self.marginals, strict=True):
            with np.errstate(divide="ignore"):
                result += np.log(np.append(marginal, 1.0))[codes]
        return result

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        codes, found = self._codes(X, "X"), np.zeros((len(records), weights.shape[1]))
        for d, code in enumerate(self._codes(records, "records").T):
            marginal = self.marginals[d]
            counts = np.zeros((len(marginal) + 1, weights.shape[1]))
            np.add.at(counts, codes[:, d], weights)
            with np.errstate(divide="ignore"):
                shares = np.log(shares_by_class(counts[:-1].T, marginal)).T
            found += np.vstack([shares, np.zeros(weights.shape[1])])[code]
        return found

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        codes = self._codes(parents, "parents")
        tables = [
            np.column_stack([matrix, matrix @ marginal])[:, codes[:, d]].T
            for d, (matrix, marginal) in enumerate(zip(self.matrices, self.marginals, strict=True))
        ]
        return self._draw(tables, rng)

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        return self._draw([np.tile(m, (n, 1)) for m in self.marginals], rng)

    def _draw(self, tables: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return one value per row of each column's table of probabilities (n, C_d)."""
        columns = []
        for names, table in zip(self.levels, tables, strict=True):
            # The last category takes what rounding leaves of the sum.
            passed = rng.random((len(table), 1)) >= np.cumsum(table, axis=1)[:, :-1]
            columns.append(names[passed.sum(axis=1)])
        return np.column_stack(columns)

    # Learning ----------------------------------------------------------------------------------

    def _counts(self, X: Array, edge_marginals: Array) -> Iterator[Array]:
        """Yield for each column the weight of each pair of values, (C_d + 1, C_d + 1)."""
        for codes, names in zip(self._codes(X, "X").T, self.levels, strict=True):
            indicator = np.eye(len(names) + 1)[codes]
            yield indicator.T @ (edge_marginals @ indicator)

    def _completed(self, X: Array, edge_marginals: Array) -> list[Array]:
        """Return counts of "full" matrices with hidden parents shared out and the prior added."""
        result = []
        counts_of = self._counts(X, edge_marginals)
        for counts, matrix, marginal in zip(
            counts_of, self.full_matrices, self.marginals, strict=True
        ):
            joint = matrix * marginal
            total = joint.sum(axis=1, keepdims=True)
            share = joint / np.where(total > 0, total, 1.0)
            observed = counts[:-1, :-1] + counts[:-1, -1:] * share
            result.append(observed + self.prior_strength * marginal[:, None])
        return result

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        if self.kind == "sticky":
            best = [
                _best_stickiness(counts, marginal, self.prior_strength, s)
                for counts, marginal, s in zip(
                    self._counts(X, edge_marginals), self.marginals, self.stickiness, strict=True
                )
            ]
            return replace(self, stickiness=np.array(best))
        fitted = []
        for counts, matrix in zip(
            self._completed(X, edge_marginals), self.full_matrices, strict=True
        ):
            counts = np.maximum(counts, 0.0)  # marginals may be below zero by rounding
            totals = counts.sum(axis=0)
            fitted.append(np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), matrix))
        return replace(self, full_matrices=tuple(fitted))

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        if self.kind == "sticky":
            triples = zip(
                self._counts(X, edge_marginals), self.stickiness, self.marginals, strict=True
            )
            nu = self.prior_strength
            return np.array([s * _slope(s, c, m) + nu * (0.5 - s) for c, s, m in triples])
        pairs = zip(self._completed(X, edge_marginals), self.full_matrices, strict=True)
        return np.concatenate([(c - c.sum(axis=0) * matrix)[1:].ravel() for c, matrix in pairs])

    def _params(self) -> Array:
        if self.kind == "sticky":
            return logit(self.stickiness)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.log(matrix) for matrix in self.full_matrices]
            return np.concatenate([(log[1:] - log[0]).ravel() for log in logs])

    def _with_params(self, params: Array) -> Self:
        if self.kind == "sticky":
            return replace(self, stickiness=expit(params))
        sizes = [len(m) * (len(m) - 1) for m in self.marginals]
        blocks = np.split(params, np.cumsum(sizes)[:-1])
        matrices = []
        for block, marginal in zip(blocks, self.marginals, strict=True):
            C = len(marginal)
            matrices.append(softmax(np.vstack([np.zeros(C), block.reshape(C - 1, C)]), axis=0))
        return replace(self, full_matrices=tuple(matrices))

    def _log_prior(self) -> float:
        if self.prior_strength == 0:
            return 0.0
        if self.kind == "sticky":
            with np.errstate(divide="ignore"):
                logs = np.log(4.0 * self.stickiness * (1.0 - self.stickiness))
            return 0.5 * self.prior_strength * float(logs.sum())
        divergence = sum(
            float((xlogy(m, m)[:, None] - xlogy(m[:, None], matrix)).sum())
            for m, matrix in zip(self.marginals, self.full_matrices, strict=True)
        )
        return -self.prior_strength * divergence


def _sticky(s: float, marginal: Array) -> Array:
    return s * np.eye(len(marginal)) + (1.0 - s) * marginal[:, None]


def _slope(s: float, counts: Array, marginal: Array) -> float:
    """Return (1 − s) times the derivative of the log-likelihood by the stickiness; it decreases."""
    equal = np.diag(counts)[:-1]
    unequal = counts[:-1, :-1].sum() - equal.sum()
    seen = equal > 0  # a category with no marginal has no pairs either
    m = marginal[seen]
    return float((equal[seen] * (1 - m) * (1 - s) / (m + s * (1 - m))).sum() - unequal)


def _best_stickiness(counts: Array, marginal: Array, strength: float, current: float) -> float:
    """Return the stickiness that maximises likelihood times Beta prior, a concave problem."""

    def rise(s: float) -> float:  # has the sign of the objective's derivative
        slope = _slope(s, counts, marginal)
        return s * slope + strength * (0.5 - s) if strength > 0 else slope

    at_zero, at_one = rise(0.0), rise(1.0)
    if at_zero <= 0:
        # Flat (nothing observed or a single category), or falling from the start: iid is best.
        return current if at_zero == at_one == 0 else 0.0
    if at_one >= 0:
        return 1.0
    return float(brentq(rise, 0.0, 1.0, xtol=1e-15))
