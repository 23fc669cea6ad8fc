"""Parameters of mutations by name, and quantiles of drawn ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.categorical import CategoricalMutation
from outtrees.models.gaussian import GaussianMutation
from outtrees.models.kernel import KernelMutation
from outtrees.models.mixture import MixtureMutation
from outtrees.models.poisson import PoissonMutation
from outtrees.models.product import ProductMutation


def named_parameters(mutation: Mutation) -> dict[str, Array]:
    """Return the conditional's free parameters as arrays by name; parts have their number.

    Examples
    --------
    >>> from outtrees.models.conjugate import GaussianPosterior
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> list(named_parameters(GaussianPosterior().start(X).draw(0)))
    ['transition_matrix', 'offset', 'mutation_cov']
    """
    if isinstance(mutation, GaussianMutation):
        names = ["offset"] if mutation._offset_is_free else []
        if mutation.transition == "full":
            names.insert(0, "transition_matrix")
        return {name: getattr(mutation, name) for name in [*names, "mutation_cov"]}
    if isinstance(mutation, KernelMutation):
        names = ["kernel_weights", "offset", "mutation_cov"]
        return {name: getattr(mutation, name) for name in names}
    if isinstance(mutation, PoissonMutation):
        return {name: getattr(mutation, name) for name in ("immigration", "branching")}
    if isinstance(mutation, CategoricalMutation):
        if mutation.kind == "sticky":
            return {"stickiness": mutation.stickiness}
        return {f"matrices[{d}]": matrix for d, matrix in enumerate(mutation.full_matrices)}
    if isinstance(mutation, (MixtureMutation, ProductMutation)):
        found = {"weights": mutation.weights} if isinstance(mutation, MixtureMutation) else {}
        for k, part in enumerate(mutation.parts):
            found |= {f"parts[{k}].{n}": v for n, v in named_parameters(part).items()}
        return found
    return {"params": np.asarray(mutation.params)}


def parameter_quantiles(
    mutations: Sequence[Mutation],
    weights: Array,  # (n,), sum 1
    probabilities: Sequence[float],
) -> dict[str, Array]:
    """Return quantiles of each parameter over weighted draws, in the first axis.

    Examples
    --------
    >>> from outtrees.models import PoissonMutation
    >>> draws = [PoissonMutation(root_rate=[1], immigration=[a], branching=[0]) for a in range(9)]
    >>> parameter_quantiles(draws, np.full(9, 1 / 9), [0.1, 0.5])["immigration"]
    array([[0.],
           [4.]])
    """
    named = [named_parameters(mutation) for mutation in mutations]
    result = {}
    for name in named[0]:
        values = np.array([draw[name] for draw in named])
        flat = values.reshape(len(values), -1)
        order = np.argsort(flat, axis=0)
        mass = np.cumsum(np.asarray(weights)[order], axis=0)
        ordered = np.take_along_axis(flat, order, axis=0)
        rows = [np.minimum((mass < p).sum(axis=0), len(values) - 1) for p in probabilities]
        quantiles = [ordered[row, np.arange(flat.shape[1])] for row in rows]
        result[name] = np.array(quantiles).reshape(len(probabilities), *values.shape[1:])
    return result
