"""Compiled loops that find each record's best possible parents.

Imported at first use only, since it loads numba.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from outtrees._common.compiled import compiled, helper, inlined


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
def _wait(t, slack, still_open, k, dates):  # type: ignore[no-untyped-def]
    """Return the log-probability of a time t ± slack from end to date, −inf if it is impossible."""
    tables, step = dates.tables, dates.step
    n = tables.shape[2]
    if slack == 0.0:
        if t < 0 or (t == 0 and dates.unit == 0):
            return -np.inf
        place = np.int64(t / step + 0.5)
        if place < n:
            return tables[still_open, k, place]
        # Beyond the table the logs go on falling as they last did.
        last = tables[still_open, k, n - 1]
        if last == -np.inf:
            return last
        return last + (last - tables[still_open, k, n - 2]) * (place - n + 1)
    if t + slack < 0:
        return -np.inf
    first = max(np.int64((t - slack) / step + 0.5), np.int64(0))
    last_place = np.int64((t + slack) / step + 0.5)
    if first >= n:
        last = tables[still_open, k, n - 1]
        best = last
        if last > -np.inf:
            best += (last - tables[still_open, k, n - 2]) * (first - n + 1)
    else:
        best = -np.inf
        for at in range(first, min(last_place, n - 1) + 1):
            best = max(best, tables[still_open, k, at])
    if still_open == 1:
        return best
    unit = dates.unit if dates.unit > 0 else step
    return best - np.log((2 * slack + unit) / unit)


@helper
def _add_waits(out, reached, n_out, k, u, from_, to, ends, rules, dates):  # type: ignore[no-untyped-def]
    """Write the dates' terms for the listed records into out; mark possible parents in reached."""
    cells, two = dates.cells, dates.two
    strict, ties = rules.strict, rules.ties
    date, width, still_open = cells[u, 0], cells[u, 2], int(cells[u, 3] > 0)
    follows, floor, alone = two[u, 0], two[u, 1], two[u, 2]
    if np.isnan(date):
        for j in range(to - from_):
            out[n_out + j] = 0.0
            reached[n_out + j] = True
        return
    per_step = 1.0 / dates.step
    n = dates.tables.shape[2]
    table = dates.tables[still_open, k]
    for j in range(to - from_):
        t = date - ends[from_ + j, 0]
        slack = width + ends[from_ + j, 1]
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
            wait = _wait(t, slack, still_open, k, dates)
        if wait > -np.inf or not strict:
            reached[n_out + j] = True
        out[n_out + j] = max(wait + follows, floor)


@helper
def _add_metric(out, n_out, from_, to, child, parents, constant, two):  # type: ignore[no-untyped-def]
    """Add the term of one column of numbers for the listed records; parents (D, T) in order."""
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
def best_parents(children, n, far, windows, rules, columns):  # type: ignore[no-untyped-def]
    """Return the best parents of each child, their scores, how many, and how many are possible.

    At most n of each child, and none `far` nats below its best. Windows, Rules and Columns are
    those of `windows` and `scan`. A score is the log of the largest term over numbers of links,
    each column being its term for the parent or its background, whichever is more. Dates and
    metrics are computed for whole windows; matches and sites only for parents that can still be
    among the best n.
    """
    order, begin, undated, low, high = windows
    forbidden, forbidden_first = rules.forbidden, rules.forbidden_first
    log_steps, rest = columns.log_steps, columns.rest
    dates, metrics, matches, sites = columns.dates, columns.metrics, columns.matches, columns.sites
    has_dates = dates.present
    match_code, match_two = matches.code, matches.two
    site_bits, site_known, site_first = sites.bits, sites.known, sites.first
    site_planes, site_two = sites.planes, sites.two
    K = len(log_steps)
    N = len(children)
    parents = np.full((N, n), -1, np.int32)
    scores = np.full((N, n), -np.inf)
    found = np.zeros(N, np.int32)
    possible = np.zeros(N, np.int64)
    n_metrics, n_matches, n_sites = len(metrics.first) - 1, len(match_code), len(site_first) - 1
    most = 0
    for i in range(N):
        u = children[i]
        most = max(most, undated[u] - begin[u] + high[u] - low[u])
    first = np.empty((K, most))  # terms of dates and metrics
    reached = np.empty(most, np.bool_)  # whether dates are in a possible order
    ends = np.empty((len(order), 2))  # end and half-width, in the order of the windows
    if has_dates:
        for place in range(len(order)):
            ends[place, 0] = dates.cells[order[place], 1]
            ends[place, 1] = dates.cells[order[place], 2]
    for i in range(N):
        u = children[i]
        head = undated[u] - begin[u]
        size = head + high[u] - low[u]
        for j in range(size):
            reached[j] = not has_dates
        for k in range(K):
            out = first[k]
            if has_dates:
                _add_waits(out, reached, 0, k, u, begin[u], undated[u], ends, rules, dates)
                _add_waits(out, reached, head, k, u, low[u], high[u], ends, rules, dates)
            else:
                for j in range(size):
                    out[j] = 0.0
            for c in range(n_metrics):
                a, b = metrics.first[c], metrics.first[c + 1]
                child = metrics.child[k, u, a:b]
                listed = metrics.parent[k, a:b]
                two, constant = metrics.two[c, u], metrics.constant[k, c]
                _add_metric(out, 0, begin[u], undated[u], child, listed, constant, two)
                _add_metric(out, head, low[u], high[u], child, listed, constant, two)
        possible[i] = low[u] - undated[u] if rules.early else 0
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
                        value = matches.same[k, c, a] if a == b else matches.other[k, c, a]
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
                        # numba fills in the first argument
                        different += _ones(differs & mine & theirs)  # type: ignore[call-arg]
                        unread += _ones(mine & ~theirs)
                    unlike, lacking = np.int64(different), np.int64(unread)
                    value = sites.constant[k, c] + unlike * sites.change[k, c]
                    value += (sites.read[c, u] - lacking - unlike) * sites.same[k, c]
                    value += lacking * sites.unread[c]
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
