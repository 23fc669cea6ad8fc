"""Compiled steps of a chain over dated transmission trees; see `outbreak`.

Imported at first use only, since it loads numba. Hosts 0 … S − 1 have samples; others, up to the
length of the arrays, are people whom nobody sampled, or free places (`NOBODY` as parent).
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from outtrees._common.compiled import compiled, helper

NOBODY = -2  # the parent of a free place; −1: an introduction
# Parameters, in this order (see `outbreak.MORE`).
_GENERATION, _GENERATION_SHAPE, _DELAY, _DELAY_SHAPE, _SAMPLED, _RATE, _AGE = range(7)
_R, _DISPERSION, _TRUNK, _LATE, _DRIFT, _MIXED = 7, 8, 9, 10, 11, 12
_NO_TIME = 1e-100  # less than that is none
# Moves of the tree, in the order of `_proposed`: up to which part of all tries each comes.
_OFTEN = (0.28, 0.34, 0.38, 0.44, 0.50, 0.82, 0.88, 0.94, 1.0)
_FLOOR = 0.02  # of the weight with which any host is tried as parent


@helper
def _log_gamma_density(x, log_mean, log_shape):  # type: ignore[no-untyped-def]
    if x <= 0.0:
        return -np.inf
    shape = np.exp(log_shape)
    scale = np.exp(log_mean) / shape
    return (shape - 1) * np.log(x) - x / scale - lgamma(shape) - shape * np.log(scale)


@helper
def _log_mass_before(x, log_mean, log_shape):  # type: ignore[no-untyped-def]
    """Return log P(time < x) of a gamma law; for x well below its mean."""
    shape = np.exp(log_shape)
    y = x * shape / np.exp(log_mean)
    part = total = 1.0
    i = 1
    while part > 1e-6 * total:
        part *= y / (shape + i)
        total += part
        i += 1
    return shape * np.log(y) - y - lgamma(shape + 1) + np.log(total)


@helper
def _fill_laws(theta, laws):  # type: ignore[no-untyped-def]
    """Fill `laws` with chances of having a sample in one's line, by date of infection.

    The last cell is the end of sampling; a cell is a twelfth of a generation, or less where delays
    vary little. Small chances are never made of ones close to 1, or rounding would be taken for
    evidence.
    """
    line, child, n = laws.line, laws.child, len(laws.line)
    mean, varies = np.exp(theta[_GENERATION]), np.exp(theta[_DELAY] - 0.5 * theta[_DELAY_SHAPE])
    law, most = laws.generation, len(laws.generation)
    step = max(min(mean / 12, varies / 4), 8 * mean / most)
    m = min(most, int(8 * mean / step) + 1)
    laws.step[0], laws.first[0] = step, laws.end[0] - (n - 1) * step
    sampled = 1 / (1 + np.exp(-theta[_SAMPLED]))
    R, dispersion = np.exp(theta[_R]), np.exp(theta[_DISPERSION])
    law[0] = np.exp(_log_mass_before(step, theta[0], theta[1]))
    for i in range(1, m):
        law[i] = step * np.exp(_log_gamma_density((i + 0.5) * step, theta[0], theta[1]))
    line[n - 1] = child[n - 1] = laws.time[n - 1] = 0.0
    laws.unsampled[n - 1] = 1.0
    done = 0.0  # the chance of having been sampled, were everybody
    for i in range(n - 2, -1, -1):
        ahead = n - 1 - i  # cells until the end
        if ahead == 1:
            done = np.exp(_log_mass_before(step, theta[2], theta[3]))
        elif done < 1 - 1e-9:
            for part in range(4):
                x = (ahead - (part + 0.5) / 4) * step
                done += 0.25 * step * np.exp(_log_gamma_density(x, theta[2], theta[3]))
        # Times in a cell count half for each of its ends; the first of these is not known yet.
        later = 0.0
        for j in range(1, min(m, ahead)):
            later += law[j] * 0.5 * (line[i + j] + line[i + j + 1])
        own = sampled * min(done, 1.0)
        laws.unsampled[i] = 1 - own
        line[i] = line[i + 1]
        for _ in range(3):
            child[i] = min(later + law[0] * 0.5 * (line[i] + line[i + 1]), 1.0)
            line[i] = -np.expm1(np.log1p(-own) - dispersion * np.log1p(R / dispersion * child[i]))
        laws.time[i] = laws.time[i + 1] + step * 0.5 * (line[i] + line[i + 1])
        if ahead > m and abs(line[i] - line[i + 12]) < 1e-7 * line[i]:  # earlier nothing changes
            for j in range(i - 1, -1, -1):
                line[j], child[j], laws.unsampled[j] = line[i], child[i], laws.unsampled[i]
                laws.time[j] = laws.time[j + 1] + step * line[i]
            break


@helper
def _at(values, b, laws):  # type: ignore[no-untyped-def]
    """Return what the grid of dates has at b; before it, what it has first."""
    place = (b - laws.first[0]) / laws.step[0]
    if place <= 0:
        return values[0]
    i = int(place)
    if i >= len(values) - 1:
        return values[len(values) - 1]
    part = place - i
    return (1 - part) * values[i] + part * values[i + 1]


@helper
def _sampled(h, s, data):  # type: ignore[no-untyped-def]
    """Return the date of a host's first sample."""
    first = np.inf
    for r in range(data.start[h], data.start[h + 1]):
        first = min(first, s[r])
    return first


@helper
def _first_introduction(par, b):  # type: ignore[no-untyped-def]
    """Return its date, and how many introductions there are."""
    first, number = np.inf, 0
    for h in range(len(par)):
        if par[h] == -1:
            first, number = min(first, b[h]), number + 1
    return first, number


@helper
def _fill_constants(theta, constants):  # type: ignore[no-untyped-def]
    """Fill in what the terms of all hosts share."""
    for i in (0, 2):
        shape = np.exp(theta[i + 1])
        scale = np.exp(theta[i]) / shape
        constants[3 * (i // 2)], constants[3 * (i // 2) + 1] = shape, scale
        constants[3 * (i // 2) + 2] = -lgamma(shape) - shape * np.log(scale)
    constants[6] = -np.log1p(np.exp(-theta[_SAMPLED]))
    constants[7], constants[8] = np.exp(theta[_R]), np.exp(theta[_DISPERSION])
    constants[9], constants[10] = -np.log1p(np.exp(-theta[_LATE])), -np.log1p(np.exp(theta[_LATE]))


@helper
def _log_host(h, constants, par, b, s, data, laws, state):  # type: ignore[no-untyped-def]
    """Return the log-density of a host: infection, number of children, sampling."""
    S, p, m = len(data.start) - 1, par[h], state.number[h]
    total = constants[9] if state.late[h] else constants[10]
    if p >= 0:
        x = b[h] - b[p]
        if x <= 0.0:
            return -np.inf
        total += (constants[0] - 1) * np.log(x) - x / constants[1] + constants[2]
    R, dispersion = constants[7], constants[8]
    # The m-th derivative of the generating function of the number of children.
    total -= (dispersion + m) * np.log1p(R / dispersion * _at(laws.child, b[h], laws))
    for i in range(m):
        total += np.log(R * (dispersion + i) / dispersion)
    if h < S:
        x = _sampled(h, s, data) - b[h]
        if x <= 0.0:
            return -np.inf
        total += (constants[3] - 1) * np.log(x) - x / constants[4] + constants[5] + constants[6]
    elif m == 0:
        return -np.inf
    else:
        total += np.log(_at(laws.unsampled, b[h], laws))
    return total


@helper
def _log_tree(par, b, data, laws, state):  # type: ignore[no-untyped-def]
    """Return the log-density of the tree, its dates and the columns beside the sequences.

    From the terms of all hosts, which are up to date.
    """
    S, total = len(data.start) - 1, 0.0
    for h in range(len(par)):
        if par[h] != NOBODY:
            total += state.term[h]
    if total == -np.inf:
        return -np.inf
    # After the first introduction others are a Poisson process of unknown rate, exponential
    # beforehand with one expected within the dates of the table; only those with samples are seen.
    first, introductions = _first_introduction(par, b)
    seen = _at(laws.time, first, laws)
    seen += max(laws.first[0] - first, 0.0) * laws.line[0]
    total += lgamma(float(introductions)) - introductions * np.log(data.span[0] + seen)
    if data.single[0] and introductions > 1:
        return -np.inf
    for u in range(S):
        v = par[u]
        while v >= S:
            v = par[v]
        more = data.extra[u, v if v >= 0 else S]
        if more == -np.inf:
            return -np.inf
        total += more
        if v < 0 and data.single[0] and par[u] != -1:
            return -np.inf
    return total


@helper
def _whole_log_tree(theta, par, b, s, data, laws, state):  # type: ignore[no-untyped-def]
    """Return `_log_tree` with all terms made anew."""
    constants, number = state.constants, state.number
    _fill_constants(theta, constants)
    number[:] = 0
    for h in range(len(par)):
        if par[h] >= 0:
            number[par[h]] += 1
    for h in range(len(par)):
        if par[h] != NOBODY:
            state.term[h] = _log_host(h, constants, par, b, s, data, laws, state)
    return _log_tree(par, b, data, laws, state)


@helper
def _changed_log_tree(par, b, s, data, laws, state, scratch):  # type: ignore[no-untyped-def]
    """Return `_log_tree` with terms made anew of hosts that differ from those in `scratch`."""
    N, number, touched = len(par), state.number, scratch.touched
    touched[:] = False
    for h in range(N):
        old = scratch.par[h]
        if par[h] != old:
            touched[h] = True
            if old >= 0:
                number[old] -= 1
                touched[old] = True
            if par[h] >= 0:
                number[par[h]] += 1
                touched[par[h]] = True
    for h in range(N):
        p = par[h]
        if p == NOBODY:
            continue
        moved = b[h] != scratch.b[h] or state.late[h] != scratch.late[h]
        if touched[h] or moved or (p >= 0 and b[p] != scratch.b[p]):
            state.term[h] = _log_host(h, state.constants, par, b, s, data, laws, state)
            if state.term[h] == -np.inf:
                return -np.inf
    return _log_tree(par, b, data, laws, state)


# Sequences ---------------------------------------------------------------------------------


@helper
def _moved(vector, time, rate, result, sums):  # type: ignore[no-untyped-def]
    """Fill `result` (4, P) with a message sent back in time."""
    r = 0.25 * -np.expm1(-4.0 / 3.0 * rate * time)
    keep = 1 - 4 * r
    P = vector.shape[1]
    for i in range(P):
        sums[i] = r * (vector[0, i] + vector[1, i] + vector[2, i] + vector[3, i])
    for a in range(4):
        for i in range(P):
            result[a, i] = keep * vector[a, i] + sums[i]


@helper
def _settled(t, start, trunk, drift):  # type: ignore[no-untyped-def]
    """Return the date to which the strain of a host's samples has changed by t, if all counted.

    From its infection at `start` it changes for a time (`trunk`), until strains are so many that
    hardly one takes over any more; then a share of the rate is left (`drift`).
    """
    return min(t, start + trunk) + max(t - start - trunk, 0.0) * drift


@helper
def _with_variants(h, w, theta, data, message):  # type: ignore[no-untyped-def]
    """Change a message that came to host h from w where h's samples have several letters.

    The strain that left was drawn from all of h's, with chance f for a letter that f of them have;
    or two were, who both go on in w. How frequent a letter is says how likely it was h's first.
    """
    mixed = 1 / (1 + np.exp(-theta[_MIXED]))
    S, other, end = len(data.start) - 1, 0, 0
    if w < S:
        other, end = data.first_variant[w], data.first_variant[w + 1]
    for v in range(data.first_variant[h], data.first_variant[h + 1]):
        i, share = data.pattern[v], data.share[v]
        while other < end and data.pattern[other] < i:
            other += 1
        one = same = whole = 0.0
        for a in range(4):
            one += share[a] * message[a, i]
            same += share[a] ** 2 * message[a, i]
            whole += message[a, i]
        if other < end and data.pattern[other] == i:  # or both arose anew, which is rare
            both = squared = 0.0
            for a in range(4):
                if data.share[other, a] > 0:
                    both += share[a]
                    squared += share[a] ** 2
            same += (both**2 - squared) * whole / data.rare[v]
        for a in range(4):
            message[a, i] = (1 - mixed) * one + mixed * same


@helper
def _message(h, theta, par, b, s, data, state, scratch):  # type: ignore[no-untyped-def]
    """Fill in host h's message at its infection, from its samples and its children's messages.

    Strains that leave the host depart from that of its samples as late as they can, or at
    infection; see `_settled`.
    """
    S, rate, trunk = len(data.start) - 1, np.exp(theta[_RATE]), np.exp(theta[_TRUNK])
    drift = 1 / (1 + np.exp(-theta[_DRIFT]))
    apart = data.apart[0] * drift  # of each sample from the common strain
    n = 0
    times, what = scratch.times, scratch.what
    if h < S:
        for r in range(data.start[h], data.start[h + 1]):
            times[n], what[n] = _settled(s[r], b[h], trunk, drift), -1 - r
            n += 1
    for c in range(len(par)):
        if par[c] == h:
            times[n] = _settled(b[c], b[h], trunk, drift) if state.late[c] else b[h]
            what[n] = c
            n += 1
    # The latest first.
    for i in range(1, n):
        t, w, j = times[i], what[i], i - 1
        while j >= 0 and times[j] < t:
            times[j + 1], what[j + 1] = times[j], what[j]
            j -= 1
        times[j + 1], what[j + 1] = t, w
    own, other = state.message[h], scratch.vector
    hidden, charged, now = 1.0, 0.0, times[0]
    for i in range(n):
        t, w = times[i], what[i]
        if i > 0 and t < now:
            _moved(own, now - t, rate, own, scratch.sums)
            charged += (now - t) * (1 - hidden)
        now = t
        if w < 0:
            r = -1 - w
            tip = data.tips[r]
            if apart > _NO_TIME:
                _moved(tip, apart, rate, other, scratch.sums)
                charged += apart * (1 - data.hidden[r])
                tip = other
            if i == 0:
                own[:] = tip
            else:
                own *= tip
            hidden *= data.hidden[r]
        else:
            length = b[w] - t
            _moved(state.message[w], length, rate, other, scratch.sums)
            if h < S and state.late[w] and len(data.pattern) > 0:
                _with_variants(h, w, theta, data, other)
            if i == 0:
                own[:] = other
            else:
                own *= other
            charged += state.charged[w] + length * (1 - state.hidden[w])
            hidden *= state.hidden[w]
    if n == 1:  # of one strain only: before it nothing is known to differ
        w = what[0]
        state.stem[h] = charged + (now - b[h]) * (1 - hidden)
        if w >= 0:
            state.stem[h] += state.stem[w] - state.charged[w]
    else:
        state.stem[h] = (now - b[h]) * (1 - hidden)
    if now > b[h]:
        _moved(own, now - b[h], rate, own, scratch.sums)
        charged += (now - b[h]) * (1 - hidden)
    state.hidden[h], state.charged[h] = hidden, charged


@helper
def _log_letters(theta, par, b, data, state, scratch):  # type: ignore[no-untyped-def]
    """Return the log-likelihood of all letters, from the messages of introductions."""
    rate = np.exp(theta[_RATE])
    first, introductions = _first_introduction(par, b)
    counts = data.counts
    if introductions == 1:
        last = 0
        while par[last] != -1:
            last += 1
        whole = state.message[last]
        charged = state.charged[last] - state.stem[last]
    else:
        whole, other, charged = scratch.whole, scratch.vector, 0.0
        whole[:] = 1.0
        origin = first - np.exp(theta[_AGE])
        for h in range(len(par)):
            if par[h] == -1:
                length = b[h] - origin
                if data.background[0] >= 0:
                    length = data.background[0] / rate
                _moved(state.message[h], length, rate, other, scratch.sums)
                whole *= other
                charged += state.charged[h] + length * (1 - state.hidden[h])
    total = -rate * charged * data.n_constant[0]
    for i in range(len(counts)):
        total += counts[i] * np.log(0.25 * (whole[0, i] + whole[1, i] + whole[2, i] + whole[3, i]))
    return total


@helper
def _refreshed(theta, par, b, s, data, state, scratch):  # type: ignore[no-untyped-def]
    """Make the messages of all marked hosts and of those above them anew, keeping the old ones.

    Nobody is marked then.
    """
    N, marked, order = len(par), scratch.marked, scratch.order
    for h in range(N):
        if marked[h] == 1:
            v = par[h]
            while v >= 0 and marked[v] == 0:
                marked[v] = 2
                v = par[v]
    n = 0
    for h in range(N):
        if marked[h] > 0 and par[h] != NOBODY:
            j = n - 1
            while j >= 0 and b[order[j]] < b[h]:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = h
            n += 1
    marked[:N] = 0
    for i in range(n):
        h = order[i]
        scratch.message[h] = state.message[h]
        scratch.kept[h, 0] = state.hidden[h]
        scratch.kept[h, 1] = state.charged[h]
        scratch.kept[h, 2] = state.stem[h]
        _message(h, theta, par, b, s, data, state, scratch)
    return n


@helper
def _restored(n, state, scratch):  # type: ignore[no-untyped-def]
    for i in range(n):
        h = scratch.order[i]
        state.message[h] = scratch.message[h]
        state.hidden[h] = scratch.kept[h, 0]
        state.charged[h] = scratch.kept[h, 1]
        state.stem[h] = scratch.kept[h, 2]


# Moves -------------------------------------------------------------------------------------


@helper
def _children(h, par):  # type: ignore[no-untyped-def]
    n = 0
    for c in range(len(par)):
        n += par[c] == h
    return n


@helper
def _free_place(par, S):  # type: ignore[no-untyped-def]
    for h in range(S, len(par)):
        if par[h] == NOBODY:
            return h
    return -1


@helper
def _one_of(par, N, rng):  # type: ignore[no-untyped-def]
    """Return a random host."""
    while True:
        h = int(rng.random() * N)
        if par[h] != NOBODY:
            return h


@helper
def _latest(h, par, b, s, data):  # type: ignore[no-untyped-def]
    """Return the date before which h must have been infected."""
    end = np.inf
    if h < len(data.start) - 1:
        end = _sampled(h, s, data)
    for c in range(len(par)):
        if par[c] == h:
            end = min(end, b[c])
    return end


@helper
def _tried_as_parents(h, at, removed, kind, theta, par, b, data, weights):  # type: ignore[no-untyped-def]
    """Fill `weights` with those of all hosts as the one that h, infected at `at`, comes to.

    kind 0: as its child; kind 1: as its sibling, with a new host above both. `removed` is a host
    to be left out, its child taking its place. Nobody from h's own line. Returns the sum.
    """
    N, S = len(par), len(data.start) - 1
    total = 0.0
    has_children = _children(h, par) > 0
    mean = np.exp(theta[_GENERATION])
    squared = mean**2 * np.exp(-theta[_GENERATION_SHAPE])
    for v in range(N):
        weights[v] = 0.0
        if par[v] == NOBODY or v == removed:
            continue
        w = v
        while has_children and w >= 0 and w != h:
            w = par[w]
        if w == h:
            continue
        like = 0.2
        if h < S and v < S:
            like = data.like[h, v]
        if kind == 0:
            x = at - b[v]
            if x <= 0:
                continue
            near = 1 / (1 + (x - mean) ** 2 / (4 * squared)) ** 2
            weights[v] = like * (_FLOOR + near * near)
        else:
            p = par[v]
            if p == removed and p >= 0:
                p = par[p]
            if p >= 0 and b[p] >= at:
                continue
            weights[v] = like
        total += weights[v]
    return total


@helper
def _picked(weights, total, rng):  # type: ignore[no-untyped-def]
    left = rng.random() * total
    last = -1
    for v in range(len(weights)):
        if weights[v] > 0:
            last = v
            left -= weights[v]
            if left <= 0:
                return v
    return last


@helper
def _part(theta, then, rng):  # type: ignore[no-untyped-def]
    """Return the part that a generation takes of a time; `then` says what takes the rest."""
    first = rng.standard_gamma(np.exp(theta[_GENERATION_SHAPE]))
    return first / (first + rng.standard_gamma(np.exp(theta[then])))


@helper
def _log_between(start, at, end, theta, then):  # type: ignore[no-untyped-def]
    """Return the log-density of a date between two others, as `_part` proposes it."""
    if not start < at < end:
        return -np.inf
    first, second = np.exp(theta[_GENERATION_SHAPE]), np.exp(theta[then])
    part = (at - start) / (end - start)
    constant = lgamma(first + second) - lgamma(first) - lgamma(second) - np.log(end - start)
    return constant + (first - 1) * np.log(part) + (second - 1) * np.log(1 - part)


@helper
def _proposed(move, theta, par, b, s, late, data, scratch, rng):  # type: ignore[no-untyped-def]
    """Change the tree; return the log-ratio of the proposals, −inf if nothing was possible.

    Hosts whose messages change are marked with 1 in `scratch.marked`.
    """
    N, S, marked = len(par), len(data.start) - 1, scratch.marked
    h = _one_of(par, N, rng)
    p = par[h]
    share = 1 / (1 + np.exp(-theta[_LATE]))
    if move == 6:  # the strain departs from its infector's at another time
        late[h] = not late[h]
        marked[h] = 1
        return 0.0
    if move == 0:  # another date of infection
        if rng.random() < 0.5:
            b[h] += rng.normal() * 0.5 * np.exp(theta[0])
        else:
            b[h] += rng.normal() * 0.15 * np.exp(theta[0])
        if b[h] >= _latest(h, par, b, s, data) or (p >= 0 and b[h] <= b[p]):
            return -np.inf
        marked[h] = 1
        return 0.0
    if move == 1:  # change places with one's infector
        if p < 0:
            return -np.inf
        for c in range(N):
            if par[c] == h:
                par[c] = p
            elif par[c] == p and c != h:
                par[c] = h
        par[h], par[p] = par[p], h
        b[h], b[p] = b[p], b[h]
        late[h], late[p] = late[p], late[h]
        for v in (h, p):
            if b[v] >= _latest(v, par, b, s, data):
                return -np.inf
            marked[v] = 1
        return 0.0
    if move == 2:  # change places, each keeping its children
        if p < 0:
            return -np.inf
        par[h], par[p] = par[p], h
        b[h], b[p] = b[p], b[h]
        late[h], late[p] = late[p], late[h]
        for v in (h, p):
            if b[v] >= _latest(v, par, b, s, data):
                return -np.inf
            marked[v] = 1
        return 0.0
    n = 0
    for v in range(N):
        n += par[v] != NOBODY
    if move == 3:  # somebody between
        w = _free_place(par, S)
        if w < 0:
            return -np.inf
        if p >= 0:
            b[w] = b[p] + _part(theta, _GENERATION_SHAPE, rng) * (b[h] - b[p])
            log_q = _log_between(b[p], b[w], b[h], theta, _GENERATION_SHAPE)
        else:
            x = rng.standard_gamma(np.exp(theta[1])) * np.exp(theta[0] - theta[1])
            b[w] = b[h] - x
            log_q = _log_gamma_density(x, theta[0], theta[1])
        par[w], par[h] = p, w
        late[w] = rng.random() < share
        log_q += np.log(share if late[w] else 1 - share)
        marked[w] = 1
        return np.log(n / (n + 1)) - log_q  # from picking one of n to picking one of n + 1
    if move == 4:  # nobody between
        if h < S or _children(h, par) != 1:
            return -np.inf
        c = 0
        while par[c] != h:
            c += 1
        if p >= 0:
            log_q = _log_between(b[p], b[h], b[c], theta, _GENERATION_SHAPE)
        else:
            log_q = _log_gamma_density(b[c] - b[h], theta[0], theta[1])
        log_q += np.log(share if late[h] else 1 - share)
        par[c], par[h] = p, NOBODY
        marked[c] = 1
        return np.log(n / (n - 1)) + log_q
    if move == 7:  # somebody without a sample takes one's place, and some of one's children
        w = _free_place(par, S)
        if h >= S or w < 0:
            return -np.inf
        end = _sampled(h, s, data)
        at = b[h] + _part(theta, _DELAY_SHAPE, rng) * (end - b[h])
        log_q = _log_between(b[h], at, end, theta, _DELAY_SHAPE)
        for c in range(N):
            if par[c] == h:
                if b[c] > at:
                    log_q += np.log(0.5)
                if b[c] <= at or rng.random() < 0.5:
                    par[c] = w
        par[w], b[w], late[w] = p, b[h], late[h]
        par[h], b[h], late[h] = w, at, rng.random() < share
        marked[h] = marked[w] = 1
        log_q += np.log(share if late[h] else 1 - share)
        return np.log(n / (n + 1)) - log_q
    if move == 8:  # the other way: one takes the place and the children of such an infector
        if h >= S or p < S:
            return -np.inf
        log_q = _log_between(b[p], b[h], _sampled(h, s, data), theta, _DELAY_SHAPE)
        log_q += np.log(share if late[h] else 1 - share)
        for c in range(N):
            if par[c] == p or par[c] == h:
                if b[c] > b[h]:
                    log_q += np.log(0.5)
                par[c] = h
        par[h], b[h], late[h] = par[p], b[p], late[p]
        par[p] = NOBODY
        marked[h] = 1
        return np.log(n / (n - 1)) + log_q
    # Somewhere else in the tree.
    log_ratio, at, removed, sibling = 0.0, b[h], -1, -1
    if h < S and rng.random() < 0.5:
        x = rng.standard_gamma(np.exp(theta[3])) * np.exp(theta[2] - theta[3])
        first = _sampled(h, s, data)
        old, at = first - b[h], first - x
        log_ratio += _log_gamma_density(old, theta[2], theta[3])
        log_ratio -= _log_gamma_density(x, theta[2], theta[3])
        if at >= _latest(h, par, b, s, data):
            return -np.inf
    if p == -1:
        others = 0
        for v in range(N):
            others += par[v] == -1
        if others < 2:
            return -np.inf
    elif p >= S:
        number = _children(p, par)
        if number == 1:
            return -np.inf
        if number == 2:
            log_ratio -= np.log(0.5)
            if rng.random() < 0.5:
                removed = p
                for v in range(N):
                    if par[v] == p and v != h:
                        sibling = v
    # Back again: from the tree without h to where it is now.
    weights, total, filled = scratch.weights, 0.0, -1  # for which kind these are
    if p == -1:
        log_ratio += np.log(0.1)
    elif removed < 0:
        filled = 0
        total = _tried_as_parents(h, b[h], removed, 0, theta, par, b, data, weights)
        log_ratio += np.log(0.45 * weights[p] / total)
    else:
        filled = 1
        total = _tried_as_parents(h, b[h], removed, 1, theta, par, b, data, weights)
        log_ratio += np.log(0.45 * weights[sibling] / total)
        above = par[removed]
        if above >= 0:
            until = min(b[sibling], b[h])
            log_ratio += _log_between(b[above], b[removed], until, theta, _GENERATION_SHAPE)
        else:
            x = min(b[sibling], b[h]) - b[removed]
            log_ratio += _log_gamma_density(x, theta[0], theta[1])
    choice = rng.random()
    if choice < 0.1:
        v = -1
        log_ratio -= np.log(0.1)
    else:
        kind = 0 if choice < 0.55 else 1
        if kind != filled or at != b[h]:
            total = _tried_as_parents(h, at, removed, kind, theta, par, b, data, weights)
        if total <= 0:
            return -np.inf
        v = _picked(weights, total, rng)
        log_ratio -= np.log(0.45 * weights[v] / total)
    # Take it out.
    if p >= 0:
        marked[p] = 1
    if removed >= 0:
        par[sibling] = par[removed]
        marked[sibling] = 1
        marked[removed] = 0
        par[removed] = NOBODY
        log_ratio += np.log(n / (n - 1) * (share if late[removed] else 1 - share))
        n -= 1
    log_ratio += np.log(share if late[h] else 1 - share)
    late[h] = rng.random() < share
    log_ratio -= np.log(share if late[h] else 1 - share)
    b[h] = at
    marked[h] = 1
    if choice < 0.1:
        par[h] = -1
        return log_ratio
    if kind == 0:
        par[h] = v
        if v >= S and _children(v, par) == 2:
            log_ratio += np.log(0.5)
        return log_ratio
    w = _free_place(par, S)
    if w < 0:
        return -np.inf
    above = par[v]
    if above >= 0:
        room = min(b[v], at) - b[above]
        b[w] = b[above] + _part(theta, _GENERATION_SHAPE, rng) * room
        log_ratio -= _log_between(b[above], b[w], b[above] + room, theta, _GENERATION_SHAPE)
    else:
        x = rng.standard_gamma(np.exp(theta[1])) * np.exp(theta[0] - theta[1])
        b[w] = min(b[v], at) - x
        log_ratio -= _log_gamma_density(x, theta[0], theta[1])
    par[w], par[v], par[h] = above, w, w
    late[w] = rng.random() < share
    log_ratio -= np.log(share if late[w] else 1 - share)
    marked[w] = 1
    return log_ratio + np.log(0.5 * n / (n + 1))


@compiled
def run(rng, theta, prior, par, b, s, data, laws, spare, state, scratch, plan, out):  # type: ignore[no-untyped-def]
    """Run the chain; return how often each kind of move was accepted, of how often it was tried.

    `spare` is room for other laws; `plan`: rounds before the first state that is kept, rounds for
    each of these, moves in a round. `out` are arrays of kept states.
    """
    _, centre, spread, tied = prior
    steps = np.append(prior.steps, prior.steps[_DELAY])  # the last of the shift of all dates
    N, S = len(par), len(data.start) - 1
    burn, rounds, moves = plan
    counts = np.zeros((12, 2))
    scratch_theta = theta.copy()
    _fill_laws(theta, laws)
    for h in range(N):
        scratch.marked[h] = par[h] != NOBODY
    _refreshed(theta, par, b, s, data, state, scratch)
    log_tree = _whole_log_tree(theta, par, b, s, data, laws, state)
    log_letters = _log_letters(theta, par, b, data, state, scratch)
    kept = len(out.theta)
    top = N  # all places from there on are free
    for turn in range(burn + rounds * kept):
        for _ in range(moves):
            # Not all moves are tried equally often.
            pick = rng.random()
            move = 0
            while pick > _OFTEN[move]:
                move += 1
            while top < N and par[top - 1] != NOBODY:
                top += 1
            while top > S + 1 and par[top - 1] == NOBODY and par[top - 2] == NOBODY:
                top -= 1
            live, dates = par[:top], b[:top]
            scratch.par[:top] = live
            scratch.late[:top] = state.late[:top]
            scratch.b[:top] = dates
            scratch.term[:top] = state.term[:top]
            scratch.number[:top] = state.number[:top]
            log_ratio = _proposed(move, theta, live, dates, s, state.late, data, scratch, rng)
            counts[move, 1] += 1
            accepted = False
            n = 0
            if log_ratio > -np.inf:
                new_tree = _changed_log_tree(live, dates, s, data, laws, state, scratch)
                # First without the letters, which take longest; what passes, by these alone.
                if new_tree - log_tree + log_ratio > np.log(rng.random()):
                    n = _refreshed(theta, live, dates, s, data, state, scratch)
                    new_letters = _log_letters(theta, live, dates, data, state, scratch)
                    accepted = new_letters - log_letters > np.log(rng.random())
            scratch.marked[:top] = 0
            if accepted:
                log_tree, log_letters = new_tree, new_letters
                counts[move, 0] += 1
            else:
                live[:] = scratch.par[:top]
                dates[:] = scratch.b[:top]
                state.late[:top] = scratch.late[:top]
                state.term[:top] = scratch.term[:top]
                state.number[:top] = scratch.number[:top]
                _restored(n, state, scratch)
        # Dates within the interval that is known.
        for r in range(len(s)):
            if data.late[r] > data.early[r]:
                old, h = s[r], data.host[r]
                old_term = state.term[h]
                s[r] = data.early[r] + rng.random() * (data.late[r] - data.early[r])
                term = _log_host(h, state.constants, par, b, s, data, laws, state)
                new_tree = log_tree - old_term + term
                accepted = False
                n = 0
                if new_tree > -np.inf:
                    state.term[h] = term
                    new_letters, trunk = log_letters, np.exp(theta[_TRUNK])
                    drift = 1 / (1 + np.exp(-theta[_DRIFT]))
                    settled = _settled(old, b[h], trunk, drift)
                    if _settled(s[r], b[h], trunk, drift) != settled:
                        scratch.marked[h] = 1
                        n = _refreshed(theta, par, b, s, data, state, scratch)
                        new_letters = _log_letters(theta, par, b, data, state, scratch)
                    left = new_tree + new_letters - log_tree - log_letters
                    accepted = left > np.log(rng.random())
                counts[9, 1] += 1
                if accepted:
                    log_tree, log_letters = new_tree, new_letters
                    counts[9, 0] += 1
                else:
                    s[r], state.term[h] = old, old_term
                    _restored(n, state, scratch)
        for i in range(len(theta) + 1):
            # The last move shifts all dates of infection with the mean delay, its spread kept.
            shift, k = i == len(theta), i if i < len(theta) else _DELAY
            if steps[i] == 0.0 or (shift and steps[_DELAY_SHAPE] == 0.0 and np.isnan(tied[1])):
                continue
            scratch_theta[:] = theta
            scratch.b[:] = b
            scratch.term[:] = state.term
            scratch.late[:] = state.late
            old = theta[k]
            theta[k] += steps[i] * rng.normal()
            log_ratio = 0.0
            # Every second time strains depart late or early as before only as far as the share
            # that does lets them: each has a uniform number of its own below or above that share.
            redrawn = k == _LATE and rng.random() < 0.5
            if redrawn:
                before, share = 1 / (1 + np.exp(-old)), 1 / (1 + np.exp(-theta[k]))
                for h in range(N):
                    if par[h] == NOBODY:
                        continue
                    if state.late[h]:
                        state.late[h] = rng.random() * before < share
                    else:
                        state.late[h] = before + rng.random() * (1 - before) < share
                    scratch.marked[h] = state.late[h] != scratch.late[h]
            if shift:
                b[:] += np.exp(old) - np.exp(theta[k])
                theta[_DELAY_SHAPE] += 2 * (theta[k] - old)
            elif k in (_GENERATION, _DELAY) and not np.isnan(tied[k // 2]):
                theta[k + 1] = 2 * (theta[k] - np.log(tied[k // 2]))
            for j in range(len(theta)):
                if steps[j] > 0.0:
                    log_ratio += (scratch_theta[j] - centre[j]) ** 2 / (2 * spread[j] ** 2)
                    log_ratio -= (theta[j] - centre[j]) ** 2 / (2 * spread[j] ** 2)
                    if abs(theta[j] - centre[j]) > 6 * spread[j]:
                        log_ratio = -np.inf
            by_laws = k not in (_RATE, _TRUNK, _LATE, _AGE, _DRIFT, _MIXED)
            new_tree = log_tree
            if by_laws:
                _fill_laws(theta, spare)
                new_tree = _whole_log_tree(theta, par, b, s, data, spare, state)
            elif k == _LATE:
                new_tree = _whole_log_tree(theta, par, b, s, data, laws, state)
                if redrawn:  # in proportion to this part of the density
                    log_ratio -= new_tree - log_tree
            new_letters, n = log_letters, 0
            if new_tree > -np.inf:
                of_letters = k in (_RATE, _TRUNK, _DRIFT, _MIXED)
                if shift or of_letters:
                    for h in range(N):
                        scratch.marked[h] = par[h] != NOBODY
                if shift or redrawn or of_letters:
                    n = _refreshed(theta, par, b, s, data, state, scratch)
                if shift or redrawn or of_letters or k == _AGE:
                    new_letters = _log_letters(theta, par, b, data, state, scratch)
            log_ratio += new_tree + new_letters - log_tree - log_letters
            counts[10 + shift, 1] += 1
            accepted = log_ratio > np.log(rng.random())
            if turn < burn:  # steps that are accepted nearly half of the time
                steps[i] *= np.exp((accepted - 0.44) * 10 / (20 + turn))
                steps[i] = min(steps[i], 3 * spread[k])
            if accepted:
                log_tree, log_letters = new_tree, new_letters
                counts[10 + shift, 0] += 1
                if by_laws:
                    laws, spare = spare, laws
            else:
                theta[:] = scratch_theta
                b[:] = scratch.b
                state.term[:] = scratch.term
                state.late[:] = scratch.late
                _fill_constants(theta, state.constants)
                _restored(n, state, scratch)
        k = (turn - burn) // rounds
        if turn >= burn and (turn - burn) % rounds == rounds - 1:
            out.theta[k] = theta
            # Kept as the time from the origin to the first sample.
            age = np.exp(theta[_AGE]) + data.first_date[0] - _first_introduction(par, b)[0]
            out.theta[k, _AGE] = np.log(age)
            out.value[k] = log_tree + log_letters
            for u in range(S):
                v, between = par[u], 0
                while v >= S:
                    v = par[v]
                    between += 1
                out.parents[k, u] = v if v >= 0 else -1
                out.between[k, u] = between
                out.infected[k, u] = b[u]
    return counts
