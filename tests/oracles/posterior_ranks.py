"""Simulation-based calibration of integrated parameters.

Parameters are drawn from the very priors that the fit uses (none is scaled by the simulated
cells), a tree from the distribution that the dates imply, and cells along it. If the posterior is
right, the rank of a true parameter among its weighted draws is uniform, and supports come true as
often as they say (Talts and others, 2018).

That holds where a table has no dates, or only sequences beside them. Other columns of dated tables
are compared with a prediction from earlier cells, which is not part of what is simulated here;
`oracles.promises` has whole fits of those.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import kstest

from outtrees.ancestry.integration import with_draws
from outtrees.ancestry.learning import _ROOT_SPREAD, Problem, Reading
from outtrees.ancestry.posterior import Posterior
from outtrees.candidates import in_order, possible_edges
from outtrees.models.columns import Drift, Lineage, Reversion, Sticky, Substitution, Waiting
from outtrees.models.priors import Normal

SITES = 40


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


CASES = {
    "no dates": (("ward", "place", "number", "sequence"), "single"),
    "ward+number+sequence": (("ward", "number", "sequence"), "single"),
    # One column each, without dates.
    **{name: ((name,), "single") for name in ("ward", "place", "number", "sequence")},
    "dates, one root": (("date", "sequence"), "single"),
    "dates, any roots": (("date", "sequence"), "any"),
}


def simulate(case, seed):
    """Return the table of one seed."""
    columns, roots = CASES[case]
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

    problem = Problem(base, values, edges, roots)
    best = problem.climb(problem.started(base)[0], centre)
    fit = Reading(1.0, best.lineage, best.log_root, best.gain, (), True, 0)
    fit = with_draws(problem, fit, best.lineage, seed)
    true = np.append(own, log_root) if roots == "any" else own
    ranks = fit.draws.weights @ (fit.draws.params < true)
    posterior = Posterior(range(T), columns, tuple(values), (fit,), edges, roots)
    supports = np.zeros((T, T + 1))
    supports[edges.child, edges.parent] = posterior.trees.edge_marginals
    supports[:, T] = posterior.trees.root_marginals
    names = _names(base, columns) + ("introduction",) * (roots == "any")
    where = np.where(parents < 0, T, parents)
    return Table(names, ranks, supports, where, fit.draws.pareto_k, fit.draws.effective_draws)


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
                "ward": (np.arange(200.0)[:, None] % 4, Sticky(tuple("abcd"))),
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
    started = lineage.start(values)
    return replace(started, kernels=tuple(kernels)), values


def _prior_draw(lineage, rng):
    return np.array([prior.draw(rng) for prior in lineage.priors()])


def _cells(lineage, values, parents, rng):
    """Return cells along the tree; an outlying cell is drawn as if it had no parent."""
    order = np.flatnonzero(parents < 0).tolist()
    for u in order:
        order += np.flatnonzero(parents == u).tolist()
    result = [cells.copy() for cells in values]
    for c, kernel in enumerate(lineage.kernels):
        if c == lineage.dates:
            continue
        for u in order:
            alone = parents[u] < 0 or rng.random() < lineage.outlier_shares[c]
            if alone:
                result[c][u] = kernel.sample_alone(1, rng)[0]
            else:
                result[c][u] = kernel.sample(result[c][parents[u]][None], 1, rng)[0]
    return result


def _names(lineage, columns):
    names = []
    for c in lineage.used:
        names += [f"{columns[c]} {i + 1}" for i in range(len(lineage.kernels[c].params))]
    return (*names, *(f"outliers of {columns[c]}" for c in lineage._shared))


def rank_tests(tables):
    """Return, for each parameter, the p-value of Kolmogorov and Smirnov, and coverage of 90 %."""
    ranks = np.array([table.ranks for table in tables])
    result = {}
    for name, own in zip(tables[0].names, ranks.T, strict=True):
        covered = float((abs(own - 0.5) <= 0.45).mean())
        result[name] = float(kstest(own, "uniform").pvalue), covered
    return result
