"""Compiled loops that find each record's best possible parents.

Imported at first use only, since it loads numba.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from outtrees._common.compiled import compiled, inlined


@intrinsic
def _ones(typingctx, word):  # type: ignore[no-untyped-def]
    """Return the number of bits that are 1, by the processor's own instruction."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@inlined
def _sink(scores, records, size):  # type: ignore[no-untyped-def]
    """Restore the heap, the smallest score first, after its first entry changed."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and scores[child + 1] < scores[child]:
            child += 1
        if scores[at] <= scores[child]:
            break
        scores[at], scores[child] = scores[child], scores[at]
        records[at], records[child] = records[child], records[at]
        at = child


@inlined
def _rise(scores, records, at):  # type: ignore[no-untyped-def]
    """Restore the heap after an entry was added at its end."""
    while at > 0:
        above = (at - 1) // 2
        if scores[above] <= scores[at]:
            break
        scores[at], scores[above] = scores[above], scores[at]
        records[at], records[above] = records[above], records[at]
        at = above


@inlined
def _wait(t, slack, still_open, k, gap_tables, gap_step, gap_unit):  # type: ignore[no-untyped-def]
    """Return the log-probability of a time t ± slack from end to date, −inf if it is impossible."""
    n = gap_tables.shape[2]
    if slack == 0.0:
        if t < 0 or (t == 0 and gap_unit == 0):
            return -np.inf
        place = np.int64(t / gap_step + 0.5)
        if place < n:
            return gap_tables[still_open, k, place]
        # Beyond the table the logs go on falling as they last did.
        last = gap_tables[still_open, k, n - 1]
        if last == -np.inf:
            return last
        return last + (last - gap_tables[still_open, k, n - 2]) * (place - n + 1)
    if t + slack < 0:
        return -np.inf
    first = max(np.int64((t - slack) / gap_step + 0.5), 0)
    last_place = np.int64((t + slack) / gap_step + 0.5)
    if first >= n:
        last = gap_tables[still_open, k, n - 1]
        best = last
        if last > -np.inf:
            best += (last - gap_tables[still_open, k, n - 2]) * (first - n + 1)
    else:
        best = -np.inf
        for place in range(first, min(last_place, n - 1) + 1):
            best = max(best, gap_tables[still_open, k, place])
    if still_open == 1:
        return best
    unit = gap_unit if gap_unit > 0 else gap_step
    return best - np.log((2 * slack + unit) / unit)


@compiled
def _add_waits(
    out, reached, n_out, k, u, from_, to, in_order, strict, ties, gap_tables, gap_step, gap_unit,
    gap_cells, gap_two,
):  # fmt: skip  # type: ignore[no-untyped-def]
    """Put what dates say of the listed records into out, and mark who may be a parent by them."""
    date, width, still_open = gap_cells[u, 0], gap_cells[u, 2], int(gap_cells[u, 3] > 0)
    follows, floor, alone = gap_two[u, 0], gap_two[u, 1], gap_two[u, 2]
    if np.isnan(date):
        for j in range(to - from_):
            out[n_out + j] = 0.0
            reached[n_out + j] = True
        return
    per_step = 1.0 / gap_step
    n = gap_tables.shape[2]
    table = gap_tables[still_open, k]
    for j in range(to - from_):
        t = date - in_order[from_ + j, 0]
        slack = width + in_order[from_ + j, 1]
        if np.isnan(t):
            out[n_out + j] = alone
            reached[n_out + j] = True
            continue
        place = np.int64(t * per_step + 0.5)
        if slack == 0.0 and 0 < place < n and t > 0:
            wait = table[place]
        elif t == 0 and slack == 0 and strict and not ties:
            wait = -np.inf
        else:
            wait = _wait(t, slack, still_open, k, gap_tables, gap_step, gap_unit)
        if wait > -np.inf or not strict:
            reached[n_out + j] = True
        out[n_out + j] = max(wait + follows, floor)


@compiled
def _add_metric(out, n_out, from_, to, child, parents, constant, two):  # type: ignore[no-untyped-def]
    """Add what one column of numbers says of the listed records; parents (D, T) in their order."""
    if np.isnan(child[0]):
        return
    follows, floor, alone = two[0] + constant, two[1], two[2]
    D = len(child)
    for j in range(to - from_):
        square = 0.0
        for d in range(D):
            gap = child[d] - parents[d, from_ + j]
            square += gap * gap
        value = max(follows - 0.5 * square, floor)
        out[n_out + j] += value if square == square else alone


@compiled
def best_parents(
    children, n, far,  # records whose parents are sought; how many at most, how far below the best
    order, begin, undated, low, high,  # windows, see windows.py
    ties, strict,  # whether equal dates are possible; whether dates must be in order
    early,  # whether parents before the window are possible, if implausible
    forbidden, forbidden_first,  # forbidden parents of each record, as lists one after the other
    log_steps,  # (K,)
    has_gaps, gap_cells, gap_tables, gap_step, gap_unit, gap_two,
    metric_child, metric_parent, metric_first, metric_constant, metric_two,
    match_code, match_same, match_other, match_two,
    site_bits, site_known, site_read, site_first, site_planes, site_same, site_change, site_unread,
    site_constant, site_two,
    rest,  # (K,), the most that matches and sites can add to dates and metrics
):  # fmt: skip  # type: ignore[no-untyped-def]
    """Return the best parents of each child, their scores, how many, and how many are possible.

    A score is the log of the largest term over numbers of links, each column being what it says of
    the parent or its background, whichever is more. ``*_two`` hold (log(1 − ε), log ε + background,
    background) for each record. Dates and metrics are computed for whole windows; matches and
    sites only for parents that can still be among the best n.
    """
    K = len(log_steps)
    N = len(children)
    parents = np.full((N, n), -1, np.int32)
    scores = np.full((N, n), -np.inf)
    found = np.zeros(N, np.int32)
    possible = np.zeros(N, np.int64)
    n_metrics, n_matches, n_sites = len(metric_first) - 1, len(match_code), len(site_first) - 1
    most = 0
    for i in range(N):
        u = children[i]
        most = max(most, undated[u] - begin[u] + high[u] - low[u])
    first = np.empty((K, most))  # what dates and metrics say
    reached = np.empty(most, np.bool_)  # whether dates are in a possible order
    ends = np.empty((len(order), 2))  # end and half-width, in the order of the windows
    if has_gaps:
        for place in range(len(order)):
            ends[place, 0] = gap_cells[order[place], 1]
            ends[place, 1] = gap_cells[order[place], 2]
    for i in range(N):
        u = children[i]
        head = undated[u] - begin[u]
        size = head + high[u] - low[u]
        for j in range(size):
            reached[j] = not has_gaps
        for k in range(K):
            out = first[k]
            if has_gaps:
                _add_waits(
                    out, reached, 0, k, u, begin[u], undated[u], ends, strict, ties, gap_tables,
                    gap_step, gap_unit, gap_cells, gap_two,
                )  # fmt: skip
                _add_waits(
                    out, reached, head, k, u, low[u], high[u], ends, strict, ties, gap_tables,
                    gap_step, gap_unit, gap_cells, gap_two,
                )  # fmt: skip
            else:
                for j in range(size):
                    out[j] = 0.0
            for c in range(n_metrics):
                a, b = metric_first[c], metric_first[c + 1]
                child = metric_child[k, u, a:b]
                listed = metric_parent[k, a:b]
                two, constant = metric_two[c, u], metric_constant[k, c]
                _add_metric(out, 0, begin[u], undated[u], child, listed, constant, two)
                _add_metric(out, head, low[u], high[u], child, listed, constant, two)
        possible[i] = low[u] - undated[u] if early else 0
        threshold = best = -np.inf
        filled = 0
        some_forbidden = forbidden_first[u] < forbidden_first[u + 1]
        promising = 0
        for j in range(size):
            if first[0, j] > first[0, promising]:
                promising = j
        for step in range(size + 1):
            # The most promising one first, so that the others are soon left.
            j = promising if step == 0 else size - step
            if size == 0 or (step > 0 and j == promising):
                continue
            v = order[low[u] + j - head] if j >= head else order[begin[u] + j]
            if v == u:
                continue
            if some_forbidden:
                banned = False
                for f in range(forbidden_first[u], forbidden_first[u + 1]):
                    banned = banned or forbidden[f] == v
                if banned:
                    continue
            if reached[j]:
                possible[i] += 1
            score = -np.inf
            for k in range(K):
                total = log_steps[k] + first[k, j]
                if not total + rest[k] > threshold:
                    continue
                for c in range(n_matches):
                    a, b = match_code[c, u], match_code[c, v]
                    if a < 0:
                        continue
                    if b < 0:
                        total += match_two[c, u, 2]
                    else:
                        value = match_same[k, c, a] if a == b else match_other[k, c, a]
                        total += max(value + match_two[c, u, 0], match_two[c, u, 1])
                for c in range(n_sites):
                    different, unread = np.uint64(0), np.uint64(0)
                    n_words = (site_first[c + 1] - site_first[c]) // site_planes[c]
                    for w in range(n_words):
                        mine, theirs = site_known[c, u, w], site_known[c, v, w]
                        differs = np.uint64(0)
                        for p in range(site_planes[c]):
                            at = site_first[c] + p * n_words + w
                            differs |= site_bits[u, at] ^ site_bits[v, at]
                        different += _ones(differs & mine & theirs)
                        unread += _ones(mine & ~theirs)
                    unlike, lacking = np.int64(different), np.int64(unread)
                    value = site_constant[k, c] + unlike * site_change[k, c]
                    value += (site_read[c, u] - lacking - unlike) * site_same[k, c]
                    value += lacking * site_unread[c]
                    total += max(value + site_two[c, u, 0], site_two[c, u, 1])
                score = max(score, total)
            if not score > threshold:
                continue
            if filled < n:
                scores[i, filled], parents[i, filled] = score, v
                _rise(scores[i], parents[i], filled)
                filled += 1
            else:
                scores[i, 0], parents[i, 0] = score, v
                _sink(scores[i], parents[i], filled)
            best = max(best, score)
            threshold = max(scores[i, 0] if filled == n else -np.inf, best - far)
        found[i] = filled
    return parents, scores, found, possible
