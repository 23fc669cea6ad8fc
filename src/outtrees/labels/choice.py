"""Choosing stickiness, sharpness and form of the model among the labelled records."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from outtrees._common.edges import EdgeList
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.labels.importance import WeighedLabels, weigh_trees
from outtrees.labels.model import FOUNDERS, OF_ALL, OF_CLASS, PLAIN, LabelModel, Labels
from outtrees.labels.refitting import AttributeMutations

# Settings that are tried where all four forms are: stickiness, sharpness over the usual one.
# They are those that did well on sets of many kinds (docs/labels.md): classes that are clouds want
# blunt trees, classes that wind want sharp ones whose labels seldom change.
_TRIED = {
    PLAIN: ((0.95, 0.99), (2.0, 8.0)),
    OF_CLASS: ((0.5, 0.8), (0.25, 0.5, 1.0)),
    OF_ALL: ((0.95, 0.99), (4.0, 8.0)),
    FOUNDERS: ((0.99,), (4.0, 8.0)),  # whatever the stickiness
}
# The two with founders count, beforehand, for about as much as those in which labels change.
_FOUNDERS_MORE = 1.0
_TRIED_ALONE = (0.5, 0.8, 0.95, 0.99), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # where one form is
_MOST_SETTINGS = 8  # that are averaged
_LEAST_WEIGHT = 0.02  # of the best one's
# Hidden labels are predicted one by one, but are not independent: their sum says too much.
_TRUST = 0.5
# The sharpest trees are sure of every label, and now and then wrong: one wrong label says no more
# against them than this share of doubt lets it.
_DOUBT = 0.05
# What the attributes say of classes that wind (`winding`): clouds of real classes are behind by so
# many nats too; of the difference this share counts, up to a limit.
_EVEN_WINDING, _WINDING_TRUST, _MOST_WINDING = 15.0, 0.2, 4.0
_FEWEST_WINDING = 10  # records for each class, below which nothing is said
_PARTS = 8  # of the trees, each left out in turn, to see how much the scores depend on them
_TRIED_TREES = 64  # for each setting and fold


class Setting(NamedTuple):
    """What is left open beside the attributes' mutation."""

    stickiness: float
    sharpness: float
    fresh: int = OF_CLASS  # PLAIN, OF_CLASS, OF_ALL or FOUNDERS


@dataclass(frozen=True)
class Choice:
    """The settings tried, what each says of the known labels, and the chosen one."""

    best: LabelModel
    stickiness: Array  # (n,)
    sharpness: Array  # (n,)
    fresh: Array  # (n,) PLAIN, OF_CLASS, OF_ALL or FOUNDERS
    log_held_out: Array  # (n,) Σ log p(label | labels of other folds, attributes), with doubt
    errors: Array  # (n,) the share of known labels that the other folds get wrong
    effective_trees: Array  # (n,) behind each estimate, the fewest of all folds
    scores: Array  # (n,) half of log_held_out, and what the attributes say for the form
    # (n, parts) the same without each part of the trees
    scores_without: Array = field(default_factory=lambda: np.empty((0, 0)))

    def settings(self, most: int = _MOST_SETTINGS) -> Array:
        """Return weights, stickiness, sharpness and fresh of the best settings, (m, 4).

        The weights are those of the scores as log-probabilities, and sum to one. What few labels
        leave open is so left open.
        """
        order = self._weightiest(most)
        of_settings = self.stickiness[order], self.sharpness[order], self.fresh[order]
        return np.column_stack([_weights(self.scores[order]), *of_settings])

    def weights_without(self, most: int = _MOST_SETTINGS) -> Array:
        """Return the weights of the same settings without each part of the trees, (parts, m).

        The scores are sampled; these say by how much that moves the weights (the jackknife).
        """
        return _weights(self.scores_without[self._weightiest(most)].T)

    def _weightiest(self, most: int) -> Labels:
        """Return the best settings, the best first; of those that tie, each form's in turn."""
        in_form = np.empty(len(self.scores))  # the place of each setting among those of its form
        for form in np.unique(self.fresh):
            own = np.flatnonzero(self.fresh == form)
            in_form[own[np.argsort(-self.scores[own], kind="stable")]] = np.arange(len(own))
        order = np.lexsort((in_form, -self.scores))[: min(most, _MOST_SETTINGS)]
        weights = _weights(self.scores[order])
        return np.asarray(order[weights >= _LEAST_WEIGHT * weights[0]])


def _weights(scores: Array) -> Array:
    """Return weights from scores as log-probabilities, in the last axis."""
    return np.asarray(softmax(np.maximum(scores, -1e300), axis=-1))  # none may be possible


def usual_sharpness(n_features: int) -> float:
    """Return min(1, 3 / √D): many columns taken as independent make a tree posterior too sure.

    Examples
    --------
    >>> [usual_sharpness(D) for D in (3, 9, 36)]
    [1.0, 1.0, 0.5]
    """
    return min(1.0, 3.0 / float(np.sqrt(n_features)))


def tried_settings(
    forms: Sequence[int],
    n_features: int,
    stickiness: float | None = None,
    sharpness: float | None = None,
) -> list[Setting]:
    """Return the settings to choose from; a stickiness or sharpness that is given is in all.

    Examples
    --------
    >>> len(tried_settings((PLAIN, OF_CLASS, OF_ALL, FOUNDERS), 3)), len(tried_settings([PLAIN], 3))
    (16, 24)
    >>> tried_settings([PLAIN], 36, stickiness=0.9)[0]
    Setting(stickiness=0.9, sharpness=0.125, fresh=0)
    """
    found = []
    for form in forms:
        sticky, powers = _TRIED_ALONE if len(forms) == 1 else _TRIED[form]
        sharp = [usual_sharpness(n_features) * power for power in powers]
        for a in sharp if sharpness is None else [sharpness]:
            found += [Setting(s, a, form) for s in (sticky if stickiness is None else [stickiness])]
    return found


def neighbourhoods(edges: EdgeList, known: Labels, n_records: int, random_state: Any) -> Labels:
    """Return the rows of about `n_records` records in four neighbourhoods of labelled ones, sorted.

    Neighbourhoods grow along the listed edges, so records in them are as near to each other as all
    are; records drawn one by one would be farther apart than what the settings are for. All rows
    if there are no more than that.

    Examples
    --------
    >>> chain = EdgeList.of(np.arange(1, 100), np.arange(99), 100)
    >>> len(neighbourhoods(chain, np.zeros(100, dtype=int), 40, 0))
    40
    """
    from scipy.sparse.csgraph import breadth_first_order

    T = edges.n_records
    if n_records >= T:
        return np.arange(T)
    graph = edges.matrix(np.ones(len(edges)))
    taken = np.zeros(T, dtype=bool)
    for seed in as_generator(random_state).permutation(np.flatnonzero(known >= 0)):
        left = n_records - int(taken.sum())
        if left <= 0:
            break
        if taken[seed]:
            continue
        near = breadth_first_order(graph, seed, directed=False, return_predecessors=False)
        taken[near[~taken[near]][: min(left, -(-n_records // 4))]] = True
    return np.flatnonzero(taken)


def choose_settings(
    model: LabelModel,
    known: Labels,  # (T,), −1 where unknown
    settings: Sequence[Setting],
    cv: int = 4,
    n_trees: int = 64,
    random_state: Any = None,
    given: Callable[[Labels], LabelModel] | None = None,
    favour: float = 0.0,
) -> Choice:
    """Return the setting that predicts known labels from other known ones best.

    The known labels are dealt, always alike, into `cv` folds (one label each if few); the
    labels of each fold are hidden in turn, and predicted from all attributes and the other labels
    (`weigh_trees`); half of their log-probability counts. O(T³) for each setting and fold.

    `given` returns the model that knows these labels only, if what is hidden would show in `model`.
    `favour` is added to the scores of settings in which classes have no clouds of their own (all
    but OF_CLASS).

    Examples
    --------
    >>> near = np.kron(np.eye(2), np.ones((4, 4)))
    >>> model = LabelModel(9 * near[None], np.zeros(8), np.array([0.5, 0.5]), 0.5)
    >>> known = np.repeat([0, 1], 4)
    >>> settings = [Setting(0.1, 1.0, PLAIN), Setting(0.9, 1.0, PLAIN)]
    >>> choose_settings(model, known, settings, random_state=0).best.stickiness
    0.9
    """
    rng = as_generator(random_state)
    labels = np.asarray(known)
    # The same deal for every seed: other folds ask another question, which no error covers.
    seen = np.random.default_rng(0).permutation(np.flatnonzero(labels >= 0))
    hidden = []
    for fold in np.array_split(seen, min(cv, len(seen))):
        left = labels.copy()
        left[fold] = -1
        hidden.append((fold, left, model if given is None else given(left)))
    rows, without = [], []
    for setting in settings:
        held_out, wrong, effective = np.zeros(1 + min(_PARTS, n_trees)), 0, np.inf
        for fold, left, knowing in hidden:
            own = knowing.with_setting(*setting)
            weighed = weigh_trees(own, left, n_trees, rng, seen=fold)
            chances = weighed.marginals[fold]
            held_out += _held_out(weighed, labels[fold], len(held_out) - 1)
            wrong += int((chances.argmax(axis=1) != labels[fold]).sum())
            effective = min(effective, weighed.effective_trees)
        more = favour * (setting.fresh != OF_CLASS) + _FOUNDERS_MORE * (setting.fresh == FOUNDERS)
        score, *others = _TRUST * held_out + more
        rows.append((*setting, held_out[0], wrong / len(seen), effective, score))
        without.append(others)
    table = np.array(rows, dtype=np.float64).T
    best = model.with_setting(*table[:3, int(table[-1].argmax())])
    return replace(Choice(best, *table), scores_without=np.array(without))


def _held_out(weighed: WeighedLabels, labels: Labels, n_parts: int) -> Array:
    """Return Σ log p of these labels by all trees, and without each part of them, (1 + parts,)."""
    of_trees = weighed.of_trees[:, np.arange(len(labels)), labels]  # (trees, fold)
    kept = np.ones((1 + n_parts, len(of_trees)))
    for part in range(n_parts):
        kept[1 + part, part::n_parts] = 0.0
    weights = kept * weighed.weights
    total = weights.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without the one tree that weighs anything there is nothing: no chance at all.
        chances = np.where(total > 0, weights @ of_trees / total, 0.0)
    doubtful = (1 - _DOUBT) * chances + _DOUBT / weighed.marginals.shape[1]
    return np.asarray(np.log(doubtful).sum(axis=1))


def winding(
    X: Array,  # (T, D) of real numbers, none missing
    n_classes: int,
) -> float:
    """Return by how many nats neighbours foretell records better than `n_classes` clouds, less 15.

    Both are asked for records that are left out, in the plane of the two largest principal
    components: a kernel density whose width is the best of several, and the best Gaussian mixture
    with so many components. Labels play no part. Where classes are clouds neither is much better;
    rings, spirals and moons have no such clouds. No record counts for more than two nats. 0 with
    fewer than ten records for each class.

    Examples
    --------
    >>> angle = np.linspace(0, 2 * np.pi, 75, endpoint=False)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> rings = np.vstack([ring, 0.4 * ring]) + np.random.default_rng(0).normal(0, 0.05, (150, 2))
    >>> winding(rings, 2) > 10, winding(np.random.default_rng(0).normal(size=(150, 2)), 2) < 0
    (True, True)
    """
    from scipy.spatial.distance import pdist, squareform
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    X = np.unique(X, axis=0)  # coincident records would foretell each other; rows in any order
    T, spread = len(X), X.std(axis=0)
    if _FEWEST_WINDING * n_classes > T:
        return 0.0
    centred = (X - X.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    plane = np.linalg.svd(centred, full_matrices=False)
    points = (plane.U * plane.S)[:, :2]
    width = np.sqrt(points.var(axis=0).mean())
    square = squareform(pdist(points, "sqeuclidean"), checks=False) / width**2
    np.fill_diagonal(square, np.inf)

    near = [
        logsumexp(-0.5 * square / h**2, axis=1) - points.shape[1] * np.log(h * width)
        for h in np.geomspace(0.05, 1.0, 12)
    ]
    by_neighbours = max(near, key=np.sum) - np.log(T - 1) - points.shape[1] / 2 * np.log(2 * np.pi)
    clouds = []
    for covariance in ("tied", "diag", "full"):
        mixture = GaussianMixture(
            n_classes, covariance_type=covariance, reg_covar=1e-3 * width**2, random_state=0
        )
        log_density = np.empty(T)
        for fold in range(4):
            left_out = np.arange(T) % 4 == fold
            with warnings.catch_warnings():  # any clouds will do that foretell well
                warnings.simplefilter("ignore", ConvergenceWarning)
                mixture.fit(points[~left_out])
            log_density[left_out] = mixture.score_samples(points[left_out])
        clouds.append(log_density)
    # A record far from all others says more against one form of the clouds than it should.
    by_clouds = max(clouds, key=lambda c: np.maximum(c, np.quantile(c, 0.02)).sum())
    return float(np.clip(by_neighbours - by_clouds, -2.0, 2.0).sum()) - _EVEN_WINDING


def settled_model(
    mutations: AttributeMutations,
    X: Array,  # (T, D)
    known: Labels,  # (T,), −1 where unknown
    marginal: Array,  # (C,)
    *,
    stickiness: float | str,
    sharpness: float | str,
    n_features: int,
    joint: bool | str,
    founders: bool,
    random_state: Any,
) -> tuple[LabelModel, Choice | None]:
    """Return the label model with stickiness and sharpness as given or, where "auto", chosen.

    With joint="either" the model has what all forms need, and the choice says which is better;
    `founders` says whether FOUNDERS is one of them. The choice is None where nothing was left to
    choose, or no label could be hidden.
    """
    given = {
        name: float(value)
        for name, value in (("stickiness", stickiness), ("sharpness", sharpness))
        if not isinstance(value, str)
    }
    model = mutations.model(X, marginal, 0.9, 1.0)
    model = model.with_options(**{"sharpness": usual_sharpness(n_features), **given})
    if joint in ("common", "either"):
        model = model.with_options(log_common=mutations.common(len(X), len(marginal)).fresh(X, X))
    if joint == "either" and founders:
        model = model.with_options(founders=known)
    # One label has no others to be predicted from; one class needs no choice.
    if len(given) == 2 or model.n_classes == 1 or (known >= 0).sum() < 2:
        return model, None

    def knowing(labels: Labels) -> LabelModel:
        classes = mutations.knowing(labels, model.n_classes)
        founders = None if model.founders is None else labels
        return model.with_options(log_fresh=classes.fresh(X, X), founders=founders)

    favour = 0.0
    # A mutation without a noise is not of real numbers.
    if joint == "either" and mutations.kept._narrowed(0.5) is not None and not np.isnan(X).any():
        favour = _WINDING_TRUST * winding(X, model.n_classes)
    either = tuple(form for form in _TRIED if founders or form != FOUNDERS)
    forms = {"fresh": (OF_CLASS,), "common": (OF_ALL,), "either": either}
    choice = choose_settings(
        model,
        known,
        tried_settings(forms.get(str(joint), (PLAIN,)), n_features, **given),
        random_state=random_state,
        given=knowing if joint in ("fresh", "either") else None,
        n_trees=_TRIED_TREES,
        favour=float(np.clip(favour, -_MOST_WINDING, _MOST_WINDING)),
    )
    best = choice.best
    return model.with_options(stickiness=best.stickiness, sharpness=best.sharpness), choice
