"""Incomplete records: hidden cells integrated out, answers averaged over completions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.density.learning import auto_settings
from outtrees.errors import ArgumentError, Option
from outtrees.imputation import fit_hidden, hidden_posterior
from outtrees.imputation.em import from_codes, in_codes
from outtrees.imputation.leaves import leaf_cells
from outtrees.imputation.model import HiddenModel, hidden_model
from outtrees.inference.ascent import FitResult
from outtrees.inference.likelihood import log_likelihood, tree_distribution
from outtrees.models.base import Mutation
from outtrees.trees.weights import Ints

_FARTHEST = 1e5  # of a column's mean from zero, in standard deviations


@dataclass(frozen=True)
class Completions:
    """Records with hidden cells, completed M times from their posterior given the mutation.

    The trees of each completion are made when asked for, and not kept: there are M of them.
    """

    model: HiddenModel
    codes: Array  # (M, T, D), categories as positions

    @classmethod
    def of_complete(cls, mutation: Mutation, X: Array) -> Completions:
        """Return complete records as their own only completion."""
        model = hidden_model(mutation)
        return cls(model, in_codes(model, X)[None])

    @property
    def records(self) -> Array:
        """The completed records, (M, T, D)."""
        return from_codes(self.model, self.codes)

    def log_density(self, X: Array) -> Array:
        """Return log (1/MT) Σ_mv p(x | x_v^m) of the observed cells of each record, (n,)."""
        return leaf_cells(self.model, in_codes(self.model, X), self.codes).log_density

    @cached_property
    def marginals(self) -> tuple[Array, Array]:
        """Return edge marginals (T, T) [child, parent] and root marginals (T,), averaged."""
        trees = [tree_distribution(self.model.mutation, X) for X in self.records]
        edge = np.mean([tree.edge_marginals for tree in trees], axis=0)
        return edge, np.mean([tree.root_marginals for tree in trees], axis=0)

    def sample(self, n: int, random_state: Any) -> Ints:
        """Return n trees, each given one of the completions, (n, T)."""
        rng = as_generator(random_state)
        chosen = rng.integers(len(self.codes), size=n)
        result = np.empty((n, self.codes.shape[1]), dtype=np.intp)
        for m in np.unique(chosen):
            rows = np.flatnonzero(chosen == m)
            tree = tree_distribution(self.model.mutation, self.records[m])
            result[rows] = tree.sample(len(rows), rng)
        return result

    def mean_log_likelihood(self) -> float:
        """Return the mean over completions of their tdid log-likelihood."""
        return float(np.mean([log_likelihood(self.model.mutation, X) for X in self.records]))


def fit_incomplete(
    settings: Any,  # an `OutTreeDensity`
    mutation: Mutation,
    X: Array,  # (T, D), NaN where a cell is hidden
) -> tuple[FitResult, Completions]:
    """Return the mutation fitted with hidden cells integrated out, and completions of X.

    `outtrees.imputation.fit_hidden`, of max_iter steps; its recorded values are
    log p(completed records) + log_prior, of a new completion in each step, so they rise on
    average only. The fit has converged if they no longer do.
    """
    unused = {
        "solver": None if settings.solver == "em" else settings.solver,
        "early_stopping": settings.early_stopping or None,
        **{name: "auto" for name in auto_settings(settings) if name != "mutation"},
    }
    for name, value in unused.items():
        if value is not None:
            raise ArgumentError(
                Option("missing", "integrate"),
                " is for one mutation, fitted by EM to all records, but X has NaN and ",
                Option(name, value),
                "; change it, or fill the cells in with OutTreeImputer",
            )
    _refuse_far_from_zero(X)
    rng = as_generator(settings.random_state)

    def on_step(step: int, total: int) -> None:
        if settings.verbose:
            print(f"step {step} of {total}")

    order = record_order(X)
    found = fit_hidden(
        mutation, X[order], max_iter=settings.max_iter, random_state=rng, on_step=on_step
    )
    draws = hidden_posterior(
        found, n_chains=2, n_draws=20, burn_in=10, n_kept=20, parameters="fixed", random_state=rng
    ).draws
    fit = FitResult(
        mutation=found.mutation,
        log_likelihoods=found.log_likelihoods + found.mutation.log_prior(),
        n_iter=len(found.log_likelihoods),
        n_evaluations=len(found.log_likelihoods),
        stopped_by="tol" if _is_level(found.log_likelihoods) else "max_iter",
    )
    return fit, Completions(found.model, draws[:, np.argsort(order)])


def _refuse_far_from_zero(X: Array) -> None:
    """Refuse columns whose squares would leave no digits for the differences that matter."""
    spread = np.nanstd(X, axis=0)
    far = np.abs(np.nanmean(X, axis=0)) > _FARTHEST * np.where(spread > 0, spread, np.inf)
    if far.any():
        column = int(np.flatnonzero(far)[0])
        raise ArgumentError(
            Option("missing", "integrate"),
            f" needs columns near zero, but column {column} is more than {_FARTHEST:.0e} standard "
            "deviations away; use StandardScaler first",
            column=column,
        )


def _is_level(values: Array) -> bool:
    """Whether the last quarter of the values is no higher than the one before, within noise.

    The steps are random, so no single gain decides; three standard errors are noise. Fewer than
    eight values come from a fit that ended by itself.
    """
    n = len(values) // 4
    if n < 2:
        return True
    before, last = values[-2 * n : -n], values[-n:]
    noise = np.sqrt((before.var(ddof=1) + last.var(ddof=1)) / n)
    return bool(last.mean() - before.mean() <= 3 * noise)
