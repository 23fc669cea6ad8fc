"""Models of one set of records compared by bounds of their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.inference.variational import VariationalFit, fit_posterior
from outtrees.models.conjugate import GaussianPosterior, Posterior, ProductPosterior


@dataclass(frozen=True)
class EvidenceTable:
    """Bounds of the log evidence, best first."""

    models: list[str]
    lower_bounds: Array  # (n,), nats
    fits: list[VariationalFit]

    @property
    def behind(self) -> Array:
        """How far each bound lies below the best, in nats."""
        return np.asarray(self.lower_bounds[0] - self.lower_bounds)

    @property
    def probabilities(self) -> Array:
        """Probability of each model, all equally likely beforehand, bounds taken for evidence."""
        return np.asarray(softmax(self.lower_bounds))

    def __str__(self) -> str:
        width = max(len("model"), *map(len, self.models))
        lines = [f"{'model':{width}}  lower bound   behind  probability"]
        rows = zip(self.models, self.lower_bounds, self.behind, self.probabilities, strict=True)
        lines += [f"{m:{width}}  {b:11.1f}  {d:7.1f}  {p:11.3f}" for m, b, d, p in rows]
        return "\n".join(lines)


def compare_evidence(
    models: Mapping[str, Posterior],
    X: ArrayLike,  # (T, D)
    *,
    random_state: Any = None,
    **fit_options: Any,
) -> EvidenceTable:
    """Return the models' bounds of the log evidence of the same records, best first.

    A bound is below the evidence by a gap that differs between families (`importance_sample`
    estimates it), so differences of a few nats mean little. Models must describe all columns.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> families = {t: GaussianPosterior(transition=t) for t in ("identity", "zero")}
    >>> compare_evidence(families, X).models  # independent records
    ['zero', 'identity']
    """
    if not models:
        raise ArgumentError(
            Option("models"), " must hold at least one posterior; got none. Name what to compare."
        )
    fits = {}
    for name, posterior in models.items():
        fit = fit_posterior(posterior, X, random_state=random_state, **fit_options)
        fits[name] = replace(fit, tree=None)  # T × T arrays of each model would fill the memory
    order = sorted(fits, key=lambda name: -fits[name].lower_bound)
    bounds = np.array([fits[name].lower_bound for name in order])
    return EvidenceTable(order, bounds, [fits[name] for name in order])


def following_the_tree(
    columns: Sequence[int],
    n_features: int,
    family: Posterior | None = None,
) -> ProductPosterior:
    """Return a model in which these columns are inherited and the others are not.

    To ask whether some columns help to explain who came from whom, compare models of *all* columns:
    in each, `columns` follow `family` given the parent, and the rest is drawn afresh for every
    record (one cloud). Evidences of tables with different columns could not be compared.

    Examples
    --------
    >>> model = following_the_tree([0, 2], 3)
    >>> [(part.transition, columns) for part, columns in model.groups]
    [('full', [0, 2]), ('zero', [1])]
    """
    chosen = sorted({int(c) for c in columns})
    if any(c < 0 or c >= n_features for c in chosen):
        raise ArgumentError(
            Option("columns"),
            f" must be positions 0 … {n_features - 1}; got {list(columns)}. Count from 0.",
        )
    rest = [c for c in range(n_features) if c not in chosen]
    groups: list[tuple[Posterior, list[int]]] = []
    if chosen:
        groups.append((GaussianPosterior() if family is None else family, chosen))
    if rest:
        groups.append((GaussianPosterior(transition="zero"), rest))
    return ProductPosterior(groups)
