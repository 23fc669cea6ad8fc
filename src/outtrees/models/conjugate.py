"""Conjugate posteriors of mutations: what variational Bayes updates."""

from __future__ import annotations

from collections.abc import Callable

from outtrees.models.base import Mutation
from outtrees.models.category import CategoricalPosterior
from outtrees.models.count import PoissonPosterior
from outtrees.models.kernel import KernelPosterior
from outtrees.models.mixture import MixturePosterior
from outtrees.models.normal import GaussianPosterior
from outtrees.models.posterior import PointPosterior, Posterior
from outtrees.models.product import ProductPosterior

__all__ = [
    "POSTERIORS",
    "CategoricalPosterior",
    "GaussianPosterior",
    "KernelPosterior",
    "MixturePosterior",
    "PointPosterior",
    "PoissonPosterior",
    "Posterior",
    "ProductPosterior",
    "make_posterior",
]

POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "gaussian": GaussianPosterior,
    "parzen": lambda: GaussianPosterior(transition="identity"),
    "iid": lambda: GaussianPosterior(transition="zero"),
    "kernel": KernelPosterior,
    "mixture": MixturePosterior,
    "columns": lambda: ProductPosterior(MixturePosterior(n_local=2)),
    "categorical": CategoricalPosterior,
    "poisson": PoissonPosterior,
}


def make_posterior(mutation: str | Posterior | Mutation) -> Posterior:
    """Return the posterior with that name and default priors; a posterior is returned as it is.

    Any other mutation gets a `PointPosterior`.

    Examples
    --------
    >>> make_posterior("parzen")
    GaussianPosterior(transition='identity')
    """
    if isinstance(mutation, Posterior):
        return mutation
    if isinstance(mutation, Mutation):
        return PointPosterior(mutation)
    if isinstance(mutation, str) and mutation in POSTERIORS:
        return POSTERIORS[mutation]()
    names = ", ".join(repr(name) for name in POSTERIORS)
    raise ValueError(
        f"mutation must be a Posterior, a Mutation or one of {names}; got {mutation!r}."
    )
