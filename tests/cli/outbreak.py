"""A small outbreak with dates, DNA, wards and a known truth, written as files."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Outbreak:
    cases: Path
    dna: Path
    parents: dict  # child → parent, "" for the first
    ids: list


def write_outbreak(folder, n=14, sites=200, seed=3):
    """Each case infects later ones; three substitutions a link, so that parents are clear."""
    rng = np.random.default_rng(seed)
    parents, days, wards, sequences = [-1], [0], ["N"], [rng.integers(4, size=sites)]
    for i in range(1, n):
        parent = int(rng.integers(max(0, i - 4), i))
        sequence = sequences[parent].copy()
        changed = rng.choice(sites, 3, replace=False)
        sequence[changed] = (sequence[changed] + rng.integers(1, 4, size=3)) % 4
        parents.append(parent)
        days.append(days[parent] + int(rng.integers(2, 6)))
        wards.append(wards[parent] if rng.random() < 0.8 else str(rng.choice(["N", "S", "E"])))
        sequences.append(sequence)
    ids = [f"p{i + 1}" for i in range(n)]
    first = datetime.date(2020, 3, 1)
    lines = ["case,onset,ward,outcome"]
    for i in range(n):
        outcome = "" if i in (4, 5) else ["well", "ill"][i % 2]
        lines.append(f"{ids[i]},{first + datetime.timedelta(days=days[i])},{wards[i]},{outcome}")
    cases, dna = Path(folder) / "cases.csv", Path(folder) / "dna.fasta"
    cases.write_text("\n".join(lines) + "\n")
    dna.write_text(
        "".join(
            f">{name}\n{''.join('ACGT'[c] for c in codes)}\n"
            for name, codes in zip(ids, sequences, strict=True)
        )
    )
    truth = {ids[i]: ids[p] if p >= 0 else "" for i, p in enumerate(parents)}
    return Outbreak(cases, dna, truth, ids)
