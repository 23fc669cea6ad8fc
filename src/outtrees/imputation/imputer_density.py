"""Densities from incomplete records: completed several times, every answer averaged over these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.imputation import fit_hidden, hidden_posterior
from outtrees.imputation.em import from_codes, in_codes
from outtrees.imputation.leaves import leaf_cells
from outtrees.imputation.model import HiddenModel, hidden_model
from outtrees.inference.likelihood import log_likelihood, tree_distribution
from outtrees.inference.objective import FitResult
from outtrees.models.base import Mutation
from outtrees.trees import OutTreeDistribution
from outtrees.trees.weights import Ints

_FARTHEST = 1e5  # of a column's mean from zero, in standard deviations
_CHAINS = {"n_chains": 2, "n_draws": 20, "burn_in": 10, "n_kept": 20, "parameters": "fixed"}


@dataclass(frozen=True)
class Completions:
    """Records with hidden cells, completed M times from their posterior given the mutation."""

    model: HiddenModel
    codes: Array  # (M, T, D), categories as positions

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

    def sample_trees(self, n: int, random_state: Any) -> Ints:
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


class FittedTrees:
    """The trees of an estimator with `mutation_` and records `X_`, completed where they had NaN."""

    mutation_: Mutation
    X_: Array
    _completions: Completions
    _tree: OutTreeDistribution

    def sample_trees(self, n_trees: int = 1, random_state: Any = None) -> Ints:
        """Return out-trees of the training records from their posterior, (n_trees, T) parents."""
        check_is_fitted(self, "mutation_")
        if "_completions" in self.__dict__:
            return self._completions.sample_trees(n_trees, random_state)
        return self.tree_.sample(n_trees, random_state)

    @property
    def tree_(self) -> OutTreeDistribution:
        """The distribution over out-trees of the training records."""
        check_is_fitted(self, "mutation_")
        if "_completions" in self.__dict__:
            raise ValueError(
                "with hidden cells there is no single distribution over trees, but one for each "
                "completion; use edge_marginals_, root_marginals_ or sample_trees, which average "
                "over them, or tree_distribution(mutation_, completed_[m])"
            )
        if "_tree" not in self.__dict__:
            self._tree = tree_distribution(self.mutation_, self.X_)
        return self._tree

    @property
    def edge_marginals_(self) -> Array:
        """P(training record u descends directly from v), (T, T) [child, parent]."""
        check_is_fitted(self, "mutation_")
        if "_completions" in self.__dict__:
            return self._completions.marginals[0]
        return self.tree_.edge_marginals

    @property
    def root_marginals_(self) -> Array:
        """P(training record r is the root), (T,)."""
        check_is_fitted(self, "mutation_")
        if "_completions" in self.__dict__:
            return self._completions.marginals[1]
        return self.tree_.root_marginals

    def _incomplete(self, X: Array) -> bool:
        return "_completions" in self.__dict__ or bool(np.isnan(X).any())

    def _completed(self) -> Completions:
        """Return the completions of the training records; one if these were complete."""
        if "_completions" in self.__dict__:
            return self._completions
        model = hidden_model(self.mutation_)
        return Completions(model, in_codes(model, self.X_)[None])

    def _refuse_incomplete(self, what: str, X: Array) -> None:
        if "_completions" in self.__dict__ or (
            np.isnan(X).any() and not self.mutation_.allows_missing
        ):
            raise ValueError(
                f"{what} needs complete records, but some cells are missing; use score_samples, "
                "which integrates them out, or fill them in with OutTreeImputer"
            )


class IncompleteFit(NamedTuple):
    """What `OutTreeDensity` keeps of a fit to incomplete records."""

    fit: FitResult
    completions: Completions


def fit_incomplete(estimator: Any, mutation: Mutation, X: Array) -> IncompleteFit:
    """Return the mutation fitted with hidden cells integrated out, and completions of X.

    `outtrees.imputation.fit_hidden`, of max_iter steps; its recorded values are
    log p(completed records) + log_prior, of a new completion in each step, so they rise on
    average only. The fit has converged if they no longer do.
    """
    unused = {
        "mutation": "auto" if estimator.mutation == "auto" else None,
        "solver": None if estimator.solver == "em" else estimator.solver,
        "early_stopping": estimator.early_stopping or None,
        "n_components": "auto" if estimator.n_components == "auto" else None,
        "prior_strength": "auto" if estimator.prior_strength == "auto" else None,
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
    rng = as_generator(estimator.random_state)

    def on_step(step: int, total: int) -> None:
        if estimator.verbose:
            print(f"step {step} of {total}")

    found = fit_hidden(mutation, X, max_iter=estimator.max_iter, random_state=rng, on_step=on_step)
    draws = hidden_posterior(found, random_state=rng, **_CHAINS).draws  # type: ignore[arg-type]
    fit = FitResult(
        mutation=found.mutation,
        log_likelihoods=found.log_likelihoods + found.mutation.log_prior(),
        n_iter=len(found.log_likelihoods),
        n_evaluations=len(found.log_likelihoods),
        stopped_by="tol" if _is_level(found.log_likelihoods) else "max_iter",
        validation_scores=np.empty(0),
    )
    return IncompleteFit(fit, Completions(found.model, draws))


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

    The steps are random, so no single gain tells; three standard errors are noise. Fewer than
    eight values come from a fit that ended by itself.
    """
    n = len(values) // 4
    if n < 2:
        return True
    before, last = values[-2 * n : -n], values[-n:]
    noise = np.sqrt((before.var(ddof=1) + last.var(ddof=1)) / n)
    return bool(last.mean() - before.mean() <= 3 * noise)
