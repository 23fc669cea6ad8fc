"""How attributes mutate, given labels: one mutation for all edges, or two; and their refits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from outtrees._common.edges import EdgeList
from outtrees._common.types import Array
from outtrees.inference import fit_mutation
from outtrees.labels.climbing import Climb, climb_labels
from outtrees.labels.importance import weigh_trees
from outtrees.labels.model import CandidateLabelModel, LabelModel, Labels
from outtrees.labels.posterior import label_posterior
from outtrees.models import GaussianMutation, Mutation
from outtrees.trees import OutTreeDistribution

# Rounds of refits of label-dependent mutations, and trees drawn for each.
_JOINT_ROUNDS = 3
_WEIGHED_TREES = 200


class AttributeMutations(NamedTuple):
    """How attributes mutate where a child keeps its parent's label, and where it changes."""

    kept: Mutation
    changed: Mutation | None = None  # None: the same, whatever the labels
    classes: Array | None = None  # (T, C): a label drawn afresh comes with attributes like theirs

    def knowing(self, labels: Labels, n_classes: int) -> AttributeMutations:
        """Return the mutations with classes as these labels, −1 where unknown, tell them."""
        seen = np.asarray(labels) >= 0
        return self._replace(classes=np.eye(n_classes)[labels] * seen[:, None])

    def common(self, n_records: int, n_classes: int) -> AttributeMutations:
        """Return the mutations with classes that are all alike."""
        return self._replace(classes=np.full((n_records, n_classes), 1 / n_classes))

    def layers(
        self,
        children: Array,  # (n, D)
        parents: Array,  # (m, D)
    ) -> Array:
        """Return log p(x_u | x_v), (1 or 2, n, m) [child, parent]."""
        layers = [self.kept.log_conditional(children, parents)]
        if self.changed is not None:
            layers.append(self.changed.log_conditional(children, parents))
        return np.stack(layers)

    def fresh(
        self,
        X: Array,  # (T, D), the records of `classes`
        records: Array,  # (n, D)
    ) -> Array | None:
        """Return log p(x | class) of the records, (n, C), if labels bring attributes with them."""
        return None if self.classes is None else self.kept.log_by_class(X, self.classes, records)

    def model(
        self,
        X: Array,  # (T, D)
        marginal: Array,  # (C,)
        stickiness: float,
        sharpness: float,
        edges: EdgeList | None = None,  # listed pairs, for one mutation; None: all
    ) -> LabelModel:
        """Return the label model of these records."""
        of_records = (self.kept.log_root(X), marginal, stickiness, sharpness, self.fresh(X, X))
        if edges is None:
            return LabelModel(self.layers(X, X), *of_records)
        layer = self.kept.log_beta_edges(X, edges.child, edges.parent)
        order = np.lexsort((edges.parent, edges.child))
        child, parent = edges.child[order], edges.parent[order]
        return CandidateLabelModel(layer[None, order], *of_records, child=child, parent=parent)

    def refit(
        self,
        X: Array,  # (T, D)
        trees: OutTreeDistribution,
        distributions: Array,  # (T, C) of the labels
        joint: bool,
        model: LabelModel | None = None,  # which gave the trees; needed where attributes are fresh
    ) -> AttributeMutations:
        """Return the mutations after one M-step, each weighed by the edges that it explains."""
        W, roots = trees.edge_marginals, trees.root_marginals
        # P(both have the same label), labels of different records taken one by one. Rounding may
        # leave a probability a hair above 1.
        same = np.minimum(distributions @ distributions.T, 1.0)
        if model is not None and model.log_origins is not None:
            # Of the edges between equal labels, those that were kept and not drawn afresh.
            begun = model.log_origins[np.arange(len(X)), distributions.argmax(axis=1)][:, None]
            kept = model.log_stickiness + model.log_layers[0]
            same = same * np.exp(kept - np.logaddexp(kept, begun))
        if self.classes is not None:
            return self._replace(kept=self.kept.refit(X, W * same, roots))
        if not joint:
            return AttributeMutations(self.kept.refit(X, W, roots))
        changed = self.kept if self.changed is None else self.changed
        return AttributeMutations(
            self.kept.refit(X, W * same, roots), changed.refit(X, W * (1.0 - same), roots)
        )


def fit_window(
    X: Array,  # (T, D)
    **options: Any,
) -> GaussianMutation:
    """Return a Gaussian window around the parent, one width for all columns in their own units.

    The unit of a column is its standard deviation. A width for each column ("parzen-diag") may be
    the better density, but comes out two widths where none is asked for: trees along one
    direction explain the records as well as trees along another, and a fit has to choose.
    `options` are those of `fit_mutation`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 100.0]
    >>> widths = np.sqrt(np.diag(fit_window(X).mutation_cov)) / X.std(axis=0)
    >>> bool(np.isclose(*widths, rtol=1e-3))
    True
    """
    start = GaussianMutation("diag", "identity").start(X)
    varies = np.ptp(X, axis=0) > 0
    if not varies.any():
        return start
    units = np.where(varies, X.std(axis=0), 1.0)
    scaled = (X / units)[:, varies]
    fit = fit_mutation(GaussianMutation("spherical", "identity"), scaled, **options)
    window = cast(GaussianMutation, fit.mutation)
    variances = np.diag(start.mutation_cov).copy()  # a constant column keeps its start
    variances[varies] = np.diag(window.mutation_cov) * units[varies] ** 2
    return replace(start, mutation_cov=np.diag(variances))


def refit_by_labels(
    mutations: AttributeMutations,
    model: LabelModel,
    X: Array,  # (T, D)
    known: Labels,  # (T,), −1 where unknown
    seed: int,
) -> tuple[AttributeMutations, LabelModel]:
    """Return the mutations of edges that keep and that change the label, and their model.

    A few rounds: label probabilities given the mutations, then the mutations given these.
    """
    distributions = weigh_trees(model, known, _WEIGHED_TREES, seed).marginals
    for _ in range(_JOINT_ROUNDS):
        trees = model.trees(np.where(known >= 0, known, distributions.argmax(axis=1)))
        mutations = mutations.refit(X, trees, distributions, joint=True)
        model = mutations.model(X, model.marginal, model.stickiness, model.sharpness)
        distributions = label_posterior(model, known, 1, 20, 5, seed).distributions
    return mutations, model


def climb_and_refit(
    mutations: AttributeMutations,
    model: LabelModel,
    X: Array,  # (T, D)
    known: Labels,  # (T,), −1 where unknown
    *,
    n_init: int,
    max_sweeps: int,
    refit: bool,
    seed: int,
) -> tuple[AttributeMutations, Climb]:
    """Return the hill-climb over labels, and the mutations that it ended with.

    With `refit` the mutations are refitted whenever a climb ends (`climb_labels`).
    """
    versions = [(model, mutations)]

    def of(model: LabelModel) -> AttributeMutations:
        return next(own for version, own in versions if version is model)

    def refit_model(current: LabelModel, trees: OutTreeDistribution, labels: Labels) -> LabelModel:
        distributions = np.eye(current.n_classes)[labels]
        joint = mutations.changed is not None
        new = of(current).refit(X, trees, distributions, joint, current)
        moved = new.model(X, current.marginal, current.stickiness, current.sharpness)
        versions.append((moved, new))
        return moved

    climb = climb_labels(
        model,
        known,
        n_init=n_init,
        max_sweeps=max_sweeps,
        random_state=seed,
        refit=refit_model if refit else None,
    )
    return of(climb.model), climb
