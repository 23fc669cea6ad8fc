"""The posterior of the labels: averaged over trees, over other unknown labels, over settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from outtrees._common.arguments import check_count
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.chains import alternate
from outtrees.labels.importance import TreeProposal, weigh_trees
from outtrees.labels.model import OF_CLASS, PLAIN, LabelModel, Labels

# Trees drawn from one elimination: all have the right law, and more of them cost little beside it.
_TREES_PER_STEP = 8
_OFFERS_PER_STEP = 8  # independent trees that may take the place of the one drawn
_START_TREES = 32  # weighed, for the start of a chain
_SURE = 0.005  # an error of a label probability below which it is known well enough
_WEIGHED_TREES = 256  # for log Σ Z(y)
_AT_ONCE = 2**25  # label probabilities of trees held at the same time: 256 MB
# Independent trees of so many records are hardly ever taken, and cost as much as any.
_MOST_FOR_OFFERS = 5000
# Steps of each chain that a setting gets at least, of those that count and those before.
FEWEST_DRAWS, _FEWEST_BURN_IN = 4, 1
_LITTLE_WEIGHED = 2  # trees for log Z where nobody asks for it


class LabelPosterior(NamedTuple):
    """Label probabilities given attributes and known labels; sampled, with their error."""

    distributions: Array  # (T, C)
    standard_error: Array  # (T, C) Monte-Carlo error of the distributions
    r_hat: float  # the largest split R-hat of the label probabilities that are not sure
    label_draws: Labels  # (n_chains · n_draws, T) draws of all labels
    log_z: float  # log Σ_y Z(y) over the unknown labels, sampled
    log_z_error: float  # its Monte-Carlo standard error


def label_posterior(
    model: LabelModel,
    known: Labels,  # (T,), −1 where unknown
    n_chains: int = 4,
    n_draws: int = 50,
    burn_in: int = 5,
    random_state: Any = None,
    n_weighed: int = _WEIGHED_TREES,
) -> LabelPosterior:
    """Return P(y_u = c | attributes, known labels), averaged over all trees and labels.

    Alternates an exact draw of trees given all labels with an exact joint draw of the unknown
    labels given a tree. What is averaged are the labels' marginals given each tree, which are
    exact (Rao–Blackwell), over several trees for each draw of the labels. Chains start from
    labels drawn by importance sampling over trees, which is close already; so a short burn-in
    is enough. Whole groups of unknown labels that seldom change together would make chains slow;
    so before labels are drawn, a few independent trees that know the known labels, in every other
    step also roughly what these say of the rest (`TreeProposal.sharpened`), are offered in the
    tree's place, and taken or not by Metropolis and Hastings's rule, which leaves the posterior as
    it is. Each step costs one elimination, O(T³). log_z comes from `n_weighed` independent trees.

    Examples
    --------
    Four records in two pairs, with one label known in each.

    >>> near = np.kron(np.eye(2), np.ones((2, 2)))
    >>> model = LabelModel(9 * near[None], np.zeros(4), np.array([0.5, 0.5]), 0.9)
    >>> found = label_posterior(model, np.array([0, -1, -1, 1]), random_state=0)
    >>> found.distributions.argmax(axis=1)
    array([0, 0, 1, 1])
    """
    check_count("label_posterior", "n_chains", n_chains, 1)
    rng = as_generator(random_state)
    proposal = TreeProposal(model, known)
    proposals = [proposal]
    if model.n_records <= _MOST_FOR_OFFERS:
        proposals.append(proposal.sharpened(_START_TREES, rng))
    label_draws: list[Labels] = []

    def start(rng: np.random.Generator) -> Labels:
        return _start(model, known, proposal, rng)

    def draw_trees(labels: Labels, rng: np.random.Generator) -> NDArray[np.intp]:
        return np.asarray(model.trees(labels).sample(_at_most(_TREES_PER_STEP, model), rng))

    def draw_labels(
        trees: NDArray[np.intp], labels: Labels, rng: np.random.Generator
    ) -> tuple[Labels, Array]:
        offering = proposals[len(label_draws) % len(proposals)]  # in turn
        log_weights, marginals = offering.weigh(trees)
        tree = trees[0]
        if model.n_records <= _MOST_FOR_OFFERS:
            tree = _leap(tree, log_weights[0], offering, rng)
        drawn = model.draw_labels(tree, known, rng).states
        label_draws.append(drawn)
        return drawn, marginals.mean(axis=0)

    T = model.n_records
    weighed = weigh_trees(model, known, _at_most(n_weighed, model), rng)
    chains = alternate(start, draw_trees, draw_labels, n_chains, n_draws, burn_in, rng)
    kept = np.array(label_draws).reshape(n_chains, burn_in + n_draws, T)[:, burn_in:]
    return LabelPosterior(
        distributions=chains.mean,
        standard_error=chains.standard_error,
        # A probability that hardly ever moves may have a high R-hat, and matters to nobody.
        r_hat=float(chains.r_hat[chains.standard_error > _SURE].max(initial=1.0)),
        label_draws=kept.reshape(-1, T),
        log_z=weighed.log_z,
        log_z_error=weighed.log_z_error,
    )


def average_edges(
    model: LabelModel,
    label_draws: Labels,  # (n, T)
) -> tuple[Array, Array]:
    """Return P(u descends from v) (T, T) and P(r is the root) (T,), averaged over label draws.

    Given labels, both are exact; so only the labels' share of the uncertainty is sampled. O(n T³).
    Of a model with listed pairs the first is (E,), in the listed order.
    """
    edge, root = np.zeros(model.log_attributes.shape[1:]), np.zeros(model.n_records)
    for labels in label_draws:
        trees = model.trees(labels)
        edge += trees.edge_marginals
        root += trees.root_marginals
    return edge / len(label_draws), root / len(label_draws)


def _start(
    model: LabelModel, known: Labels, proposal: TreeProposal, rng: np.random.Generator
) -> Labels:
    trees, log_weights, _ = proposal.draw(_at_most(_START_TREES, model), rng)
    tree = trees[rng.choice(len(trees), p=softmax(log_weights))]
    return model.draw_labels(tree, known, rng).states


def _at_most(n_trees: int, model: LabelModel) -> int:
    """Return n_trees, or as many as are held at the same time, but two."""
    return max(2, min(n_trees, _AT_ONCE // (model.n_records * model.n_classes)))


def _leap(
    tree: NDArray[np.intp],  # (T,)
    log_weight: float,
    proposal: TreeProposal,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return the tree after offers of independent ones (Metropolis–Hastings)."""
    offers, log_weights, _ = proposal.draw(_OFFERS_PER_STEP, rng)
    patience = rng.exponential(size=len(offers))  # −log of a uniform number
    for offer, offered, wait in zip(offers, log_weights, patience, strict=True):
        if offered > log_weight - wait:
            tree, log_weight = offer, offered
    return tree


# Averaged over settings that few labels cannot tell apart -----------------------------------------


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
        found = np.eye(model.n_classes)[labels]
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
            yield model.with_setting(*setting)

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
        own = model.with_setting(*setting)
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
