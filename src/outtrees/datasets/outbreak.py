"""Simulated outbreaks: cases with dates, wards and DNA, and who infected whom."""

from __future__ import annotations

import heapq
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_BASES = np.array(list("ACGT"))


class Outbreak(NamedTuple):
    """Cases in order of onset, and the truth."""

    table: dict[str, list[str]]  # case, onset, ward, age; "" where missing
    sequences: dict[str, str]  # case → DNA; N where not read
    infectors: dict[str, str]  # case → infector, "" for an introduced case


def make_outbreak(
    n_cases: int = 40,
    *,
    n_introductions: int = 2,
    n_sites: int = 3000,
    substitutions: float = 1.2,
    waiting_mean: float = 5.0,
    waiting_sd: float = 2.0,
    ward_stays: float = 0.8,
    missing: float = 0.05,
    random_state: Any = None,
) -> Outbreak:
    """Return a simulated outbreak with its truth.

    Introduced cases arrive one waiting time apart; each case infects Poisson(2) others, each after
    a gamma waiting time, until there are n_cases. A case stays in its infector's ward with
    probability ward_stays, its DNA differs from the infector's by Poisson(substitutions) bases, and
    introduced strains differ from each other by about thirty times that. Onsets are rounded to
    days; wards and bases are missing at random.

    Parameters
    ----------
    n_cases : int
        Cases.
    n_introductions : int
        Of them, those that nobody in the table infected.
    n_sites : int
        Sites of DNA.
    substitutions : float
        The mean number between a case and its infector.
    waiting_mean, waiting_sd : float
        Of the days from case to case.
    ward_stays : float
        The probability that a case is in its infector's ward.
    missing : float
        The share of wards and sites that are unknown.
    random_state : int, Generator or None
        For all draws.

    Returns
    -------
    Outbreak
        A named tuple of table, sequences and infectors.

    Raises
    ------
    ValueError
        If there are more introductions than cases.

    Examples
    --------
    >>> outbreak = make_outbreak(5, random_state=0)
    >>> outbreak.table["case"], list(outbreak.infectors.values()).count("")
    (['case01', 'case02', 'case03', 'case04', 'case05'], 2)
    """
    if n_cases < n_introductions or n_introductions < 1:
        raise ValueError(
            f"n_introductions must be from 1 to n_cases={n_cases}; got {n_introductions}"
        )
    rng = np.random.default_rng(random_state)
    wards = ["North", "South", "East", "West", "ICU"]
    shape = (waiting_mean / waiting_sd) ** 2
    strain = rng.integers(4, size=n_sites)
    # The next infections, earliest first: (day, running number, infector or −1, DNA, ward).
    queue: list[tuple[float, int, int, Any, int]] = []
    for i in range(n_introductions):
        dna = _mutated(strain, rng.poisson(15 * substitutions), rng)
        ward = int(rng.integers(len(wards)))
        heapq.heappush(queue, (i * waiting_mean, i, -1, dna, ward))
    number = n_introductions
    days: list[float] = []
    above: list[int] = []
    genomes: list[NDArray[np.int64]] = []
    places: list[int] = []
    while len(days) < n_cases:
        day, _, infector, dna, ward = heapq.heappop(queue)
        case = len(days)
        days.append(day)
        above.append(infector)
        genomes.append(dna)
        places.append(ward)
        # An outbreak that died out would leave fewer cases: the last one alive infects again.
        for _ in range(max(int(rng.poisson(2.0)), 0 if queue else 1)):
            wait = rng.gamma(shape, waiting_mean / shape)
            child = _mutated(dna, rng.poisson(substitutions), rng)
            stays = rng.random() < ward_stays
            goes = ward if stays else int(rng.integers(len(wards)))
            heapq.heappush(queue, (day + wait, number, case, child, goes))
            number += 1
    width = max(2, len(str(n_cases)))
    names = [f"case{i + 1:0{width}}" for i in range(n_cases)]
    start = date(2024, 3, 1)
    table = {
        "case": names,
        "onset": [(start + timedelta(days=round(day))).isoformat() for day in days],
        "ward": ["" if rng.random() < missing else wards[w] for w in places],
        "age": [str(int(rng.integers(18, 95))) for _ in names],
    }
    sequences = {}
    for name, dna in zip(names, genomes, strict=True):
        letters = _BASES[dna]
        letters[rng.random(n_sites) < missing] = "N"
        sequences[name] = "".join(letters)
    infectors = {name: names[v] if v >= 0 else "" for name, v in zip(names, above, strict=True)}
    return Outbreak(table, sequences, infectors)


class SampledOutbreak(NamedTuple):
    """Samples in order of their dates, and the truth about all people above them."""

    table: dict[str, list[str]]  # sample, date; host, if one may have several samples
    sequences: dict[str, str]  # sample → DNA; N where not read
    infectors: dict[str, str]  # person → infector, "" for an introduction
    infected: dict[str, float]  # person → days after 1 January 2020
    variants: dict[str, list[str]]  # sample, position, base, frequency


def make_sampled_outbreak(
    n_samples: int = 50,
    *,
    generation_mean: float = 5.0,
    generation_sd: float = 5.0**0.5,
    delay_mean: float = 5.0,
    delay_sd: float = 5.0**0.5,
    sampled: float = 0.5,
    reproduction: float = 2.0,
    dispersion: float = float("inf"),
    introductions: float = 0.0,
    origin: float = 10.0,
    introduction_distance: float | None = None,
    substitution_rate: float = 2e-5,
    n_sites: int = 10_000,
    settling: float = float("inf"),
    late: float = 1.0,
    repeats: float = 0.0,
    drift: float = 0.0,
    variants: float = 0.0,
    mixed: float = 0.0,
    read: float = 1.0,
    tries: int = 10_000,
    random_state: Any = None,
) -> SampledOutbreak:
    """Return the first samples of an outbreak in which many are never sampled, and its truth.

    This is the model of docs/outbreaks.md. A person infects a negative binomial number of others,
    each a gamma distributed time after its own infection, and may be sampled a gamma distributed
    time after it. DNA changes with time (JC69). That of a host's sample changes for `settling` days
    after infection and then no more; a strain that is passed on departs from it as late as that
    allows with probability `late`, else at infection, and changes by itself from then on. Outbreaks
    that die out before there are enough samples are begun anew, `tries` times in all.

    Sites of a person may become variable, with two letters of which the first has x of 1 with
    density in proportion to x. A strain that departs late has either, with their frequencies.

    Parameters
    ----------
    n_samples : int
        Samples; people who are sampled, if they may be so again.
    generation_mean, generation_sd : float
        Of the days from infection to infection.
    delay_mean, delay_sd : float
        Of the days from infection to sampling.
    sampled : float
        The share of people who are sampled in the end.
    reproduction, dispersion : float
        Mean and dispersion of the number of people whom one infects; Poisson if infinite.
    introductions : float
        Introductions a day, after the first.
    origin : float
        Days from the sequence that all introductions stem from to the first of them.
    introduction_distance : float, optional
        Instead, substitutions a site between two introductions.
    substitution_rate : float
        Substitutions a site and day.
    n_sites : int
        Sites of DNA.
    settling, late : float
        Within-host diversity, as above; by default a child has all that its parent gained before.
    repeats : float
        Expected number of further samples of a person, each a delay after the one before; those
        after the last first sample are left out.
    drift : float
        Share of the rate at which a host's sequence goes on changing after `settling` days.
        Two samples of one moment differ as if they were a day apart.
    variants : float
        Expected number of sites that become variable in a person.
    mixed : float
        The chance that of a variable site two strains are passed on.
    read : float
        The share of sites that are read.
    tries : int
        Outbreaks that are begun at most.
    random_state : int, Generator or None
        For all draws.

    Returns
    -------
    SampledOutbreak
        A named tuple of table, sequences, infectors, infected and variants. People above the
        samples have names too; those in the table were sampled.

    Raises
    ------
    ValueError
        If there would be fewer than one sample, or no outbreak had enough.

    Examples
    --------
    >>> outbreak = make_sampled_outbreak(5, random_state=0)
    >>> len(outbreak.table["date"]), len(outbreak.infected) >= 5
    (5, True)
    """
    rng = np.random.default_rng(random_state)
    if n_samples < 1 or not 0 < sampled <= 1:
        raise ValueError(
            "n_samples must be at least 1, and sampled above 0 and at most 1; "
            f"got {n_samples} and {sampled}"
        )
    if not reproduction > 1 and not introductions > 0:
        raise ValueError(
            "reproduction must be above 1, or introductions above 0, or outbreaks would die out; "
            f"got {reproduction} and {introductions}"
        )
    shape, delay_shape = (generation_mean / generation_sd) ** 2, (delay_mean / delay_sd) ** 2
    for _ in range(tries):
        found = _grown(
            *(n_samples, sampled, reproduction, dispersion, introductions),
            *((shape, generation_mean / shape), (delay_shape, delay_mean / delay_shape), rng),
        )
        if found is not None:
            break
    else:
        raise ValueError(
            f"one of {tries} outbreaks must reach {n_samples} samples; none did. Ask for fewer "
            "samples, a higher reproduction or more tries."
        )
    times, above, dates = found
    rows = sorted(dates, key=dates.__getitem__)
    kept = set(rows)
    for person in range(len(times) - 1, -1, -1):
        if person in kept and above[person] >= 0:
            kept.add(above[person])
    people = sorted(kept)  # above the samples, in order of infection
    names = {person: f"p{person}" for person in people}
    samples = [(names[row], row, dates[row]) for row in rows]
    for row in rows if repeats > 0 else ():
        delays = rng.gamma(delay_shape, delay_mean / delay_shape, rng.poisson(repeats))
        days = (dates[row] + np.cumsum(delays)).tolist()
        samples += [(f"{names[row]}.{i}", row, day) for i, day in enumerate(days, start=2)]
    samples = sorted(
        (sample for sample in samples if sample[2] <= dates[rows[-1]]), key=lambda sample: sample[2]
    )
    clock = _Clock(
        *(substitution_rate * n_sites, n_sites, settling, late, times[0] - origin),
        *(drift, variants, mixed, introduction_distance),
    )
    changed, variable = _strains(people, found, samples, clock, rng)
    start, strain = date(2020, 1, 1), rng.integers(4, size=n_sites)
    sequences, listed = _letters(samples, changed, variable, strain, read, rng)
    table = {
        "sample": [name for name, _, _ in samples],
        "date": [(start + timedelta(days=int(day))).isoformat() for _, _, day in samples],
    }
    if repeats > 0:
        table["host"] = [names[row] for _, row, _ in samples]
    return SampledOutbreak(
        table,
        sequences,
        {names[p]: names.get(above[p], "") for p in people},
        {names[p]: times[p] for p in people},
        listed,
    )


def _letters(
    samples: list[tuple[str, int, float]],
    changed: list[dict[int, int]],
    variable: dict[int, dict[int, dict[int, float]]],
    strain: NDArray[np.int64],
    read: float,
    rng: np.random.Generator,
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the sequences of all samples, of variable sites the commonest letter, and a table."""
    sequences = {}
    listed: dict[str, list[str]] = {"sample": [], "position": [], "base": [], "frequency": []}
    for (name, row, _), moves in zip(samples, changed, strict=True):
        letters = strain.copy()
        for site, move in moves.items():
            letters[site] = (letters[site] + move) % 4
        for site, shares in variable[row].items():
            for move, share in shares.items():
                base = str(_BASES[(strain[site] + move) % 4])
                cells = name, str(site + 1), base, f"{share:.4f}"
                for column, cell in zip(listed.values(), cells, strict=True):
                    column.append(cell)
            letters[site] = (strain[site] + max(shares, key=shares.__getitem__)) % 4
        text = _BASES[letters]
        text[rng.random(len(strain)) >= read] = "N"
        sequences[name] = "".join(text)
    return sequences, listed


class _Clock(NamedTuple):
    """How sequences change."""

    rate: float  # of the whole sequence
    n_sites: int
    settling: float
    late: float
    origin: float  # its date
    drift: float
    variants: float
    mixed: float
    distance: float | None  # substitutions a site between introductions

    def start(self, infected: float) -> float:
        """Return when the strain of an introduction began to differ from those of others."""
        if self.distance is None:
            return self.origin
        return infected - self.distance * self.n_sites / (2 * self.rate)


def _strains(
    people: list[int],
    found: tuple[list[float], list[int], dict[int, float]],
    samples: list[tuple[str, int, float]],
    clock: _Clock,
    rng: np.random.Generator,
) -> tuple[list[dict[int, int]], dict[int, dict[int, dict[int, float]]]]:
    """Return in how far letters differ from the origin's: of each sample, by site.

    And of each person at variable sites how frequent they are.
    """
    times, above, dates = found
    until = {person: dates.get(person, times[person]) for person in people}
    for _, person, day in samples:
        until[person] = max(until[person], day)
    for person in people:
        if above[person] >= 0:
            until[above[person]] = max(until[above[person]], times[person])
    first: dict[int, dict[int, int]] = {}  # at infection
    gained: dict[int, list[tuple[float, int, int]]] = {}  # afterwards: moment, site, move

    def changes(start: float, end: float) -> list[tuple[float, int, int]]:
        number = rng.poisson(clock.rate * (end - start))
        moments = np.sort(rng.uniform(start, end, number)).tolist()
        sites, moves = rng.integers(clock.n_sites, size=number), rng.integers(1, 4, size=number)
        return list(zip(moments, sites.tolist(), moves.tolist(), strict=True))

    def after(own: dict[int, int], more: list[tuple[float, int, int]]) -> dict[int, int]:
        result = dict(own)
        for _, site, move in more:
            result[site] = (result.get(site, 0) + move) % 4
        return result

    def strain_at(person: int, moment: float) -> dict[int, int]:
        return after(first[person], [change for change in gained[person] if change[0] <= moment])

    def settled(person: int, moment: float) -> float:
        end = times[person] + clock.settling
        return min(moment, end) + (clock.drift * (moment - end) if moment > end else 0.0)

    variable: dict[int, dict[int, dict[int, float]]] = {}  # person, site, move: frequency
    for person in people:
        v, b = above[person], times[person]
        own, start, variable[person] = {}, clock.start(b), {}
        if v >= 0:
            is_late = rng.random() < clock.late
            start = settled(v, b) if is_late else times[v]
            own = strain_at(v, start)
            if is_late:
                drawn, variable[person] = _passed_on(variable[v], clock.mixed, rng)
                own |= drawn
        first[person] = after(own, changes(start, b))
        gained[person] = changes(b, settled(person, until[person]))
        variable[person] = _new_variants(first[person], clock, rng) | variable[person]
    far = clock.drift / 2
    return [
        after(strain_at(person, settled(person, day)), changes(day, day + far) if far else [])
        for _, person, day in samples
    ], variable


def _new_variants(
    own: dict[int, int], clock: _Clock, rng: np.random.Generator
) -> dict[int, dict[int, float]]:
    """Return sites that become variable in a person with these letters, and frequencies there."""
    found = {}
    for site in rng.integers(clock.n_sites, size=rng.poisson(clock.variants)).tolist():
        move, share = own.get(site, 0), float(np.sqrt(rng.uniform()))
        found[site] = {move: share, (move + int(rng.integers(1, 4))) % 4: 1 - share}
    return found


def _passed_on(
    variable: dict[int, dict[int, float]], mixed: float, rng: np.random.Generator
) -> tuple[dict[int, int], dict[int, dict[int, float]]]:
    """Return the letters of a strain from where sites are variable, and sites that stay so."""
    own, still = {}, {}
    for site, shares in variable.items():
        moves, chances = list(shares), list(shares.values())
        one, other = (int(rng.choice(moves, p=chances)) for _ in range(2))
        own[site] = one
        if one != other and rng.random() < mixed:
            share = rng.uniform()
            still[site] = {one: share, other: 1 - share}
    return own, still


def _grown(
    n_samples: int,
    sampled: float,
    reproduction: float,
    dispersion: float,
    introductions: float,
    generation: tuple[float, float],  # shape and scale
    delay: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[list[float], list[int], dict[int, float]] | None:
    """Return dates of infection, infectors and dates of the first samples; None if it died out."""
    queue: list[tuple[float, int]] = [(0.0, -1)]  # infections to come, and by whom
    coming: list[tuple[float, int]] = []  # samples to come, and whose
    times: list[float] = []
    above: list[int] = []
    dates: dict[int, float] = {}
    while queue or coming:
        if coming and (not queue or coming[0][0] < queue[0][0]):
            moment, person = heapq.heappop(coming)
            dates[person] = moment
            if len(dates) == n_samples:
                return times, above, dates
            continue
        moment, infector = heapq.heappop(queue)
        person = len(times)
        times.append(moment)
        above.append(infector)
        if infector < 0 and introductions > 0:
            heapq.heappush(queue, (moment + rng.exponential(1 / introductions), -1))
        mean = reproduction
        if np.isfinite(dispersion):
            mean *= rng.gamma(dispersion, 1 / dispersion)
        for wait in rng.gamma(*generation, size=rng.poisson(mean)).tolist():
            heapq.heappush(queue, (moment + wait, person))
        if rng.random() < sampled:
            heapq.heappush(coming, (moment + rng.gamma(*delay), person))
    return None


def make_line_list(
    n_cases: int = 1000,
    *,
    days: int = 365,
    reproduction: float = 0.98,
    n_sites: int = 100,
    substitutions: float = 0.5,
    waiting_mean: float = 5.0,
    waiting_sd: float = 2.0,
    n_wards: int = 20,
    ward_stays: float = 0.8,
    missing: float = 0.02,
    random_state: Any = None,
) -> Outbreak:
    """Return a long list of cases with many introductions, and its truth, in O(cases).

    Introductions arrive evenly over the days; each case infects Poisson(reproduction) others, each
    after a gamma waiting time, and the earliest n_cases are listed. A case lives about 1 (standard
    deviation) from its infector, in x and in y; introduced ones anywhere in a square of side 100.
    Wards and DNA follow the infector's as in `make_outbreak`.

    Parameters
    ----------
    n_cases : int
        Cases.
    days : int
        Days over which introductions arrive.
    reproduction : float
        The mean number of cases that a case infects, below 1.
    n_sites : int
        Sites of DNA.
    substitutions : float
        The mean number between a case and its infector.
    waiting_mean, waiting_sd : float
        Of the days from case to case.
    n_wards : int
        Wards.
    ward_stays : float
        The probability that a case is in its infector's ward.
    missing : float
        The share of wards and sites that are unknown.
    random_state : int, Generator or None
        For all draws.

    Returns
    -------
    Outbreak
        A named tuple of table, sequences and infectors.

    Raises
    ------
    ValueError
        If the outbreaks would never end.

    Examples
    --------
    >>> cases = make_line_list(200, random_state=0)
    >>> list(cases.table), len(cases.infectors)
    (['case', 'onset', 'x', 'y', 'ward'], 200)
    """
    if n_cases < 1 or not 0 <= reproduction < 1:
        raise ValueError(
            "n_cases must be at least 1, and reproduction at least 0 and less than 1, or the "
            f"outbreaks would never end; got {n_cases} and {reproduction}"
        )
    rng = np.random.default_rng(random_state)
    shape = (waiting_mean / waiting_sd) ** 2
    strain = rng.integers(4, size=n_sites)
    parts, total = [], 0
    while total < 1.2 * n_cases:  # the latest are cut off, or the last day would see the fewest
        # A cluster has 1 / (1 − reproduction) cases on average.
        n = max(1, round(n_cases * (1 - reproduction)))
        day, infector = rng.uniform(0, days, n), np.full(n, -1)
        place, ward = rng.uniform(0, 100, (n, 2)), rng.integers(n_wards, size=n)
        dna = _changed(np.tile(strain, (n, 1)), 15 * substitutions, rng)
        while n:
            parts.append((day, infector, place, ward, dna))
            parent = np.repeat(np.arange(n), rng.poisson(reproduction, n))
            infector, total, n = total + parent, total + n, len(parent)
            day = day[parent] + rng.gamma(shape, waiting_mean / shape, n)
            place = place[parent] + rng.normal(size=(n, 2))
            stays = rng.random(n) < ward_stays
            ward = np.where(stays, ward[parent], rng.integers(n_wards, size=n))
            dna = _changed(dna[parent], substitutions, rng)
    day, infector, place, ward, dna = (np.concatenate(part) for part in zip(*parts, strict=True))
    # The earliest: an infector is listed before its cases, so none loses its own.
    order = np.argsort(day, kind="stable")[:n_cases]
    number = np.full(total, -1)
    number[order] = np.arange(n_cases)
    width = len(str(n_cases))
    names = [f"c{i + 1:0{width}}" for i in range(n_cases)]
    start = date(2020, 1, 1)
    hidden = rng.random(n_cases) < missing
    letters = np.append(_BASES, "N")[
        np.where(rng.random((n_cases, n_sites)) < missing, 4, dna[order])
    ]
    table = {
        "case": names,
        "onset": [(start + timedelta(days=round(d))).isoformat() for d in day[order].tolist()],
        "x": [f"{x:.3f}" for x in place[order, 0].tolist()],
        "y": [f"{y:.3f}" for y in place[order, 1].tolist()],
        "ward": [
            "" if h else f"W{w:02}" for h, w in zip(hidden, ward[order].tolist(), strict=True)
        ],
    }
    sequences = {name: "".join(row) for name, row in zip(names, letters.tolist(), strict=True)}
    above = infector[order]
    infectors = {
        name: names[number[v]] if v >= 0 else ""
        for name, v in zip(names, above.tolist(), strict=True)
    }
    return Outbreak(table, sequences, infectors)


def _changed(dna: Any, mean_changes: float, rng: np.random.Generator) -> Any:
    """Return rows of DNA, each with Poisson(mean_changes) changes at random sites."""
    changed = dna.copy()
    row = np.repeat(np.arange(len(dna)), rng.poisson(mean_changes, len(dna)))
    site = rng.integers(dna.shape[1], size=len(row))
    changed[row, site] = (changed[row, site] + rng.integers(1, 4, size=len(row))) % 4
    return changed


def _mutated(dna: Any, n_changes: int, rng: np.random.Generator) -> Any:
    child = dna.copy()
    sites = rng.integers(len(dna), size=n_changes)
    child[sites] = (child[sites] + rng.integers(1, 4, size=n_changes)) % 4
    return child
