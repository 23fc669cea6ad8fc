"""Variational Bayes over trees and parameters: a lower bound of the evidence that never falls."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.ascent import Progress, ascend, best_fit, distinct_starts
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.models.conjugate import GaussianPosterior, Posterior
from outtrees.trees import OutTreeDistribution

_MEMORY = 6  # steps that the accelerated proposal looks back on


@dataclass(frozen=True)
class VariationalFit:
    """A fitted posterior, and how the fit went."""

    posterior: Posterior  # q(θ)
    lower_bounds: Array  # (n_iter + 1,), at the start and after each step; they never fall
    n_iter: int
    n_evaluations: int  # how often log Z was computed, rejected proposals and all starts included
    converged: bool
    # q over the trees of the records for this posterior, if the fit ended with it
    tree: OutTreeDistribution | None = field(default=None, repr=False, compare=False)

    @property
    def lower_bound(self) -> float:
        """The last bound."""
        return float(self.lower_bounds[-1])


def variational_trees(
    posterior: Posterior,
    X: ArrayLike,  # (T, D)
) -> OutTreeDistribution:
    """Return q over out-trees: Π exp E_q[log p(x_u | x_v)], times the evidence of the root.

    The paper's q(r) and q_r are its root marginals and its trees given the root (section 6; the
    printed formula for β lacks the exponential). O(T² D) here.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
    >>> variational_trees(GaussianPosterior(transition="identity").start(X), X)
    OutTreeDistribution(4 records, roots='single')
    """
    return OutTreeDistribution(posterior.expected_log_conditional(X, X), posterior.log_root(X))


def lower_bound(
    posterior: Posterior,
    X: ArrayLike,  # (T, D)
    trees: OutTreeDistribution | None = None,
) -> float:
    """Return the bound of the log evidence with the best q over trees for this q(θ).

        log p(X) ≥ log Σ_r m_r Z_r(β̃) − (T − 1) log T − KL(q ‖ p),
        β̃ = exp E_q[log p(x_u | x_v)],   m_r = ∫ p(x_r | θ_m) p(θ_m) dθ_m

    The paper's bound (section 6) with q(r) and q_r(tree) at their best values, where it
    collapses. Exact; O(T³).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> start = GaussianPosterior().start(X)
    >>> step = start.update(X, variational_trees(start, X).edge_marginals)
    >>> lower_bound(step, X) > lower_bound(start, X)
    True
    """
    trees = variational_trees(posterior, X) if trees is None else trees
    return trees.log_z - log_number_of_trees(trees.n_records) - posterior.kl()


class _Point:
    """One q(θ), its trees and its bound."""

    def __init__(self, posterior: Posterior, X: Array) -> None:
        self.posterior = posterior
        self.tree = variational_trees(posterior, X)
        self.value = lower_bound(posterior, X, self.tree)


class _Bound:
    """The lower bound for fixed records; counts how often the engine was asked for log Z."""

    def __init__(self, X: ArrayLike) -> None:  # (T, D)
        self.X = np.asarray(X, dtype=np.float64)
        self.n_evaluations = 0

    def at(self, posterior: Posterior) -> _Point:
        self.n_evaluations += 1
        return _Point(posterior, self.X)


def fit_variational(
    posterior: Posterior,  # started
    X: ArrayLike,  # (T, D)
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    accelerate: bool = True,
    verbose: int = 0,
) -> VariationalFit:
    """Return the fit by variational Bayes from the posterior's present statistics.

    A step computes the trees' edge marginals W for the present q(θ), and then
    q(θ) ∝ p(θ) Π p(x_u | x_v, θ)^W_uv; each half raises the bound. A step is a map s → F(s) of the
    vector of expected statistics, and converges linearly; with `accelerate` the next s is the
    combination Σ c_i F(s_i), Σ c_i = 1, of the last steps with the smallest Σ c_i (F(s_i) − s_i)
    (Anderson's mixing). It is taken only where it does not lower the bound, so the recorded
    sequence never falls. Each evaluation costs O(T³ + T² D).

    Parameters
    ----------
    tol : float
        The fit ends after two steps in a row that raise the bound by tol nats or less.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit = fit_variational(GaussianPosterior(transition="identity").start(X), X)
    >>> fit.converged, bool(np.diff(fit.lower_bounds).min() >= 0)
    (True, True)
    """
    objective = _Bound(X)
    start = objective.at(posterior)
    history: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY)
    progress = Progress(objective, [start.value], tol=tol, verbose=verbose, of="lower bound")

    def step(here: _Point) -> _Point:
        plain = here.posterior.update(objective.X, here.tree.edge_marginals)
        if accelerate:
            history.append((here.posterior.statistics, plain.statistics))
            proposal = _mixed(plain, history)
            if proposal is not None:
                there = objective.at(proposal)
                if there.value >= here.value:
                    return there
                while len(history) > 1:  # what was seen on the way here misled: forget it
                    history.popleft()
        return objective.at(plain)

    update = f"{type(posterior).__name__}.update"
    end = ascend(start, step, progress, max_iter, culprit=update)
    return VariationalFit(
        end.posterior,
        np.array(progress.values),
        len(progress.values) - 1,
        objective.n_evaluations,
        progress.stopped_by != "max_iter",
        end.tree,
    )


def _mixed(plain: Posterior, history: deque[tuple[Array, Array]]) -> Posterior | None:
    """Return Anderson's proposal; None without history, or where it is no posterior."""
    if len(history) < 2:
        return None
    s, F = (np.array(values).T for values in zip(*history, strict=True))
    residuals = F - s
    # Relative to the size of each statistic: units of the columns then do not matter.
    scale = np.abs(F[:, -1]) + np.abs(residuals).max(axis=1)
    scale[scale == 0] = 1.0
    scaled = residuals / scale[:, None]
    differences = np.diff(scaled, axis=1)
    gamma = np.linalg.lstsq(differences, scaled[:, -1], rcond=1e-10)[0]
    proposal = F[:, -1] - np.diff(F, axis=1) @ gamma
    if not np.isfinite(proposal).all():
        return None
    try:
        return plain.with_statistics(proposal)
    except ValueError:
        return None


def fit_posterior(
    posterior: Posterior,
    X: ArrayLike,  # (T, D)
    *,
    n_init: int = 1,
    random_state: Any = None,
    **fit_options: Any,
) -> VariationalFit:
    """Return the best fit over the starts of the posterior, by its bound.

    Starts are the family's own; for a Gaussian whose start_correlation is left open also the
    iid solution, and the better of the two with parents and children exchanged; n_init of
    them where the start is random. `n_evaluations` counts all starts.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fit_posterior(GaussianPosterior(transition="zero"), X).converged
    True
    """
    records = np.asarray(X, dtype=np.float64)
    open_start = isinstance(posterior, GaussianPosterior) and posterior.start_correlation is None
    return best_fit(
        starts(posterior, records, n_init, random_state),
        lambda start: fit_variational(start, records, **fit_options),
        lambda fit: fit.lower_bound,
        lambda best: best.posterior.turned() if open_start else None,  # type: ignore[attr-defined]  # Gaussian
    )


def starts(posterior: Posterior, X: Array, n_init: int, random_state: Any) -> list[Posterior]:
    """Return the posteriors that a fit begins from, each different."""
    templates = [posterior]
    open_start = getattr(posterior, "start_correlation", 0.0) is None
    if isinstance(posterior, GaussianPosterior) and posterior.transition == "full" and open_start:
        templates.append(replace(posterior, start_correlation=0.0))
    rng = as_generator(random_state)

    def seeds() -> list[int]:
        return [int(rng.integers(2**31)) for _ in range(n_init)]

    return distinct_starts(templates, X, seeds, lambda start: start.statistics)
