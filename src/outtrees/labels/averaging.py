"""Label probabilities averaged over settings that few labels cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.labels.choice import OF_CLASS, PLAIN, with_setting
from outtrees.labels.model import LabelModel, Labels
from outtrees.labels.posterior import average_edges, label_posterior
from outtrees.labels.refitting import one_hot

# Steps of each chain that a setting gets at least, of those that count and those before.
FEWEST_DRAWS, _FEWEST_BURN_IN = 4, 1
_LITTLE_WEIGHED = 2  # trees for log Z where nobody asks for it


@dataclass(frozen=True)
class LabelAverage:
    """Labels given attributes and known labels, setting by setting, the weightiest first."""

    weights: Array  # (m,), summing to one
    stickiness: Array  # (m,)
    sharpness: Array  # (m,)
    fresh: Array  # (m,) the form: PLAIN, OF_CLASS, OF_ALL or FOUNDERS
    distributions: Array  # (m, T, C)
    standard_error: Array  # (T, C) Monte-Carlo error of their mean, that of the weights included
    r_hat: float  # the largest split R-hat of each setting, the median over settings
    log_z: float  # log Σ_y Z(y) of the first setting
    label_draws: Labels  # (N, T)
    setting_of_draw: NDArray[np.intp]  # (N,)

    @classmethod
    def of_labels(cls, model: LabelModel, labels: Labels, log_z: float) -> Self:
        """Return one setting with certain labels (T,): the end of a hill-climb."""
        found = one_hot(labels, model.n_classes)
        return cls(
            weights=np.ones(1),
            stickiness=np.array([model.stickiness]),
            sharpness=np.array([model.sharpness]),
            fresh=np.array([OF_CLASS if model.log_fresh is not None else PLAIN], dtype=np.float64),
            distributions=found[None],
            standard_error=np.zeros_like(found),
            r_hat=1.0,
            log_z=log_z,
            label_draws=labels[None],
            setting_of_draw=np.zeros(1, dtype=np.intp),
        )

    @property
    def mean(self) -> Array:
        """P(label), averaged over the settings, (T, C)."""
        return np.tensordot(self.weights, self.distributions, axes=1)

    def reordered(self, order: NDArray[np.intp]) -> Self:
        """Return the same of the records in another order."""
        return replace(
            self,
            distributions=self.distributions[:, order],
            standard_error=self.standard_error[order],
            label_draws=self.label_draws[:, order],
        )

    def models(self, model: LabelModel) -> Iterator[LabelModel]:
        """Yield the model with each setting."""
        for setting in zip(self.stickiness, self.sharpness, self.fresh, strict=True):
            yield with_setting(model, *setting)

    def edges(self, model: LabelModel, n_draws: int) -> tuple[Array, Array]:
        """Return P(u descends from v) and P(r is the root), from about `n_draws` label draws."""
        step = -(-len(self.label_draws) // n_draws)
        total: Any = 0.0
        roots = np.zeros(model.n_records)
        for i, setting in enumerate(self.models(model)):
            draws = self.label_draws[self.setting_of_draw == i][::step]
            edge, root = average_edges(setting, draws)
            total, roots = total + self.weights[i] * edge, roots + self.weights[i] * root
        return total, roots


def average_labels(
    model: LabelModel,
    settings: Array,  # (m, 4) weight, stickiness, sharpness, fresh
    known: Labels,  # (T,), −1 where unknown
    n_chains: int,
    n_draws: int,
    burn_in: int,
    random_state: Any = None,
    weights_without: Array | None = None,  # (parts, m)
) -> LabelAverage:
    """Return the posterior of the labels, averaged over settings with their weights.

    Each setting has chains of its own (`label_posterior`), all n_chains of them, with a share of
    the steps in proportion to its weight, but a few at least. The error of their mean is that of
    the chains and, with `weights_without`, that of the weights, which are sampled too: by the
    jackknife, from the weights without each part of what they were found from.

    Examples
    --------
    >>> near = np.kron(np.eye(2), np.ones((2, 2)))
    >>> model = LabelModel(9 * near[None], np.zeros(4), np.array([0.5, 0.5]), 0.9)
    >>> settings = np.array([[0.7, 0.9, 1.0, 0.0], [0.3, 0.5, 1.0, 0.0]])
    >>> found = average_labels(model, settings, np.array([0, -1, -1, 1]), 2, 20, 2, 0)
    >>> found.mean.argmax(axis=1)
    array([0, 0, 1, 1])
    """
    rng = as_generator(random_state)
    alone = len(settings) == 1
    found = []
    for i, (weight, *setting) in enumerate(settings):
        fewest = (0, 0) if alone else (FEWEST_DRAWS, min(burn_in, _FEWEST_BURN_IN))
        steps = max(fewest[0], int(np.ceil(weight * n_draws)))
        before = max(fewest[1], int(np.ceil(weight * burn_in)))
        own = with_setting(model, *setting)
        options = {} if i == 0 else {"n_weighed": _LITTLE_WEIGHED}
        found.append(label_posterior(own, known, n_chains, steps, before, rng, **options))
    weights = settings[:, 0]
    errors = np.array([posterior.standard_error for posterior in found])
    variance = np.tensordot(weights**2, errors**2, axes=1)
    distributions = np.array([posterior.distributions for posterior in found])
    if weights_without is not None and len(weights) > 1:
        means = np.tensordot(weights_without, distributions, axes=1)
        variance += (len(means) - 1) * means.var(axis=0)
    counts = [len(posterior.label_draws) for posterior in found]
    return LabelAverage(
        weights,
        settings[:, 1],
        settings[:, 2],
        settings[:, 3],
        distributions,
        np.sqrt(variance),
        float(np.median([posterior.r_hat for posterior in found])),
        found[0].log_z,
        np.concatenate([posterior.label_draws for posterior in found]),
        np.repeat(np.arange(len(found)), counts),
    )
