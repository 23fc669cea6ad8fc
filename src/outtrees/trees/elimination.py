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
matrix products, so the cost is BLAS's: 2/3 T³ flops forward, 4/3 T³ backward. Products come in
pairs, one of rows and one of columns, which two threads share. What is left to do inside a panel is
compiled (`outtrees.trees.elimination_kernels`).

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
from queue import SimpleQueue
from types import ModuleType

import numpy as np

from outtrees._common.threads import Product, multiply, over_rows, own_threads, side_by_side
from outtrees.trees import elimination_blocks
from outtrees.trees.elimination_blocks import LIMIT
from outtrees.trees.probabilities import settled
from outtrees.trees.weights import Floats, Ints, Weights, anchored_order

# Nodes leave in panels of so many: what happens inside is compiled, the rest is matrix products.
_PANEL, _LARGE_PANEL, _LARGE = 64, 96, 1500
# A group of up to so many panels takes from all before it in two large products, and its panels
# then from each other. More panels are divided into four groups, and these in the same way.
_PANELS_IN_GROUP, _GROUPS = 8, 4
# Up to so many nodes, β is kept beside the factors, which saves its second exponential, and both
# have their memory in one piece with the derivatives: four megabytes get large pages. With smaller
# ones, a tenth of the time goes by in asking for pages.
_SMALL = 700
# Fewer nodes are done in NumPy before numba is loaded.
_FEW = 8


@dataclass(frozen=True)
class _Panel:
    """Nodes lo … hi−1, and the inverses of their diagonal blocks of the two factors."""

    lo: int
    hi: int
    beyond: Floats  # the share of P that goes to all nodes before the panel together
    # (m + 1, m + 1) each: the inverses, and room for one more row and column that is multiplied
    # along with them. Also, rows a power of two apart would get in each other's way in the cache.
    padded_su: Floats
    padded_ip: Floats

    @property
    def inv_su(self) -> Floats:
        """(S − U)⁻¹, entries ≥ 0."""
        return self.padded_su[:-1, :-1]

    @property
    def inv_ip(self) -> Floats:
        """(I − P)⁻¹, entries ≥ 0."""
        return self.padded_ip[:-1, :-1]


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
    kept: list[Floats]  # β / scale in the caller's order, and room for the derivatives; or nothing

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
        beta = self.kept[0] if self.kept else None
        edge = _derivatives(self, self.kept.pop() if len(self.kept) > 1 else None)
        _swap(edge, self.order)

        def weigh(rows: slice) -> None:
            edge[rows] *= _scaled_beta(self.weights, rows) if beta is None else beta[rows]
            settled(edge[rows], len(edge))

        over_rows(edge, weigh)
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
        q = self.factors
        with own_threads() as threads:
            for panel in self.panels:  # descending
                lo, hi = panel.lo, panel.hi
                multiply(threads, Product(q[lo:hi, hi:], hits[hi:], hits[lo:hi], added=True))
                hits[lo:hi] = panel.inv_su @ hits[lo:hi]
            hits[0] = 0.0
            for panel in reversed(self.panels):
                lo, hi = panel.lo, panel.hi
                multiply(threads, Product(q[lo:hi, :lo], hits[:lo], hits[lo:hi], added=True))
                hits[lo:hi] = panel.inv_ip @ hits[lo:hi]
        return hits


def rooted_sums(log_s: Floats, log_x: Floats, log_scale: Floats) -> Floats:
    """Return log Z_r = Σ log s + log x_r + Σ_{u≠r} log_scale_u for every r.

    Row r has no part in Z_r, and its scale, however large, may cost it no digit: so the sum over
    all rows is kept with what rounding takes from it.
    """
    total = total_and_rest(np.append(log_s, log_scale))
    return np.array([fsum([*total, x, -own]) for x, own in zip(log_x, log_scale, strict=True)])


def total_and_rest(values: Floats) -> list[float]:
    """Return the sum of the values as two numbers: rounded to a double, and what that takes off."""
    terms = values.tolist()
    total = fsum(terms)
    return [total, fsum([*terms, -total])]


def eliminate(weights: Weights, anchor: int) -> Elimination | None:
    """Run the forward pass, or return None where the weights leave the range of a double.

    ``anchor`` must be a possible root; the better a root it is, the smaller the range needed.
    """
    n, log_scale = weights.n, weights.log_scale
    order = anchored_order(n, anchor)
    factors, *kept = np.empty((3 if n <= _SMALL else 1, n, n))
    over_rows(factors, lambda rows: _scaled_beta(weights, rows, out=factors[rows]))
    if kept:
        kept[0][:] = factors
    _swap(factors, order)
    log_rho = weights.log_root - log_scale
    root_shift = float(log_rho.max())
    rho = np.exp(log_rho - root_shift)[order]

    s = np.ones(n)
    with own_threads() as threads:
        panels = _factorise(factors, s, threads)
        if panels is None:
            return None
        solved = _solve(factors, panels, rho)
    if solved is None:
        return None
    x, y, time, rho_0 = solved
    return Elimination(
        weights, order, log_scale, root_shift, rho, factors, s, panels, x, y, time, rho_0, kept
    )


def _scaled_beta(weights: Weights, rows: slice, out: Floats | None = None) -> Floats:
    """Return the rows of β / scale."""
    log_scaled = np.subtract(weights.log_beta[rows], weights.log_scale[rows, None], out=out)
    return np.exp(log_scaled, out=log_scaled)


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


def _factorise(q: Floats, s: Floats, threads: int = 1) -> list[_Panel] | None:
    """Replace q by its factors, last node first; fill the pivots ``s``."""
    blocks, size = _blocks(len(q)), _panel_size(len(q))
    panels: list[_Panel] = []

    def leave(lo: int, hi: int, end: int) -> bool:
        """Let nodes lo … hi−1 leave; of those that have left, hi … end−1 are still to be added."""
        parts = _parts(lo, hi, size)
        if not parts:
            return leave_together(lo, hi, end)
        if end > hi:
            multiply(
                threads,
                Product(q[lo:hi, hi:end], q[hi:end, :hi], q[lo:hi, :hi], added=True),
                Product(q[:lo, hi:end], q[hi:end, lo:hi], q[:lo, lo:hi], added=True),
            )
        return all(leave(*part, hi) for part in reversed(parts))

    def leave_together(lo: int, hi: int, end: int) -> bool:
        m, later = hi - lo, slice(hi, end)
        su, ip = np.empty((2, m + 1, m + 1))
        panel = _Panel(lo, hi, np.empty(m), su, ip)
        factored: SimpleQueue[bool] = SimpleQueue()

        def rows(threads: int) -> None:
            rows, in_range = q[lo:hi, :hi].copy(), False
            try:
                multiply(threads, Product(q[lo:hi, later], q[later, :hi], rows, added=True))
                q[lo:hi, lo:hi] = rows[:, lo:]
                rows[:, :lo].sum(axis=1, out=panel.beyond)
                in_range = blocks.factor_block(q, lo, hi, panel.beyond, s[lo:hi], su, ip) <= LIMIT
            finally:
                factored.put(in_range)
            if in_range:
                multiply(threads, Product(panel.inv_su, rows[:, :lo], q[lo:hi, :lo]))
                panels.append(panel)

        def columns(threads: int) -> None:
            columns = q[:lo, lo:hi].copy()
            multiply(threads, Product(q[:lo, later], q[later, lo:hi], columns, added=True))
            if factored.get():
                multiply(threads, Product(columns, panel.inv_ip, q[:lo, lo:hi]))

        side_by_side(threads, m * (end - lo + m) * (lo + hi), rows, columns)
        return bool(panels) and panels[-1] is panel

    return panels if leave(0, len(q), len(q)) else None


def _panel_size(n: int) -> int:
    return _PANEL if n < _LARGE else _LARGE_PANEL


def _parts(lo: int, hi: int, size: int) -> list[tuple[int, int]]:
    """Return the stretches that nodes lo … hi−1 are divided into; none if they leave together."""
    panels = -(-(hi - lo) // size)
    if panels < 2:
        return []
    width = size if panels <= _PANELS_IN_GROUP else -(-panels // _GROUPS) * size
    return [(at, min(at + width, hi)) for at in range(lo, hi, width)]


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


def _derivatives(e: Elimination, room: Floats | None = None) -> Floats:
    """Return M[u, v] = ∂ log Z / ∂ β[u, v], in ``room``; it grows from the top left corner.

        M[:k, k] = M[:k, :k] p_k + y_k x[:k]
        M[k, :k] = (q[:k, k] M[:k, :k] + c_k) / s_k
        c_k      = 1 − y_k s_k x_k − q[:k, k] M[:k, :k] p_k

    c_k is the one subtraction: between expected numbers of children, so its error is absolute
    and of the order of the rounding of one. A panel K needs M_RR of the earlier nodes R in two
    matrix products, M_RR P_KRᵀ and U_RKᵀ M_RR; the rest of its work is on its own block, whose
    U_RKᵀ M_RK = (U_RKᵀ M_RR P_KRᵀ + U_RKᵀ x_R y_Kᵀ) (I − P_KK)⁻ᵀ.
    """
    q, n = e.factors, len(e.s)
    blocks, size = _blocks(n), _panel_size(n)
    M = np.empty((n, n)) if room is None else room
    panels = {panel.lo: panel for panel in e.panels}

    def fill(lo: int, hi: int, first: int) -> None:
        """Fill M up to node hi, M[:lo, :lo] being known.

        What nodes before ``first`` give waits where M will be; of the rest it is added here.
        """
        parts = _parts(lo, hi, size)
        if not parts:
            fill_together(panels[lo], first)
            return
        P, U = q[lo:hi, :lo], q[:lo, lo:hi]
        if 0 < first < lo:
            multiply(
                threads,
                Product(M[:first, first:lo], P[:, first:].T, M[:first, lo:hi], added=True),
                Product(U[first:].T, M[first:lo, :first], M[lo:hi, :first], added=True),
            )
        multiply(
            threads,
            Product(M[first:lo, :lo], P.T, M[first:lo, lo:hi]),
            Product(U.T, M[:lo, first:lo], M[lo:hi, first:lo]),
        )
        for part in parts:
            fill(*part, lo)

    def fill_together(panel: _Panel, first: int) -> None:
        lo, hi, m = panel.lo, panel.hi, panel.hi - panel.lo
        P, U = q[lo:hi, :lo], q[:lo, lo:hi]
        panel.padded_ip[:m, m] = shared_y = panel.inv_ip @ e.y[lo:hi]

        def rows(threads: int) -> None:
            flow = np.empty((m + 1, lo))  # U_RKᵀ M_RR, and ones below it, which the constants meet
            flow[:m, :first], flow[m] = M[lo:hi, :first], 1.0
            multiply(
                threads,
                Product(U.T, M[:lo, first:lo], flow[:m, first:]),
                Product(U[first:].T, M[first:lo, :first], flow[:m, :first], added=True),
            )
            flow_P = flow[:m] @ P.T
            U_M = flow_P @ panel.inv_ip.T
            U_M += (e.x[:lo] @ U)[:, None] * shared_y
            block, c = blocks.derive_block(q, lo, hi, e.x, e.y, e.s, flow_P, U_M, panel.beyond)
            panel.padded_su[m, :m] = c @ panel.inv_su
            multiply(threads, Product(panel.padded_su[:, :m].T, flow, M[lo:hi, :lo]))
            M[lo:hi, lo:hi] = block

        def columns(threads: int) -> None:
            into = np.empty((lo, m + 1))  # M_RR P_KRᵀ, and x beside it
            into[:first, :m], into[:, m] = M[:first, lo:hi], e.x[:lo]
            multiply(
                threads,
                Product(M[first:lo, :lo], P.T, into[first:, :m]),
                Product(M[:first, first:lo], P[:, first:].T, into[:first, :m], added=True),
            )
            multiply(threads, Product(into, panel.padded_ip[:m].T, M[:lo, lo:hi]))

        side_by_side(threads, 2 * m * lo * (lo - first + m), rows, columns)

    with own_threads() as threads:
        fill(0, n, 0)
    return M
