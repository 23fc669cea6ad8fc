"""Exact sums over out-trees by elimination, in the range of a double.

Nodes leave one by one, the last index first. When node k leaves, whoever descended from k
descends from k's parents instead:

    s_k = Σ_{j<k} q_kj,    p_kj = q_kj / s_k,    q_ij += q_ik p_kj    (i, j < k, i ≠ j)

and Z = ρ_0 Π s_k at the end. This is the paper's bordered determinant (eq. 2) without a single
subtraction, so every result keeps its relative accuracy whatever the conditioning (the idea of
Grassmann, Taksar and Heyman for Markov chains). Written as a factorisation of the out-Laplacian,

    Q = diag(β 1) − β = (S − U)(I − P),   S = diag(s),

with U strictly upper (the rates q_ik, i < k, as they were when k left) and P strictly lower (the
shares p_kj, each row summing to one). U and P are stored in one matrix.

Panels of nodes leave together; what the nodes before them pass on arrives by two
matrix products, so the cost is BLAS's: 2/3 T³ flops forward, 4/3 T³ backward. What is left to do
inside a panel is compiled (`outtrees.trees.elimination_kernels`).

Underflow. A sum or product that falls below the smallest double loses at most δ ≈ 2e-308, and
a loss in q_ij at any stage is the same as a loss in β_ij. So the pass is exact for weights
that differ from the given ones by n δ at most, and log Z moves by about δ n³ max_u t_u, where t_u
bounds the time the chain "child → parent" with rates β spends in u. t_u is computed
(:func:`_solve`), and the pass is refused unless it is far below 1/δ: no result is ever a guess.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import fsum
from types import ModuleType

import numpy as np

from outtrees.trees import elimination_blocks
from outtrees.trees.elimination_blocks import LIMIT
from outtrees.trees.probabilities import settled
from outtrees.trees.weights import Floats, Ints, Weights, anchored_order

# Nodes leave in panels of so many, which share what happens inside them between few products;
# and panels in groups of four, which take from all before them in two large products. Large
# problems have wider ones: their products share out better between threads.
_PANEL, _LARGE_PANEL, _LARGE = 48, 96, 1500
_PANELS_IN_GROUP = 4
# Fewer nodes are done in NumPy before numba is loaded.
_FEW = 8


@dataclass(frozen=True)
class _Panel:
    """Nodes lo … hi−1, and the inverses of their diagonal blocks of the two factors."""

    lo: int
    hi: int
    group: tuple[int, int]  # the group of panels that it is in: its nodes from … to
    inv_su: Floats  # (S − U)⁻¹, entries ≥ 0
    inv_ip: Floats  # (I − P)⁻¹, entries ≥ 0


@dataclass(frozen=True)
class Elimination:
    """One forward pass. The node that stays last has changed places with node 0.

    Fields from ``rho`` on are in that order; ``[order]`` takes a vector to the caller's, and back.
    """

    weights: Weights
    order: Ints
    log_scale: Floats  # (n,) row maxima of log β, in the caller's order
    root_shift: float  # log of what the scaled root weights were divided by
    rho: Floats  # (n,) scaled root weights
    factors: Floats  # (n, n): U above the diagonal, P below; the diagonal is never read
    s: Floats  # (n,) pivots; s_0 = 1 stands for the node that stays
    panels: list[_Panel]
    x: Floats  # (n,) Z_r / Z_0 in scaled weights
    y: Floats  # (n,) root weight of k when it left, over s_k and the final root weight
    time: Floats  # (n,) bound on the time spent in u before node 0 is reached
    rho_0: float  # the final root weight Σ_r ρ_r x_r

    @property
    def log_z_scaled(self) -> float:
        """Log of the sum over all out-trees, of the scaled weights."""
        return fsum([*np.log(self.s), np.log(self.rho_0)])

    def log_z_rooted(self, members: Ints) -> Floats | None:
        """Return log Z_r of every node, or None if some member's is too small to be sure of.

        Only ``members`` (the possible roots) have any tree; to trust Z_r, the time spent
        anywhere before r is reached has to be within range, as in :func:`_solve`.
        """
        x = self.x[self.order]
        time = self.time[self.order]
        if np.any(x[members] * LIMIT < x.max() * np.maximum(time[members], 1.0)):
            return None
        log_x = np.full(len(x), -np.inf)
        log_x[members] = np.log(x[members])
        return rooted_sums(np.log(self.s), log_x, self.log_scale)

    def marginals(self) -> tuple[Floats, Floats]:
        """Return P(u descends from v) as (n, n) [child, parent] and P(r is the root)."""
        edge = _derivatives(self)
        _swap(edge, self.order)
        _scaled_beta(self.weights.log_beta, self.log_scale, multiply_into=edge)
        root = (self.rho * self.x / self.rho_0)[self.order]
        return edge, root

    def absorption(self) -> Floats:
        """Return P(the tree path from u enters node 0 through v), [u, v]; row and column 0 unused.

        With node 0 the virtual root of a forest: the probability that v is the root above u,
        (Q⁻¹ diag ρ)[u, v] = (I − P)⁻¹ (S − U)⁻¹ diag ρ, by two triangular solves without
        subtraction.
        """
        direct = np.exp(self.weights.log_beta[:, 0] - self.log_scale)
        direct[0] = 0.0
        hits = np.diag(direct)
        for panel in self.panels:  # descending
            rows = slice(panel.lo, panel.hi)
            hits[rows] += self.factors[rows, panel.hi :] @ hits[panel.hi :]
            hits[rows] = panel.inv_su @ hits[rows]
        hits[0] = 0.0
        for panel in reversed(self.panels):
            rows = slice(panel.lo, panel.hi)
            hits[rows] += self.factors[rows, : panel.lo] @ hits[: panel.lo]
            hits[rows] = panel.inv_ip @ hits[rows]
        return hits


def rooted_sums(log_s: Floats, log_x: Floats, log_scale: Floats) -> Floats:
    """Return log Z_r = Σ log s + log x_r + Σ_{u≠r} log_scale_u for every r.

    Row r has no part in Z_r, and its scale, however large, may cost it no digit: so the sum over
    all rows is kept with what rounding takes from it.
    """
    terms = [*log_s, *log_scale]
    total = fsum(terms)
    rest = fsum([*terms, -total])
    return np.array([fsum([total, rest, x, -own]) for x, own in zip(log_x, log_scale, strict=True)])


def eliminate(weights: Weights, anchor: int) -> Elimination | None:
    """Run the forward pass, or return None where the weights leave the range of a double.

    ``anchor`` must be a possible root; the better a root it is, the smaller the range needed.
    """
    order = anchored_order(weights.n, anchor)
    log_scale = weights.log_scale
    factors = np.empty_like(weights.log_beta)
    _scaled_beta(weights.log_beta, log_scale, out=factors)
    _swap(factors, order)
    log_rho = weights.log_root - log_scale
    root_shift = float(log_rho.max())
    rho = np.exp(log_rho - root_shift)[order]

    s = np.ones(weights.n)
    panels = _factorise(factors, s)
    if panels is None:
        return None
    solved = _solve(factors, panels, rho)
    if solved is None:
        return None
    x, y, time, rho_0 = solved
    return Elimination(
        weights, order, log_scale, root_shift, rho, factors, s, panels, x, y, time, rho_0
    )


def _scaled_beta(
    log_beta: Floats,
    log_scale: Floats,
    *,
    out: Floats | None = None,
    multiply_into: Floats | None = None,
) -> None:
    """Write β / scale to ``out``, or multiply it into M for probabilities, a few rows at a time."""
    rows = max(1, 65536 // len(log_beta))  # half a megabyte: stays in cache between the steps
    for lo in range(0, len(log_beta), rows):
        chunk = slice(lo, lo + rows)
        beta = log_beta[chunk] - log_scale[chunk, None]
        if out is not None:
            np.exp(beta, out=out[chunk])
        if multiply_into is not None:
            multiply_into[chunk] *= np.exp(beta, out=beta)
            settled(multiply_into[chunk], len(log_beta))


def _swap(matrix: Floats, order: Ints) -> None:
    anchor = order[0]
    if anchor != 0:
        matrix[[0, anchor]] = matrix[[anchor, 0]]
        matrix[:, [0, anchor]] = matrix[:, [anchor, 0]]


def _blocks(n: int) -> ModuleType:
    """Return the module that works inside blocks: compiled, or in NumPy where there is no numba."""
    if n >= _FEW:
        with suppress(ImportError):
            from outtrees.trees import elimination_kernels

            return elimination_kernels
    return elimination_blocks


def _factorise(q: Floats, s: Floats) -> list[_Panel] | None:
    """Replace q by its factors, last node first; fill the pivots ``s``."""
    n = len(q)
    blocks = _blocks(n)
    size = _PANEL if n < _LARGE else _LARGE_PANEL
    panels = []
    for hi in range(n, 0, -size):
        lo = max(hi - size, 0)
        place = (n - hi) // size % _PANELS_IN_GROUP
        if place == 0:
            group = max(hi - size * _PANELS_IN_GROUP, 0), hi
            _take_over(q, *group, n)
        _take_over(q, lo, hi, group[1])
        panel = _Panel(lo, hi, group, *np.empty((2, hi - lo, hi - lo)))
        beyond = q[lo:hi, :lo].sum(axis=1)
        if blocks.factor_block(q, lo, hi, beyond, s[lo:hi], panel.inv_su, panel.inv_ip) > LIMIT:
            return None
        if lo > 0:
            q[lo:hi, :lo] = panel.inv_su @ q[lo:hi, :lo]
            q[:lo, lo:hi] = q[:lo, lo:hi] @ panel.inv_ip
        panels.append(panel)
    return panels


def _take_over(q: Floats, lo: int, hi: int, end: int) -> None:
    """Add to nodes lo … hi−1 what nodes hi … end−1, which left before them, hand on."""
    if hi < end:
        q[lo:hi, :hi] += q[lo:hi, hi:end] @ q[hi:end, :hi]
        q[:lo, lo:hi] += q[:lo, hi:end] @ q[hi:end, lo:hi]


def _solve(
    factors: Floats, panels: list[_Panel], rho: Floats
) -> tuple[Floats, Floats, Floats, float] | None:
    """Return x, y, the time bound and the final root weight; None if one is out of range.

    x_k s_k = Σ_{i<k} x_i q_ik with x_0 = 1: Z_k / Z_0.
    time_k s_k = 1 + Σ_{0<i<k} time_i q_ik: the time spent in k before 0 is reached, summed over
    all starting points. The time before the *root* is reached, averaged over roots, is at most
    time_u + x_u Σ_r ρ_r time_r / ρ_0; that is what has to be in range.
    y_k s_k = ρ_k / ρ_0 + Σ_{i>k} q_ki y_i.
    """
    n = len(rho)
    x_and_time = np.zeros((2, n))
    start = np.zeros((2, n))
    start[0, 0] = 1.0
    start[1, 1:] = 1.0
    for panel in reversed(panels):
        lo, hi = panel.lo, panel.hi
        inflow = start[:, lo:hi] + x_and_time[:, :lo] @ factors[:lo, lo:hi]
        x_and_time[:, lo:hi] = inflow @ panel.inv_su
        if x_and_time[:, lo:hi].max() > LIMIT:
            return None
    x, time = x_and_time
    rho_0 = float(rho @ x)
    if not (time.max() <= LIMIT and x.max() * float(rho @ time) <= LIMIT * rho_0):
        return None
    y = np.zeros(n)
    for panel in panels:
        lo, hi = panel.lo, panel.hi
        y[lo:hi] = panel.inv_su @ (rho[lo:hi] / rho_0 + factors[lo:hi, hi:] @ y[hi:])
    return x, y, time, rho_0


def _derivatives(e: Elimination) -> Floats:
    """Return M[u, v] = ∂ log Z / ∂ β[u, v]; it grows from the top left corner.

        M[:k, k] = M[:k, :k] p_k + y_k x[:k]
        M[k, :k] = (q[:k, k] M[:k, :k] + c_k) / s_k
        c_k      = 1 − y_k s_k x_k − q[:k, k] M[:k, :k] p_k

    c_k is the one subtraction: between expected numbers of children, so its error is absolute
    and of the order of the rounding of one. A panel K needs M_RR of the earlier nodes R in two
    matrix products, which collect in the parts of M that it will fill; the rest of its work is on
    its own block.
    """
    q, n = e.factors, len(e.s)
    blocks = _blocks(n)
    M = np.empty((n, n))
    for panel in reversed(e.panels):
        lo, hi = panel.lo, panel.hi
        first, last = panel.group
        if lo == first:
            np.matmul(M[:first, :first], q[first:last, :first].T, out=M[:first, first:last])
            np.matmul(q[:first, first:last].T, M[:first, :first], out=M[first:last, :first])
        P, U = q[lo:hi, :lo], q[:lo, lo:hi]
        into, flow = M[:lo, lo:hi], M[lo:hi, :lo]
        if lo > first:  # from nodes of the same group
            into[:first] += M[:first, first:lo] @ P[:, first:].T
            into[first:] = M[first:lo, :lo] @ P.T
            flow[:, :first] += U[first:].T @ M[first:lo, :first]
            flow[:, first:] = U.T @ M[:lo, first:lo]
        into += e.x[:lo, None] * e.y[lo:hi]
        into[:] = into @ panel.inv_ip.T
        own, c = blocks.derive_block(
            q, lo, hi, e.x, e.y, e.s, flow @ P.T, U.T @ into, P.sum(axis=1)
        )
        M[lo:hi, lo:hi] = own
        flow += c[:, None]
        flow[:] = panel.inv_su.T @ flow
    return M
