"""Claim: over simulated outbreaks, as many parents are right as the supports promise.

Prints, for 20 outbreaks of 40 cases with nothing or 5 % of the bases and wards missing, and with
the waiting time given or learned: right parents, how many the supports promised, and the standard
error of that promise. Run: python benchmarks/ancestry_simulated.py [outbreaks] [first seed]
"""

import sys

import numpy as np

from outtrees import Ancestry
from outtrees.datasets import make_outbreak


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print("| missing | waiting time | right | promised | standard error |\n|---|---|---|---|---|")
    for missing in (0.0, 0.05):
        for name, given in {
            "given": {"waiting_mean": 5.0, "waiting_sd": 2.0},
            "learned": {},
        }.items():
            right = promised = variance = total = 0.0
            for seed in range(first, first + n):
                truth = make_outbreak(40, missing=missing, random_state=seed)
                found = Ancestry(id="case", roots="any", **given).fit(
                    truth.table, sequences=truth.sequences
                )
                ids, parents = found.records.ids, found.tree()
                for child, parent in zip(ids, parents, strict=True):
                    right += (ids[parent] if parent >= 0 else "") == truth.infectors[child]
                supports = found.fitted.supports(parents)
                promised += supports.sum()
                variance += (supports * (1 - supports)).sum()
                total += len(ids)
            line = f"{right:.0f} of {total:.0f} | {promised:.1f} | {np.sqrt(variance):.1f}"
            print(f"| {missing:.0%} | {name} | {line} |")


if __name__ == "__main__":
    main()
