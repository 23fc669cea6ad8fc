"""A simulated outbreak: cases with dates, wards and DNA, and who infected whom."""

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
