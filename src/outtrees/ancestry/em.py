"""EM for the lineage of a table: exact edge probabilities, then each column's weighted refit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.posterior import Roots, weighed_trees
from outtrees.candidates import best_parents, in_order, table_candidates
from outtrees.candidates.choices import IndependentChoices
from outtrees.candidates.edges import Constraints, PossibleEdges
from outtrees.inference.checkpoint import Checkpoint, digest
from outtrees.models.columns import Lineage, LineagePairs, Waiting
from outtrees.trees.candidates import CandidateTrees
from outtrees.trees.sparse.plans import Plan

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Progress = Callable[[int, float], None]

_ROOT_PRIOR = (1.0, 9.0)  # pseudo-records that are roots, and that are not
_FIRST_RATE = _ROOT_PRIOR[0] / sum(_ROOT_PRIOR)
# The pilot: so many records, each with so many candidates, chosen so often, and climbed so far.
_PILOT_RECORDS, _PILOT_CANDIDATES, _PILOT_ROUNDS = 1000, 100, 2
_PILOT_ITERATIONS, _PILOT_TOL = 20, 1e-3
_ROUGH_TOL = 1e-4  # of the first fit on candidates, which are then chosen anew


class Stage(NamedTuple):
    """One climb, for a checkpoint: what the last M-step gave, and the objectives before it."""

    parameters: Lineage
    root_rate: float
    objectives: tuple[float, ...]
    converged: bool
    finished: bool


class LineageFit(NamedTuple):
    """A lineage fitted to a table, and the distribution over trees that follows."""

    lineage: Lineage
    root_rate: float  # the share of records without a parent; only roots="any" uses it
    edges: PossibleEdges  # in a possible order of dates
    pairs: LineagePairs
    trees: CandidateTrees
    objectives: list[float]  # log-likelihood + log-prior after each iteration
    converged: bool
    n_iter: int  # M-steps, also those of candidates that were chosen anew since


def fit_lineage(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    edges: PossibleEdges,
    *,
    roots: Roots = "single",
    max_iter: int = 100,
    tol: float = 1e-6,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> LineageFit:
    """Return the lineage that maximises the exact likelihood of the table, times its prior.

        log p(table) = log Σ_trees Π_edges p(x_u | x_v) Π_roots p(x_r)

    EM: the trees' exact edge probabilities, then each column's weighted refit, until an iteration
    gains less than tol for each record. With roots="any" each record is a root with a learned
    probability, or takes one of its possible parents, all equally likely beforehand.

    Dates that leave a mean waiting time to be learned have several maxima (records may follow
    their parent, or their sibling, closely); the fit then starts from a long and a short mean and
    keeps the better end.
    """
    starts = _starts(lineage.start(values))
    possible = in_order(starts[0], values, edges.child, edges.parent)
    edges = edges._replace(child=edges.child[possible], parent=edges.parent[possible])
    pairs = starts[0].pairs(values, values, edges.child, edges.parent)
    climb = _Climb(values, roots, max_iter, tol, checkpoint or Checkpoint())
    fits = [
        climb.of_trees(number, start, pairs, edges, progress if number == 0 else None)
        for number, start in enumerate(starts)
    ]
    return max(fits, key=lambda fit: fit.objectives[-1])


def fit_candidates(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    given: Constraints,
    n_candidates: int,
    *,
    roots: Roots = "single",
    max_iter: int = 100,
    tol: float = 1e-6,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> LineageFit:
    """Return the lineage fitted to each record's best candidates.

    A pilot fits the lineage to a thousand records with a hundred candidates each, taken to choose
    their parents independently. By its lineage candidates are chosen for all records; EM on
    these, as in `fit_lineage`; and once more, with candidates by the lineage so fitted. Where
    n_candidates covers all possible parents this is what `fit_lineage` climbs, from a better
    start. O(records · (pairs in the windows of dates + candidates · iterations)) time,
    O(records · candidates) memory.
    """
    say = say or (lambda text: None)
    climb = _Climb(values, roots, max_iter, tol, checkpoint or Checkpoint())
    number = 0
    ends = []
    say("first parameters from a sample of the records")
    for start in _starts(lineage.start(values)):
        end = start
        for _ in range(_PILOT_ROUNDS):
            stage = climb.of_pilot(number, end, given)
            end = stage.parameters
            number += 1
        ends.append(stage)
    best = max(ends, key=lambda stage: stage.objectives[-1])
    fitted, rate = best.parameters, best.root_rate
    n_iter = 0
    for tolerance in (max(tol, _ROUGH_TOL), tol):
        say(f"candidate parents of {len(given.groups):,} records")
        edges = table_candidates(fitted, values, given, n_candidates, roots)
        pairs = fitted.pairs(values, values, edges.child, edges.parent)
        say(f"weighing all trees of {len(edges.child):,} possible edges")
        fit = climb.of_trees(number, fitted, pairs, edges, progress, tolerance, rate)
        fitted, rate = fit.lineage, fit.root_rate
        n_iter += fit.n_iter
        number += 1
    return fit._replace(n_iter=n_iter)


def _starts(started: Lineage) -> list[Lineage]:
    """Return the lineage, and where a mean waiting time is to be learned one with a short mean."""
    starts = [started]
    for c, kernel in enumerate(started.kernels):
        if isinstance(kernel, Waiting) and kernel.mean is None and kernel.table is None:
            short = replace(kernel, log_mean=kernel.log_mean - float(np.log(4)))
            starts.append(
                replace(started, kernels=(*started.kernels[:c], short, *started.kernels[c + 1 :]))
            )
    return starts


class _Climb:
    """EM from one start to its end, in numbered stages that can be interrupted."""

    def __init__(
        self,
        values: Sequence[Array],
        roots: Roots,
        max_iter: int,
        tol: float,
        checkpoint: Checkpoint,
    ) -> None:
        self.values = values
        self.roots = roots
        self.max_iter = max_iter
        self.tol = tol
        self.checkpoint = checkpoint

    def of_trees(
        self,
        number: int,
        start: Lineage,
        pairs: LineagePairs,
        edges: PossibleEdges,
        progress: Progress | None,
        tol: float | None = None,
        rate: float = _FIRST_RATE,
    ) -> LineageFit:
        """Return the fit to the trees of all these edges."""

        plan: Plan | None = None

        def weigh(lineage: Lineage, rate: float) -> CandidateTrees:
            nonlocal plan  # the list stays, and with it nearly always the plan
            trees = weighed_trees(lineage, self.values, edges, pairs, self.roots, rate, plan)
            plan = trees.plan
            return trees

        T = len(edges.groups)
        tol = self.tol if tol is None else tol
        stage, trees = self._up(
            number,
            Stage(start, rate, (), False, False),
            pairs,
            weigh,
            T,
            self.max_iter,
            tol,
            progress,
        )
        return LineageFit(
            stage.parameters,
            stage.root_rate,
            edges,
            pairs,
            trees,
            list(stage.objectives),
            stage.converged,
            len(stage.objectives) - 1,
        )

    def of_pilot(self, number: int, start: Lineage, given: Constraints) -> Stage:
        """Return the fit to a sample of records that choose their parents independently."""
        T = len(given.groups)
        sampled = np.sort(np.random.default_rng(0).permutation(given.open)[:_PILOT_RECORDS])
        listed = best_parents(start, self.values, given, _PILOT_CANDIDATES, sampled)
        pairs = start.pairs(self.values, self.values, listed.child, listed.parent)
        choices = np.ones(T)
        choices[sampled] = np.maximum(listed.possible, 1)
        is_root = np.zeros(T, dtype=bool)
        is_root[sampled] = given.root_allowed[sampled]

        def weigh(lineage: Lineage, rate: float) -> IndependentChoices:
            log_weight, log_root = lineage.log_beta(pairs), np.full(T, -np.inf)
            if self.roots == "any":
                log_weight = log_weight + np.log1p(-rate) - np.log(choices)[pairs.child]
                log_root[is_root] = lineage.log_root(self.values)[is_root] + np.log(rate)
            return IndependentChoices(pairs.child, log_weight, log_root)

        stage, _ = self._up(
            number,
            Stage(start, _FIRST_RATE, (), False, False),
            pairs,
            weigh,
            len(sampled),
            _PILOT_ITERATIONS,
            _PILOT_TOL,
            None,
        )
        return stage

    def _up(
        self,
        number: int,
        start: Stage,
        pairs: LineagePairs,
        weigh: Callable[[Lineage, float], Any],
        n_records: int,
        max_iter: int,
        tol: float,
        progress: Progress | None,
    ) -> tuple[Stage, Any]:
        """Return the end of the climb and its trees; one that was kept goes on where it stood."""
        a, b = _ROOT_PRIOR
        reached = self.checkpoint.reached(number) or start
        while True:
            lineage, rate = reached.parameters, reached.root_rate
            trees = weigh(lineage, rate)
            if reached.finished:
                return reached, trees
            objective = trees.log_z + lineage.log_prior() + _log_root_prior(rate, self.roots)
            objectives = (*reached.objectives, objective)
            if progress is not None:
                progress(len(objectives), objective)
            converged = len(objectives) > 1 and objective - objectives[-2] < tol * n_records
            finished = converged or len(objectives) > max_iter
            if not finished:
                lineage = lineage.refit(pairs, trees.edge_marginals, trees.root_marginals)
                if self.roots == "any":
                    rate = (float(trees.root_marginals.sum()) + a) / (n_records + a + b)
            reached = Stage(lineage, rate, objectives, converged, finished)
            self.checkpoint.record(number, reached)
            if finished:
                return reached, trees


def _log_root_prior(rate: float, roots: Roots) -> float:
    a, b = _ROOT_PRIOR
    return a * float(np.log(rate)) + b * float(np.log1p(-rate)) if roots == "any" else 0.0


# Checkpoints --------------------------------------------------------------------------------


def lineage_checkpoint(
    path: str | os.PathLike[str], settings: dict[str, Any], lineage: Lineage
) -> Checkpoint:
    """Return the checkpoint of a lineage's fit in a file.

    Matrices of distances or weights do not change, and would be most of the file: they are left
    out, and put back from `lineage`.

    Parameters
    ----------
    settings : dict
        Everything that the fit depends on, besides the lineage.
    """

    def with_matrices(stage: Stage, matrices: Sequence[Any]) -> Stage:
        kernels = tuple(
            replace(kernel, matrix=matrix) if hasattr(kernel, "matrix") else kernel  # type: ignore[type-var]  # kernels are dataclasses
            for kernel, matrix in zip(stage.parameters.kernels, matrices, strict=True)
        )
        return stage._replace(parameters=replace(stage.parameters, kernels=kernels))

    given = [getattr(kernel, "matrix", None) for kernel in lineage.kernels]
    return Checkpoint.in_file(
        path,
        digest({**settings, "lineage": lineage}),
        lambda fields: with_matrices(Stage(*fields), given),
        pack=lambda stage: tuple(with_matrices(stage, [None] * len(given))),
    )
