"""Labels averaged over weighed trees: independent draws, for choices and for starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees.errors import NoSpanningTreeError
from outtrees.learning.labels.model import LabelModel, Labels, evidence
from outtrees.mutations.checks import Array, as_generator

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


def weigh_trees(
    model: LabelModel,
    known: Labels,  # (T,), −1 where unknown
    n_trees: int = 128,
    random_state: Any = None,
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
    )


class TreeProposal:
    """Trees whose edges know what the labels of their two ends say as a pair, and their weights."""

    def __init__(self, model: LabelModel, known: Labels) -> None:
        self._model = model
        self._log_nodes = evidence(np.asarray(known), model.n_classes)
        log_beta, self._pairs, self._at_root = _pairwise(model, self._log_nodes)
        try:
            self._trees = model.distribution(log_beta, model.log_roots + self._at_root)
        except NoSpanningTreeError as error:
            raise ValueError(_CONTRADICTION) from error

    @property
    def log_z(self) -> float:
        """Log of the sum of the proposal's weights."""
        return self._trees.log_z

    def draw(self, n_trees: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Array, Array]:
        """Return independent trees (n, T), their log-weights (n,), label marginals (n, T, C)."""
        trees = self._trees.sample(n_trees, rng)
        return trees, *self.weigh(trees)

    def weigh(self, trees: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return log(weight of the tree, labels summed / the proposal's), and label marginals."""
        from outtrees.learning.message_kernels import pass_messages_over

        model, (n, T) = self._model, trees.shape
        C = model.n_classes
        log_z, marginals = np.empty(n), np.empty((n, T, C))
        edges = model.structured_edges(trees)
        pass_messages_over(trees, self._log_nodes, *edges, model.log_marginal, log_z, marginals)
        said = np.where(trees < 0, self._at_root, model.along(self._pairs, trees)).sum(axis=1)
        return log_z - said, marginals


def _pairwise(
    model: LabelModel,
    log_nodes: Array,  # (T, C) 0 where a label may be, −inf where not
) -> tuple[Array, Array, Array]:
    """Return log_beta with labels integrated out pair by pair; the labels' share; a root's.

    The parent's label has the marginal, restricted to what it may be.
    """
    may_be = np.exp(log_nodes)
    parents = may_be * model.marginal
    at_root = parents.sum(axis=1)
    if not at_root.all():
        raise ValueError("a known label has marginal 0; give every class a positive marginal")
    parents /= at_root[:, None]
    origins = model.log_origins
    if origins is not None:
        # The child keeps a label that fits, or begins anew with one, whatever the parent's is.
        with np.errstate(divide="ignore"):
            kept = np.log(model.pair_sums(may_be, parents)) + model.log_stickiness
            begun = model.of_children(logsumexp(origins + log_nodes, axis=1))
            layer = model.log_layers[0]
            pairs = np.where(np.isneginf(layer), -np.inf, np.logaddexp(layer + kept, begun))
            return pairs, pairs, np.log(at_root)
    edge = np.exp(model.log_edge)
    # P(child's label fits and is the parent's), and that it fits and is another, of each pair.
    kept = model.pair_sums(may_be * np.diag(edge), parents)
    changed = model.pair_sums(may_be @ (edge - np.diag(np.diag(edge))), parents)
    with np.errstate(divide="ignore"):
        if len(model.log_attributes) == 1:
            pairs = np.log(kept + changed)
            log_beta = model.log_layers[0] + pairs
        else:
            layers = model.log_layers
            pairs = np.logaddexp(layers[0] + np.log(kept), layers[1] + np.log(changed))
            log_beta = pairs
        return log_beta, pairs, np.log(at_root)
