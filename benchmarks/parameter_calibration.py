"""Claim: posteriors of parameters and supports are right where tables come from the model's priors.

Simulation-based calibration (`tests/oracles/posterior_ranks.py`): for each kind of table and
parameter the p-value of uniform ranks (Kolmogorov-Smirnov) and the coverage of 90 % intervals; for
supports what was reached and promised, apart in standard errors over tables.

    OPENBLAS_NUM_THREADS=1 python benchmarks/parameter_calibration.py [n_tables] [kind of table …]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from oracles.posterior_ranks import CASES, rank_tests, simulate
from oracles.promises import drifts, of_choices


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| tables | parameter or supports | result |\n|---|---|---|")
    for case in sys.argv[2:] or CASES:
        tables = [simulate(case, seed) for seed in range(n)]
        for name, (p, covered) in rank_tests(tables).items():
            print(f"| {case} | {name} | p {p:.3f}, 90 % intervals cover {covered:.2f} |")
        supports = [(table.supports, table.parents) for table in tables]
        for name, (reached, promised, z) in drifts(supports, of_choices).items():
            print(f"| {case} | {name} | {reached:.1f} reached, {promised:.1f} promised, {z:+.1f} |")
        bad = np.mean([table.pareto_k > 0.7 for table in tables])
        effective = np.median([table.effective for table in tables])
        print(f"| {case} | draws | {bad:.0%} with k > 0.7, {effective:.0f} effective |", flush=True)


if __name__ == "__main__":
    main()
