"""Parameters drawn from their posterior, given one tree with complete records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.statistics import single_columns, with_columns
from outtrees.models import CategoricalMutation, GaussianMutation, MixtureMutation
from outtrees.models.covariance import inverse
from outtrees.models.regression import PairMoments

_NO_DATA = 1e-10  # of the largest: directions in which parents do not vary


def draw_covariance(
    scatter: Array,  # (D, D), the prior's included
    degrees: float,
    kind: str,
    rng: np.random.Generator,
) -> Array:
    """Return a covariance from its inverse-Wishart law with that scatter and those degrees.

    Fewer than D + 2 degrees have no mean; they count as D + 2. "diag" and "spherical"
    covariances have independent, or one, inverse chi-square laws instead.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = [draw_covariance(np.eye(2) * 97.0, 100, "full", rng) for _ in range(2000)]
    >>> np.mean(draws, axis=0).round(1) + 0.0  # scatter / (degrees − D − 1)
    array([[1., 0.],
           [0., 1.]])
    """
    D = len(scatter)
    degrees = max(degrees, D + 2.0)
    if kind == "diag":
        return np.diag(np.diag(scatter) / rng.chisquare(degrees, size=D))
    if kind == "spherical":
        return np.eye(D) * (np.trace(scatter) / rng.chisquare(degrees * D))
    bartlett = np.tril(rng.standard_normal((D, D)), -1)
    bartlett[np.diag_indices(D)] = np.sqrt(rng.chisquare(degrees - np.arange(D)))
    # S = L (B Bᵀ)⁻¹ Lᵀ with B Bᵀ from the Wishart law of the unit matrix.
    half = np.linalg.solve(bartlett, np.linalg.cholesky(scatter).T)
    return half.T @ half


class PosteriorDraw:
    """One draw of all parameters given the statistics of one tree's links.

    Gaussian: with the residuals' scatter R and n links, mutation_cov has an inverse-Wishart law
    with scatter R + ν S₀ and n + ν degrees less one for each coefficient of a column (Jeffreys'
    prior times that of `GaussianMutation`); transition and offset are normal around their best
    values given it, under flat priors. Categorical: columns of "full" matrices are Dirichlet; a
    sticky column first draws how many of the links with equal ends kept the parent's value, then s
    from its Beta law. Weights of mixtures are Dirichlet.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def gaussian(self, part: GaussianMutation, moments: PairMoments) -> GaussianMutation:
        """Return the Gaussian mutation with parameters drawn."""
        n = moments.weight
        best = part._refit_moments(moments)
        D = len(best.mutation_cov)
        strength = 0.0 if part.prior_cov is None else part.prior_strength
        offset_is_free = part._offset_is_free
        per_column = {"full": D, "diag": 1.0, "scalar": 1.0 / D}.get(part.transition, 0.0)
        cov = draw_covariance(
            best.mutation_cov * (n + strength),
            n + strength - per_column - offset_is_free,
            part.covariance,
            self.rng,
        )
        if n <= 0:
            return replace(best, mutation_cov=cov)
        parent_mean = moments.parent_sum / n if offset_is_free else np.zeros(D)
        spread = moments.parent_parent - n * np.outer(parent_mean, parent_mean)
        transition = best.transition_matrix + self._transition(part.transition, cov, spread)
        offset = best.offset
        if offset_is_free:
            noise = np.linalg.cholesky(cov / n) @ self.rng.standard_normal(D)
            offset = moments.child_sum / n - transition @ parent_mean + noise
        return replace(best, transition_matrix=transition, offset=offset, mutation_cov=cov)

    def _transition(self, kind: str, cov: Array, spread: Array) -> Array:
        """Return how far the transition is from its best value, (D, D)."""
        D = len(cov)
        if kind == "full":
            free = self._scaled_normal(spread, D).T
            return np.asarray(np.linalg.cholesky(cov) @ free)
        if kind in ("diag", "scalar"):
            curvature = inverse(cov) * spread
            if kind == "diag":
                return np.diag(self._scaled_normal(curvature, 1)[:, 0])
            return np.eye(D) * self._scaled_normal(curvature.sum().reshape(1, 1), 1)[0, 0]
        return np.zeros((D, D))

    def _scaled_normal(self, precision: Array, n: int) -> Array:
        """Return n columns from N(0, precision⁻¹), zero where the precision is zero, (D, n)."""
        values, vectors = np.linalg.eigh((precision + precision.T) / 2)
        known = values > _NO_DATA * max(values[-1], 0.0)
        draws = self.rng.standard_normal((int(known.sum()), n))
        return np.asarray(vectors[:, known] @ (draws / np.sqrt(values[known])[:, None]))

    def tables(self, part: CategoricalMutation, counts: list[Array]) -> CategoricalMutation:
        """Return the categorical mutation with parameters drawn, column by column."""
        drawn = []
        for one, pairs in zip(single_columns(part), counts, strict=True):
            marginal, strength = one.marginals[0], one.prior_strength
            if part.kind == "full":
                # The prior Π p^(ν marginal) is a density of the probabilities: Dirichlet(1 + …).
                alpha = pairs + 1.0 + strength * marginal[:, None]
                columns = np.stack([self.rng.dirichlet(a) for a in alpha.T], axis=1)
                drawn.append(replace(one, full_matrices=(columns,)))
                continue
            s = float(one.stickiness[0])
            chance = np.divide(s, s + (1 - s) * marginal, out=np.zeros_like(marginal), where=s > 0)
            kept = int(self.rng.binomial(np.rint(np.diag(pairs)).astype(int), chance).sum())
            fresh = float(pairs.sum()) - kept
            s = self.rng.beta(1.0 + strength / 2 + kept, 1.0 + strength / 2 + fresh)
            drawn.append(replace(one, stickiness=np.array([s])))
        return with_columns(part, drawn)

    def log_weights(self, mixture: MixtureMutation, totals: Array) -> Array:
        """Return the log weights of a draw from their Dirichlet law."""
        return np.asarray(np.log(self.rng.dirichlet(totals + mixture.weight_concentration)))
