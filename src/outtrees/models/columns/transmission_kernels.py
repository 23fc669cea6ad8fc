"""Compiled sums over the moment at which a strain left a host; see `transmission`.

Imported at first use only, since it loads numba.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, inlined

_NOTHING = 40.0  # nats below the largest term of a sum


@inlined
def _reversion(rate, letters, time):  # type: ignore[no-untyped-def]
    return rate * time / (letters - 1)


@compiled
def weigh(edges, laws, clock, weights, parts, total):  # type: ignore[no-untyped-def]
    """Fill `parts` (E, 2) with the logs of the dates' and of the joint weight of each edge.

    With weights (E,), add to `total` what slopes need of Σ weights · log-weight, the dates' first,
    the joint one's second (2, …): by moment of leaving, by time that is left, by rate, by age.
    `edges`, `laws`, `clock` and `total` are `Edges`, `Laws`, `Clock` and `Totals`.
    """
    log_leaving, first, log_left, step = laws
    rate, letters, origin, with_sites = clock
    n_leaving, n_left = log_leaving.shape[1], len(log_left)
    longest = 0
    for e in range(len(edges.delta)):
        longest = max(longest, int(np.ceil(edges.slack[e] / step)))
    cells = np.empty((2, n_leaving * (2 * longest + 1)))
    # Logarithms of the times that occur; half a step stands for none at all.
    most = 0
    for e in range(len(edges.delta)):
        most = max(most, int(np.round(abs(edges.delta[e]) / step)))
    log_times = np.log(np.maximum(np.arange(most + longest + n_leaving + 2), 0.5) * step)
    log_per = np.log(rate / (letters - 1)) if with_sites else 0.0
    for e in range(len(edges.delta)):
        reach = np.int64(np.ceil(edges.slack[e] / step))
        middle = np.int64(np.round(edges.delta[e] / step))
        age = max(edges.parent_date[e] - origin, step)
        shared, lacking, gained = edges.shared[e], edges.lacking[e], edges.gained[e]
        read, beside = edges.read[e], edges.beside[e]
        top_dates, top_joint = -np.inf, -np.inf
        n = 0
        for place in range(middle - reach, middle + reach + 1):
            for t in range(n_leaving):
                left = place - first - t
                log_dates, log_joint = -np.inf, -np.inf
                if 0 <= left < n_left:
                    log_dates = log_leaving[beside, t] + log_left[left]
                if log_dates > -np.inf and with_sites:
                    ago = max(-(first + t), 0)  # from leaving to the parent's sampling
                    since = max(place + ago, 0.5) * step
                    share = ago * step / age
                    if share < 1:
                        log_joint = log_dates - rate * read * since
                        if gained > 0:
                            log_joint += gained * (log_per + log_times[place + ago])
                        if shared > 0 and share > 0:
                            log_joint += shared * np.log1p(-share)
                        if lacking > 0:
                            log_joint += lacking * np.log(share + _reversion(rate, letters, since))
                cells[0, n], cells[1, n] = log_dates, log_joint
                top_dates, top_joint = max(top_dates, log_dates), max(top_joint, log_joint)
                n += 1
        sums = np.zeros(2)
        for i in range(n):
            if cells[0, i] > top_dates - _NOTHING:
                sums[0] += np.exp(cells[0, i] - top_dates)
            if cells[1, i] > top_joint - _NOTHING:
                sums[1] += np.exp(cells[1, i] - top_joint)
        parts[e, 0] = top_dates + np.log(sums[0]) - np.log(2 * reach + 1)
        parts[e, 1] = top_joint + np.log(sums[1]) - np.log(2 * reach + 1)
        if len(weights) == 0 or weights[e] == 0.0:
            continue
        n = 0
        for place in range(middle - reach, middle + reach + 1):
            for t in range(n_leaving):
                left = place - first - t
                if cells[0, n] > top_dates - _NOTHING:
                    p = weights[e] * np.exp(cells[0, n] - top_dates) / sums[0]
                    total.leaving[0, beside, t] += p
                    total.left[0, left] += p
                if cells[1, n] > top_joint - _NOTHING:
                    p = weights[e] * np.exp(cells[1, n] - top_joint) / sums[1]
                    total.leaving[1, beside, t] += p
                    total.left[1, left] += p
                    ago = max(-(first + t), 0)
                    since = max(place + ago, 0.5) * step
                    share, back = ago * step / age, _reversion(rate, letters, since)
                    total.rate[0] += p * (gained - rate * read * since)
                    total.age[0] += p * shared * share / ((1 - share) * age)
                    if lacking > 0:
                        total.rate[0] += p * lacking * back / (share + back)
                        total.age[0] -= p * lacking * share / ((share + back) * age)
                n += 1


@compiled
def draw_letters(letters, parents, order, change, n_letters, uniform):  # type: ignore[no-untyped-def]
    """Return the letters (T, n) with unread ones (255) drawn given all that were read, on a tree.

    Site by site: messages from children to parents, then draws from parents to children. `order`
    has parents before children; `change` (T,) is the chance of another letter than the parent's;
    `uniform` (T, n) are random numbers.
    """
    T, n = letters.shape
    result = letters.copy()
    message = np.empty((T, n_letters))
    chance = np.empty(n_letters)
    for s in range(n):
        unread = False
        for u in range(T):
            known = letters[u, s]
            unread = unread or known == 255
            for a in range(n_letters):
                message[u, a] = 1.0 if known == 255 or known == a else 0.0
        if not unread:
            continue
        for i in range(T - 1, -1, -1):
            u = order[i]
            v = parents[u]
            if v < 0:
                continue
            total = message[u].sum()
            other = change[u] / (n_letters - 1)
            for a in range(n_letters):
                message[v, a] *= (1 - change[u]) * message[u, a] + other * (total - message[u, a])
            message[v] /= message[v].max()
        for i in range(T):
            u = order[i]
            if letters[u, s] != 255:
                continue
            v = parents[u]
            total = 0.0
            for a in range(n_letters):
                chance[a] = message[u, a]
                if v >= 0:
                    same = result[v, s] == a
                    chance[a] *= 1 - change[u] if same else change[u] / (n_letters - 1)
                total += chance[a]
            left = uniform[u, s] * total
            pick = 0
            while pick < n_letters - 1 and left >= chance[pick]:
                left -= chance[pick]
                pick += 1
            result[u, s] = pick
    return result
