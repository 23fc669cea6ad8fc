"""How a child differs from its parent: densities, samples and weighted refits."""

from __future__ import annotations

from collections.abc import Callable

from outtrees.models.base import Mutation
from outtrees.models.category import BernoulliMutation, CategoricalMutation
from outtrees.models.clouds import CloudsMutation
from outtrees.models.column import ColumnMutation
from outtrees.models.count import PoissonMutation
from outtrees.models.kernel import KernelMutation
from outtrees.models.mixture import MixtureMutation
from outtrees.models.normal import GaussianMutation
from outtrees.models.product import ProductMutation

__all__ = [
    "MUTATIONS",
    "BernoulliMutation",
    "CategoricalMutation",
    "CloudsMutation",
    "ColumnMutation",
    "GaussianMutation",
    "KernelMutation",
    "MixtureMutation",
    "Mutation",
    "PoissonMutation",
    "ProductMutation",
    "make_mutation",
]

MUTATIONS: dict[str, Callable[[], Mutation]] = {
    "gaussian": GaussianMutation,
    "parzen": lambda: GaussianMutation(transition="identity"),
    "parzen-diag": lambda: GaussianMutation("diag", "identity"),
    "iid": lambda: GaussianMutation(transition="zero"),
    "kernel": KernelMutation,
    "mixture": MixtureMutation,
    "clouds": CloudsMutation,
    "columns": lambda: ProductMutation(MixtureMutation(n_local=2)),
    "categorical": CategoricalMutation,
    "poisson": PoissonMutation,
    "bernoulli": BernoulliMutation,
}


def make_mutation(mutation: str | Mutation) -> Mutation:
    """Return the mutation with that name and default options; a mutation is returned as it is.

    Parameters
    ----------
    mutation : str or Mutation
        A name in `MUTATIONS`, or a mutation.

    Returns
    -------
    Mutation
        Not fitted.

    Raises
    ------
    ValueError
        If the name is not known.

    Examples
    --------
    >>> make_mutation("parzen")
    GaussianMutation(transition='identity')
    """
    if isinstance(mutation, Mutation):
        return mutation
    if isinstance(mutation, str) and mutation in MUTATIONS:
        return MUTATIONS[mutation]()
    names = ", ".join(repr(name) for name in MUTATIONS)
    raise ValueError(f"mutation must be a Mutation or one of {names}; got {mutation!r}.")
