"""What `OutTreeDensity` fits: one mutation, its options chosen if need be; or several, mixed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.inference import Selection, fit_mutation, select_mutation
from outtrees.inference.ascent import FitResult
from outtrees.inference.checkpoint import Checkpoint, digest
from outtrees.inference.em import EmStage
from outtrees.inference.restarts import with_known_values
from outtrees.models import (
    CloudsMutation,
    GaussianMutation,
    MixtureMutation,
    Mutation,
    make_mutation,
)

PRIOR_STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3)
N_COMPONENTS = (1, 2, 3, 4, 5, 6, 8)
# Defaults of the estimators: a mutation given as an object has its own.
_DEFAULTS = {"prior_strength": (1.0, "auto"), "reg_covar": (1e-6,)}
_FIELD = {"n_components": "n_iid"}
_WITH_AUTO = ("mutation", "n_components", "prior_strength")
_OF_A_FIT = ("solver", "max_iter", "tol", "n_init", "n_iter_no_change", "verbose")
# None of these changes what is fitted; which pairs take part was decided already.
_NOT_IN_FINGERPRINT = ("n_jobs", "verbose", "candidates", "contamination")
# With fewer records in a fold "auto" takes its first mutation, clouds: nothing can be weighed.
_FEWEST_TO_WEIGH = 4


class Learned(NamedTuple):
    """A fit, and the attributes that tell how its mutation was found."""

    fit: FitResult
    report: dict[str, Any]


def learned(
    settings: Any,  # an `OutTreeDensity`
    mutation: Mutation | None,  # None: several are mixed
    X: Array,  # (T, D)
    sparse: bool,
    checkpoint: Checkpoint,
) -> Learned:
    """Return the fit that the settings of the estimator ask for, to complete records."""
    options = {name: getattr(settings, name) for name in _OF_A_FIT}
    if sparse:
        options |= {"n_candidates": settings.n_candidates, "neighbours": settings.neighbours}
    if mutation is None:
        return _stacked(settings, X, options)
    chosen, report = _selected(settings, with_known_values(mutation, X), X, options)
    seed = settings.random_state if checkpoint.seed is None else checkpoint.seed
    training, held_out = X, None
    if settings.early_stopping:
        training, held_out = split(X, settings.validation_fraction, seed)
    fit = fit_mutation(
        chosen,
        training,
        random_state=seed,
        X_validation=held_out,
        checkpoint=checkpoint,
        **options,
    )
    if held_out is not None:
        report["validation_scores_"] = fit.validation_scores
    return Learned(fit, report)


def auto_settings(settings: Any) -> list[str]:
    """Return the names of the settings that are "auto"."""
    values = {name: getattr(settings, name) for name in _WITH_AUTO}
    return [name for name, v in values.items() if isinstance(v, str) and v == "auto"]


def split(X: Array, share: float, seed: Any) -> tuple[Array, Array]:
    """Return the records to fit to, and this share of them, at random, held out."""
    n_held_out = max(1, round(share * len(X)))
    if len(X) - n_held_out < 2:
        raise ArgumentError(
            "early_stopping with ",
            Option("validation_fraction", share),
            f" leaves {len(X) - n_held_out} of {len(X)} records to fit; at least 2 are needed",
        )
    order = record_order(X)[as_generator(seed).permutation(len(X))]
    return X[np.sort(order[n_held_out:])], X[np.sort(order[:n_held_out])]


# One mutation, and its options ----------------------------------------------------------------


def template(settings: Any, mutation: str | Mutation) -> Mutation:
    """Return the mutation to be fitted; what is "auto" keeps the mutation's own value.

    Raises
    ------
    ValueError
        If an option is given that the mutation would not use.
    """
    made, n_components = make_mutation(mutation), settings.n_components
    options: dict[str, Any] = {name: getattr(settings, name) for name in _DEFAULTS}
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
    return _with_options(made, {k: v for k, v in options.items() if v != "auto"})


def _with_options(mutation: Mutation, options: dict[str, Any]) -> Mutation:
    """Return the mutation with those of the options that it has."""
    has = {field.name for field in fields(mutation)}  # type: ignore[arg-type]
    named = {_FIELD.get(name, name): value for name, value in options.items()}
    return replace(mutation, **{k: v for k, v in named.items() if k in has})  # type: ignore[type-var]


def _selected(
    settings: Any, mutation: Mutation, X: Array, fit_options: dict[str, Any]
) -> tuple[Mutation, dict[str, Any]]:
    """Return the mutation with the options that are "auto" chosen by cross-validation."""
    grids: dict[str, tuple[Any, ...]] = {}
    if settings.n_components == "auto":
        most = max(1, len(X) // 10)  # ten records for a component, at least
        grids["n_components"] = tuple(k for k in N_COMPONENTS if k <= most)
    if settings.prior_strength == "auto":
        grids["prior_strength"] = PRIOR_STRENGTHS
    if not grids:
        return mutation, {}
    tried = [dict(zip(grids, values, strict=True)) for values in product(*grids.values())]
    mutations = {i: _with_options(mutation, options) for i, options in enumerate(tried)}
    selection = select_mutation(mutations, X, **_of_folds(settings), **fit_options)
    best: int = selection.best
    report = {"cv_results_": _table(tried, selection), "best_candidate_": tried[best]}
    return mutations[best], report


def _of_folds(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in ("cv", "n_jobs", "random_state")}


def _table(params: list[Any], selection: Selection) -> dict[str, Any]:
    return {
        "params": params,
        "mean_log_density": selection.mean,
        "std_log_density": selection.standard_deviation,
        "se_log_density": selection.standard_error,
    }


# Several mutations, mixed ---------------------------------------------------------------------

# Chains of clouds: few where folds are weighed, many in the fit that is kept, so that another seed
# gives nearly the same densities.
_CHAINS, _CHAINS_KEPT = 2, 6


@dataclass(frozen=True)
class Stack:
    """A mixture of fitted mutations, and how its weights were found."""

    mutation: MixtureMutation
    weights: Array  # (n_mutations,), of all that were compared
    selection: Selection
    held_out: Array  # (T,), each record's log-density when it was held out, with these weights
    fits: list[FitResult]  # of the mutations that were kept, to all records


def default_mutations(prior_strength: float = 1.0, reg_covar: float = 1e-6) -> dict[str, Mutation]:
    """Return the mutations that `OutTreeDensity(mutation="auto")` weighs against each other.

    Four ignore the parent: clouds whose number and shapes are averaged over, of the columns and of
    their normal scores, with all columns alike beforehand or each following from few others. Two
    follow it: a Parzen window beside a cloud, and curves (children displaced by one of two linear
    maps).
    """
    options: dict[str, Any] = {"prior_strength": prior_strength, "reg_covar": reg_covar}
    linear = GaussianMutation(**options)
    return {
        "clouds": CloudsMutation(n_chains=_CHAINS),
        "clouds, sparse": CloudsMutation(sparse=True, n_chains=_CHAINS),
        "clouds of normal scores": CloudsMutation(scores=True, n_chains=_CHAINS),
        "clouds of normal scores, sparse": CloudsMutation(
            scores=True, sparse=True, n_chains=_CHAINS
        ),
        "cloud + Parzen": MixtureMutation(n_iid=1, **options),
        "cloud + 2 linear maps": MixtureMutation(n_iid=1, n_local=2, local=linear, **options),
    }


def stack_mutations(
    mutations: Mapping[Any, Mutation],
    X: ArrayLike,  # (T, D)
    *,
    cv: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    **fit_options: Any,
) -> Stack:
    """Return the mixture of the mutations that predicts held-out records best.

    Each mutation is fitted to the records outside each of cv folds; the weights maximise
    Σ_t log Σ_c w_c p_c(x_t | records of other folds), a concave problem (stacking of densities,
    Smyth and Wolpert 1999). The mutations are then fitted to all records and mixed with these
    weights: p(child | parent) = Σ_c w_c p_c(child | parent) is again a mutation, and its leaf
    predictive a normalised density.

    Cost: (cv + 1) fits of each mutation, but one of those that the first fold puts far behind;
    folds and mutations in parallel.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> mutations = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    >>> stack_mutations(mutations, X, cv=3, random_state=0).weights.sum().round(6)
    np.float64(1.0)
    """
    records = np.asarray(X, dtype=np.float64)
    of_folds = {"cv": cv, "n_jobs": n_jobs, "random_state": random_state}
    selection = select_mutation(mutations, records, race=True, **of_folds, **fit_options)
    weights, kept, shares = selection.stacked()
    # One seed for all fits; a generator has moved on by now.
    whole = isinstance(random_state, (int, np.integer))
    seed = int(random_state if whole else as_generator(random_state).integers(2**31))
    fits = []
    for name in (selection.names[c] for c in kept):
        mutation = mutations[name]
        if isinstance(mutation, CloudsMutation) and mutation.n_chains == _CHAINS:
            mutation = replace(mutation, n_chains=_CHAINS_KEPT)
        fit = fit_mutation(mutation, records, random_state=seed, **fit_options)
        fits.append(replace(fit, tree=None))  # the mixture has trees of its own
    parts = tuple(fit.mutation for fit in fits)
    mixture = replace(
        MixtureMutation(components=parts),
        parts=parts,
        log_weights=np.log(shares),
        root_weights=shares,
    )
    held_out = logsumexp(
        selection.log_densities[kept] + np.log(shares)[:, None], axis=0
    )  # as if the weights had been known before
    return Stack(mixture, weights, selection, held_out, fits)


def _stacked(settings: Any, X: Array, fit_options: dict[str, Any]) -> Learned:
    """Return the mixture of the default mutations as one fit of no steps of its own."""
    if settings.early_stopping or isinstance(settings.prior_strength, str):
        raise ArgumentError(
            Option("mutation", "auto"),
            " weighs several mutations on held-out records already; leave out ",
            Option("early_stopping"),
            " and ",
            Option("prior_strength", "auto"),
            ", or name one mutation",
        )
    mutations = default_mutations(settings.prior_strength, settings.reg_covar)
    if len(X) < _FEWEST_TO_WEIGH * settings.cv:
        first = next(iter(mutations.values()))
        return Learned(fit_mutation(first, X, random_state=settings.random_state), {})
    stack = stack_mutations(mutations, X, **_of_folds(settings), **fit_options)
    fit = FitResult(
        mutation=stack.mutation,
        log_likelihoods=np.empty(0),  # known when its trees are
        n_iter=max(fit.n_iter for fit in stack.fits),
        n_evaluations=sum(fit.n_evaluations for fit in stack.fits),
        stopped_by="tol" if all(fit.converged for fit in stack.fits) else "max_iter",
    )
    report = {
        "cv_results_": _table(list(mutations), stack.selection) | {"weight": stack.weights},
        "held_out_log_density_": stack.held_out,
        "best_candidate_": stack.selection.best,
    }
    return Learned(fit, report)


# Checkpoints ----------------------------------------------------------------------------------


def checkpoint_of(
    settings: Any, X: Array, way: str, path: str | os.PathLike[str] | None, hidden: bool
) -> Checkpoint:
    """Return the checkpoint of a fit; a fit without a seed draws one, which the file keeps."""
    if path is None:
        return Checkpoint()
    _refuse_what_no_checkpoint_keeps(settings, hidden)
    params = settings.get_params(deep=False)
    kept = {k: v for k, v in params.items() if k not in _NOT_IN_FINGERPRINT}
    own = [type(settings.mutation)] if isinstance(settings.mutation, Mutation) else []
    fingerprint = digest({**kept, "way": way, "X": X}, own)
    seed = int(np.random.default_rng().integers(2**31)) if settings.random_state is None else None
    return Checkpoint.in_file(
        path, fingerprint, lambda fields: EmStage(*fields), of="data", seed=seed, classes=own
    )


def _refuse_what_no_checkpoint_keeps(settings: Any, hidden: bool) -> None:
    for name in auto_settings(settings):
        raise ArgumentError(
            "a checkpoint keeps one fit, but ",
            Option(name, "auto"),
            " makes one for each fold; name one mutation with its options, or fit without a "
            "checkpoint",
        )
    if hidden:
        raise ArgumentError(
            "a checkpoint keeps a fit to complete records, but some cells are missing; fill "
            "them in with OutTreeImputer first, or fit without a checkpoint"
        )
    if settings.solver != "em":
        raise ArgumentError(
            Option("solver"),
            f" must be 'em' for a checkpoint; got {settings.solver!r}. Change it, or fit without a "
            "checkpoint.",
        )
    if settings.random_state is not None and not isinstance(settings.random_state, Integral):
        raise ArgumentError(
            Option("random_state"),
            " must be an int or None for a checkpoint; got a "
            f"{type(settings.random_state).__name__}, which would have another state when the fit "
            "resumes. Give a number.",
        )
