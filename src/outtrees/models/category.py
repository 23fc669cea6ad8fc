"""Categories: cells that keep the parent's value or are drawn afresh, or follow a whole matrix.

    p(a | b) = s·[a = b] + (1 − s)·marginal_a,    a the child's category, b the parent's

stands here once, for rows of categories (`CategoricalMutation`), for what is believed of s
(`CategoricalPosterior`), and for labels (`outtrees.labels.model`). One column of a table over k
links is `outtrees.models.columns.sticky`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, softmax, xlogy

from outtrees._common.arguments import check_number, check_option
from outtrees._common.edges import Ints
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.count import log_of
from outtrees.models.posterior import Posterior
from outtrees.models.priors import (
    dirichlet_kl,
    dirichlet_log_ratio,
    draw_dirichlet_logs,
    expected_logs,
)
from outtrees.models.tables import (
    coded,
    completed_counts,
    frequencies,
    log_table,
    looked_up,
    pair_counts,
    shares_by_class,
    sticky_matrix,
)


class TableMutation(Mutation):
    """Columns with few values, each with a matrix p(child's value | parent's), sticky or full.

    A model is a frozen dataclass with the fields below; it says how it holds its stickiness or
    matrices. NaN cells are integrated out pair by pair.
    """

    kind: str  # "sticky" or "full"
    prior_strength: float
    levels: Any  # D arrays (C_d,), sorted
    marginals: Any  # D arrays (C_d,)
    stickiness: Any  # (D,), for "sticky"
    full_matrices: Any  # D arrays (C_d, C_d) [child, parent], for "full"

    @abstractmethod
    def _with_tables(self, tables: Sequence[Any]) -> Self:
        """Return the mutation with this stickiness or matrix of each column."""

    @property
    def allows_missing(self) -> bool:
        """NaN cells are integrated out."""
        return True

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.levels is None else len(self.levels)

    @property
    def hidden_cells(self) -> str:
        """By the tables of all columns."""
        return "tables"

    @property
    def matrices(self) -> tuple[Array, ...]:
        """One matrix p(child's value | parent's value) for each column, [child, parent]."""
        self._require_started()
        if self.kind == "full":
            return tuple(self.full_matrices)
        return tuple(
            sticky_matrix(s, m) for s, m in zip(self.stickiness, self.marginals, strict=True)
        )

    @property
    def _strength(self) -> float:
        """The prior's pseudo-count."""
        return self.prior_strength

    def _codes(self, X: Array, name: str) -> NDArray[np.intp]:
        """Return the position of each cell's category, one past the end for missing cells."""
        codes = np.empty(X.shape, dtype=np.intp)
        for d, names in enumerate(self.levels):
            codes[:, d], unknown = coded(X[:, d], names)
            if len(unknown):
                row = unknown[0]
                raise ValueError(
                    f"{type(self).__name__} expects one of {names.tolist()} in column {d}, but "
                    f"{name} has {X[row, d]:g} in row {row}; list it in categories or mark it as "
                    "missing (NaN)."
                )
        return codes

    def _logs(self) -> list[Array]:
        """Return the logarithms of each column's parameters, as `log_table` reads them."""
        if self.kind == "full":
            return [log_of(matrix) for matrix in self.full_matrices]
        return [log_of(np.array([s, 1.0 - s])) for s in self.stickiness]

    # Densities and samples ---------------------------------------------------------------------

    def _log_pairs(self, logs: Iterable[Array], children: Array, parents: Array) -> Array:
        """Return log p of all pairs (n, m) by the logarithms of each column's parameters."""
        codes = self._codes(children, "children"), self._codes(parents, "parents")
        return looked_up(map(log_table, logs, self.marginals), *codes)

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        return self._log_pairs(self._logs(), children, parents)

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        own, other = self._codes(children, "children"), self._codes(parents, "parents")
        result = np.zeros(len(child))
        for d, table in enumerate(map(log_table, self._logs(), self.marginals)):
            result += table[own[child, d], other[parent, d]]
        return result

    def _log_root(self, X: Array) -> Array:
        result = np.zeros(len(X))
        for codes, marginal in zip(self._codes(X, "X").T, self.marginals, strict=True):
            result += log_of(np.append(marginal, 1.0))[codes]
        return result

    def _marginals_of(self, X: Array) -> Any:
        """Return the probabilities that those of classes are held near."""
        return self.marginals

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        codes, found = self._codes(X, "X"), np.zeros((len(records), weights.shape[1]))
        marginals = self._marginals_of(X)
        for d, code in enumerate(self._codes(records, "records").T):
            counts = np.zeros((len(marginals[d]) + 1, weights.shape[1]))
            np.add.at(counts, codes[:, d], weights)
            shares = log_of(shares_by_class(counts[:-1].T, marginals[d])).T
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

    def _counts(self, children: Array, parents: Array, weights: Array) -> Iterator[Array]:
        """Yield for each column the weight of each pair of values, (C_d + 1, C_d + 1)."""
        codes = self._codes(children, "X"), self._codes(parents, "X")
        return pair_counts(*codes, weights, [len(names) for names in self.levels])

    def _completed(self, counts_of: Iterable[Array]) -> list[Array]:
        """Return the expected numbers of what is hidden and seen, with the prior's added."""
        result = []
        for counts, logs, marginal in zip(counts_of, self._logs(), self.marginals, strict=True):
            prior = marginal[:, None] if self.kind == "full" else np.full(2, 0.5)
            found = completed_counts(counts, logs, marginal) + self._strength * prior
            result.append(found)
        return result

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        return self._refit_counts(self._counts(X, X, edge_marginals))

    def _refit_counts(self, counts_of: Iterable[Array]) -> Self:
        """Return the maximum for weights of pairs of values, (C_d + 1, C_d + 1) a column."""
        if self.kind == "sticky":
            triples = zip(counts_of, self.marginals, self.stickiness, strict=True)
            nu = self._strength
            return self._with_tables([_best_stickiness(c, m, nu, s) for c, m, s in triples])
        fitted = []
        for counts, matrix in zip(self._completed(counts_of), self.full_matrices, strict=True):
            counts = np.maximum(counts, 0.0)  # marginals may be below zero by rounding
            totals = counts.sum(axis=0)
            fitted.append(np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), matrix))
        return self._with_tables(fitted)

    def _drawn(self, counts_of: Iterable[Array], rng: np.random.Generator) -> Self:
        """Return the mutation with parameters drawn given whole links between known values.

        Columns of "full" matrices are Dirichlet. A sticky column first draws how many of the links
        with equal ends kept the parent's value, then s from its Beta law.
        """
        drawn: list[Any] = []
        nu = self._strength
        for d, (counts, marginal) in enumerate(zip(counts_of, self.marginals, strict=True)):
            pairs = counts[:-1, :-1]
            if self.kind == "full":
                # The prior Π p^(ν marginal) is a density of the probabilities: Dirichlet(1 + …).
                alpha = pairs + 1.0 + nu * marginal[:, None]
                drawn.append(np.stack([rng.dirichlet(a) for a in alpha.T], axis=1))
                continue
            s = float(self.stickiness[d])
            chance = np.divide(s, s + (1 - s) * marginal, out=np.zeros_like(marginal), where=s > 0)
            kept = int(rng.binomial(np.rint(np.diag(pairs)).astype(int), chance).sum())
            fresh = float(pairs.sum()) - kept
            drawn.append(rng.beta(1.0 + nu / 2 + kept, 1.0 + nu / 2 + fresh))
        return self._with_tables(drawn)

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        # That of the expected complete likelihood: counts less what the parameters expect.
        completed = self._completed(self._counts(X, X, edge_marginals))
        if self.kind == "sticky":
            pairs = zip(completed, self.stickiness, strict=True)
            return np.array([c[0] - s * c.sum() for c, s in pairs])
        pairs = zip(completed, self.full_matrices, strict=True)
        return np.concatenate([(c - c.sum(axis=0) * matrix)[1:].ravel() for c, matrix in pairs])

    def _params(self) -> Array:
        if self.kind == "sticky":
            return np.asarray(logit(self.stickiness))
        with np.errstate(invalid="ignore"):
            return np.concatenate([(log[1:] - log[0]).ravel() for log in self._logs()])

    def _with_params(self, params: Array) -> Self:
        if self.kind == "sticky":
            return self._with_tables(expit(params))
        sizes = [len(m) * (len(m) - 1) for m in self.marginals]
        blocks = np.split(params, np.cumsum(sizes)[:-1])
        matrices = []
        for block, marginal in zip(blocks, self.marginals, strict=True):
            C = len(marginal)
            matrices.append(softmax(np.vstack([np.zeros(C), block.reshape(C - 1, C)]), axis=0))
        return self._with_tables(matrices)

    def _log_prior(self) -> float:
        if self._strength == 0:
            return 0.0
        if self.kind == "sticky":
            logs = log_of(4.0 * self.stickiness * (1.0 - self.stickiness))
            return 0.5 * self._strength * float(logs.sum())
        divergence = sum(
            float((xlogy(m, m)[:, None] - xlogy(m[:, None], matrix)).sum())
            for m, matrix in zip(self.marginals, self.full_matrices, strict=True)
        )
        return -self._strength * divergence


@dataclass(frozen=True, eq=False, repr=False)
class CategoricalMutation(TableMutation):
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

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        D = X.shape[1]
        if self.categories is not None and len(self.categories) != D:
            raise ValueError(
                f"CategoricalMutation expects categories for each of the {D} columns of X; got "
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
            known = codes[codes < len(names)]
            marginals.append(frequencies(known, len(names), self.prior_strength))
        s = self.start_correlation
        return replace(
            found,
            marginals=tuple(marginals),
            stickiness=np.full(D, float(s)) if self.kind == "sticky" else None,
            full_matrices=(
                tuple(sticky_matrix(s, m) for m in marginals) if self.kind == "full" else None
            ),
        )

    def _with_observed_root(self, X: Array) -> Self:
        """Return the mutation whose marginal is that of the observed cells; NaN elsewhere."""
        known = replace(self, categories=[names.tolist() for names in self.levels])
        again = known.start(X)
        return replace(self, marginals=again.marginals, full_matrices=again.full_matrices)

    def _named(self) -> dict[str, Array]:
        if self.kind == "sticky":
            return {"stickiness": self.stickiness}
        return {f"matrices[{d}]": matrix for d, matrix in enumerate(self.full_matrices)}

    def _with_tables(self, tables: Sequence[Any]) -> Self:
        if self.kind == "sticky":
            return replace(self, stickiness=np.asarray(tables))
        return replace(self, full_matrices=tuple(tables))


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


@dataclass(frozen=True, eq=False, repr=False)
class BernoulliMutation(TableMutation):
    """Binary columns, each with p(child = 1 | parent = 0) and p(child = 1 | parent = 1).

    Parameters
    ----------
    prior_strength : float
        The pseudo-count ν of the Beta priors, whose modes are the frequencies m of the ones:

            log_prior = −ν Σ_d Σ_{b=0,1} KL(Bernoulli(m_d) ‖ Bernoulli(p_d|b)),

        so that it is 0 where children are independent of their parents. The same pseudo-count,
        half of it a one, keeps m itself inside (0, 1).
    start_correlation : float in [0, 1]
        The correlation between parent and child at `start`; 0 is the iid solution.
    root_probability, child_probability : arrays of shape (D,) and (2, D), optional
        Parameters for use without `start`; row b of child_probability is p(child = 1 | parent = b).

    Examples
    --------
    >>> X = np.array([[0, 1], [0, 0], [1, 1], [1, 0]])
    >>> mutation = BernoulliMutation().start(X)
    >>> mutation.child_probability
    array([[0.25, 0.25],
           [0.75, 0.75]])
    """

    kind = "full"
    prior_strength: float = 1.0
    start_correlation: float = 0.5
    _: KW_ONLY
    root_probability: Any = field(default=None, repr=False)  # (D,)
    child_probability: Any = field(default=None, repr=False)  # (2, D) by the parent's value
    prior_probability: Any = field(default=None, repr=False)  # (D,), set by start

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_number(owner, "prior_strength", self.prior_strength, 0)
        check_number(owner, "start_correlation", self.start_correlation, 0, 1)
        if self.child_probability is None:
            return
        for name, ndim in (("child_probability", 2), ("root_probability", 1)):
            value = getattr(self, name)
            array = np.array(np.nan if value is None else value, dtype=np.float64)
            if array.ndim != ndim or (ndim == 2 and len(array) != 2):
                raise ValueError(
                    f"{owner} expects child_probability of shape (2, D) and root_probability of "
                    f"shape (D,), but {name} has shape {array.shape}."
                )
            if not ((array >= 0) & (array <= 1)).all():
                raise ValueError(f"{owner} expects probabilities in [0, 1], but {name} has others.")
            object.__setattr__(self, name, array)

    def _check_values(self, X: Array, name: str) -> None:
        wrong = (X != 0) & (X != 1) & ~np.isnan(X)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"BernoulliMutation expects cells 0 or 1, but {name} has {X[row, column]:g} in row "
                f"{row}, column {column}; code the column as 0/1 or use CategoricalMutation."
            )

    def _start(self, X: Array, random_state: Any) -> Self:
        ones = np.array([m[1] for m in self._marginals_of(X, self.prior_strength)])
        a = self.start_correlation
        return replace(
            self,
            root_probability=ones,
            child_probability=np.stack([(1 - a) * ones, (1 - a) * ones + a]),
            prior_probability=ones,
        )

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.child_probability is None else self.child_probability.shape[1]

    # As tables of the values 0 and 1 -------------------------------------------------------------

    @property
    def levels(self) -> list[Array]:
        """The values 0 and 1 of each column."""
        return [np.arange(2.0)] * (self.n_features or 0)

    @property
    def marginals(self) -> list[Array]:
        """The probabilities of 0 and 1 as the root."""
        return [np.array([1.0 - p, p]) for p in self.root_probability]

    @property
    def full_matrices(self) -> list[Array]:
        """One matrix p(child's value | parent's value) for each column, [child, parent]."""
        return [np.stack([1.0 - p, p]) for p in self.child_probability.T]

    def _with_tables(self, tables: Sequence[Array]) -> Self:
        return replace(self, child_probability=np.stack([table[1] for table in tables], axis=1))

    def _with_observed_root(self, X: Array) -> Self:
        """Return the mutation that the observed cells start; NaN elsewhere."""
        return self.start(X)

    @property
    def _strength(self) -> float:
        return 0.0 if self.prior_probability is None else self.prior_strength

    def _marginals_of(self, X: Array, pseudo_count: float = 1.0) -> list[Array]:
        columns = (c[~np.isnan(c)].astype(np.intp) for c in X.T)
        return [frequencies(codes, 2, pseudo_count) for codes in columns]

    def _draw(self, tables: Sequence[Array], rng: np.random.Generator) -> Array:
        p = np.column_stack([table[:, 1] for table in tables])
        return np.asarray(rng.random(p.shape) < p, dtype=np.float64)

    # Parameters stand by the parent's value, then by column.

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return super()._gradient(X, edge_marginals).reshape(-1, 2).T.ravel()

    def _params(self) -> Array:
        return super()._params().reshape(-1, 2).T.ravel()

    def _with_params(self, params: Array) -> Self:
        return super()._with_params(params.reshape(2, -1).T.ravel())


# Posteriors of the parameters -----------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class CategoricalPosterior(Posterior):
    """Categorical columns, each with a matrix of p(child's value a | parent's value b).

    Parameters
    ----------
    kind : {"sticky", "full"}
        "sticky": p(a | b) = s·[a = b] + (1 − s)·marginal_a with s ~ Beta; whether an equal value
        was kept or drawn afresh is hidden and part of q. "full": each column p(· | b) of the
        matrix has a Dirichlet prior.
    weight_concentration_prior : float
        The pseudo-count ν: Beta(ν/2, ν/2) for each stickiness; Dirichlet(ν · marginal), for each
        parent's value, in "full".
    categories : sequence of sequences, optional
        The categories of each column; by default the values found by `start`.
    marginals : sequence of arrays, optional
        The probability of each category, which is the root's evidence, the expectation of a
        Dirichlet prior. By default the frequencies among the records, with one pseudo-record
        spread over the categories. It is not learned.

    Notes
    -----
    A missing cell (NaN) is treated as in CategoricalMutation, pair by pair: an unknown child
    pays nothing, and an unknown parent has the marginal's values, of which one is hidden.

    Examples
    --------
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> posterior = CategoricalPosterior().start(X)
    >>> np.exp(posterior.log_predictive([[0.0]], [[0.0], [1.0], [np.nan]]))
    array([[0.75, 0.25, 0.5 ]])
    """

    kind: str = "sticky"
    weight_concentration_prior: float = 1.0
    categories: Sequence[Sequence[float]] | None = None
    marginals: Any = None
    _: KW_ONLY
    coder: Any = field(default=None, repr=False)  # CategoricalMutation with levels and marginals
    # Kept and redrawn edges by column (sticky); tables of pairs, [child, parent] (full)
    statistics_: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_option(owner, "kind", self.kind, ("sticky", "full"))
        name = "weight_concentration_prior"
        check_number(owner, name, self.weight_concentration_prior, 0, open_low=True)

    @property
    def allows_missing(self) -> bool:
        """NaN cells are summed out."""
        return True

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.coder is None else self.coder.n_features

    def _start(self, X: Array, random_state: Any) -> Self:
        coder = CategoricalMutation(self.kind, 1.0, categories=self.categories).start(X)
        if self.marginals is not None:
            shapes = [m.shape for m in coder.marginals]
            given = [np.asarray(m, dtype=np.float64) for m in self.marginals]
            proper = all((m > 0).all() and abs(m.sum() - 1) < 1e-9 for m in given)
            if not proper or [m.shape for m in given] != shapes:
                raise ValueError(
                    "CategoricalPosterior expects marginals with positive entries that sum to one, "
                    f"one array for each column with shapes {shapes}; give categories beside them."
                )
            coder = replace(coder, marginals=tuple(given))
        posterior = replace(self, coder=coder)
        edges = len(X) - 1.0
        if self.kind == "sticky":
            start = [np.full(2, edges / 2) for _ in coder.marginals]
        else:
            start = [edges * (np.diag(m) + np.outer(m, m)) / 2 for m in coder.marginals]
        return posterior._with_statistics(np.concatenate([table.ravel() for table in start]))

    # Parameters of q ---------------------------------------------------------------------------

    def _with_statistics(self, statistics: Array) -> Self:
        posterior = replace(self, statistics_=statistics)
        if not all((c > 0).all() for c in posterior._concentrations()):
            raise ValueError(f"CategoricalPosterior expects counts >= 0; got {statistics.min():g}.")
        return posterior

    def _priors(self) -> list[Array]:
        nu = self.weight_concentration_prior
        if self.kind == "sticky":
            return [np.full(2, nu / 2) for _ in self.coder.marginals]
        return [nu * np.repeat(m[:, None], len(m), axis=1) for m in self.coder.marginals]

    def _concentrations(self) -> list[Array]:
        """Return prior plus counts by column: (2,) kept and redrawn, or (C, C)."""
        priors = self._priors()
        blocks = np.split(self.statistics_, np.cumsum([p.size for p in priors])[:-1])
        return [p + b.reshape(p.shape) for p, b in zip(priors, blocks, strict=True)]

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        logs = map(expected_logs, self._concentrations())
        return np.asarray(self.coder._log_pairs(logs, children, parents))

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        logs = (np.log(c / c.sum(axis=0)) for c in self._concentrations())
        return np.asarray(self.coder._log_pairs(logs, children, parents))

    def _log_root(self, X: Array) -> Array:
        return np.asarray(self.coder._log_root(X))

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        counts = self.coder._counts(children, parents, weights)
        logs = map(expected_logs, self._concentrations())
        found = map(completed_counts, counts, logs, self.coder.marginals)
        # Marginals may be below zero by rounding.
        return np.concatenate([np.maximum(block, 0.0).ravel() for block in found])

    # Divergence and draws ----------------------------------------------------------------------

    def _kl(self) -> float:
        pairs = zip(self._concentrations(), self._priors(), strict=True)
        return sum(dirichlet_kl(q, p) for q, p in pairs)

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> CategoricalMutation:
        drawn = [np.exp(draw_dirichlet_logs(counts, rng)) for counts in self._concentrations()]
        if self.kind == "sticky":
            drawn = [p[0] for p in drawn]
        mutation: CategoricalMutation = self.coder._with_tables(drawn)
        return mutation

    def _log_prior_ratio(self, mutation: CategoricalMutation) -> float:
        values = map(np.exp, mutation._logs())
        triples = zip(values, self._priors(), self._concentrations(), strict=True)
        return sum(dirichlet_log_ratio(*triple) for triple in triples)
