"""Variational Bayes over trees and parameters: a lower bound of the evidence that never falls."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.models.conjugate import GaussianPosterior, Posterior
from outtrees.trees import OutTreeDistribution

_MEMORY = 6  # steps that the accelerated proposal looks back on


@dataclass(frozen=True)
class VariationalFit:
    """What a fit by variational Bayes returns."""

    posterior: Posterior  # q(θ)
    lower_bounds: Array  # (n_iter + 1,), at the start and after each step; they never fall
    n_iter: int
    n_evaluations: int  # how often log Z was computed, rejected proposals and all starts included
    converged: bool

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
        self.trees = variational_trees(posterior, X)
        self.bound = lower_bound(posterior, X, self.trees)


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
    records = np.asarray(X, dtype=np.float64)
    here = _Point(posterior, records)
    n_evaluations = 1
    bounds = [here.bound]
    history: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY)
    small = 0
    for _ in range(max_iter):
        plain = here.posterior.update(records, here.trees.edge_marginals)
        there = None
        if accelerate:
            history.append((here.posterior.statistics, plain.statistics))
            proposal = _mixed(plain, history)
            if proposal is not None:
                n_evaluations += 1
                there = _Point(proposal, records)
                if not there.bound >= here.bound:
                    there = None
                    while len(history) > 1:  # what was seen on the way here misled: forget it
                        history.popleft()
        if there is None:
            n_evaluations += 1
            there = _Point(plain, records)
        if there.bound < here.bound:
            _refuse_a_real_fall(here, there)
            bounds.append(here.bound)  # the digits are used up
            small = 2
            break
        gain = there.bound - here.bound
        here = there
        bounds.append(here.bound)
        if verbose:
            print(
                f"iteration {len(bounds) - 1}: lower bound {here.bound:.6f}, gain {gain:.2e}, "
                f"{n_evaluations} evaluations"
            )
        small = small + 1 if gain <= tol else 0
        if small >= 2:
            break
    return VariationalFit(
        here.posterior, np.array(bounds), len(bounds) - 1, n_evaluations, small >= 2
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


def _refuse_a_real_fall(here: _Point, there: _Point) -> None:
    fall = here.bound - there.bound
    if fall > 1e-7 * max(1.0, abs(here.bound)):
        raise ArithmeticError(
            f"{type(here.posterior).__name__}.update lowered the bound from {here.bound} to "
            f"{there.bound}; a step of variational Bayes cannot, so its statistics or its "
            "divergence are wrong"
        )


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
    fits = [
        fit_variational(start, records, **fit_options)
        for start in starts(posterior, records, n_init, random_state)
    ]
    best = max(fits, key=lambda fit: fit.lower_bound)
    if isinstance(posterior, GaussianPosterior) and posterior.start_correlation is None:
        turned = best.posterior.turned()  # type: ignore[attr-defined]
        if turned is not None:
            fits.append(fit_variational(turned, records, **fit_options))
    best = max(fits, key=lambda fit: fit.lower_bound)
    return replace(best, n_evaluations=sum(fit.n_evaluations for fit in fits))


def starts(posterior: Posterior, X: Array, n_init: int, random_state: Any) -> list[Posterior]:
    """Return the posteriors that a fit begins from, each different."""
    templates = [posterior]
    open_start = getattr(posterior, "start_correlation", 0.0) is None
    if isinstance(posterior, GaussianPosterior) and posterior.transition == "full" and open_start:
        templates.append(replace(posterior, start_correlation=0.0))
    rng = as_generator(random_state)
    found: list[Posterior] = []
    for template in templates:
        for _ in range(n_init):
            start = template.start(X, int(rng.integers(2**31)))
            if not any(np.array_equal(start.statistics, other.statistics) for other in found):
                found.append(start)
    return found
