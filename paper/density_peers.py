"""The density estimators that the paper compares with: Parzen, EM mixtures, infinite mixtures.

Each takes standardised training, validation and test records (and a seed), chooses what it has to
choose on the validation records, is then fitted to training and validation records together, and
returns the sum of the test records' log-densities with a note of what was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.neighbors import KernelDensity

from outtrees._common.types import Array
from paper.dirichlet_mixture import DirichletProcessMixture

Method = Callable[[Array, Array, Array, int, bool], dict[str, Any]]


def parzen(train: Array, validation: Array, test: Array, seed: int, quick: bool) -> dict[str, Any]:
    """Return the score of a Parzen window, its width the best of 41 (quick: 9)."""
    widths = np.logspace(-1.5, 0.5, 9 if quick else 41)
    best = max(widths, key=lambda h: KernelDensity(bandwidth=h).fit(train).score(validation))
    model = KernelDensity(bandwidth=best).fit(np.vstack([train, validation]))
    return {"score": float(model.score(test)), "chosen": {"bandwidth": float(best)}}


def em_mixture(n_components: int) -> Method:
    """Return the method of a mixture of so many Gaussians, the best of ten starts of EM."""

    def method(
        train: Array, validation: Array, test: Array, seed: int, quick: bool
    ) -> dict[str, Any]:
        seeds = range(seed % 2**31, seed % 2**31 + (2 if quick else 10))
        fits = [GaussianMixture(n_components, random_state=s).fit(train) for s in seeds]
        best = max(fits, key=lambda fit: fit.score(validation))
        # From where the best start ended, so that it stays the best start.
        refit = GaussianMixture(
            n_components,
            weights_init=best.weights_,
            means_init=best.means_,
            precisions_init=best.precisions_,
            random_state=seed % 2**31,
        ).fit(np.vstack([train, validation]))
        return {"score": float(refit.score_samples(test).sum()), "chosen": {}}

    return method


def variational_mixture(
    train: Array, validation: Array, test: Array, seed: int, quick: bool
) -> dict[str, Any]:
    """Return the score of scikit-learn's variational Dirichlet process, options by validation."""

    def fitted(X: Array, n: int, prior: float) -> BayesianGaussianMixture:
        return BayesianGaussianMixture(
            n_components=min(n, len(X) // 2),
            weight_concentration_prior=prior,
            max_iter=1000,
            tol=1e-2,
            random_state=seed % 2**31,
        ).fit(X)

    sizes = (5,) if quick else (5, 25)
    grid = [(n, prior) for n in sizes for prior in (0.01, 1.0)]
    best = max(grid, key=lambda options: fitted(train, *options).score(validation))
    model = fitted(np.vstack([train, validation]), *best)
    chosen = {"n_components": best[0], "weight_concentration_prior": best[1]}
    return {"score": float(model.score_samples(test).sum()), "chosen": chosen}


def gibbs_mixture(
    train: Array, validation: Array, test: Array, seed: int, quick: bool
) -> dict[str, Any]:
    """Return the score of the infinite mixture by Gibbs sampling; nothing is left to choose."""
    sweeps = {"n_sweeps": 60, "n_warmup": 20} if quick else {}
    model = DirichletProcessMixture(**sweeps, random_state=seed)
    model.fit(np.vstack([train, validation]))
    clusters = [k for chain in model.chains_ for _, _, k in chain]
    return {
        "score": model.score(test),
        "monte_carlo_error": model.monte_carlo_error(test),
        "chosen": {"mean number of clusters": float(np.mean(clusters))},
    }


PEERS: dict[str, Method] = {
    "Parzen": parzen,
    **{f"GMM-{k}": em_mixture(k) for k in range(1, 6)},
    "GMM-∞ variational": variational_mixture,
    "GMM-∞ Gibbs": gibbs_mixture,
}
