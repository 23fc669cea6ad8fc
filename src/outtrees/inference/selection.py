"""Choosing among models, or weighing them, by the density that they give to records held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from outtrees._common.arguments import check_count
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.inference.likelihood import leaf_log_density, mean_over_parents
from outtrees.inference.restarts import fit_mutation, with_known_values
from outtrees.inference.variational import fit_posterior
from outtrees.models.base import Mutation
from outtrees.models.conjugate import Posterior

_FAR_BEHIND = 1.0  # nats for each record
_FEWEST_FOR_A_RACE = 10  # records of a fold
# Below this weight a model is left out: its part of every density is lost in rounding of what is
# usually shown, and keeping (or fitting) it would be for nothing.
_LEAST_WEIGHT = 1e-3
_EQUAL = 1e-10  # share of the objective below which a gain of weights ends their search


@dataclass(frozen=True)
class Selection:
    """Several mutations with their held-out log-densities, and the chosen one."""

    names: list[Any]  # of all mutations, in the order given
    log_densities: Array  # (n_mutations, T), each record's when it was held out; NaN: not tried

    @property
    def complete(self) -> NDArray[np.intp]:
        """The mutations that were tried on all folds (all, without a race)."""
        return np.flatnonzero(~np.isnan(self.log_densities).any(axis=1))

    @property
    def best(self) -> Any:
        """The name of the mutation with the highest mean.

        One that left a race was seen on the first fold alone, which others may find harder.
        """
        tried = self.complete
        return self.names[int(tried[np.argmax(self.mean[tried])])]

    @property
    def mean(self) -> Array:
        """Mean held-out log-density of each mutation, over the folds on which it was tried."""
        return np.asarray(np.nanmean(self.log_densities, axis=1))

    @property
    def standard_deviation(self) -> Array:
        """Standard deviation over records of each mutation's held-out log-densities.

        It is inf for a mutation that gave some record no density at all.
        """
        possible = ~np.isinf(self.log_densities).any(axis=1)
        result = np.full(len(self.names), np.inf)
        result[possible] = np.nanstd(self.log_densities[possible], axis=1, ddof=1)
        return result

    @property
    def standard_error(self) -> Array:
        """Standard error of each mean, records taken as independent."""
        tried = (~np.isnan(self.log_densities)).sum(axis=1)
        return np.asarray(self.standard_deviation / np.sqrt(tried))

    def stacked(self) -> Shares:
        """Return the weights with which the mutations tried on all folds predict records best."""
        tried = self.complete
        weights = np.zeros(len(self.names))
        weights[tried] = stacking_weights(self.log_densities[tried])
        kept = np.flatnonzero(weights >= _LEAST_WEIGHT)
        return Shares(weights, kept, weights[kept] / weights[kept].sum())


class Shares(NamedTuple):
    """How several models are mixed."""

    weights: Array  # (n_models,), of all of them
    kept: NDArray[np.intp]  # those that weigh enough to be mixed
    shares: Array  # (n_kept,), their weights, sum 1


def select_mutation(
    mutations: Mapping[Any, Any],
    X: ArrayLike,  # (T, D)
    *,
    cv: int = 5,
    race: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
    **fit_options: Any,
) -> Selection:
    """Return the mutation with the highest mean held-out leaf log-density.

    The records are dealt at random into cv folds; each mutation is fitted (`fit_mutation` with
    `fit_options`) to the other folds and gives log (1/T) Σ_v p(x | x_v) to each record of the one
    held out. Folds and starts depend on `random_state` alone, not on n_jobs.

    Parameters
    ----------
    mutations : mapping from any name to a mutation, or to a posterior of variational Bayes
    race : bool
        Whether mutations that are far behind on the first fold, by more than a nat for each record
        and three standard errors, are tried no further.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> mutations = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    >>> select_mutation(mutations, X, random_state=0).best
    'zero'
    """
    check_count("select_mutation", "cv", cv, 2)
    records = np.asarray(X, dtype=np.float64)
    T = len(records)
    if not mutations:
        raise ArgumentError(
            Option("mutations"), " must hold at least one mutation; got none. Name some."
        )
    if T - -(-T // cv) < 2:
        raise ArgumentError(
            f"X must have at least 2 records outside each fold; got {T} records for ",
            Option("cv", cv),
            ". Use more records.",
        )
    if cv > T:
        raise ArgumentError(
            Option("cv"), f" must be at most the number of records, {T}; got {cv}. Use fewer folds."
        )
    rng = as_generator(random_state)
    folds = np.array_split(record_order(records)[rng.permutation(T)], cv)
    seed = int(rng.integers(2**31))
    names = list(mutations)
    known = [with_known_values(model, records) for model in mutations.values()]
    log_densities = np.full((len(names), T), np.nan)

    def run(jobs: list[tuple[int, int]]) -> None:
        from joblib import Parallel, delayed  # slow to load

        scored = Parallel(n_jobs=n_jobs)(
            delayed(_held_out)(known[k], records, folds[fold], seed, fit_options)
            for k, fold in jobs
        )
        for (k, fold), values in zip(jobs, scored, strict=True):
            log_densities[k, folds[fold]] = values

    running = list(range(len(names)))
    race = race and len(folds[0]) >= _FEWEST_FOR_A_RACE
    if race:
        run([(k, 0) for k in running])
        running = _not_far_behind(log_densities[:, folds[0]])
    run([(k, fold) for k in running for fold in range(1 if race else 0, cv)])
    return Selection(names, log_densities)


def _not_far_behind(log_densities: Array) -> list[int]:
    """Return the mutations that are not far behind the best on these records (n_mutations, n)."""
    best = int(np.argmax(log_densities.mean(axis=1)))
    if not np.isfinite(log_densities[best]).all():  # each excludes some record: none is behind
        return list(range(len(log_densities)))
    behind = log_densities[best] - log_densities
    means = behind.mean(axis=1)
    with np.errstate(invalid="ignore"):  # inf − inf: a mutation that excludes some record
        errors = np.nan_to_num(behind.std(axis=1) / np.sqrt(behind.shape[1]), nan=0.0, posinf=0.0)
    return [int(k) for k in np.flatnonzero(means <= np.maximum(_FAR_BEHIND, 3.0 * errors))]


def _held_out(
    model: Mutation | Posterior,
    X: Array,  # (T, D)
    held_out: NDArray[np.intp],  # rows
    seed: int,
    fit_options: Mapping[str, Any],
) -> Array:
    """Return the log-densities of the held-out records given a fit to the others."""
    rest = np.delete(X, held_out, axis=0)
    if isinstance(model, Posterior):
        posterior = fit_posterior(model, rest, random_state=seed, **fit_options).posterior
        return mean_over_parents(posterior.log_predictive, rest, X[held_out])
    fit = fit_mutation(model, rest, random_state=seed, **fit_options)
    return leaf_log_density(fit.mutation, rest, X[held_out])


# Stacking: the weights of a mixture of models that predict held-out records best ----------------


def stacking_weights(log_densities: Array) -> Array:
    """Return the weights w ≥ 0, Σ w = 1, that maximise Σ_t log Σ_c w_c exp(log_densities[c, t]).

    By EM from equal weights; the objective is concave, so the limit is the maximum (stacking of
    densities, Smyth and Wolpert 1999).
    """
    log_w = np.full(len(log_densities), -np.log(len(log_densities)))
    last = -np.inf
    for _ in range(10_000):
        joint = log_densities + log_w[:, None]
        value = float(logsumexp(joint, axis=0).mean())
        if value - last <= _EQUAL * max(1.0, abs(value)):
            break
        last = value
        with np.errstate(divide="ignore"):  # a weight may reach zero: log 0 = −inf is meant
            log_w = np.log(softmax(joint, axis=0).mean(axis=1))
    return np.asarray(np.exp(log_w))
