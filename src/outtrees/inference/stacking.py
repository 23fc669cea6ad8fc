"""Several mutations at once, weighed by the density that they give to records held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from outtrees._common.types import Array
from outtrees.inference.fitting import fit_mutation
from outtrees.inference.objective import FitResult
from outtrees.inference.selection import Selection, select_mutation
from outtrees.models import GaussianMutation, MixtureMutation, ProductMutation
from outtrees.models.base import Mutation

# Below this weight a candidate is left out: its part of every density is lost in rounding of
# what is usually shown, and fitting it to all records would be for nothing.
_LEAST_WEIGHT = 1e-3
# Of more clouds than this the Parzen window beside them does as well, at far less cost.
_MOST_CLOUDS = 100


@dataclass(frozen=True)
class Stack:
    """A mixture of fitted candidates, and how its weights were found."""

    mutation: MixtureMutation
    weights: Array  # (n_candidates,), of all candidates
    selection: Selection
    fits: list[FitResult]  # of the candidates that were kept, to all records


def default_candidates(
    n_records: int, prior_strength: float = 1.0, reg_covar: float = 1e-6
) -> dict[str, Mutation]:
    """Return the mutations that `OutTreeDensity(mutation="auto")` weighs against each other.

    Between them they cover one cloud and several, up to one for every 16 records (at most 100);
    curves (children displaced by one of two linear maps); and columns with values of their own,
    such as counts and codes.
    """
    many = min(max(2, n_records // 16), _MOST_CLOUDS)
    few = min(3, many)
    options: dict[str, Any] = {"prior_strength": prior_strength, "reg_covar": reg_covar}
    sharp: dict[str, Any] = {"prior_strength": 0.1 * prior_strength, "reg_covar": reg_covar}
    linear = GaussianMutation(**options)
    return {
        "cloud + Parzen": MixtureMutation(n_iid=1, **options),
        "few clouds + Parzen": MixtureMutation(n_iid=few, **options),
        "many clouds + Parzen": MixtureMutation(n_iid=many, **options),
        "cloud + 2 linear maps": MixtureMutation(n_iid=1, n_local=2, local=linear, **options),
        "columns": ProductMutation(MixtureMutation(n_iid=2, **options)),
        "columns, sharp": ProductMutation(MixtureMutation(n_iid=1, n_local=2, **sharp)),
    }


def stack_mutations(
    candidates: Mapping[Any, Mutation],
    X: ArrayLike,  # (T, D)
    *,
    cv: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    **fit_options: Any,
) -> Stack:
    """Return the mixture of the candidates that predicts held-out records best.

    Each candidate is fitted to the records outside each of cv folds; the weights maximise
    Σ_t log Σ_c w_c p_c(x_t | records of other folds), a concave problem (stacking of densities,
    Smyth and Wolpert 1999). The candidates are then fitted to all records and mixed with these
    weights: p(child | parent) = Σ_c w_c p_c(child | parent) is again a mutation, and its leaf
    predictive a normalised density.

    Cost: (cv + 1) fits of each candidate, (cv · candidates) of them in parallel.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> candidates = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    >>> stack_mutations(candidates, X, cv=3, random_state=0).weights.sum().round(6)
    np.float64(1.0)
    """
    records = np.asarray(X, dtype=np.float64)
    selection = select_mutation(
        candidates, records, cv=cv, n_jobs=n_jobs, random_state=random_state, **fit_options
    )
    weights = stacking_weights(selection.log_densities)
    kept = np.flatnonzero(weights >= _LEAST_WEIGHT)
    shares = weights[kept] / weights[kept].sum()
    seed = random_state if isinstance(random_state, int) else None
    fits = [
        fit_mutation(candidates[selection.candidates[c]], records, random_state=seed, **fit_options)
        for c in kept
    ]
    parts = tuple(fit.mutation for fit in fits)
    mixture = replace(
        MixtureMutation(components=parts),
        parts=parts,
        log_weights=np.log(shares),
        root_weights=shares,
    )
    return Stack(mixture, weights, selection, fits)


def stacking_weights(log_densities: Array, tol: float = 1e-10) -> Array:
    """Return the weights w ≥ 0, Σ w = 1, that maximise Σ_t log Σ_c w_c exp(log_densities[c, t]).

    By EM from equal weights; the objective is concave, so the limit is the maximum.
    """
    log_w = np.full(len(log_densities), -np.log(len(log_densities)))
    last = -np.inf
    for _ in range(10_000):
        joint = log_densities + log_w[:, None]
        value = float(logsumexp(joint, axis=0).mean())
        if value - last <= tol * max(1.0, abs(value)):
            break
        last = value
        with np.errstate(divide="ignore"):  # a weight may reach zero: log 0 = −inf is meant
            log_w = np.log(softmax(joint, axis=0).mean(axis=1))
    return np.asarray(np.exp(log_w))
