"""Exact samples by running the elimination backwards.

Wilson's algorithm walks until it hits the tree, which takes e^50 steps and more when clusters
are far apart. Here no walk is made: nodes come back one at a time, and an edge i → j either stays
or turns out to have led through the returning node m, with the odds in which q_im p_mj stood in
its weight. The cost is O(T²) per tree at most, whatever the weights.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from outtrees.trees.elimination import Elimination
from outtrees.trees.extended import Exponents, ExtendedElimination, doubles, split
from outtrees.trees.weights import Floats, Ints

RandomState = int | np.random.Generator | np.random.RandomState | None
Number = TypeVar("Number", np.float64, np.int64)

_CHUNK = 64  # trees per random stream: fixed, so that the number of threads changes no draw


@dataclass(frozen=True)
class SamplingTables:
    """What the sampler looks up; index n stands for the parent of the root."""

    order: Ints
    leaf: Floats  # (n, n) cumulative shares of a node's parents when it left
    keep: Floats  # (2, n, n + 1) P(never turns) of the edges m → j, j < m, and of the edges i → m
    total: Floats  # (2, n, n + 1) weight of the same edges when m left
    total_e: Exponents | None
    rate: Floats  # (n, n) [i, k], i < k
    rate_e: Exponents | None
    share: Floats  # (n + 1, n) [j, k], j < k: transposed, so that the sampler reads along rows
    share_e: Exponents | None

    def draw(self, n_samples: int, rng: np.random.Generator) -> Ints:
        """Return (n_samples, n) parents, −1 at the root."""
        from outtrees.trees.sampling_kernels import draw_trees

        n = len(self.leaf)
        trees = np.empty((n_samples, n), dtype=np.intp)
        chunks = [trees[lo : lo + _CHUNK] for lo in range(0, n_samples, _CHUNK)]
        streams = rng.spawn(len(chunks))
        fields = (self.leaf, self.keep, self.total, self.total_e, self.rate, self.rate_e)
        names = np.append(self.order, -1)

        def fill(stream: np.random.Generator, chunk: Ints) -> None:
            parents = np.empty(chunk.shape, dtype=np.uint32)
            draw_trees(stream, *fields, self.share, self.share_e, parents)
            chunk[:, self.order] = names[parents]

        if len(chunks) < 2:
            for stream, chunk in zip(streams, chunks, strict=True):
                fill(stream, chunk)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(fill, streams, chunks))
        return trees


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a generator for any of scikit-learn's and NumPy's ways to seed one."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def sampling_tables(e: Elimination | ExtendedElimination) -> SamplingTables:
    """Return the tables for a forward pass of either range. O(T²)."""
    if isinstance(e, Elimination):
        return _in_range(e)
    return _extended(e)


def _in_range(e: Elimination) -> SamplingTables:
    n = e.weights.n
    lower = np.tril(np.ones((n, n), dtype=bool), -1)
    total = np.column_stack([np.where(lower, e.factors * e.s[:, None], e.factors), e.y * e.s])
    beta = np.exp(e.weights.log_beta - e.log_scale[:, None])[np.ix_(e.order, e.order)]
    own = np.column_stack([beta, e.rho / e.rho_0])
    share = np.vstack([e.factors.T, e.y])
    return SamplingTables(
        order=e.order,
        leaf=np.cumsum(np.where(lower, e.factors, 0.0), axis=1),
        keep=_both_ways(_ratio(own, total)),
        total=_both_ways(total),
        total_e=None,
        rate=e.factors,
        rate_e=None,
        share=share,
        share_e=None,
    )


def _extended(e: ExtendedElimination) -> SamplingTables:
    n = e.weights.n
    lower = np.tril(np.ones((n, n), dtype=bool), -1)
    (rate, rate_e), (s, s_e), (y, y_e) = e.factors, e.s, e.y
    total = np.column_stack([np.where(lower, rate * s[:, None], rate), y * s])
    total_e = np.column_stack([np.where(lower, rate_e + s_e[:, None], rate_e), y_e + s_e])
    scaled = (e.weights.log_beta - e.log_scale[:, None])[np.ix_(e.order, e.order)]
    own, own_e = split(np.column_stack([scaled, e.log_rho]))
    own[:, n] *= e.inv_rho_0[0]
    own_e[:, n] += e.inv_rho_0[1]
    keep = doubles((_ratio(own, total), own_e - total_e))
    return SamplingTables(
        order=e.order,
        leaf=np.cumsum(np.where(lower, doubles(e.factors), 0.0), axis=1),
        keep=_both_ways(keep),
        total=_both_ways(total),
        total_e=_both_ways(total_e),
        rate=rate,
        rate_e=rate_e,
        share=np.vstack([rate.T, y]),
        share_e=np.vstack([rate_e.T, y_e]),
    )


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 1 where an edge has no weight at all (it is never drawn)."""
    ratio = np.ones_like(whole)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _both_ways(table: NDArray[Number]) -> NDArray[Number]:
    """Return the table [i, j] twice: the rows of edges out of m, and of edges into m."""
    into = table.copy()
    into[:, :-1] = table[:, :-1].T
    return np.stack([table, into])
