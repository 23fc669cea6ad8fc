"""Compiled loops of the extended range: numbers m · 2^e with a 64-bit exponent e.

Imported at first use only, since it loads numba. Every function takes a mantissa array and an
exponent array in place of one array of doubles. Mantissas lie in [½, 1) between steps and may
grow within one; zero has mantissa 0 and the exponent ``ZERO``. The loops over j compile
to vector instructions: aligning two numbers is a multiplication by a power of two written
straight into the exponent bits.
"""

from __future__ import annotations

import math

import numpy as np

from outtrees._common.compiled import compiled, helper, inlined

ZERO = -(1 << 60)  # far below any exponent that occurs; the sum of two still fits


@inlined
def power_of_two(d):
    """Return 2^d for d ≤ 0, and 0 from 2^−1023 down."""
    return np.int64((max(d, -1023) + 1023) << 52).view(np.float64)


@helper
def add_multiple(cm, ce, wm, we, qm, qe):
    """c += w q for vectors c, q and a number w."""
    for j in range(len(cm)):
        e = we + qe[j]
        top = max(e, ce[j])
        cm[j] = cm[j] * power_of_two(ce[j] - top) + wm * qm[j] * power_of_two(e - top)
        ce[j] = top


@helper
def dot(am, ae, bm, be):
    """Return Σ a_j b_j."""
    top = 2 * ZERO
    for j in range(len(am)):
        top = max(top, ae[j] + be[j])
    total = 0.0
    for j in range(len(am)):
        total += am[j] * bm[j] * power_of_two(ae[j] + be[j] - top)
    return normal(total, top)


@helper
def normal(m, e):
    """Return the same number with its mantissa in [½, 1)."""
    m, shift = math.frexp(m)
    if m == 0.0:
        return 0.0, ZERO
    return m, e + shift


@helper
def normalise(cm, ce):
    """Bring every mantissa of a vector into [½, 1)."""
    for j in range(len(cm)):
        cm[j], ce[j] = normal(cm[j], ce[j])


@helper
def divide(cm, ce, sm, se):
    """c /= s for a vector c and a number s."""
    for j in range(len(cm)):
        cm[j], ce[j] = normal(cm[j] / sm, ce[j] - se)


@helper
def to_double(m, e):
    """Return the number as a double; below the smallest it is 0."""
    return math.ldexp(m, max(e, -2000))


@helper
def add(am, ae, bm, be):
    """Return a + b."""
    top = max(ae, be)
    return normal(am * power_of_two(ae - top) + bm * power_of_two(be - top), top)


@compiled
def eliminate(qm, qe, stop, lead, first, sm, se):
    """Let nodes n − 1 … stop leave: q becomes U (above) and P (below the diagonal); fill pivots.

    Row by row, the last first: row i takes what the nodes k > i that left before it hand on. Node k
    has the column lead + k; a pivot is the sum of its row from column ``first`` on.
    """
    n = len(qm)
    for i in range(n - 1, -1, -1):
        rm, re = qm[i], qe[i]
        for k in range(n - 1, max(i, stop - 1), -1):
            end = lead + k
            if rm[end] != 0.0:
                add_multiple(rm[:end], re[:end], rm[end], re[end], qm[k, :end], qe[k, :end])
        rm[lead + i], re[lead + i] = 0.0, ZERO
        normalise(rm, re)
        if i >= stop:
            top = 2 * ZERO
            for j in range(first, lead + i):
                top = max(top, re[j])
            total = 0.0
            for j in range(first, lead + i):
                total += rm[j] * power_of_two(re[j] - top)
            sm[i], se[i] = normal(total, top)
            divide(rm[: lead + i], re[: lead + i], sm[i], se[i])


@compiled
def root_ratios(qm, qe, sm, se, xm, xe):
    """Fill x_k = Z_k / Z_0: x_0 = 1, x_k s_k = Σ_{i<k} x_i q_ik."""
    xm[0], xe[0] = 0.5, 1
    for i in range(len(sm)):
        if i > 0:
            xm[i], xe[i] = normal(xm[i] / sm[i], xe[i] - se[i])
        add_multiple(xm[i + 1 :], xe[i + 1 :], xm[i], xe[i], qm[i, i + 1 :], qe[i, i + 1 :])


@compiled
def root_shares(qm, qe, sm, se, ym, ye):
    """Replace y = ρ by the root weight of each k when it left, over s_k."""
    n = len(sm)
    for k in range(n - 1, -1, -1):
        m, e = dot(qm[k, k + 1 :], qe[k, k + 1 :], ym[k + 1 :], ye[k + 1 :])
        top = max(e, ye[k])
        total = m * power_of_two(e - top) + ym[k] * power_of_two(ye[k] - top)
        ym[k], ye[k] = normal(total / sm[k], top - se[k])


@compiled
def derivatives(Mm, Me, Pm, Pe, Um, Ue, stop, lead, first, xm, xe, ym, ye, sm, se):
    """Fill the rows and columns from node ``stop`` on of M[u, v] = ∂ log Z / ∂ β[u, v].

    Node by node, as `elimination._derivatives` says; columns as in `eliminate`. The last rows of
    the factors are P; the rates of the nodes before these, of which M is known, are U.
    """
    n = len(Mm)
    before = n - len(Pm)
    column_m, column_e = np.empty(n), np.empty(n, np.int64)
    for k in range(stop, n):
        end = lead + k
        pm, pe = Pm[k - before, first:end], Pe[k - before, first:end]
        rm, re = Mm[k, first:end], Me[k, first:end]
        for j in range(len(rm)):
            rm[j], re[j] = 0.0, ZERO
        for i in range(k):
            known_m, known_e = Mm[i, first:end], Me[i, first:end]
            column_m[i], column_e[i] = dot(known_m, known_e, pm, pe)
            if i < before:
                qm, qe = Um[i, k - before], Ue[i, k - before]
            else:
                qm, qe = Pm[i - before, end], Pe[i - before, end]
            if qm != 0.0:
                add_multiple(rm, re, qm, qe, known_m, known_e)
        normalise(rm, re)
        children_m, children_e = dot(rm, re, pm, pe)
        root = to_double(ym[k] * sm[k] * xm[k], ye[k] + se[k] + xe[k])
        c = 1.0 - root - to_double(children_m, children_e)
        for j in range(len(rm)):
            if re[j] <= 100:  # else c, of the order of one, is nothing beside it
                rm[j], re[j] = normal(to_double(rm[j], re[j]) + c, 0)
        divide(rm, re, sm[k], se[k])
        Mm[k, end], Me[k, end] = 0.0, ZERO
        for i in range(k):
            Mm[i, end], Me[i, end] = add(column_m[i], column_e[i], ym[k] * xm[i], ye[k] + xe[i])


@compiled
def first_hits(qm, qe, sm, se, hm, he):
    """Replace h = diag ρ by (S − U)⁻¹ diag ρ, row by row from the last."""
    n = len(sm)
    for k in range(n - 1, 0, -1):
        for i in range(k + 1, n):
            if qm[k, i] != 0.0:
                add_multiple(hm[k], he[k], qm[k, i], qe[k, i], hm[i], he[i])
        divide(hm[k], he[k], sm[k], se[k])
