"""The mutations that `OutTreeDensity(mutation="auto")` fits, and their mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.types import Array
from outtrees.inference.ascent import FitResult
from outtrees.inference.restarts import fit_mutation
from outtrees.inference.selection import Selection, select_mutation
from outtrees.inference.stacking import stacking_shares
from outtrees.models import GaussianMutation, MixtureMutation, ProductMutation
from outtrees.models.base import Mutation

# Of more clouds than this the Parzen window beside them does as well, at far less cost.
_MOST_CLOUDS = 100


@dataclass(frozen=True)
class Stack:
    """A mixture of fitted mutations, and how its weights were found."""

    mutation: MixtureMutation
    weights: Array  # (n_mutations,), of all that were compared
    selection: Selection
    fits: list[FitResult]  # of the mutations that were kept, to all records


def default_mutations(
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
    mutations: Mapping[Any, Mutation],
    X: ArrayLike,  # (T, D)
    *,
    cv: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    **fit_options: Any,
) -> Stack:
    """Return the mixture of the mutations that predicts held-out records best.

    Each mutation is fitted to the records outside each of cv folds; the weights maximise
    Σ_t log Σ_c w_c p_c(x_t | records of other folds), a concave problem (stacking of densities,
    Smyth and Wolpert 1999). The mutations are then fitted to all records and mixed with these
    weights: p(child | parent) = Σ_c w_c p_c(child | parent) is again a mutation, and its leaf
    predictive a normalised density.

    Cost: (cv + 1) fits of each mutation, (cv · mutations) of them in parallel.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> mutations = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    >>> stack_mutations(mutations, X, cv=3, random_state=0).weights.sum().round(6)
    np.float64(1.0)
    """
    records = np.asarray(X, dtype=np.float64)
    selection = select_mutation(
        mutations, records, cv=cv, n_jobs=n_jobs, random_state=random_state, **fit_options
    )
    weights, kept, shares = stacking_shares(selection.log_densities)
    seed = random_state if isinstance(random_state, int) else None
    fits = []
    for name in (selection.names[c] for c in kept):
        fit = fit_mutation(mutations[name], records, random_state=seed, **fit_options)
        fits.append(replace(fit, tree=None))  # the mixture has trees of its own
    parts = tuple(fit.mutation for fit in fits)
    mixture = replace(
        MixtureMutation(components=parts),
        parts=parts,
        log_weights=np.log(shares),
        root_weights=shares,
    )
    return Stack(mixture, weights, selection, fits)
