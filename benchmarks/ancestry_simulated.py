"""Claim: over simulated outbreaks, as many parents are right as the supports promise.

Prints, for 20 outbreaks of 40 cases with nothing or 5 % of the bases and wards missing, with the
waiting time given or learned, and with parameters fitted or integrated out: right parents, how many
the supports promised, the standard error of that promise, and the log-score (mean log support of
the true parents). Run: python benchmarks/ancestry_simulated.py [outbreaks] [first seed] [learned]
"""

import sys
from itertools import product

import numpy as np

from outtrees import Ancestry
from outtrees.datasets import make_outbreak


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    waits = {"given": {"waiting_mean": 5.0, "waiting_sd": 2.0}, "learned": {}}
    if len(sys.argv) > 3:
        waits = {sys.argv[3]: waits[sys.argv[3]]}
    print("| missing | waiting time | parameters | right | promised | standard error | log-score |")
    print("|---|---|---|---|---|---|---|")
    for missing, name, parameters in product((0.0, 0.05), waits, ("fitted", "integrated")):
        right = promised = variance = total = score = 0.0
        for seed in range(first, first + n):
            truth = make_outbreak(40, missing=missing, random_state=seed)
            found = Ancestry(id="case", roots="any", parameters=parameters, **waits[name])
            found.fit(truth.table, sequences=truth.sequences)
            ids, parents = found.records.ids, found.tree()
            row = {name: i for i, name in enumerate(ids)} | {"": -1}
            for child, parent in enumerate(parents.tolist()):
                true = row[truth.infectors[ids[child]]]
                right += parent == true
                score += np.log(max(found.fitted.support_of.get((child, true), 0.0), 1e-9))
            supports = found.fitted.supports(parents)
            promised += supports.sum()
            variance += (supports * (1 - supports)).sum()
            total += len(ids)
        line = f"{right:.0f} of {total:.0f} | {promised:.1f} | {np.sqrt(variance):.1f}"
        print(
            f"| {missing:.0%} | {name} | {parameters} | {line} | {score / total:.3f} |", flush=True
        )


if __name__ == "__main__":
    main()
