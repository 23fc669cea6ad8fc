"""Labels averaged over weighed trees: independent draws, for choices and for starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import NoSpanningTreeError
from outtrees.inference.messages import pass_messages
from outtrees.labels.model import LabelModel, Labels, evidence

_BELIEVED = 0.8  # of what trees say of unknown labels; the rest stays as it was beforehand
_CONTRADICTION = (
    "no tree allows the known labels: they contradict each other at stickiness 1; use a "
    "stickiness below 1"
)


class WeighedLabels(NamedTuple):
    """Estimates from independent trees drawn from a nearby distribution, and weighed."""

    marginals: Array  # (T, C) P(label | attributes, known labels)
    log_z: float  # log Σ Z(y) over all settings y of the unknown labels
    log_z_error: float  # its Monte-Carlo standard error
    effective_trees: float  # (Σ w)² / Σ w²
    trees: NDArray[np.intp]  # (n, T)
    weights: Array  # (n,), summing to one
    of_trees: Array  # (n, m, C) P(label | tree, known labels) of the records asked for


def weigh_trees(
    model: LabelModel,
    known: Labels,  # (T,), −1 where unknown
    n_trees: int = 128,
    random_state: Any = None,
    seen: Labels | None = None,  # (m,) records whose labels are returned tree by tree
) -> WeighedLabels:
    """Return label probabilities by importance sampling over trees.

    Trees come from the distribution whose edges hold what the labels of both their ends say as
    a pair (an unknown label integrated out); each is weighed by p(known labels | tree) over what
    the pairs said, which makes every average right in the limit. A tree's messages give its label
    marginals exactly.

    One elimination for all trees, O(T³), and O(T² + T C) per tree: cheap beside the
    alternating sampler, as long as `effective_trees` is not small.

    Examples
    --------
    Four records in two pairs, with one label known in each.

    >>> near = np.kron(np.eye(2), np.ones((2, 2)))
    >>> model = LabelModel(9 * near[None], np.zeros(4), np.array([0.5, 0.5]), 0.9)
    >>> weigh_trees(model, np.array([0, -1, -1, 1]), 500, 0).marginals.argmax(axis=1)
    array([0, 0, 1, 1])
    """
    proposal = TreeProposal(model, known)
    trees, log_weights, marginals = proposal.draw(n_trees, as_generator(random_state))
    log_total = float(logsumexp(log_weights))
    if log_total == -np.inf:
        raise ValueError(_CONTRADICTION)
    weights = np.exp(log_weights - log_total)
    return WeighedLabels(
        marginals=np.tensordot(weights, marginals, axes=1),
        log_z=proposal.log_z + log_total - float(np.log(n_trees)),
        log_z_error=float((n_trees * weights).std(ddof=1) / np.sqrt(n_trees)),
        effective_trees=float(1 / (weights**2).sum()),
        trees=trees,
        weights=weights,
        of_trees=marginals[:, [] if seen is None else seen],
    )


class TreeProposal:
    """Trees whose edges know what the labels of their two ends say as a pair, and their weights."""

    def __init__(self, model: LabelModel, known: Labels, beliefs: Array | None = None) -> None:
        self._model, self._known = model, np.asarray(known)
        self._log_nodes = evidence(self._known, model.n_classes)
        if beliefs is None:
            beliefs = _prior_beliefs(model, self._log_nodes)
        log_beta, self._pairs = _pairwise(model, beliefs)
        try:
            self._trees = model.distribution(log_beta, model.log_roots)
        except NoSpanningTreeError as error:
            raise ValueError(_CONTRADICTION) from error

    @property
    def log_z(self) -> float:
        """Log of the sum of the proposal's weights."""
        return float(self._trees.log_z)

    def draw(self, n_trees: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Array, Array]:
        """Return independent trees (n, T), their log-weights (n,), label marginals (n, T, C)."""
        trees = self._trees.sample(n_trees, rng)
        return trees, *self.weigh(trees)

    def weigh(self, trees: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return log(weight of the tree, labels summed / the proposal's), and label marginals."""
        model = self._model
        edges = model.structured_edges(trees)
        _, marginals, log_z = pass_messages(trees, self._log_nodes, edges, model.log_marginal)
        along = model.along(self._pairs, trees)
        return log_z - np.where(trees < 0, 0.0, along).sum(axis=1), marginals

    def sharpened(self, n_trees: int, rng: np.random.Generator) -> TreeProposal:
        """Return a proposal whose trees also know what some say of the unknown labels.

        It is nearer to the posterior, but may miss parts of it: use both in turn.
        """
        _, log_weights, marginals = self.draw(n_trees, rng)
        if log_weights.max() == -np.inf:
            return self
        prior = _prior_beliefs(self._model, self._log_nodes)
        said = np.tensordot(softmax(log_weights), marginals, axes=1)
        beliefs = _BELIEVED * said + (1 - _BELIEVED) * prior
        return TreeProposal(self._model, self._known, beliefs)


def _prior_beliefs(
    model: LabelModel,
    log_nodes: Array,  # (T, C) 0 where a label may be, −inf where not
) -> Array:
    """Return the marginal, restricted to what each label may be, (T, C)."""
    beliefs = np.exp(log_nodes) * model.marginal
    total = beliefs.sum(axis=1, keepdims=True)
    if not total.all():
        raise ValueError("a known label has marginal 0; give every class a positive marginal")
    return np.asarray(beliefs / total)


def _pairwise(
    model: LabelModel,
    beliefs: Array,  # (T, C) probabilities of each record's labels
) -> tuple[Array, Array]:
    """Return log_beta with labels integrated out pair by pair, and the labels' share of it.

    Σ_ab q_u(a) q_v(b) p(a | b) / marginal_a for beliefs q: with the marginal as the belief of what
    is unknown, unknown labels say nothing; and a root's, Σ_a q_r(a), never do.
    """
    odds = np.divide(beliefs, model.marginal, out=np.zeros_like(beliefs), where=model.marginal > 0)
    origins = model.log_origins
    with np.errstate(divide="ignore"):
        if origins is not None:
            # The child keeps a label, or begins anew with one, whatever the parent's is.
            kept = np.log(model.pair_sums(odds, beliefs)) + model.log_stickiness
            begun = model.of_children(logsumexp(origins + np.log(odds), axis=1))
            layer = model.log_layers[0]
            pairs = np.where(np.isneginf(layer), -np.inf, np.logaddexp(layer + kept, begun))
            return pairs, pairs
        edge = np.exp(model.log_edge)
        # P(child's label is the parent's), and that it is another, of each pair, over the marginal.
        kept = model.pair_sums(odds * np.diag(edge), beliefs)
        changed = model.pair_sums(odds @ (edge - np.diag(np.diag(edge))), beliefs)
        if len(model.log_attributes) == 1:
            pairs = np.log(kept + changed)
            return model.log_layers[0] + pairs, pairs
        layers = model.log_layers
        pairs = np.logaddexp(layers[0] + np.log(kept), layers[1] + np.log(changed))
        return pairs, pairs
