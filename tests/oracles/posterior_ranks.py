"""Simulation-based calibration of integrated parameters.

Parameters are drawn from the very priors that the fit uses (none is scaled by the simulated
cells), a tree from the distribution that the dates imply, and cells along it. If the posterior is
right, the rank of a true parameter among its weighted draws is uniform, and supports come true as
often as they say (Talts and others, 2018).

In tables with dates, wards and places of records that do not follow their parents are predicted
from those of earlier records; this prediction is given here, where a fit estimates it beforehand.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom, kstest

from oracles.edges import possible_edges
from outtrees.ancestry.integration import with_draws
from outtrees.ancestry.learning import _ROOT_SPREAD, Problem, Reading
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.support import labels_table
from outtrees.candidates import in_order
from outtrees.models.columns import Drift, Lineage, Reversion, Sticky, Substitution, Waiting
from outtrees.models.columns.background import Alone
from outtrees.models.columns.sticky import _ANY_VALUE
from outtrees.models.priors import Normal

SITES = 40
WARDS = 4
HOUSES = 60  # so many that new ones are left


class NormalDrift(Drift):
    """Without the choice of a long tail, which no prior weighs."""

    def variants(self):
        return [self]


class NormalReversion(Reversion):
    """Likewise."""

    def variants(self):
        return [self]


@dataclass(frozen=True)
class Table:
    """One simulated table: ranks of its parameters, supports (T, T + 1), true parents."""

    names: tuple
    ranks: np.ndarray
    supports: np.ndarray  # "no parent" last
    parents: np.ndarray
    pareto_k: float
    effective: float
    trusted: bool  # whether the library warns of nothing


CASES = {
    "no dates": (("ward", "place", "number", "sequence"), "single"),
    "ward+number+sequence": (("ward", "number", "sequence"), "single"),
    # One column each, without dates.
    **{name: ((name,), "single") for name in ("ward", "place", "number", "sequence")},
    "no dates, any roots": (("ward", "place", "sequence"), "any"),
    "dates, one root": (("date", "sequence"), "single"),
    "dates, any roots": (("date", "sequence"), "any"),
    "dates, house and place, one root": (("date", "house", "place"), "single"),
    "dates, house, place, sequence, any roots": (("date", "house", "place", "sequence"), "any"),
}


# Tables in which some cells of a column are hidden, to be told by the others.
LABELS = {
    "no dates, hidden wards": (("ward", "number", "sequence"), "single"),
    "no dates, any roots, hidden wards": (("ward", "place", "sequence"), "any"),
    "dates, hidden houses": (("house", "date", "sequence"), "single"),
}
HIDDEN = 0.4


def fitted_table(case, seed, of_draws=None):
    """Return a simulated table's problem, its reading with draws, true parameters and parents.

    The seed of the draws is that of the table, unless it is given.
    """
    return _fitted(case, seed, of_draws)[:4]


def _fitted(case, seed, of_draws=None):
    """Return the same, and the cells before some of the first column were hidden."""
    columns, roots = (CASES | LABELS)[case]
    rng = np.random.default_rng([seed, len(case)])
    T = int(rng.integers(15, 41))
    base, values = _base(columns, T, rng)
    edges = possible_edges(T)
    kept = in_order(base, values, edges.child, edges.parent)
    edges = edges.only(kept)
    problem = Problem(base, values, edges, roots)
    centre = problem.first_log_root(base)
    log_root = Normal(centre, _ROOT_SPREAD).draw(rng) if roots == "any" else 0.0
    own = _prior_draw(base, rng)
    truth = base.with_params(own)
    waits = truth.log_waits(problem.pairs, truth.compared(values))
    parents = problem.trees(waits, np.full(T, log_root), 1).sample(1, rng)[0]
    values = _cells(truth, values, parents, rng)
    whole = values[0].copy()
    if case in LABELS:
        values[0][rng.random(T) < HIDDEN] = np.nan

    problem = Problem(base, values, edges, roots)
    best = problem.climb(problem.started(base)[0], centre)
    fit = Reading(1.0, best.lineage, best.log_root, best.gain, (), True, 0)
    fit, _ = with_draws(problem, fit, best.lineage, seed if of_draws is None else of_draws)
    true = np.append(own, log_root) if roots == "any" else own
    return problem, fit, true, parents, whole


def posterior_of(problem, reading, records=None):
    """Return the posterior of a table with one reading."""
    names = tuple(map(str, range(len(problem.values))))
    values, edges = tuple(problem.values), problem.edges
    records = range(problem.T) if records is None else records
    return Posterior(records, names, values, (reading,), edges, problem.roots)


def simulate_labels(case, seed, n_trees=200):
    """Return the supports of all labels of hidden cells (n, C), and which label each is (n,)."""
    problem, fit, *_, whole = _fitted(case, seed)
    hidden = np.isnan(problem.values[0][:, 0])
    levels = fit.lineage.kernels[0].levels
    records = Labelled(tuple(range(problem.T)), levels, hidden)
    posterior = posterior_of(problem, fit, records)
    table = labels_table(posterior, n_trees, np.random.default_rng(seed))
    place = {u: i for i, u in enumerate(np.flatnonzero(hidden))}
    supports = np.zeros((len(place), len(levels)))
    for u, label, support in zip(table["record"], table["label"], table["support"], strict=True):
        supports[place[u], levels.index(label)] = support
    return supports, whole[hidden, 0].astype(int)


@dataclass(frozen=True)
class Labelled:
    """Records whose first column holds labels, as much of them as `labels_table` asks for."""

    ids: tuple
    levels: tuple
    missing: np.ndarray
    kind = "label"
    name = "0"

    @property
    def columns(self):
        return [self]

    def __len__(self):
        return len(self.ids)


def simulate(case, seed):
    """Return the table of one seed."""
    columns, roots = CASES[case]
    problem, fit, true, parents = fitted_table(case, seed)
    draws, T, edges = fit.draws, problem.T, problem.edges
    ranks = draws.weights @ (draws.params < true)
    trees = posterior_of(problem, fit).trees
    supports = np.zeros((T, T + 1))
    supports[edges.child, edges.parent] = trees.edge_marginals
    supports[:, T] = trees.root_marginals
    names = _names(fit.lineage, columns) + ("introduction",) * (roots == "any")
    where = np.where(parents < 0, T, parents)
    quality = draws.pareto_k, draws.effective_draws, draws.trusted
    return Table(names, ranks, supports, where, *quality)


def _base(columns, T, rng):
    """Return the lineage with its priors, scaled by reference cells, and cells to be replaced."""
    reference = np.random.default_rng(0)
    kernels, values = [], []
    for name in columns:
        if name == "date":
            day = np.sort(rng.uniform(0, 30, size=T))
            cells = np.column_stack([day, day, 0 * day, 0 * day])
            kernel = Waiting(mean=5.0, sd=3.0, unit=0.0).start(cells)
        else:
            cells, kernel = {
                "ward": (np.arange(200.0)[:, None] % WARDS, Sticky(tuple("abcd"))),
                "house": (
                    np.arange(200.0)[:, None] % HOUSES,
                    Sticky(tuple(map(str, range(HOUSES)))),
                ),
                "place": (5 * reference.normal(size=(200, 2)), NormalDrift(offset=False)),
                "number": (5 * reference.normal(size=(200, 1)), NormalReversion()),
                "sequence": (np.zeros((200, SITES)), Substitution()),
            }[name]
            kernel = kernel.start(cells)
            if name == "sequence":
                kernel = replace(kernel, rate=0.05, divergence=0.2, divergence_guess=0.2)
            cells = cells[:T].copy()
        kernels.append(kernel)
        values.append(cells)
    lineage = Lineage(tuple(kernels))
    started = replace(lineage.start(values), kernels=tuple(kernels))
    # What earlier records say of a cell: near a tenth of the spread, new ones ever less often.
    alone = [
        Alone(replace(kernel, stickiness=1 - 1e-9) if name == "house" else kernel, 0.1, 3.0)
        if name in ("house", "place")
        else None
        for name, kernel in zip(columns, kernels, strict=True)
    ]
    return (replace(started, backgrounds=tuple(alone)) if started.contrasted else started), values


def _prior_draw(lineage, rng):
    return np.array([prior.draw(rng) for prior in lineage.priors()])


def _cells(lineage, values, parents, rng):
    """Return cells along the tree; an outlying cell is drawn as if it had no parent."""
    if lineage.dates is None:
        order = np.flatnonzero(parents < 0).tolist()
        for u in order:
            order += np.flatnonzero(parents == u).tolist()
    else:
        order = np.argsort(values[lineage.dates][:, 0])  # parents come first
    result = [cells.copy() for cells in values]
    for c, kernel in enumerate(lineage.kernels):
        if c == lineage.dates:
            continue
        for i, u in enumerate(order):
            alone = parents[u] < 0 or rng.random() < lineage.outlier_shares[c]
            parent = None if alone else result[c][parents[u]][None]
            if c in lineage.contrasted:
                result[c][u] = _contrasted(lineage, c, parent, result[c][order[:i]], rng)
            elif alone:
                result[c][u] = kernel.sample_alone(1, rng)[0]
            else:
                result[c][u] = kernel.sample(parent, 1, rng)[0]
    return result


def _contrasted(lineage, c, parent, before, rng):
    """Return a cell that follows its parent, or else earlier ones, or none."""
    kernel, alone = lineage.kernels[c], lineage.backgrounds[c]
    if isinstance(kernel, Sticky):
        if parent is not None and rng.random() < kernel.stickiness:
            return parent[0]
    elif parent is not None:
        return kernel.sample(parent, 1, rng)[0]
    anywhere = rng.random() < lineage.anywhere[c] or rng.random() < alone.new(len(before))
    if not anywhere:
        return alone.kernel.sample(before[rng.integers(len(before))][None], 1, rng)[0]
    if isinstance(kernel, Sticky) and rng.random() > _ANY_VALUE:  # a house that nobody had
        return rng.choice(np.setdiff1d(np.arange(float(HOUSES)), before), size=1)
    if isinstance(kernel, Sticky):
        return rng.integers(HOUSES, size=1)
    return kernel.sample_alone(1, rng)[0]


def _names(lineage, columns):
    names = []
    for c in lineage.used:
        names += [f"{columns[c]} {i + 1}" for i in range(len(lineage.kernels[c].params))]
    names += [f"outliers of {columns[c]}" for c in lineage._shared]
    return (*names, *(f"anywhere, {columns[c]}" for c in lineage._mixed))


def rank_tests(tables):
    """Return, for each parameter, the p-value of Kolmogorov and Smirnov, and coverage of 90 %."""
    ranks = np.array([table.ranks for table in tables])
    result = {}
    for name, own in zip(tables[0].names, ranks.T, strict=True):
        covered = float((abs(own - 0.5) <= 0.45).mean())
        result[name] = float(kstest(own, "uniform").pvalue), covered
    return result


def rank_band(n, n_simulated=4000, level=0.95):
    """Return bounds of the numbers of n uniform ranks up to each point of a grid, and the grid.

    All points together hold with this probability (Säilynoja and others, 2022): the pointwise
    level is that of simulated sets of ranks.
    """
    grid = np.linspace(0, 1, 41)[1:-1]
    rng = np.random.default_rng(0)
    seen = (rng.random((n_simulated, n, 1)) <= grid).sum(axis=1)
    # How far out the most unlikely point of each set is.
    tails = np.minimum(binom.cdf(seen, n, grid), binom.sf(seen - 1, n, grid)).min(axis=1)
    each = np.quantile(tails, 1 - level)
    return binom.ppf(each, n, grid), binom.isf(each, n, grid), grid
