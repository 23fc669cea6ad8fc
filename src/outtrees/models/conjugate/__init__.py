"""Conjugate posteriors of mutations: what variational Bayes updates."""

from __future__ import annotations

from collections.abc import Callable

from outtrees.models.conjugate.base import Posterior
from outtrees.models.conjugate.categorical import CategoricalPosterior
from outtrees.models.conjugate.gaussian import GaussianPosterior
from outtrees.models.conjugate.kernel import KernelPosterior
from outtrees.models.conjugate.mixture import MixturePosterior
from outtrees.models.conjugate.poisson import PoissonPosterior
from outtrees.models.conjugate.product import ProductPosterior

__all__ = [
    "POSTERIORS",
    "CategoricalPosterior",
    "GaussianPosterior",
    "KernelPosterior",
    "MixturePosterior",
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


def make_posterior(mutation: str | Posterior) -> Posterior:
    """Return the posterior with that name and default priors; a posterior is returned as it is.

    Examples
    --------
    >>> make_posterior("parzen")
    GaussianPosterior(transition='identity')
    """
    if isinstance(mutation, Posterior):
        return mutation
    if isinstance(mutation, str) and mutation in POSTERIORS:
        return POSTERIORS[mutation]()
    names = ", ".join(repr(name) for name in POSTERIORS)
    raise ValueError(
        f"mutation is expected to be a Posterior or one of {names}, but got {mutation!r}."
    )
