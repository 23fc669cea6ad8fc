"""Whole outbreaks: dated transmission trees with the people whom nobody sampled, drawn jointly.

Edges that are weighed by themselves count the same evidence more than once: a person has one date
of infection, whoever it infected, and a mutation happened once. Here trees, dates and parameters
are drawn together from their posterior by Markov chains that begin at the most probable tree of the
weighed edges (`outtrees.models.columns.Transmission`); sums over letters are exact. The model:

A person has a negative binomial number of children (mean R), each infected a gamma distributed
time after it, and is sampled with probability p a gamma distributed time after its infection, if
that is before the last date of the table. People without samples are part of the tree only if
somebody below them was sampled; the chance that nobody was follows from the same laws. Sequences
change along the tree (JC69). The strain of a host's samples changes for some time after infection
only; strains passed on depart from it at the end of that time, or at infection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from outtrees._common.random import RandomState, as_generator
from outtrees.ancestry.nearest import Ancestors, _sequence_column, transmission_of
from outtrees.models.columns import Lineage, TransmittedSequence
from outtrees.models.columns.lineage import order_by_cells
from outtrees.models.columns.transmission import _SPREADS, NAMES
from outtrees.records import Column
from outtrees.records.samples import Samples
from outtrees.trees.distribution import Tree

if TYPE_CHECKING:
    from outtrees.ancestry.posterior import Posterior

Array = NDArray[np.float64]
Index = NDArray[np.intp]

MOST_RECORDS = 150  # of tables whose outbreaks are drawn as a whole
# After the parameters of the weighed edges: R, dispersion of the number of children, how long a
# consensus sequence changes after infection, share of strains that depart from it late; share of
# the rate at which it goes on changing, chance that two strains found an infection.
MORE = (
    *("log_reproduction", "log_dispersion", "log_settling", "logit_late"),
    *("logit_drift", "logit_mixed"),
)
# Beforehand: R about 2, within a factor of 1.6; a dispersion of 1 within 2.7; a tenth of a
# generation within 4.5; half within 0.18 to 0.82; a tenth within 0.02 to 0.33; a twentieth within
# 0.01 to 0.19.
_CENTRES = (np.log(2.0), 0.0, np.log(0.1), 0.0, logit(0.1), logit(0.05))
_MORE_SPREADS = (0.5, 1.0, 1.5, 1.5, 1.5, 1.5)
NEVER = -700.0  # logit of a share that is none
# Of the moves of all parameters, in the same coordinates; adapted while nothing is kept.
_STEPS = np.array([0.1, 0.25, 0.1, 0.25, 0.5, 0.25, 0.5, 0.25, 0.5, 0.6, 0.8, 0.8, 0.8])
_CHAINS, _BURN, _KEPT = 2, 250, 500  # rounds; a round tries 8 changes a record
_LONGER = 100  # records: of fewer, chains are so many times longer, up to the next number
_MOST_ROUNDS = 4  # for each state that is kept
MIXED = 1.2  # R-hat above which chains do not agree
ENOUGH = 200  # draws that agree with what is supposed; with fewer, others are drawn
_BATCHES = 4  # of each chain, whose means tell Monte-Carlo errors


class Data(NamedTuple):
    """What is known; hosts in order, the records of each host in a row."""

    start: Index  # (S + 1,), the first sample of each host
    host: Index  # (M,)
    early: Array  # (M,), interval of the date of sampling
    late: Array
    tips: Array  # (M, 4, P), 1 for the letters that a sample may have, by pattern of sites
    hidden: Array  # (M,), share of the sites without differences that was not read
    counts: Array  # (P,), sites of each pattern
    n_constant: Array  # (1,), sites without differences
    like: Array  # (S, S), how readily one is tried as parent of another
    extra: Array  # (S, S + 1), log-weights of other columns; −inf for what cannot be; none last
    single: NDArray[np.bool_]  # (1,), whether there is one root, a sampled one
    first_date: Array  # (1,)
    span: Array  # (1,), time in which one more introduction is expected beforehand
    apart: Array = np.zeros(1)  # half the time that samples of a moment count as being apart
    # Substitutions a site from the background to an introduction; below 0: they stem from one
    # origin, at a date that is learned.
    background: Array = np.full(1, -1.0)
    # Sites at which a host's samples have several letters, in order of patterns.
    first_variant: Index = np.zeros(1, dtype=np.intp)  # (S + 1,), in the next three
    pattern: Index = np.zeros(0, dtype=np.intp)  # (V,)
    share: Array = np.zeros((0, 4))  # (V, 4), of A, C, G and T
    rare: Array = np.zeros(0)  # (V,), chance that such a site becomes variable anew


class Prior(NamedTuple):
    """How parameters move, and what is known of them beforehand."""

    steps: Array  # (13,), 0 for those that are given
    centre: Array  # (13,), of a normal law
    spread: Array  # (13,)
    tied: Array  # (2,), standard deviations of times that are given; NaN for others


class Laws(NamedTuple):
    """By date of infection, on a grid that ends with the sampling."""

    line: Array  # the chance that somebody of a person's line, itself included, was sampled
    child: Array  # that of one of its children, infected after it
    unsampled: Array  # the chance that the person itself was not
    time: Array  # time until the end, each moment counted as often as an introduction is seen
    generation: Array  # law of the generation time, by cell
    end: Array  # (1,), date of the last cell
    first: Array  # (1,), date of the first cell
    step: Array  # (1,)


class State(NamedTuple):
    """Messages about letters that each host sends up, at its infection, and log-densities."""

    message: Array  # (N, 4, P)
    hidden: Array  # (N,), share of constant sites that nobody below has read
    charged: Array  # (N,), time below in which constant sites did not change
    stem: Array  # (N,), the part of it before the first split
    late: NDArray[np.bool_]  # (N,), whether the strain departed late from its infector's
    number: Index  # (N,), of children
    term: Array  # (N,), log-density of the host
    constants: Array  # (11,), what these terms share


class Scratch(NamedTuple):
    """Room for the moves, and what was before them."""

    marked: Index
    order: Index
    touched: NDArray[np.bool_]
    message: Array
    kept: Array
    times: Array
    what: Index
    vector: Array
    whole: Array
    sums: Array
    weights: Array
    par: Index
    b: Array
    late: NDArray[np.bool_]
    number: Index
    term: Array


class Plan(NamedTuple):
    """How long a chain is."""

    burn: int  # rounds before the first state that is kept
    kept: int  # states
    rounds: int = 1  # from each of these to the next


class Drawn(NamedTuple):
    """States that were kept."""

    theta: Array  # (K, 11)
    value: Array  # (K,), log-density
    parents: Index  # (K, S), nearest sampled ancestors, −1 for none
    between: Index  # (K, S), unsampled people between (or above those without one)
    infected: Array  # (K, S)


def is_whole(lineage: Lineage, T: int, groups: Index) -> bool:
    """Return whether the outbreak of such a table is drawn as a whole."""
    column = _sequence_column(lineage) if transmission_of(lineage) is not None else None
    if column is None or not 2 <= T <= MOST_RECORDS or len(np.unique(groups)) > 1:
        return False
    kernel = lineage.kernels[column]
    return isinstance(kernel, TransmittedSequence) and len(kernel.levels) == 4


class Outbreak(Ancestors):
    """Nearest sampled ancestors in drawn transmission trees.

    Parameters
    ----------
    posterior : Posterior
        Of the weighed edges.
    extra : array of shape (T, T + 1)
        What other columns weigh, none last; −inf for parents that cannot be.
    begin : array of shape (T,)
        The parents with which the chains begin, −1 for none.
    """

    def __init__(self, posterior: Posterior, extra: Array, begin: Index) -> None:
        self._posterior, self._extra, self._begin = posterior, extra, begin
        single = posterior.roots == "single"
        super().__init__(
            posterior.edges.child,
            posterior.edges.parent,
            len(posterior.records),
            single,
            posterior.edges.groups,
        )

    # Chains --------------------------------------------------------------------------------

    @cached_property
    def draws(self) -> Drawn:
        """All kept states, chain after chain, in rows of the table."""
        order = order_by_cells(self._posterior.values)
        with ThreadPoolExecutor(_CHAINS) as pool:
            found = list(pool.map(lambda seed: self._chain(order, seed), range(_CHAINS)))
        parts = [np.concatenate(part) for part in zip(*found, strict=True)]
        drawn = Drawn(*parts)
        parents, between, infected = (np.empty_like(part) for part in parts[2:])
        parents[:, order] = np.where(drawn.parents >= 0, order[drawn.parents], -1)
        between[:, order], infected[:, order] = drawn.between, drawn.infected
        return drawn._replace(parents=parents, between=between, infected=infected)

    def _chain(self, order: Index, seed: int) -> Drawn:
        kernel = transmission_of(self._posterior.lineage)
        assert kernel is not None  # `is_whole`
        T, data = len(order), self._data(order)
        rank = np.empty_like(order)
        rank[order] = np.arange(T)
        centre = np.append(kernel.centre, _CENTRES)
        centre[9] += centre[0]  # in generations
        theta = np.append(kernel.theta, centre[len(NAMES) :])
        several, varied = bool((np.diff(data.start) > 1).any()), len(data.pattern) > 0
        theta[-2:] = np.where([several, varied], theta[-2:], NEVER)
        if kernel.sampled == 1:
            theta[4] = 30.0
        free = np.append(kernel._free, [True] * 4 + [several, varied])
        if kernel.introduction_distance is not None:
            free[NAMES.index("log_age")] = False
        spreads = np.append(_SPREADS, _MORE_SPREADS)
        if seed > 0:  # chains begin apart in what they find last
            apart = np.random.default_rng(seed).normal(size=len(theta))
            apart[: len(NAMES)] *= np.arange(len(NAMES)) == NAMES.index("logit_sampled")
            theta += np.where(free, spreads * apart, 0.0)
        begin = self._begin[order]
        parents = np.where(begin >= 0, rank[begin], -1)
        s = np.minimum.reduceat((data.early + data.late) / 2, data.start[:-1])
        infected = _first_dates(parents, s, *np.exp(theta[[0, 2]]).tolist())
        prior = Prior(
            np.where(free, _STEPS, 0.0),
            centre,
            spreads,
            np.array([x or np.nan for x in (kernel.generation_sd, kernel.delay_sd)]),
        )
        # Where everybody is sampled there are no places for others.
        n_others = 0 if kernel.n_links == 1 else 2 * T + 20
        plan = Plan(_BURN, _KEPT, int(np.clip(_LONGER // T, 1, _MOST_ROUNDS)))
        return chain(data, theta, prior, parents, infected, n_others, seed, plan)

    def _data(self, order: Index) -> Data:
        posterior, S = self._posterior, len(order)
        kernel, lineage = transmission_of(posterior.lineage), posterior.lineage
        column = _sequence_column(lineage)
        assert kernel is not None  # `is_whole`
        assert lineage.dates is not None
        assert column is not None
        samples, dates = posterior.records.samples, posterior.sample_dates
        distance = kernel.introduction_distance
        if samples is None or dates is None:
            samples = Samples(posterior.records, np.arange(S), several=False)
            dates = posterior.values[lineage.dates]
        rank = np.empty_like(order)
        rank[order] = np.arange(S)
        rows = np.lexsort((dates[:, 0], rank[samples.host]))  # of each host together
        host = rank[samples.host][rows]
        start = np.searchsorted(host, np.arange(S + 1))
        dates = dates[rows]
        known = np.isfinite(dates[:, 0])
        half = np.nan_to_num(dates[:, 2]) + kernel.unit / 2
        early = np.where(known, dates[:, 0] - half, kernel.first_date)
        late = np.where(known, dates[:, 0] + half, kernel.last_date)
        letters = possible_letters(samples.table.column(posterior.names[column]).take(rows))
        varied = _variants(samples, rows, host, letters)
        tips, counts, hidden, n_constant = patterns(letters, varied.sites)
        own = tips.shape[2] - len(varied.sites) + np.arange(len(varied.sites))
        pattern, first = own[varied.site], start[varied.host]
        for h in np.unique(varied.host).tolist():
            here = pattern[varied.host == h]
            tips[start[h] : start[h + 1], :, here] = 1.0  # said once, by the first sample
        tips[first, :, pattern] = varied.share
        apart = np.array([_differences(letters, row) for row in letters])
        apart = np.minimum.reduceat(np.minimum.reduceat(apart, start[:-1]), start[:-1], axis=1)
        extra = self._extra[order][:, [*order, S]]
        return Data(
            start,
            host,
            early,
            late,
            tips,
            hidden,
            counts,
            np.array([n_constant]),
            0.02 + np.exp(-np.maximum(apart - 1.0, 0.0)),
            np.ascontiguousarray(extra),
            np.array([self._single]),
            np.array([early.min()]),
            np.array([max(late.max() - early.min(), kernel.step)]),
            np.array([(kernel.unit or kernel.step) / 2]),
            np.array([-1.0 if distance is None else distance / 2]),
            np.searchsorted(varied.host, np.arange(S + 1)),
            pattern,
            varied.share,
            varied.rare,
        )

    # Answers -------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> Array:
        """The weights of the batches of draws."""
        batches = np.array_split(self.draws.value, _CHAINS * _BATCHES)
        return np.array([len(batch) for batch in batches]) / len(self.draws.value)

    @cached_property
    def agreement(self) -> tuple[float, float, float]:
        """How far chains agree: R-hat and effective draws of the worst parameter, supports.

        R-hat of the halves of all chains; of supports the mean distance (total variation) of a
        chain from all. Draws that `given` picks come from unknown chains: 1, their number, 0.
        """
        n = _CHAINS * _KEPT
        if len(self.draws.value) != n:
            return 1.0, float(len(self.draws.value)), 0.0
        theta = self.draws.theta.reshape(_CHAINS, _KEPT, -1)
        free = theta.std(axis=(0, 1)) > 1e-9
        found = [mixing(theta[:, :, i]) for i in np.flatnonzero(free)]
        r_hat, effective = max(r for r, _ in found), min(e for _, e in found)
        chains = self.part_supports.reshape(_CHAINS, _BATCHES, -1).mean(axis=1)
        apart = abs(chains - chains.mean(axis=0)).sum(axis=1).mean() / (2 * self.n_records)
        return float(r_hat), float(effective), float(apart)

    @cached_property
    def _found(self) -> tuple[Array, Array]:
        """Supports of edges and roots in each batch (n, E + T), chances of 0, 1, 2, … roots."""
        T, parents = self.n_records, self.draws.parents
        supports = []
        for rows in np.array_split(np.arange(len(parents)), len(self.weights)):
            share = np.zeros((T, T + 1))
            np.add.at(share, (np.arange(T), parents[rows]), 1 / len(rows))
            supports.append(np.append(share[self.child, self.parent], share[:, T]))
        roots = np.bincount((parents < 0).sum(axis=1), minlength=T + 1)
        return np.array(supports), roots / len(parents)

    @cached_property
    def direct_marginals(self) -> Array:
        """The probability of each listed parent as the one who infected the child (E,)."""
        share = np.zeros((self.n_records, self.n_records + 1))
        parents = np.where(self.draws.between == 0, self.draws.parents, -1)
        np.add.at(share, (np.arange(self.n_records), parents), 1 / len(parents))
        return np.asarray(share[self.child, self.parent])

    def sample(self, n: int = 1, random_state: RandomState = None) -> Index:
        """Return n forests of nearest sampled ancestors (n, T), among those that were drawn."""
        rng = as_generator(random_state)
        return np.asarray(self.draws.parents[rng.integers(len(self.draws.parents), size=n)])

    def mode(self) -> Tree:
        """Return the nearest sampled ancestors in the most probable state that was drawn.

        Its log-probability is that of the share of draws with the same ancestors.
        """
        best = self.draws.parents[self.draws.value.argmax()]
        return Tree(best, float(np.log((self.draws.parents == best).all(axis=1).mean())))

    def given(
        self,
        parent: Mapping[int, int] | None = None,
        not_parent: Iterable[tuple[int, int]] = (),
        root: int | None = None,
    ) -> Outbreak:
        """Return the outbreak in which these are nearest sampled ancestors.

        By the draws in which they are; if these are few, by others that are drawn for it.
        """
        known, pairs = dict(parent or {}), list(not_parent)
        begin = self._posterior.best_trees.given(known, pairs, root).mode().parents
        extra, T = self._extra.copy(), self.n_records
        if root is not None:
            known[root] = -1
        for u, v in known.items():
            kept = extra[u, v]
            extra[u] = -np.inf
            extra[u, v] = kept
        for u, v in pairs:
            extra[u, v if v >= 0 else T] = -np.inf
        found = Outbreak(self._posterior, extra, begin)
        agree = np.isfinite(extra[np.arange(T), self.draws.parents]).all(axis=1)
        if agree.sum() >= ENOUGH:
            found.draws = Drawn._make(part[agree] for part in self.draws)
        return found

    def values(self) -> dict[str, Array]:
        """Return the draws of all parameters in units of the table, by name."""
        kernel = transmission_of(self._posterior.lineage)
        assert kernel is not None  # `is_whole`
        rows = [kernel.values_of(theta[: len(NAMES)]) for theta in self.draws.theta]
        found = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        if kernel.introduction_distance is not None:
            del found["origin"]
            found["introduction_distance"] = np.full(len(rows), kernel.introduction_distance)
        theta = self.draws.theta[:, len(NAMES) :]
        for i, name in enumerate(("reproduction_number", "dispersion", "consensus_settles")):
            found[name] = np.exp(theta[:, i])
        for i, name in ((4, "consensus_drifts"), (5, "two_founders")):
            if (theta[:, i] > NEVER).all():
                found[name] = expit(theta[:, i])
        return found


def chain(
    data: Data,
    theta: Array,  # (13,), `NAMES` and `MORE`
    prior: Prior,
    parents: Index,  # (S,), of the hosts with samples, to begin with
    infected: Array,  # (S,)
    n_others: int,  # the most people without samples
    seed: int,
    plan: Plan,
) -> Drawn:
    """Return the states of one chain; a round tries 8 changes a host."""
    from outtrees.ancestry.outbreak_kernels import NOBODY, run

    S, M = len(parents), len(data.early)
    span = data.late.max() - data.early.min()
    n = min(int(12 * span / np.exp(theta[0])) + 144, 4000)
    laws, spare = (
        Laws(
            *(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(256)),
            *(np.array([data.late.max()]), np.zeros(1), np.zeros(1)),
        )
        for _ in range(2)
    )
    N, P = S + n_others, data.tips.shape[2]

    def places(dtype: Any = np.float64) -> Any:
        return np.zeros(N, dtype=dtype)

    state = State(
        *(np.zeros((N, 4, P)), places(), places(), places()),
        *(places(bool), places(np.intp), places(), np.zeros(11)),
    )
    scratch = Scratch(
        *(places(np.intp), places(np.intp), places(bool)),
        *(np.zeros((N, 4, P)), np.zeros((N, 3))),
        *(np.zeros(N + M), np.zeros(N + M, dtype=np.intp)),
        *(np.zeros((4, P)), np.zeros((4, P)), np.zeros(P), places()),
        *(places(np.intp), places(), places(bool), places(np.intp), places()),
    )
    par, b = np.full(N, NOBODY, dtype=np.intp), np.zeros(N)
    par[:S], b[:S] = parents, infected
    s = (data.early + data.late) / 2
    out = Drawn(
        np.zeros((plan.kept, len(theta))),
        np.zeros(plan.kept),
        np.zeros((plan.kept, S), dtype=np.intp),
        np.zeros((plan.kept, S), dtype=np.intp),
        np.zeros((plan.kept, S)),
    )
    rng, rounds = np.random.default_rng(seed), (plan.burn, plan.rounds, 8 * S)
    run(rng, theta.copy(), prior, par, b, s, data, laws, spare, state, scratch, rounds, out)
    return out


def mixing(values: Array) -> tuple[float, float]:
    """Return R-hat and the number of effective draws of several chains (m, n).

    After Gelman et al., Bayesian Data Analysis (2013), section 11.4-5: chains are halved, and
    autocorrelations summed while those of two neighbours are together positive.
    """
    n = values.shape[1] // 2
    halves = np.concatenate([values[:, :n], values[:, n : 2 * n]])
    within = halves.var(axis=1, ddof=1).mean()
    total = within * (n - 1) / n + halves.mean(axis=1).var(ddof=1)
    if not within > 0:
        return (1.0, float(halves.size)) if not total > 0 else (np.inf, 1.0)
    centred = halves - halves.mean(axis=1, keepdims=True)
    power = abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    together = np.fft.irfft(power, axis=1)[:, :n].mean(axis=0) / n
    correlation = 1 - (within * (n - 1) / n - together) / total
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    times = max(2 * pairs[:stop].sum() - 1, 1 / np.log10(halves.size))
    return float(np.sqrt(total / within)), float(halves.size / times)


def outbreak_of(posterior: Posterior) -> Outbreak:
    """Return the outbreak of a fitted table."""
    edges, lineage, T = posterior.edges, posterior.lineage, len(posterior.records)
    others = [c for c in lineage.used if c not in (lineage.dates, _sequence_column(lineage))]
    extra = np.full((T, T + 1), -np.inf)
    extra[edges.child, edges.parent] = posterior.log_columns[others].sum(axis=0)
    extra[edges.root_allowed, T] = posterior.log_alone[others].sum(axis=0)[edges.root_allowed]
    return Outbreak(posterior, extra, posterior.best_trees.mode().parents)


# Parts -------------------------------------------------------------------------------------


def possible_letters(column: Column) -> NDArray[np.uint8]:
    """Return which of four letters each site may be (T, L), as bits; 15 where it is not read."""
    if column.sets is not None:
        return column.sets
    values = column.values
    return np.where(np.isnan(values), 15, 1 << np.nan_to_num(values).astype(np.int64)).astype(
        np.uint8
    )


def patterns(
    letters: NDArray[np.uint8], alone: Index | None = None
) -> tuple[Array, Array, Array, float]:
    """Return the letters of sites that differ (M, 4, P), how many such sites there are (P,), the
    share of other sites that each sample has not read (M,), and the number of these.

    The sites in `alone` are patterns of their own, the last ones.
    """
    alone = np.zeros(0, dtype=np.intp) if alone is None else alone
    constant = np.bitwise_and.reduce(letters, axis=0) > 0
    differ = ~constant
    constant[alone] = differ[alone] = False
    kept, counts = np.unique(_renamed(letters[:, differ]), axis=1, return_counts=True)
    kept = np.concatenate([kept, letters[:, alone]], axis=1)
    counts = np.append(counts, np.ones(len(alone), dtype=counts.dtype))
    tips = ((kept[:, None, :] >> np.arange(4)[:, None]) & 1).astype(np.float64)
    n = int(constant.sum())
    hidden = (letters[:, constant] == 15).mean(axis=1) if n else np.ones(len(letters))
    # Sites that nobody has read tell nothing.
    unread = int((letters[:, constant] == 15).all(axis=0).sum())
    return np.ascontiguousarray(tips), counts.astype(float), hidden, float(n - unread)


class _Variants(NamedTuple):
    """Sites at which samples of a host have several letters, host after host."""

    sites: Index  # (n,), those of any host
    host: Index  # (V,)
    site: Index  # (V,), in `sites`, in order within each host
    share: Array  # (V, 4), means over the samples of the host
    rare: Array  # (V,), chance that a site becomes variable in this way


def _variants(samples: Samples, rows: Index, host: Index, letters: NDArray[np.uint8]) -> _Variants:
    """Return the variants of hosts, for samples in the order of `rows`."""
    place = np.empty_like(rows)
    place[rows] = np.arange(len(rows))
    sample, site = place[samples.at[:, 0]], samples.at[:, 1]
    sites, site = np.unique(site, return_inverse=True)
    S, n = int(host.max()) + 1, len(sites)
    # Letters that are certain count as such.
    bits = letters[:, sites]
    shares = ((bits[:, :, None] >> np.arange(4)) & 1).astype(float)
    shares[np.bitwise_count(bits) != 1] = 0.0
    shares[sample, site] = samples.shares
    total = np.zeros((S, n, 4))
    np.add.at(total, host, shares)
    known = total.sum(axis=2, keepdims=True)
    total = np.divide(total, known, out=np.zeros_like(total), where=known > 0)
    is_variable = np.zeros((S, n), dtype=bool)
    is_variable[host[sample], site] = True
    hosts, where = np.nonzero(is_variable)
    # Anew as often as variable sites are, a third for each letter; but where many hosts have the
    # same variable site, more than the two of one transmission, it says less.
    usual = is_variable.sum() / (3 * S * letters.shape[1])
    here = np.maximum((is_variable.sum(axis=0) - 2) / S, usual)
    return _Variants(sites, hosts, where, total[hosts, where], here[where])


def _renamed(letters: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return sites with their letters named in order of appearance, since all change alike.

    Sites at which a record may have one of two or three letters stay as they are.
    """
    is_plain = np.isin(letters, [1, 2, 4, 8, 15]).all(axis=0)
    names = np.zeros((16, letters.shape[1]), dtype=np.uint8)
    names[15] = 15
    following, at = np.ones(letters.shape[1], dtype=np.uint8), np.arange(letters.shape[1])
    for row in letters:
        new = names[row, at] == 0
        names[row[new], at[new]] = following[new]
        following[new] *= 2
    return np.where(is_plain, names[letters, at], letters)


def _differences(letters: NDArray[np.uint8], row: NDArray[np.uint8]) -> Any:
    """Return at how many sites each of the sequences must differ from one."""
    return ((letters & row) == 0).sum(axis=1)


def _first_dates(par: Index, s: Array, generation: float, delay: float) -> Array:
    """Return dates of infection before those of all children, and before sampling."""
    b, depth = s - delay, np.zeros(len(par), dtype=np.intp)
    above = par.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, par[np.maximum(above, 0)], -1)
    for u in np.argsort(-depth, kind="stable"):
        if par[u] >= 0:
            b[par[u]] = min(b[par[u]], b[u] - generation / 2)
    return np.asarray(b)
