"""The families that `BayesianOutTree()` mixes, by densities of records held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.selection import select_mutation
from outtrees.inference.variational import VariationalFit, fit_posterior
from outtrees.models.clouds import CloudsMutation
from outtrees.models.conjugate import (
    GaussianPosterior,
    KernelPosterior,
    MixturePosterior,
    PointPosterior,
    Posterior,
)

_FOLDS = 3
_FEWEST_TO_WEIGH = 12  # records: of fewer the first family is taken


@dataclass(frozen=True)
class VariationalStack:
    """A mixture of fitted posteriors, and how its weights were found."""

    posterior: MixturePosterior
    names: list[Any]  # of all families, in the order given
    weights: Array  # (n_families,)
    log_densities: Array  # (n_families, T), each record's when held out; NaN: not tried
    fits: dict[Any, VariationalFit]  # of the families that are mixed


def default_families() -> dict[str, Posterior]:
    """Return the families that `BayesianOutTree(mutation="auto")` mixes.

    Clouds of unknown number, means, covariances and partitions integrated out, of columns and of
    their normal scores, as in `OutTreeDensity()`; a window around the parent and a cloud elsewhere;
    and curves (children drawn to a smooth function of the parent, or displaced by one of two
    linear maps).
    """
    map_ = GaussianPosterior(prior_strength=0.1)
    return {
        "clouds": PointPosterior(CloudsMutation()),
        "clouds of normal scores": PointPosterior(CloudsMutation(scores=True)),
        "clouds of normal scores, sparse": PointPosterior(CloudsMutation(scores=True, sparse=True)),
        "cloud + Parzen": MixturePosterior(n_iid=1),
        "kernel": KernelPosterior(),
        "cloud + 2 linear maps": MixturePosterior(n_iid=1, n_local=2, local=map_),
    }


def stack_posteriors(
    families: Mapping[Any, Posterior],
    X: ArrayLike,  # (T, D)
    *,
    n_jobs: int | None = None,
    random_state: Any = None,
    **fit_options: Any,
) -> VariationalStack:
    """Return the mixture of the families that predicts held-out records best.

    Each family is fitted to the records outside each of three folds; the weights maximise
    Σ_t log Σ_c w_c p_c(x_t | records of other folds) (stacking, Smyth and Wolpert 1999), and the
    families that have any are fitted to all records. Weights by the evidence alone would put
    everything on one family, the best by itself, where a mixture predicts better than each. Fewer
    than twelve records get the first family.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> families = {t: GaussianPosterior(transition=t) for t in ("zero", "identity")}
    >>> round(float(stack_posteriors(families, X, random_state=0).weights.sum()), 6)
    1.0
    """
    records = np.asarray(X, dtype=np.float64)
    seed = int(as_generator(random_state).integers(2**31))
    names = list(families)
    log_densities = np.full((len(names), len(records)), np.nan)
    weights, kept, shares = np.eye(len(names))[0], np.array([0]), np.ones(1)
    if len(records) >= _FEWEST_TO_WEIGH:
        selection = select_mutation(
            families,
            records,
            cv=_FOLDS,
            race=True,
            n_jobs=n_jobs,
            random_state=seed,
            **fit_options,
        )
        log_densities = selection.log_densities
        weights, kept, shares = selection.stacked()
    fits = {
        names[c]: replace(
            fit_posterior(families[names[c]], records, random_state=seed, **fit_options), tree=None
        )  # the mixture has trees of its own
        for c in kept
    }
    parts = tuple(fit.posterior for fit in fits.values())
    mixture = replace(
        MixturePosterior(components=parts), parts=parts, counts=shares * (len(records) - 1.0)
    )
    return VariationalStack(mixture, names, weights, log_densities, fits)
