"""The transmission model finds as many infectors as the best published method, in seconds.

    python benchmarks/outbreaks_published.py decide     # the half on which everything was settled
    python benchmarks/outbreaks_published.py report     # the other half
    python benchmarks/outbreaks_published.py simulated 20
    python benchmarks/outbreaks_published.py back 200       # simulated, and how often promises hold
    python benchmarks/outbreaks_published.py inherited 32   # a child has all that its parent gained
    python benchmarks/outbreaks_published.py within 40      # several samples of a host, variants
    python benchmarks/outbreaks_published.py large 1000     # many introductions, times given
    python benchmarks/outbreaks_published.py shared 200     # one infection date a person, 4 people

Outbreaks that Specht et al. 2025 (doi 10.1101/2025.03.02.25323192) simulated: sampling dates and
genomes of 50 people, half of all cases unsampled. They are read from ../shared/data/ancestry and
are not part of this repository. Rows: generation time and delay given (the simulator's usual 5 ± √5
days, although one value differs in most outbreaks), everything learned, and the waiting-time model
that knows neither. "Right" counts children whose infector was sampled, and the likeliest infector
among the samples; "promised" is the sum of its probabilities given that one of them infected the
child; "log-score" the mean logarithm of the infector's. The last columns are all 50 children, with
the nearest sampled ancestor (or none) as the truth, and supports as they are.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import gamma

from outtrees import Ancestry
from outtrees.ancestry.outbreak import MIXED
from outtrees.datasets import make_sampled_outbreak
from outtrees.datasets.outbreak import SampledOutbreak

DATA = Path(__file__).resolve().parents[2] / "shared/data/ancestry/outbreaks_juniper"
HALVES = {
    "decide": ("e1", "e3", "e5", "e7", "e9", "e11"),
    "report": ("e13", "e15", "e17", "e19", "e21", "e23"),
}
# Outbreaks and seeds of masks that leave 80 % of the sites.
MASKED = {"decide": (("e1", 0), ("e1", 1), ("e3", 0), ("e3", 1)), "report": (("e15", 0),)}
SITES = 10_000
GIVEN = {
    "generation_mean": 5.0,
    "generation_sd": 5**0.5,
    "delay_mean": 5.0,
    "delay_sd": 5**0.5,
}
RUNS: dict[str, dict[str, Any]] = {
    "given": GIVEN,
    "learned": {"transmission": True},
    "waiting": {"transmission": False},
}


class Outbreak(NamedTuple):
    """A table, its sequences, and for each record the infector and the nearest sampled one."""

    table: dict[str, list[str]]
    sequences: dict[str, str]
    infector: np.ndarray  # (T,), −1 if it was not sampled
    ancestor: np.ndarray  # (T,), −1 if there is none
    infected: np.ndarray | None = None  # (T,), days after 1 January 2020, of simulated ones


def published(name: str) -> Outbreak:
    """Return one of the published outbreaks."""
    folder = DATA / name
    with open(folder / "metadata.csv") as file:
        rows = list(csv.DictReader(file))
    names = [row["sample"] for row in rows]
    sequences: dict[str, str] = {}
    with gzip.open(folder / "aligned.fasta.gz", "rt") as file:
        for block in file.read().split(">")[1:]:
            head, *lines = block.splitlines()
            sequences[head.split("|")[0].strip()] = "".join(lines).replace(" ", "")
    with open(folder / "transmission.csv") as file:
        parent = {row["to"]: row["from"] for row in csv.DictReader(file)}
    table = {"sample": names, "date": [row["date"] for row in rows]}
    return Outbreak(table, {n: sequences[n] for n in names}, *_truth(names, parent))


def _truth(names: list[str], parent: dict[str, str]) -> tuple[np.ndarray, np.ndarray]:
    place = {name: row for row, name in enumerate(names)}
    infector = np.array([place.get(parent.get(name, ""), -1) for name in names])
    ancestor = []
    for name in names:
        above = parent.get(name)
        while above is not None and above not in place:
            above = parent.get(above)
        ancestor.append(-1 if above is None else place[above])
    return infector, np.array(ancestor)


def masked(outbreak: Outbreak, share: float, seed: int = 0) -> Outbreak:
    """Return the outbreak in which this share of all letters was read."""
    rng = np.random.default_rng(seed)
    hidden = {
        name: "".join(np.where(rng.random(len(text)) < share, list(text), "N"))
        for name, text in outbreak.sequences.items()
    }
    return outbreak._replace(sequences=hidden)


def simulated(seed: int, n: int = 50, **options: float) -> Outbreak:
    """Return the first n samples of an outbreak, by default R = 2 and times of GIVEN."""
    return with_truth(make_sampled_outbreak(n, random_state=seed, **options))


def with_truth(made: SampledOutbreak) -> Outbreak:
    """Return a simulated outbreak with its truth in rows of the table."""
    above = {child: parent for child, parent in made.infectors.items() if parent}
    names = made.table["sample"]
    infected = np.array([made.infected[name] for name in names])
    return Outbreak(made.table, made.sequences, *_truth(names, above), infected)


def from_priors(seed: int, n: int, **more: float) -> tuple[dict[str, float], SampledOutbreak]:
    """Return parameters as the model expects them, and n samples of an outbreak that has them.

    Parameters are drawn together with an outbreak, until one has enough samples: an outbreak that
    is known has grown. Mean times are about 5 days.
    """
    rng = np.random.default_rng(seed)
    while True:
        true = _drawn_parameters(rng)
        try:
            state = int(rng.integers(2**31))
            return true, make_sampled_outbreak(n, tries=1, random_state=state, **true, **more)
        except (ValueError, OverflowError):  # it died out, or lasted thousands of years
            continue


def _drawn_parameters(rng: np.random.Generator) -> dict[str, float]:
    z = rng.normal(size=10)
    generation, delay = 5 * np.exp(0.3 * z[:2])
    return {
        "generation_mean": generation,
        "generation_sd": generation / np.sqrt(5 * np.exp(0.5 * z[2])),
        "delay_mean": delay,
        "delay_sd": delay / np.sqrt(5 * np.exp(0.5 * z[3])),
        "sampled": 1 / (1 + np.exp(-z[9])),
        "reproduction": 2 * np.exp(0.5 * z[4]),
        "dispersion": np.exp(z[5]),
        "substitution_rate": 2e-5 * np.exp(0.5 * z[6]),
        "settling": 0.1 * generation * np.exp(1.5 * z[7]),
        "late": 1 / (1 + np.exp(-1.5 * z[8])),
        "introductions": rng.exponential(1 / 25),  # outbreaks of 20 samples last about 25 days
    }


def fitted(outbreak: Outbreak, options: dict[str, Any]) -> tuple[Ancestry, np.ndarray]:
    """Return the fitted model and the supports of all parents, none last (T, T + 1)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Ancestry(id="sample", **options).fit(outbreak.table, sequences=outbreak.sequences)
        trees, T = found.fitted.trees, len(outbreak.infector)
        support = np.zeros((T, T + 1))
        support[found.fitted.edges.child, found.fitted.edges.parent] = trees.edge_marginals
        support[:, T] = trees.root_marginals
    return found, support


def infectors(found: Ancestry, support: np.ndarray) -> np.ndarray:
    """Return the chances of all samples as infectors, given that one of them is it (T, T)."""
    T = len(support)
    direct = support[:, :T].copy()
    if found._is_transmission:
        place = {name: row for row, name in enumerate(found.table_.ids)}
        links = found.spread(0.0).links
        ends = [[place[name] for name in links[end]] for end in ("child", "parent")]
        direct[ends[0], ends[1]] = links["direct"]
    return direct / np.maximum(direct.sum(axis=1, keepdims=True), 1e-300)


def scores(outbreak: Outbreak, options: dict[str, Any]) -> np.ndarray:
    """Return right, children, promised, log-score, right and promised of all, seconds."""
    begin = time.process_time()
    found, support = fitted(outbreak, options)
    seconds, T = time.process_time() - begin, len(outbreak.infector)
    best, top = support.argmax(axis=1), support.max(axis=1)
    direct = np.flatnonzero(outbreak.infector >= 0)
    truth = outbreak.infector[direct]
    chance = infectors(found, support)[direct]
    nearest = np.where(outbreak.ancestor >= 0, outbreak.ancestor, T)
    return np.array(
        [
            (chance.argmax(axis=1) == truth).sum(),
            len(direct),
            chance.max(axis=1).sum(),
            np.log(np.maximum(chance[np.arange(len(direct)), truth], 1e-4)).sum(),
            (best == nearest).sum(),
            top.sum(),
            seconds,
        ]
    )


def line(name: str, run: str, s: np.ndarray) -> None:
    """Print one row of the table."""
    share = s[0] / s[1]
    error = np.sqrt(share * (1 - share) / s[1])
    print(
        f"| {name} | {run} | {s[0]:.0f} of {s[1]:.0f} | {share:.3f} ± {error:.3f} | {s[2]:.1f} | "
        f"{s[3] / s[1]:.2f} | {s[4]:.0f} | {s[5]:.1f} | {s[6]:.1f} |",
        flush=True,
    )


def sets(arguments: list[str]) -> Iterator[tuple[str, Outbreak]]:
    """Yield the outbreaks that the arguments ask for; a * marks masked ones."""
    half = arguments[0]
    if half == "simulated":
        yield from ((f"seed {seed}", simulated(seed)) for seed in range(int(arguments[1])))
        return
    for name in HALVES[half]:
        yield name, published(name)
    for name, seed in MASKED[half]:
        yield f"{name}, 80 % read *", masked(published(name), 0.8, seed)


def shared_dates(
    seed: int, T: int = 4, step: float = 0.25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return parents of all trees of T people (n, T), true first, and two posteriors of them (n,).

    With one infection date for each person, and with one for each edge as in the model; both by
    sums on a grid, for people who are all sampled, times of GIVEN, 0.2 substitutions a day.
    """
    rng = np.random.default_rng(seed)
    rate, shape = 0.2, 5.0
    parent, infected = [-1], [0.0]
    for u in range(1, T):
        parent.append(int(rng.integers(u)))
        infected.append(infected[parent[u]] + rng.gamma(shape))
    sampled = np.array(infected) + rng.gamma(shape, size=T)
    # Person u carries what arose in each host above it before the strain left that host.
    arose = [np.sort(rng.uniform(b, b + 60, rng.poisson(rate * 60))) for b in infected]
    carried: list[set[tuple[int, float]]] = []
    for u in range(T):
        host, until, own = u, float(sampled[u]), set()
        while host >= 0:
            own |= {(host, t) for t in arose[host].tolist() if t <= until}
            host, until = parent[host], infected[host]
        carried.append(own)
    times = np.arange(sampled.min() - 20, sampled.max(), step)

    def law(x: np.ndarray) -> np.ndarray:
        return gamma.pdf(np.maximum(x, 0.0), shape) * step

    delay = law(sampled[:, None] - times)  # (T, n)
    generation = law(times - times[:, None])  # of the parent's date, then the child's
    edges: dict[tuple[int, int], np.ndarray] = {}  # (n, n), without the parent's delay
    for u, v in product(range(T), range(T)):
        x = np.maximum(sampled[v] - times, 0.0)
        since = sampled[u] - sampled[v] + x
        age, per = max(sampled[v], step), rate / (3 * SITES)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = (1 - np.minimum(x / age, 1)) ** len(carried[u] & carried[v])
            p *= (x / age + per * since) ** len(carried[v] - carried[u])
            p *= (per * since) ** len(carried[u] - carried[v]) * np.exp(-rate * since)
        edges[u, v] = generation * np.where((x < age) & (since > 0), delay[u] * p, 0.0)
    alone = [
        len(c) * np.log(rate * s / (3 * SITES)) - rate * s
        for c, s in zip(carried, sampled, strict=True)
    ]
    trees, logs = [], []
    for tree in [tuple(parent), *product(range(-1, T), repeat=T)]:
        if tree.count(-1) != 1 or tree in trees or not _is_tree(tree):
            continue

        def below(v: int, tree: tuple[int, ...] = tree) -> np.ndarray:  # by v's infection date
            result = np.ones(len(times))
            for u in range(T):
                if tree[u] == v:
                    result = result * (edges[u, v] @ below(u))
            return result

        root = tree.index(-1)
        one = delay[root] @ below(root)
        each = np.prod([delay[v] @ edges[u, v].sum(axis=1) for u, v in enumerate(tree) if v >= 0])
        trees.append(tree)
        with np.errstate(divide="ignore"):
            logs.append(np.log([one, each]) + alone[root])
    weights = np.array(logs)
    weights = np.exp(weights - weights.max(axis=0))
    weights /= weights.sum(axis=0)
    return np.array(trees), weights[:, 0], weights[:, 1]


def _is_tree(parents: tuple[int, ...]) -> bool:
    for u in range(len(parents)):
        steps, v = 0, u
        while v >= 0 and steps <= len(parents):
            v, steps = parents[v], steps + 1
        if v >= 0:
            return False
    return True


def compare_shared(number: int) -> None:
    """Print how supports of one infection date a person differ from those of one an edge."""
    rows = []
    for seed in range(number):
        trees, *both = shared_dates(seed)
        truth, T = trees[0], trees.shape[1]
        supports = [
            np.array([[w[trees[:, u] == v].sum() for v in range(-1, T)] for u in range(T)])
            for w in both
        ]
        found = [
            (
                (s.argmax(axis=1) - 1 == truth).sum(),
                s.max(axis=1).sum(),
                np.log(np.maximum(s[np.arange(T), truth + 1], 1e-9)).sum(),
            )
            for s in supports
        ]
        far = abs(supports[0] - supports[1]).sum(axis=1).mean() / 2
        rows.append([*found[0], *found[1], far])
    total, T = np.sum(rows, axis=0), 4 * number
    print("| infection dates | right | promised | log-score |")
    print("|---|---|---|---|")
    for name, part in (("of a person", total[:3]), ("of an edge", total[3:6])):
        print(f"| {name} | {part[0]:.0f} of {T} | {part[1]:.1f} | {part[2] / T:.3f} |")
    print(f"mean distance of a record's supports (total variation): {total[6] / number:.3f}")


def back(number: int, inherited: bool = False) -> None:
    """Print how often supports, intervals of parameters and infection dates hold the truth.

    Outbreaks of 20 samples with parameters from the priors, generation time and delay given in
    every second one; ± is the error that follows from how much outbreaks differ. Inherited: a
    child has all that its parent's sequence gained before, and a quarter to all cases are sampled.
    Supports are those of all candidates, nearest sampled ancestors (or none) being the truth.
    """
    bins, held, dates = np.zeros((10, 3)), {}, np.zeros(2)
    totals: dict[str, np.ndarray] = {}
    for seed in range(number):
        true = {
            **GIVEN,
            "sampled": (0.25, 0.5, 0.75, 1.0)[seed // 2 % 4],
            "substitution_rate": 2e-5,
        }
        if inherited:
            outbreak = simulated(10_000 + seed, 20, **true)
        else:
            true, made = from_priors(seed, 20)
            outbreak = with_truth(made)
        run, share = ("given", "learned")[seed % 2], true["sampled"]
        options = {k: true[k] for k in GIVEN} if run == "given" else RUNS[run]
        model, support = fitted(outbreak, options)
        T = len(support)
        truth = np.where(outbreak.ancestor >= 0, outbreak.ancestor, T)
        is_true = np.arange(T + 1) == truth[:, None]
        row = np.minimum((support * 10).astype(int), 9)
        for b in range(10):
            bins[b] += [(row == b).sum(), support[row == b].sum(), is_true[row == b].sum()]
        right = (support.argmax(axis=1) == truth).sum()
        gap = support.max(axis=1).sum() - right
        off = model.fitted.trees.agreement[0] > MIXED
        for key in (
            run,
            *(["chains that do not agree"] if off else []),
            f"{int(4 * share - 1e-9) * 25} to {int(4 * share - 1e-9) * 25 + 25} % sampled",
        ):
            cells = np.array([T, right, support.max(axis=1).sum(), gap**2])
            totals[key] = totals.get(key, 0) + cells
        if seed % 10 == 9:
            print(seed + 1, {k: v.round(1).tolist() for k, v in totals.items()}, flush=True)
        spread = model.spread()
        for cells in spread.parameters:
            if cells.parameter in true and not cells.given and share < 1:
                inside = cells.lower <= true[cells.parameter] <= cells.upper
                held[cells.parameter] = held.get(cells.parameter, 0) + np.array([1, inside])
        first = date(2020, 1, 1)
        assert outbreak.infected is not None
        for cells, day in zip(spread.infections, outbreak.infected.tolist(), strict=True):
            low, high = (
                date.fromisoformat(x) if x else date.min for x in (cells.lower, cells.upper)
            )
            dates += [1, low <= first + timedelta(days=int(np.floor(day))) <= high]
    print("| support | candidates | promised | true |\n|---|---|---|---|")
    for b, (n, promised, is_right) in enumerate(bins):
        print(f"| {b / 10:.1f} to {(b + 1) / 10:.1f} | {n:.0f} | {promised:.1f} | {is_right:.0f} |")
    print("\n| outbreaks | right | promised |\n|---|---|---|")
    for key, (n, right, promised, squared) in totals.items():
        print(f"| {key} | {right:.0f} of {n:.0f} | {promised:.1f} ± {squared**0.5:.1f} |")
    print("\n| interval of 95 % | holds the truth |\n|---|---|")
    for key, (n, inside) in [*held.items(), ("infection date", dates)]:
        print(f"| {key} | {inside:.0f} of {n:.0f} ({inside / n:.2f}) |")


def within(number: int) -> None:
    """Print what several samples of a host, and variants within samples, add.

    Outbreaks of 20 hosts with parameters from the priors, times given; each host has one more
    sample on average, and three of its sites become variable. All of the truth is nearest sampled
    ancestors (or none); ± is the error that follows from how much outbreaks differ.
    """
    totals: dict[str, np.ndarray] = {}
    for seed in range(number):
        rng = np.random.default_rng(20_000 + seed)
        more = {"repeats": 1.0, "variants": 3.0}
        z = rng.normal(size=2)
        more |= {"drift": 1 / (1 + 9 * np.exp(-1.5 * z[0]))}
        more |= {"mixed": 1 / (1 + 19 * np.exp(-1.5 * z[1]))}
        true, made = from_priors(20_000 + seed, 20, **more)
        options = {name: true[name] for name in GIVEN}
        first = {name: i for i, name in reversed(list(enumerate(made.table["host"])))}
        once = {
            name: [cells[i] for i in sorted(first.values())] for name, cells in made.table.items()
        }
        variants = made.variants
        runs = {
            "first samples": (once, {}, None),
            "first samples, variants": (once, {}, variants),
            "all samples": (made.table, {"host": "host"}, None),
            "all samples, variants": (made.table, {"host": "host"}, variants),
        }
        for name, (table, host, listed) in runs.items():
            ignored = {} if host else {"kinds": {"host": "ignore"}}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                names = set(table["sample"])
                model = Ancestry(id="sample", **options, **host, **ignored).fit(
                    table,
                    sequences={k: v for k, v in made.sequences.items() if k in names},
                    variants=listed,
                )
            trees, ids = model.fitted.trees, model.records.ids
            T = len(ids)
            support = np.zeros((T, T + 1))
            support[model.fitted.edges.child, model.fitted.edges.parent] = trees.edge_marginals
            support[:, T] = trees.root_marginals
            _, ancestor = _truth(list(ids), {c: p for c, p in made.infectors.items() if p})
            truth = np.where(ancestor >= 0, ancestor, T)
            right, promised = (support.argmax(axis=1) == truth).sum(), support.max(axis=1).sum()
            score = np.log(np.maximum(support[np.arange(T), truth], 1e-3)).sum()
            cells = np.array([T, right, promised, score, (promised - right) ** 2])
            totals[name] = totals.get(name, 0) + cells
        if seed % 10 == 9 or seed == number - 1:
            print(f"after {seed + 1} outbreaks\n| run | right | promised | log-score |", flush=True)
            for name, (n, right, promised, score, squared) in totals.items():
                error = squared**0.5
                print(
                    f"| {name} | {right:.0f} of {n:.0f} | {promised:.1f} ± {error:.1f} | "
                    f"{score / n:.3f} |",
                    flush=True,
                )


def large(n: int) -> None:
    """Print right, promised and introductions of n samples with an introduction every 400 / n days.

    One person infects 0.95 others, and half of all are sampled.
    """
    origin = {"reproduction": 0.95, "introductions": n / 400, "origin": 60.0}
    outbreak = simulated(0, n, n_sites=2000, substitution_rate=1e-4, **origin)
    begin = time.process_time()
    found, support = fitted(outbreak, GIVEN)
    seconds = time.process_time() - begin
    truth = np.where(outbreak.ancestor >= 0, outbreak.ancestor, n)
    edges = found.fitted.edges
    listed = np.zeros((n, n + 1), dtype=bool)
    listed[edges.child, edges.parent] = True
    among = listed[np.arange(n), truth][truth < n].mean()
    print(
        f"{(support.argmax(axis=1) == truth).sum()} of {n} right, {support.max(axis=1).sum():.1f} "
        f"promised; {support[:, n].sum():.1f} of {(truth == n).sum()} without a sampled ancestor; "
        f"{among:.1%} of ancestors among the candidates; {seconds:.1f} s"
    )


def main(arguments: list[str]) -> None:
    """Print the table."""
    if arguments[0] in ("back", "inherited"):
        back(int(arguments[1]), arguments[0] == "inherited")
        return
    if arguments[0] == "within":
        within(int(arguments[1]))
        return
    if arguments[0] == "large":
        large(int(arguments[1]))
        return
    if arguments[0] == "shared":
        compare_shared(int(arguments[1]))
        return
    print("| outbreak | run | right | share | promised | log-score | all right | promised | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    totals: dict[tuple[str, bool], np.ndarray] = {}
    runs = arguments[2:] if arguments[0] == "simulated" else arguments[1:]
    for name, outbreak in sets(arguments):
        for run in runs or RUNS:
            found = scores(outbreak, RUNS[run])
            key = run, name.endswith("*")
            totals[key] = totals.get(key, 0) + found
            if arguments[0] != "simulated":
                line(name, run, found)
    for (run, is_masked), total in totals.items():
        line("together" + ", masked" * is_masked, run, total)


if __name__ == "__main__":
    main(sys.argv[1:] or ["decide"])
