"""The mutations that `OutTreeDensity(mutation="auto")` fits, and their mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.ascent import FitResult
from outtrees.inference.restarts import fit_mutation
from outtrees.inference.selection import Selection, select_mutation, stacking_shares
from outtrees.models import CloudsMutation, GaussianMutation, MixtureMutation, Mutation


@dataclass(frozen=True)
class Stack:
    """A mixture of fitted mutations, and how its weights were found."""

    mutation: MixtureMutation
    weights: Array  # (n_mutations,), of all that were compared
    selection: Selection
    held_out: Array  # (T,), each record's log-density when it was held out, with these weights
    fits: list[FitResult]  # of the mutations that were kept, to all records


# Chains of clouds: few where folds are weighed, many in the fit that is kept, so that another seed
# gives nearly the same densities.
_CHAINS, _CHAINS_KEPT = 2, 6


def default_mutations(prior_strength: float = 1.0, reg_covar: float = 1e-6) -> dict[str, Mutation]:
    """Return the mutations that `OutTreeDensity(mutation="auto")` weighs against each other.

    Four ignore the parent: clouds whose number and shapes are averaged over, of the columns and of
    their normal scores, with all columns alike beforehand or each following from few others. Two
    follow it: a Parzen window beside a cloud, and curves (children displaced by one of two linear
    maps).
    """
    options: dict[str, Any] = {"prior_strength": prior_strength, "reg_covar": reg_covar}
    linear = GaussianMutation(**options)
    return {
        "clouds": CloudsMutation(n_chains=_CHAINS),
        "clouds, sparse": CloudsMutation(sparse=True, n_chains=_CHAINS),
        "clouds of normal scores": CloudsMutation(scores=True, n_chains=_CHAINS),
        "clouds of normal scores, sparse": CloudsMutation(
            scores=True, sparse=True, n_chains=_CHAINS
        ),
        "cloud + Parzen": MixtureMutation(n_iid=1, **options),
        "cloud + 2 linear maps": MixtureMutation(n_iid=1, n_local=2, local=linear, **options),
    }


def kept_mutation(mutation: Mutation) -> Mutation:
    """Return the mutation as it is fitted to all records: clouds with more chains."""
    if isinstance(mutation, CloudsMutation) and mutation.n_chains == _CHAINS:
        return replace(mutation, n_chains=_CHAINS_KEPT)
    return mutation


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

    Cost: (cv + 1) fits of each mutation, but one of those that the first fold puts far behind;
    folds and mutations in parallel.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> mutations = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    >>> stack_mutations(mutations, X, cv=3, random_state=0).weights.sum().round(6)
    np.float64(1.0)
    """
    records = np.asarray(X, dtype=np.float64)
    selection = select_mutation(
        mutations,
        records,
        cv=cv,
        race=True,
        n_jobs=n_jobs,
        random_state=random_state,
        **fit_options,
    )
    tried = selection.complete
    found = stacking_shares(selection.log_densities[tried])
    weights = np.zeros(len(mutations))
    weights[tried] = found.weights
    kept, shares = tried[found.kept], found.shares
    # One seed for all fits; a generator has moved on by now.
    whole = isinstance(random_state, (int, np.integer))
    seed = int(random_state if whole else as_generator(random_state).integers(2**31))
    fits = []
    for name in (selection.names[c] for c in kept):
        kept_as = kept_mutation(mutations[name])
        fit = fit_mutation(kept_as, records, random_state=seed, **fit_options)
        fits.append(replace(fit, tree=None))  # the mixture has trees of its own
    parts = tuple(fit.mutation for fit in fits)
    mixture = replace(
        MixtureMutation(components=parts),
        parts=parts,
        log_weights=np.log(shares),
        root_weights=shares,
    )
    held_out = logsumexp(
        selection.log_densities[kept] + np.log(shares)[:, None], axis=0
    )  # as if the weights had been known before
    return Stack(mixture, weights, selection, held_out, fits)
