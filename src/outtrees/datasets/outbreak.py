"""A simulated outbreak: cases with dates, wards and DNA, and who infected whom."""

from __future__ import annotations

import heapq
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np

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

    Examples
    --------
    >>> outbreak = make_outbreak(5, random_state=0)
    >>> outbreak.table["case"], list(outbreak.infectors.values()).count("")
    (['case01', 'case02', 'case03', 'case04', 'case05'], 2)
    """
    if n_cases < n_introductions or n_introductions < 1:
        raise ValueError(
            f"n_cases={n_cases} is expected to be at least n_introductions={n_introductions} ≥ 1"
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
    number, days, above, genomes, places = n_introductions, [], [], [], []
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


def _mutated(dna: Any, n_changes: int, rng: np.random.Generator) -> Any:
    child = dna.copy()
    sites = rng.integers(len(dna), size=n_changes)
    child[sites] = (child[sites] + rng.integers(1, 4, size=n_changes)) % 4
    return child
