"""The spiral is fitted in at most 40 evaluations, with at most 25 % of the time outside the engine.

One start of OutTreeDensity(mutation="gaussian") on 534 × 3 records, to convergence. The engine's
time is all that is spent in OutTreeDistribution: its construction, log Z and marginals.
Run: python benchmarks/density_cost.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

from outtrees import OutTreeDensity
from outtrees.datasets import make_spiral
from outtrees.inference.likelihood import OutTreeDistribution
from outtrees.models import GaussianMutation


class Stopwatch:
    """Adds up the time spent in calls, those inside other timed calls not twice."""

    def __init__(self) -> None:
        self.total = 0.0
        self._running = False

    def timed(self, call: Callable) -> Callable:
        def wrapped(*args, **kwargs):
            if self._running:
                return call(*args, **kwargs)
            self._running = True
            begin = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.total += time.perf_counter() - begin
                self._running = False

        return wrapped


def watch_engine(watch: Stopwatch) -> None:
    OutTreeDistribution.__init__ = watch.timed(OutTreeDistribution.__init__)
    for name in ("log_z", "edge_marginals", "root_marginals"):
        attribute = vars(OutTreeDistribution)[name]
        attribute.func = watch.timed(attribute.func)


def row(claim: str, value: float, wanted: float, note: str) -> None:
    verdict = "reached" if value <= wanted else "NOT reached"
    print(f"| {claim} | {value:.2f} | ≤ {wanted} | {verdict} | {note} |", flush=True)


def main() -> None:
    X = make_spiral()
    T, D = X.shape
    # A start_correlation that is given is the only start; this one is the default start's.
    correlation = float((1.0 - T ** (-2.0 / (D + 4))) ** 0.5)
    model = OutTreeDensity(GaussianMutation(start_correlation=correlation))
    watch = Stopwatch()
    watch_engine(watch)
    shares = []
    for _ in range(5):
        before, begin = watch.total, time.perf_counter()
        model.fit(X)
        whole = time.perf_counter() - begin
        shares.append((1.0 - (watch.total - before) / whole, whole))
    overhead, seconds = sorted(shares)[len(shares) // 2]
    print("| claim | ratio or count | to reach | | |\n|---|---|---|---|---|")
    ended = "converged" if model.converged_ else "NOT converged"
    note = f"{ended}, log posterior {model.log_likelihoods_[-1]:.4f}"
    row("evaluations of the engine, spiral, one start", model.n_evaluations_, 40, note)
    row(
        "time outside the engine / time of the fit",
        overhead,
        0.25,
        f"median of {len(shares)} fits, {seconds:.2f} s",
    )


if __name__ == "__main__":
    main()
