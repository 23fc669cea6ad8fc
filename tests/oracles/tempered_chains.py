"""Slow twin of integrated parameters: parallel tempering, in the parameters' own coordinates.

Plain Metropolis chains (random walks, single parameters drawn anew from their priors) on
p(θ) p(cells | dates, θ)^β, the hottest of them draws from the prior, with exchanges between
neighbours (Geyer 1991). Nothing here knows modes, slopes, Laplace approximations or weights.
"""

from dataclasses import replace

import numpy as np

from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.inference.importance import WeightedDraws


class Rung:
    """One of the chains."""

    def __init__(self, beta, twin, rng):
        self.beta, self.twin, self.rng = beta, twin, rng
        self.state = twin.from_prior(rng)
        self.log = twin.log_likelihood(self.state)
        self.scale, self.factor, self.history = 0.5, np.eye(len(self.state)), []

    def move(self):
        """Draw one parameter anew from its prior, then walk; return whether it walked."""
        rng, P = self.rng, len(self.state)
        if self.beta == 0:
            self.state = self.twin.from_prior(rng)
            self.log = self.twin.log_likelihood(self.state)
            return True
        anew, i = self.state.copy(), rng.integers(P)
        anew[i] = self.twin.priors[i].draw(rng)
        self._accept(anew, 0.0)
        step = self.factor @ rng.normal(size=P) * self.scale * rng.choice([0.3, 1.0, 2.0])
        now = self.twin.log_prior(self.state)
        return self._accept(self.state + step, self.twin.log_prior(self.state + step) - now)

    def _accept(self, state, more):
        log = self.twin.log_likelihood(state)
        if not np.log(self.rng.random()) < self.beta * (log - self.log) + more:
            return False
        self.state, self.log = state, log
        return True

    def learn(self, sweep, walked, last):
        """Adapt the walk, in the burn-in alone."""
        self.scale *= np.exp((walked - 0.25) / np.sqrt(sweep + 1))
        self.history.append(self.state)
        if sweep in (last // 3, 2 * last // 3, last - 1):
            covariance = np.cov(np.array(self.history[sweep // 3 :]).T).reshape(self.factor.shape)
            self.factor = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(self.state)))


class Twin:
    """Prior and likelihood of a table's parameters."""

    def __init__(self, problem, start):
        self.problem, self.start = problem, start
        self.centre = problem.first_log_root(start)
        self.priors = problem.priors(start, self.centre)

    def from_prior(self, rng):
        return np.array([prior.draw(rng) for prior in self.priors])

    def log_prior(self, theta):
        return sum(prior.log_density(x) for prior, x in zip(self.priors, theta, strict=True))

    def log_likelihood(self, theta):
        try:
            with np.errstate(all="ignore"):
                found = self.problem.at_params(self.start, theta, self.centre, with_slopes=False)
        except (InvalidWeightsError, NoSpanningTreeError, np.linalg.LinAlgError):
            return -np.inf
        return found[0].gain if np.isfinite(found[0].gain) else -np.inf


def tempered_chain(problem, start, n_sweeps, rng, n_rungs=12, kept_each=4):
    """Return draws (n, P) of the coldest chain."""
    twin = Twin(problem, start)
    rungs = [Rung(beta, twin, rng) for beta in np.linspace(0, 1, n_rungs) ** 3]
    kept, burn_in = [], n_sweeps // 4
    for sweep in range(n_sweeps):
        for rung in rungs:
            walked = rung.move()
            if sweep < burn_in:
                rung.learn(sweep, walked, burn_in)
        for j in range(sweep % 2, n_rungs - 1, 2):
            one, other = rungs[j], rungs[j + 1]
            if np.log(rng.random()) < (other.beta - one.beta) * (one.log - other.log):
                one.state, other.state = other.state, one.state
                one.log, other.log = other.log, one.log
        if sweep >= burn_in and sweep % kept_each == 0:
            kept.append(rungs[-1].state)
    return np.array(kept)


def with_equal_draws(reading, start, params):
    """Return the reading whose draws are these parameters, all alike."""
    n = len(params)
    draws = WeightedDraws(params, np.full(n, 1 / n), 0.0, 0.0, float(n), 0.0)
    return replace(reading, draws=draws, drawn=start)
