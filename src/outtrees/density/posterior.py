"""The posterior of a density's parameters: weighted draws, each weighed by a sum over all trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outtrees._common.types import Array
from outtrees.errors import ArgumentError
from outtrees.inference.em import fit_em
from outtrees.inference.importance import (
    WeightedDraws,
    integrate,
    laplace_covariance,
    weighted_quantiles,
)
from outtrees.inference.objective import DenseObjective
from outtrees.models import GaussianMutation, Mutation

_MOST_PARAMETERS = 40  # beyond, weights of a few hundred draws cannot be trusted
_SAME_MODE = 0.1  # difference of parameters up to which two fits are one mode


@dataclass(frozen=True, eq=False)
class ParameterPosterior(WeightedDraws):
    """Draws of the parameters of a mutation, with weights that turn them into the posterior's.

    All numbers are sampled. The mutation's own prior is the prior, flat in `Mutation.params` where
    it says nothing; `log_evidence` is then known up to the prior's constant.
    """

    named: dict[str, Array]  # each parameter of the draws, (n, …)

    def intervals(self, level: float = 0.9) -> dict[str, Array]:
        """Return low end, median and high end of each parameter, in the first axis.

        Of components of a mixture that are alike, labels mean nothing.
        """
        if not 0 < level < 1:
            raise ArgumentError(f"level must lie between 0 and 1; got {level!r}. Use 0.9, say.")
        return {name: self._quantiles(draws, level) for name, draws in self.named.items()}

    def _quantiles(self, draws: Array, level: float) -> Array:
        at = [(1 - level) / 2, 0.5, (1 + level) / 2]
        columns = draws.reshape(len(draws), -1).T
        found = np.array([weighted_quantiles(column, self.weights, at) for column in columns])
        return found.T.reshape(3, *draws.shape[1:])


def parameter_posterior(
    mutation: Mutation,  # fitted to X
    X: Array,  # (T, D)
    n_draws: int = 256,
    seed: int = 0,
) -> ParameterPosterior:
    """Return the posterior of the mutation's parameters, by adaptive importance sampling.

    p(θ | X) ∝ exp(log_prior(θ)) Z(θ), in the coordinates `params`. Proposals are Student t about
    the fit (`outtrees.inference.importance.integrate`), and for a linear map about the best fit
    with parents and children exchanged, between which records tell little. O(n_draws T³).

    Examples
    --------
    >>> from outtrees.inference import fit_mutation
    >>> from outtrees.models import GaussianMutation
    >>> X = np.random.default_rng(0).normal(size=(30, 1))
    >>> fit = fit_mutation(GaussianMutation("spherical", "identity"), X)
    >>> parameter_posterior(fit.mutation, X).trusted
    True
    """
    P = len(mutation.params)
    if not 1 <= P <= _MOST_PARAMETERS:
        raise ArgumentError(
            f"posterior needs a mutation with 1 to {_MOST_PARAMETERS} parameters; got one with "
            f"{P}. Fit one with fewer, such as 'parzen-diag', or use BayesianOutTree."
        )
    objective = DenseObjective(X)

    def log_density(params: Array) -> float:
        point = objective.at_params(mutation, params)
        return -np.inf if point is None else point.value

    def with_slopes(params: Array) -> tuple[float, Array]:
        point = objective.at_params(mutation, params)
        return (-np.inf, np.zeros(P)) if point is None else (point.value, point.gradient)

    modes = [mutation.params]
    turned = mutation.turned() if isinstance(mutation, GaussianMutation) else None
    if turned is not None:
        again = fit_em(turned, X).mutation.params
        if np.abs(again - modes[0]).max() > _SAME_MODE:
            modes.append(again)
    (mode, covariance), *rest = [(mode, laplace_covariance(with_slopes, mode)) for mode in modes]
    draws = integrate(log_density, mode, covariance, n_draws, seed, rest)
    named: dict[str, Any] = {}
    for params in draws.params:
        for name, value in mutation.with_params(params)._named().items():
            named.setdefault(name, []).append(value)
    fields = {name: getattr(draws, name) for name in WeightedDraws.__dataclass_fields__}
    return ParameterPosterior(**fields, named={k: np.array(v) for k, v in named.items()})
