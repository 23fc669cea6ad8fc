"""Discrete hidden states on a known tree: exact marginals and exact joint draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.trees.weights import Ints


class States(NamedTuple):
    """One exact draw of all states, and what is known of each state, given the tree."""

    states: NDArray[np.intp]  # (T,) one joint draw
    marginals: Array  # (T, C) P(state | tree, all evidence), exact
    log_z: float  # log of the sum over all assignments: the evidence, given the tree


def draw_states(
    parents: ArrayLike,  # (T,), −1 at a root; several roots make a forest
    log_nodes: ArrayLike,  # (T, C) evidence of each node; −inf forbids a state
    log_edge: ArrayLike,  # (C, C) [child, parent], or (T, C, C): one for each child
    rng: Any = None,
    log_root_prior: ArrayLike | None = None,  # (C,), added at the roots
) -> States:
    """Return a joint draw of the states of a tree's nodes, their marginals, and the evidence.

    The states s have the distribution

        p(s) ∝ Π_r exp(prior[s_r]) · Π_u exp(log_nodes[u, s_u]) · Π_u exp(log_edge[s_u, s_π(u)])

    over roots r, nodes u, and nodes u with a parent. Messages go up once and down once, in logs:
    exact for every finite weight, O(T C²).

    Raises
    ------
    ValueError
        If `parents` hold a cycle, shapes do not fit, or no assignment is possible.

    Examples
    --------
    A chain 0 → 1 → 2 whose ends are known to differ; the middle may be either.

    >>> parents = [-1, 0, 1]
    >>> known = np.log([[1.0, 1e-300], [1.0, 1.0], [1e-300, 1.0]])
    >>> sticky = np.log([[0.9, 0.1], [0.1, 0.9]])
    >>> drawn = draw_states(parents, known, sticky, 0)
    >>> drawn.states.shape, drawn.marginals.round(3).tolist()
    ((3,), [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> f"{np.exp(drawn.log_z):.3f}"
    '0.180'
    """
    up_to = np.ascontiguousarray(parents, dtype=np.intp)
    nodes = np.ascontiguousarray(log_nodes, dtype=np.float64)
    edge = np.ascontiguousarray(log_edge, dtype=np.float64)
    if nodes.ndim != 2 or up_to.shape != (len(nodes),) or not nodes.size:
        raise ArgumentError(
            Option("log_nodes"),
            " must have shape (T, C) for parents of shape (T,); got shapes "
            f"{nodes.shape} and {up_to.shape}. Pass one row of log-weights for each node.",
        )
    T, C = nodes.shape
    if edge.shape not in ((C, C), (T, C, C)):
        raise ArgumentError(
            Option("log_edge"),
            f" must have shape {(C, C)} or {(T, C, C)} [child, parent]; got {edge.shape}. Pass one "
            "matrix for all edges or one for each child.",
        )
    prior = np.ascontiguousarray(  # one layout is compiled
        np.zeros(C) if log_root_prior is None else log_root_prior, dtype=np.float64
    )
    if prior.shape != (C,):
        raise ArgumentError(
            Option("log_root_prior"),
            f" must have shape {(C,)}; got {prior.shape}. Pass one log-weight for each state.",
        )
    for name, values in (("log_nodes", nodes), ("log_edge", edge), ("log_root_prior", prior)):
        if not values.max() < np.inf:  # NaN fails the comparison too
            raise ArgumentError(
                Option(name),
                f" must hold log-weights below inf; got {values.max()}. Use -inf for what is "
                "impossible.",
            )
    wrong = (up_to < -1) | (up_to >= T)
    if wrong.any():
        raise ArgumentError(
            Option("parents"),
            f" must be -1 or 0 … {T - 1}; got {up_to[wrong][0]}. Mark a root by -1.",
        )
    uniform = np.asarray(as_generator(rng).random(T))
    edges = edge.reshape(-1, C, C), np.zeros(1), np.zeros((1, C))
    states, marginals, log_z = pass_messages(up_to[None], nodes, edges, prior, uniform)
    if np.isnan(log_z[0]):
        raise ArgumentError(
            Option("parents"),
            f" must be a tree or a forest; got {cycle_size(up_to)} of {T} nodes on or below a "
            "cycle. Give every cycle a root (-1).",
        )
    if log_z[0] == -np.inf:
        raise ArgumentError(
            Option("log_nodes"),
            " must allow some assignment of states; got states that contradict each other along "
            "the tree. Allow every change at least a small weight.",
        )
    return States(states, marginals[0], float(log_z[0]))


def pass_messages(
    trees: Ints,  # (n, T)
    log_nodes: Array,  # (T, C)
    log_edges: tuple[Array, Array, Array],  # (1 or n T, C, C), (1 or n T,), (1 or T, C)
    log_prior: Array,  # (C,)
    uniform: Array | None = None,  # (T,) numbers in [0, 1)
) -> tuple[Ints, Array, Array]:
    """Return a joint draw of the states of the last tree, and marginals and log Z of every tree.

    Edges are matrices [child, parent]; or, if there are none, log s and log f with
    exp(edge[a, b]) = s [a = b] + f[a]: O(C) instead of O(C²). Nothing is drawn without numbers.
    Shapes are (T,), (n, T, C), (n,); log Z is nan for a tree with a cycle. Unlike `draw_states` it
    checks nothing.
    """
    from outtrees.inference.message_kernels import pass_messages as fill

    (n, T), C = trees.shape, log_nodes.shape[1]
    log_z, marginals, states = np.empty(n), np.zeros((n, T, C)), np.zeros(T, dtype=np.intp)
    order, mark = np.empty(T, dtype=np.intp), np.full(T, -1)
    scratch = tuple(np.empty((5, T + 1, C)))
    rows = tuple(np.empty((4, C)))
    fill(
        np.ascontiguousarray(trees),
        log_nodes,
        *log_edges,
        log_prior,
        np.empty(0) if uniform is None else uniform,
        log_z,
        marginals,
        states,
        order,
        mark,
        scratch,
        rows,
    )
    return states, marginals, log_z


def cycle_size(parents: Ints) -> int:
    """Return how many nodes are on or below a cycle of parents (T,).

    Examples
    --------
    >>> cycle_size(np.array([-1, 0, 1, 4, 3]))
    2
    """
    above = parents
    for _ in range(len(parents)):
        above = np.where(above < 0, -1, parents[above])
    return int((above >= 0).sum())
