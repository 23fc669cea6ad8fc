"""Labels that mutate along the same unknown tree as the attributes.

`LabelModel` holds the weights of all pairs of records, `CandidateLabelModel` those of listed pairs;
`leaf_label_distributions` gives the labels of new records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.arguments import check_number
from outtrees._common.edges import chunks
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.messages import States, pass_messages
from outtrees.models.tables import frequencies, sticky_matrix
from outtrees.trees import OutTreeDistribution
from outtrees.trees.sparse.fronts import Plan
from outtrees.trees.weights import Ints

Labels = Ints  # (T,) class indices
# What a label that is drawn afresh says of the attributes of its record: nothing (they come from
# the parent in any case); they are drawn afresh too, as records of its class have them; or as all
# records have them. Or no label changes, and every tree begins with a known one.
PLAIN, OF_CLASS, OF_ALL, FOUNDERS = 0, 1, 2, 3
_NEVER = -1e9  # the log-weight of what is not impossible but never happens


@dataclass(frozen=True)
class LabelModel:
    """Weights of (tree, labels) pairs: attributes and labels mutate along the same edges.

    An edge u ← v of a tree whose labels are y weighs (paper, section 5)

        β_uv = p(x_u | x_v)^sharpness · p(y_u | y_v),   p(a | b) = s·[a = b] + (1 − s)·marginal_a

    with stickiness s, and a root weighs p(x_r)^sharpness · marginal[y_r]. With two layers of
    `log_attributes` the attributes' mutation also depends on the labels (eq. 4): the first holds
    where a child keeps its parent's label, the second where it changes.

    With `log_fresh` a child that draws its label afresh draws its attributes afresh too, from the
    density of that label's class, and owes its parent nothing (but impossible edges stay so):

        β_uv = s·[y_u = y_v]·p(x_u | x_v)^sharpness + (1 − s)·marginal[y_u]·p(x_u | y_u)^sharpness

    `founded` is the model in which some records begin anew for certain, and no others do.
    """

    log_attributes: Array  # (1 or 2, T, T) log p(x_u | x_v), [child, parent]
    log_root: Array  # (T,) log p(x_r)
    marginal: Array  # (C,) of a label that is drawn afresh
    stickiness: float
    sharpness: float = 1.0
    log_fresh: Array | None = None  # (T, C) log p(x_u | class)
    log_common: Array | None = None  # (T, C), of settings in which it takes the place of log_fresh
    founders: Labels | None = None  # (T,) their labels, −1 of others, of settings that have them

    def __post_init__(self) -> None:
        check_number("LabelModel", "stickiness", self.stickiness, 0, 1)
        check_number("LabelModel", "sharpness", self.sharpness, 0)

    def reordered(self, order: Labels) -> Self:
        """Return the same model of the records in another order, (T,) positions in this one."""
        pairs = self.log_attributes[:, order[:, None], order]
        return replace(self, log_attributes=pairs, **self._rows(order))

    def _rows(self, order: Labels) -> dict[str, Any]:
        """Return what belongs to each record by itself, in another order."""
        return {
            name: None if (rows := getattr(self, name)) is None else rows[order]
            for name in ("log_root", "log_fresh", "log_common", "founders")
        }

    @property
    def n_records(self) -> int:
        """T."""
        return len(self.log_root)

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.marginal)

    @cached_property
    def log_edge(self) -> Array:
        """Log p(child's label | parent's label), (C, C) [child, parent]."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(sticky_matrix(self.stickiness, self.marginal)))

    @property
    def log_marginal(self) -> Array:
        """Log of the marginal, (C,): the law of a root's label."""
        with np.errstate(divide="ignore"):
            return np.log(self.marginal)

    @property
    def log_layers(self) -> Array:
        """The attributes' share of each edge's log-weight, (1 or 2, T, T)."""
        return _powered(self.log_attributes, self.sharpness)

    @property
    def log_roots(self) -> Array:
        """The attributes' share of each root's log-weight, (T,)."""
        return _powered(self.log_root, self.sharpness)

    @property
    def log_origins(self) -> Array | None:
        """The log-weight of a child that begins anew with each label, (T, C); None without."""
        if self.log_fresh is None:
            return None
        return np.asarray(_powered(self.log_fresh, self.sharpness) + self.log_drawn)

    @property
    def log_drawn(self) -> Array:
        """Log-probability that a label is drawn afresh and is each one, (C,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-self.stickiness) + self.log_marginal)

    @property
    def log_stickiness(self) -> float:
        """Log s."""
        return float(np.log(self.stickiness)) if self.stickiness > 0 else -np.inf

    def with_options(self, **options: Any) -> Self:
        """Return the model with other stickiness, sharpness, …"""
        return replace(self, **options)

    def with_setting(self, stickiness: float, sharpness: float, form: float) -> Self:
        """Return the model with these, and a label drawn afresh as PLAIN, … or FOUNDERS has it."""
        options = {"stickiness": float(stickiness), "sharpness": float(sharpness)}
        if form == FOUNDERS:
            return self.founded().with_options(**options)
        log_fresh = {PLAIN: None, OF_CLASS: self.log_fresh, OF_ALL: self.log_common}[int(form)]
        return self.with_options(log_fresh=log_fresh, **options)

    def founded(self) -> Self:
        """Return the model in which every record descends from a founder and has its label.

        Founders begin anew, and owe their parents nothing, be it each other or anybody: a forest of
        r trees is part of T^(r−1) trees, whatever their sizes, so these say nothing. The chance of
        a label is then that of a walk from child to parent, p(x_u | x_v)^sharpness over its sum, to
        end at a founder with it: the harmonic function, or label propagation.
        """
        if self.founders is None:
            raise ValueError("a model without founders has no settings in which they begin trees")
        begins = self.founders >= 0
        log_fresh = evidence(self.founders, self.n_classes)
        log_fresh[~begins] = -np.inf
        pairs = self.log_attributes.copy()
        pairs[:, begins] = _NEVER
        log_root = np.where(begins, 0.0, -np.inf)
        return replace(self, log_attributes=pairs, log_root=log_root, log_fresh=log_fresh)

    def weights(self, labels: Labels) -> tuple[Array, Array]:
        """Return (log_beta, log_root) of the trees whose labels are all known. O(T²)."""
        origins = self.log_origins
        begun = None if origins is None else origins[np.arange(len(labels)), labels][:, None]
        log_beta = self.log_pairs(self.log_layers, labels[:, None], labels[None, :], begun)
        return log_beta, self.log_roots + self.log_marginal[labels]

    def log_pairs(
        self,
        layers: Array,  # (1 or 2, …), of log_layers
        of_child: Labels | np.intp,  # labels that broadcast against them
        of_parent: Labels | np.intp,
        begun: Array | None,  # `log_origins` of the children with their labels, if there are any
    ) -> Array:
        """Return the log-weights of edges between records whose labels are known."""
        same = of_child == of_parent
        if begun is not None:
            kept = np.where(same, self.log_stickiness + layers[0], -np.inf)
            return np.where(np.isneginf(layers[0]), -np.inf, np.logaddexp(kept, begun))
        layer = layers[0] if len(layers) == 1 else np.where(same, layers[0], layers[1])
        return np.asarray(layer + self.log_edge[of_child, of_parent])

    def trees(self, labels: Labels) -> Any:
        """Return the distribution over trees given all labels; its log Z is the paper's Z(y)."""
        return self.distribution(*self.weights(labels))

    # What a list of possible pairs does in another way ------------------------------------------

    def distribution(self, log_beta: Array, log_root: Array) -> Any:
        """Return the distribution over trees with these weights of pairs and of roots."""
        return OutTreeDistribution(log_beta, log_root)

    def pair_sums(
        self,
        left: Array,  # (T, C) by the child
        right: Array,  # (T, C) by the parent
    ) -> Array:
        """Return Σ_c left[u, c] right[v, c] of each pair, (T, T)."""
        return left @ right.T

    def of_children(self, values: Array) -> Array:
        """Return values of the records (T,) at each pair's child, in a form that broadcasts."""
        return values[:, None]

    def along(self, values: Array, trees: NDArray[np.intp]) -> Array:
        """Return the pairs' values at the edges of trees (n, T); a root's entry means nothing."""
        return values[..., np.arange(self.n_records), trees]

    def draw_labels(
        self,
        parents: NDArray[np.intp],  # (T,)
        known: Labels,  # (T,), −1 where unknown
        rng: Any,
    ) -> States:
        """Return a joint draw of all labels given the tree, and their exact marginals."""
        trees = np.ascontiguousarray(parents, dtype=np.intp)[None]
        nodes, edges = evidence(known, self.n_classes), self.structured_edges(trees)
        uniform = as_generator(rng).random(len(nodes))
        states, marginals, log_z = pass_messages(trees, nodes, edges, self.log_marginal, uniform)
        if log_z[0] == -np.inf:
            raise ValueError("the known labels contradict each other along this tree")
        return States(states, marginals[0], float(log_z[0]))

    def edges(
        self,
        trees: NDArray[np.intp],  # (…, T)
    ) -> Array:
        """Return the log-weights of pairs of labels on the edges of trees, for messages.

        (…, T, C, C) [child, parent], or (1, C, C) if they are the same on all edges.
        """
        origins = self.log_origins
        if origins is None and len(self.log_attributes) == 1:
            return self.log_edge[None]  # attributes say nothing about labels, given the tree
        layers = self.along(self.log_layers, trees)[..., None, None]  # a root's is never read
        same = np.eye(self.n_classes, dtype=bool)
        if origins is None:
            return np.asarray(self.log_edge + np.where(same, layers[0], layers[1]))
        kept = self.log_stickiness + np.where(same, layers[0], -np.inf)
        return np.logaddexp(kept, origins[:, :, None])

    def structured_edges(
        self,
        trees: NDArray[np.intp],  # (n, T)
    ) -> tuple[Array, Array, Array]:
        """Return the same for messages in O(C): none, log s and what is drawn afresh.

        Two layers have no such structure: they are returned as `edges` are.
        """
        C = self.n_classes
        if len(self.log_attributes) > 1:
            return self.edges(trees).reshape(-1, C, C), np.zeros(1), np.zeros((1, C))
        origins, none = self.log_origins, np.empty((0, C, C))
        if origins is not None:
            kept = self.along(self.log_layers[0], trees)  # a root's is never read
            # One layout is compiled.
            return none, self.log_stickiness + kept.ravel(), np.ascontiguousarray(origins)
        return none, np.array([self.log_stickiness]), self.log_drawn[None]


@dataclass(frozen=True)
class CandidateLabelModel(LabelModel):
    """A `LabelModel` whose edges are listed: `log_attributes` is (1 or 2, E) in their order.

    Its posterior is that over trees of listed edges. Memory O(E).

    Examples
    --------
    Four records in two pairs, and one edge between them.

    >>> edges = {"child": np.array([0, 1, 2, 2, 3]), "parent": np.array([1, 0, 1, 3, 2])}
    >>> model = CandidateLabelModel(
    ...     np.array([[9.0, 9.0, 0.0, 9.0, 9.0]]), np.zeros(4), np.array([0.5, 0.5]), 0.9, **edges
    ... )
    >>> model.trees(np.array([0, 0, 1, 1])).edge_marginals.round(2)
    array([0.5, 0.5, 1. , 0. , 1. ])
    """

    child: Labels = field(kw_only=True)  # (E,), never falling; the parents of each child rise
    parent: Labels = field(kw_only=True)  # (E,)

    def reordered(self, order: Labels) -> Self:
        """Return the same model of the records in another order, its edges sorted again."""
        place = np.argsort(order)
        child, parent = place[self.child], place[self.parent]
        edges = np.lexsort((parent, child))
        return replace(
            self,
            log_attributes=self.log_attributes[:, edges],
            **self._rows(order),
            child=child[edges],
            parent=parent[edges],
        )

    def weights(self, labels: Labels) -> tuple[Array, Array]:
        """Return the log-weights of edges (E,) and roots (T,) when all labels are known. O(E)."""
        of_child, of_parent = labels[self.child], labels[self.parent]
        origins = self.log_origins
        begun = None if origins is None else origins[self.child, of_child]
        log_weight = self.log_pairs(self.log_layers, of_child, of_parent, begun)
        return log_weight, self.log_roots + self.log_marginal[labels]

    def distribution(self, log_beta: Array, log_root: Array) -> Any:
        """Return the distribution over trees with these weights of edges and of roots."""
        return OutTreeDistribution.from_candidates(
            self.child, self.parent, log_beta, log_root, plan=self._plan
        )

    @cached_property
    def _plan(self) -> Plan | None:
        """The plan of the attributes alone, which serves whatever the labels are."""
        log_weight = self.log_layers.max(axis=0)
        return OutTreeDistribution.from_candidates(
            self.child, self.parent, log_weight, self.log_roots
        ).plan

    def pair_sums(
        self,
        left: Array,  # (T, C) by the child
        right: Array,  # (T, C) by the parent
    ) -> Array:
        """Return Σ_c left[u, c] right[v, c] of each edge, (E,)."""
        result = np.empty(len(self.child))
        for rows in chunks(len(result), left.shape[1]):
            ends = left[self.child[rows]], right[self.parent[rows]]
            result[rows] = np.einsum("ec,ec->e", *ends)
        return result

    def of_children(self, values: Array) -> Array:
        """Return values of the records (T,) at each edge's child, (E,)."""
        return values[self.child]

    def along(self, values: Array, trees: NDArray[np.intp]) -> Array:
        """Return the edges' values at the edges of trees (n, T); a root's entry means nothing."""
        T = self.n_records
        wanted = np.arange(T) * T + np.maximum(trees, 0)
        found = np.searchsorted(self.child * T + self.parent, wanted)
        return values[..., np.minimum(found, len(self.child) - 1)]


def leaf_label_distributions(
    model: LabelModel,
    log_layers: Array,  # (1 or 2, n, T) log p(x | x_v) of the new records
    distributions: Array,  # (T, C) of the labels of the old ones
    log_fresh: Array | None = None,  # (n, C) of the new records, if the model has them
) -> Array:
    """Return P(label) of each new record as a leaf below one of the old ones, (n, C).

        P(c) ∝ Σ_v Σ_b P(y_v = b) p(x, c | x_v, b)

    Every row by itself: the same whatever other rows are there. A record that no old one can have
    as a child says nothing of its label, which then has the marginal. O(n T C).

    Examples
    --------
    >>> model = LabelModel(np.zeros((1, 2, 2)), np.zeros(2), np.array([0.5, 0.5]), 0.8)
    >>> near_first = np.array([[[0.0, -50.0]]])
    >>> leaf_label_distributions(model, near_first, np.eye(2)).round(3).tolist()
    [[0.9, 0.1]]
    """
    log_weights = _powered(log_layers, model.sharpness)
    top = log_weights.max(axis=(0, 2))  # (n,)
    origins = None if log_fresh is None else model.with_options(log_fresh=log_fresh).log_origins
    if origins is not None:
        top = np.maximum(top, origins.max(axis=1))
    top = np.where(np.isneginf(top), 0.0, top)[:, None]
    weights = np.exp(log_weights - top)
    edge = np.exp(model.log_edge)
    if origins is not None:
        mass = model.stickiness * (weights[0] @ distributions)
        possible = (log_weights[0] > -np.inf).sum(axis=1, keepdims=True)
        mass += possible * np.exp(origins - top)
    elif len(weights) == 1:
        mass = weights[0] @ (distributions @ edge.T)
    else:
        stays = np.diag(edge)
        kept = distributions * stays  # (T, C)
        changes = distributions @ (edge - np.diag(stays)).T
        mass = weights[0] @ kept + weights[1] @ changes
    mass[~mass.any(axis=1)] = model.marginal
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def evidence(
    known: Labels,  # (T,), −1 where unknown
    n_classes: int,
) -> Array:
    """Return log-evidence (T, C): 0 for what may be, −inf for what is known not to be.

    Examples
    --------
    >>> evidence(np.array([1, -1]), 2)
    array([[-inf,   0.],
           [  0.,   0.]])
    """
    labels = np.asarray(known)
    log_nodes = np.zeros((len(labels), n_classes))
    seen = np.flatnonzero(labels >= 0)
    log_nodes[seen] = -np.inf
    log_nodes[seen, labels[seen]] = 0.0
    return log_nodes


def smoothed_marginal(
    known: Labels,  # (T,), −1 where unknown
    n_classes: int,
    pseudo_count: float = 1.0,
) -> Array:
    """Return the frequencies of the known labels with one more of each class, (C,).

    Examples
    --------
    >>> smoothed_marginal(np.array([0, 0, -1]), 2)
    array([0.75, 0.25])
    """
    labels = np.asarray(known)
    return frequencies(labels[labels >= 0], n_classes, n_classes * pseudo_count)


def _powered(log_weights: Array, sharpness: float) -> Array:
    """Return sharpness · log_weights; what is impossible stays so, even at sharpness 0."""
    if sharpness == 1:
        return log_weights
    finite = np.isfinite(log_weights)
    return np.where(finite, sharpness * np.where(finite, log_weights, 0.0), log_weights)
