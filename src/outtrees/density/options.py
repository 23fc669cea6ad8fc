"""The mutation that an `OutTreeDensity` fits, by its parameters, and the options to choose from."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import Any

from outtrees.errors import ArgumentError, Option
from outtrees.models import MixtureMutation, Mutation, make_mutation

PRIOR_STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3)
N_COMPONENTS = (1, 2, 3, 4, 5, 6, 8)
# Defaults of the estimators: a mutation given as an object has its own.
_DEFAULTS = {"prior_strength": (1.0, "auto"), "reg_covar": (1e-6,)}
_FIELD = {"n_components": "n_iid"}


def template(
    mutation: str | Mutation,
    *,
    n_components: int | str | None,
    prior_strength: float | str,
    reg_covar: float,
) -> Mutation:
    """Return the mutation to be fitted; what is "auto" keeps the mutation's own value.

    Raises
    ------
    ValueError
        If an option is given that the mutation would not use.
    """
    made = make_mutation(mutation)
    options: dict[str, Any] = {"prior_strength": prior_strength, "reg_covar": reg_covar}
    if isinstance(mutation, Mutation):
        for name, value in options.items():
            if value not in _DEFAULTS[name]:
                raise ArgumentError(
                    Option(name, value),
                    " is for a mutation given by its name, but mutation is a "
                    f"{type(made).__name__}, which has options of its own; set it there",
                )
        options = {}
    takes_components = isinstance(made, MixtureMutation) and made.components is None
    if takes_components and n_components is not None:
        options["n_components"] = n_components
    elif n_components not in (None, 1):  # all others have one component
        raise ArgumentError(
            Option("n_components", n_components),
            " is for ",
            Option("mutation", "mixture"),
            f", but mutation is {mutation!r}; leave n_components out or change the mutation",
        )
    return with_options(made, {k: v for k, v in options.items() if v != "auto"})


def option_grid(
    mutation: Mutation,
    n_samples: int,
    *,
    n_components: int | str | None,
    prior_strength: float | str,
) -> list[tuple[dict[str, Any], Mutation]]:
    """Return the options to choose from, each with its mutation; none if nothing is "auto".

    Examples
    --------
    >>> mutation = MixtureMutation()
    >>> [o for o, _ in option_grid(mutation, 40, n_components="auto", prior_strength=1.0)]
    [{'n_components': 1}, {'n_components': 2}, {'n_components': 3}, {'n_components': 4}]
    """
    grids: dict[str, tuple[Any, ...]] = {}
    if n_components == "auto":
        most = max(1, n_samples // 10)  # ten records for a component, at least
        grids["n_components"] = tuple(k for k in N_COMPONENTS if k <= most)
    if prior_strength == "auto":
        grids["prior_strength"] = PRIOR_STRENGTHS
    if not grids:
        return []
    combined = [dict(zip(grids, values, strict=True)) for values in product(*grids.values())]
    return [(options, with_options(mutation, options)) for options in combined]


def with_options(mutation: Mutation, options: dict[str, Any]) -> Mutation:
    """Return the mutation with those of the options that it has."""
    has = {field.name for field in fields(mutation)}  # type: ignore[arg-type]
    named = {_FIELD.get(name, name): value for name, value in options.items()}
    return replace(mutation, **{k: v for k, v in named.items() if k in has})  # type: ignore[type-var]
