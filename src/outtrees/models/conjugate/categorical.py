"""Categorical mutation with Beta (sticky) or Dirichlet (full) posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from outtrees._common.arguments import check_number, check_option
from outtrees._common.types import Array
from outtrees.models.categorical import CategoricalMutation
from outtrees.models.conjugate.base import Posterior
from outtrees.models.conjugate.dirichlet import (
    dirichlet_kl,
    dirichlet_log_ratio,
    expected_logs,
)


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
            good = [m.shape for m in given] == shapes and all(
                (m > 0).all() and abs(m.sum() - 1) < 1e-9 for m in given
            )
            if not good:
                raise ValueError(
                    "CategoricalPosterior expects marginals with positive entries that sum to one, "
                    f"one array for each column with shapes {shapes}; give categories beside them."
                )
            coder = replace(coder, marginals=tuple(given))
        posterior = replace(self, coder=coder)
        edges = len(X) - 1.0
        if self.kind == "sticky":
            start = np.full((X.shape[1], 2), edges / 2).ravel()
        else:
            joint = [edges * (np.diag(m) + np.outer(m, m)) / 2 for m in coder.marginals]
            start = np.concatenate([table.ravel() for table in joint])
        return posterior._with_statistics(start)

    # Parameters of q ---------------------------------------------------------------------------

    @property
    def statistics(self) -> Array:
        """Kept and redrawn edges by column (sticky); tables of pairs, [child, parent] (full)."""
        return self.statistics_

    def _with_statistics(self, statistics: Array) -> Self:
        posterior = replace(self, statistics_=statistics)
        if not all((c > 0).all() for c in posterior._concentrations()):
            raise ValueError(
                f"CategoricalPosterior expects counts >= 0, but got {statistics.min():g}."
            )
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

    def _tables(self, *, expected_log: bool) -> list[Array]:
        """Return log-weights of pairs of values (C + 1, C + 1), the last for missing cells."""
        tables = []
        for counts, marginal in zip(self._concentrations(), self.coder.marginals, strict=True):
            C = len(marginal)
            log_marginal = np.log(marginal)
            logs = expected_logs(counts) if expected_log else np.log(counts / counts.sum(axis=0))
            table = np.zeros((C + 1, C + 1))
            if self.kind == "sticky":
                fresh = logs[1] + log_marginal
                table[:C, :C] = fresh[:, None]
                diagonal = np.arange(C)
                table[diagonal, diagonal] = np.logaddexp(logs[0], fresh)
                # Kept from an unknown parent or drawn afresh: the marginal's either way, with the
                # weight of what is hidden, Σ exp E log, which is 1 without expectation of logs.
                table[:C, C] = log_marginal + np.logaddexp(*logs)
            else:
                table[:C, :C] = logs
                table[:C, C] = logsumexp(log_marginal + logs, axis=1)
            tables.append(table)
        return tables

    def _looked_up(self, children: Array, parents: Array, tables: list[Array]) -> Array:
        child_codes = self.coder._codes(children, "children")
        parent_codes = self.coder._codes(parents, "parents")
        result = np.zeros((len(children), len(parents)))
        for d, table in enumerate(tables):
            result += np.take(table[child_codes[:, d]], parent_codes[:, d], axis=1)
        return result

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        return self._looked_up(children, parents, self._tables(expected_log=True))

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        return self._looked_up(children, parents, self._tables(expected_log=False))

    def _log_root(self, X: Array) -> Array:
        return self.coder._log_root(X)

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        blocks = []
        codes = [self.coder._codes(X, "X").T for X in (children, parents)]
        for child, parent, q, marginal in zip(
            *codes, self._concentrations(), self.coder.marginals, strict=True
        ):
            one = np.eye(len(marginal) + 1)
            counts = one[child].T @ (weights @ one[parent])
            logs = expected_logs(q)
            known, unknown = counts[:-1, :-1], counts[:-1, -1]
            if self.kind == "sticky":
                fresh = logs[1] + np.log(marginal)
                kept = np.diag(known) * np.exp(logs[0] - np.logaddexp(logs[0], fresh))
                from_unknown = unknown.sum() * np.exp(logs[0] - np.logaddexp(*logs))
                total = float(kept.sum() + from_unknown)
                blocks.append(np.array([total, float(known.sum() + unknown.sum()) - total]))
            else:
                joint = np.log(marginal) + logs
                share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
                blocks.append((known + unknown[:, None] * share).ravel())
        # Marginals may be below zero by rounding.
        return np.maximum(np.concatenate(blocks), 0.0)

    # Divergence and draws ----------------------------------------------------------------------

    def _kl(self) -> float:
        pairs = zip(self._concentrations(), self._priors(), strict=True)
        return sum(dirichlet_kl(q, p) for q, p in pairs)

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> CategoricalMutation:
        drawn = []
        for counts in self._concentrations():
            gammas = np.log(rng.standard_gamma(counts + 1.0))
            gammas += np.log(rng.random(counts.shape)) / counts  # in logs: small counts underflow
            drawn.append(np.exp(gammas - logsumexp(gammas, axis=0)))
        if self.kind == "sticky":
            return replace(self.coder, stickiness=np.array([p[0] for p in drawn]))
        return replace(self.coder, full_matrices=tuple(drawn))

    def _log_prior_ratio(self, mutation: CategoricalMutation) -> float:
        if self.kind == "sticky":
            values = [np.array([s, 1.0 - s]) for s in mutation.stickiness]
        else:
            values = list(mutation.full_matrices)
        triples = zip(values, self._priors(), self._concentrations(), strict=True)
        return sum(dirichlet_log_ratio(*triple) for triple in triples)
