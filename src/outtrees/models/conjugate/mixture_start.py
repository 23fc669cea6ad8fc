"""Where a mixture begins: records dealt to clouds by k-means, copies made different."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from outtrees._common.types import Array
from outtrees.models.conjugate.gaussian import GaussianPosterior
from outtrees.models.conjugate.gaussian_prior import GaussianPrior
from outtrees.models.conjugate.inverse_wishart import InverseWishart
from outtrees.models.covariance import column_scales


def clouds_at(
    X: Array,  # (T, D)
    templates: Sequence[GaussianPosterior],
    share: float,
    rng: np.random.Generator,
) -> list[tuple[GaussianPosterior, float]]:
    """Return each cloud after its cluster's records with weight `share` each, and their number.

    Clusters are those of k-means on standardised columns. The defaults of Ψ₀ and κ are divided by
    K^(2/D), so that K clouds fill the volume of one.
    """
    (T, D), K = X.shape, len(templates)
    if T < K:
        raise ValueError(
            f"MixturePosterior expects at least one record for each of its {K} clouds, but X has "
            f"{T}; use fewer components."
        )
    scaled = (X - X.mean(axis=0)) / np.sqrt(column_scales(X))
    with warnings.catch_warnings():  # fewer distinct records than clusters: some clouds are empty
        warnings.simplefilter("ignore", ConvergenceWarning)
        seed = int(rng.integers(2**31))
        labels = KMeans(K, n_init=1, random_state=seed).fit(scaled).labels_
    result = []
    for k, template in enumerate(templates):
        part = template.start(X)
        part = replace(part, prior_=_smaller(part, K ** (-2.0 / D)))
        weights = np.where(labels == k, share, 0.0)
        result.append((part._update_children(X, weights), float(weights.sum())))
    return result


def _smaller(part: GaussianPosterior, volume: float) -> GaussianPrior:
    """Return the prior of a cloud of that volume whose mean is as uncertain as before.

    Means have covariance S / κ, so where S shrinks κ does too: else a small cloud far from the
    centre would pay for its distance with a wide covariance.
    """
    prior: GaussianPrior = part.prior_
    if part.covariance_prior is None:
        noise = prior.noise
        noise = InverseWishart(noise.kind, noise.dof, noise.scatter * volume)
        prior = replace(prior, noise=noise)
    if part.mean_precision_prior is None:
        prior = replace(prior, gram=prior.gram * volume)
    return prior


def narrowed(part: Any, factor: float) -> Any:
    """Return the part with less noise: equal components would stay equal through every update."""
    if not isinstance(part, GaussianPosterior):
        raise ValueError(
            f"MixturePosterior expects n_local=1 for {type(part).__name__}, whose copies would all "
            "start alike; give different posteriors in components instead."
        )
    statistics = part.statistics.copy()
    _, yy, _, zz = part._moments()
    B = part.coefficients
    explained = B @ zz @ B.T  # of yy; the rest is noise
    D = len(yy)
    statistics[1 : 1 + D * D] = (explained + factor * (yy - explained)).ravel()
    return part._with_statistics(statistics)
