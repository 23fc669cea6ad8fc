"""Draws from a posterior of parameters: a Laplace proposal, importance weights, diagnostics.

    ∫ f(θ) p(θ | X) dθ ≈ Σ_k w_k f(θ_k),    w_k ∝ p(θ_k) p(X | θ_k) / q(θ_k)

q is a Student t about each mode, as wide as the second derivatives say, and is adapted to the
weighted draws in a few rounds; as long as few of these are effective, to weights raised to a power
below 1, so that many of them say where to go. All draws count, each weighted against the mixture
of the proposals of all rounds (adaptive multiple importance sampling, Cornuet and others 2012), so
that a poor first proposal is made good by the later ones. Functions of the parameters come in;
nothing here knows a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv, gammaln, logsumexp, ndtri

from outtrees._common.types import Array

TRUSTED = 0.7  # Pareto k up to which weights can be trusted (Vehtari and others, 2024)
_STEP = 0.05  # of differences of slopes, some of which come from sums on a grid
_SHORTER, _SHORTEST = 0.2, 1e-5  # factor of a step that falls too far, and the last step
_MOST_FALL = 1.0  # nats within a step of differences: beyond, a log-density is no parabola
_FREEDOM = 5.0  # of the proposal: its tails are longer than those of logits and logarithms
_WIDER = 1.15  # than the covariance: a proposal too wide costs draws, one too narrow the answer
_MOST_ROUNDS = 6  # beyond the two of every posterior, while weights cannot be trusted
_LEAST_SHARE = 0.1  # of the draws that must be effective
_LEAST_FOR_EACH = 4.0  # effective draws for each parameter, to which a proposal is adapted
_LEAST_OF_PART = 0.05  # share of the draws that each part of a proposal gets


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Parameters in unconstrained coordinates, with weights that turn them into the posterior's.

    Every number here is sampled. `pareto_k` below 0.7 says that the weights can be trusted; above,
    the proposal misses part of the posterior, and `log_evidence` and `effective_draws` are too good
    to be true.
    """

    params: Any  # (n, P)
    weights: Any  # (n,), Pareto-smoothed, sum 1; if they are not trusted, levelled out
    log_evidence: float  # log ∫ p(θ) p(X | θ) dθ
    standard_error: float  # of log_evidence, first order
    effective_draws: float  # 1 / Σ weights²
    pareto_k: float  # shape of the largest weights' tail; nan with fewer than 25 draws

    @property
    def trusted(self) -> bool:
        """Whether the diagnostics allow to rely on the weights."""
        enough = self.effective_draws >= _LEAST_SHARE * len(self.weights)
        return not self.pareto_k > TRUSTED and enough


def laplace_covariance(
    with_slopes: Callable[[Array], tuple[float, Array]], mode: Array, widest: float = 2.0
) -> Array:
    """Return the inverse of minus the second derivatives of a log-density at its mode (P, P).

    By differences of its slopes, over steps so short that it falls by at most a nat. A direction in
    which it is flat is as wide as `widest`.

    Examples
    --------
    >>> precision = np.array([4.0, 0.25])
    >>> def normal(at):
    ...     return float(-0.5 * precision @ at**2), -precision * at
    >>> laplace_covariance(normal, np.zeros(2)).round(3)
    array([[0.25, 0.  ],
           [0.  , 4.  ]])
    """
    P = len(mode)
    top = with_slopes(mode)[0]
    rows = []
    for direction in np.eye(P):
        step = _STEP
        while True:
            (low, below), (high, above) = (
                with_slopes(mode + sign * step * direction) for sign in (-1, 1)
            )
            if top - min(low, high) <= _MOST_FALL or step <= _SHORTEST:
                break
            step *= _SHORTER
        rows.append((below - above) / (2 * step))
    curvature = np.array(rows).reshape(P, P)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray((vectors / np.maximum(values, widest**-2)) @ vectors.T)


def widened(
    log_density: Callable[[Array], float], mode: Array, covariance: Array, widest: float = 2.0
) -> Array:
    """Return the covariance, wider in directions that fall off less than second derivatives say.

    A log-density that is steep on one side of its mode and flat on the other has large second
    derivatives there: its fall two standard deviations away shows how wide it is, up to `widest`.

    Examples
    --------
    >>> flat_left = lambda x: float(-50 * x[0] ** 2 if x[0] > 0 else -0.5 * x[0] ** 2)
    >>> widened(flat_left, np.zeros(1), np.array([[0.01]])).round(2)
    array([[1.]])
    """
    factor = np.linalg.cholesky(covariance)
    top = log_density(mode)
    for i, step in enumerate(factor.T.copy()):
        fall = max(top - max(log_density(mode + 2 * step), log_density(mode - 2 * step)), 1e-6)
        most = max(widest / float(np.linalg.norm(step)), 1.0)
        factor[:, i] *= min(max(np.sqrt(2.0 / fall), 1.0), most)
    return np.asarray(factor @ factor.T)


def integrate(
    log_density: Callable[[Array], float],
    mode: Array,  # (P,)
    covariance: Array,  # (P, P), about the mode
    n_draws: int,
    seed: int,
    others: Sequence[tuple[Array, Array]] = (),
) -> WeightedDraws:
    """Return weighted draws of an unnormalised log-density of P ≥ 1 parameters.

    n_draws in two rounds, and more rounds as long as the weights cannot be trusted. If they never
    can, they are raised to a power that leaves a few of them for each parameter. Draws are
    scrambled Sobol points: their errors are below those of independent draws. `others` are further
    modes with their covariances; each gets a round of its own, and all weigh by their evidence.

    Examples
    --------
    >>> found = integrate(lambda x: float(-0.5 * x @ x), np.zeros(2), np.eye(2), 256, 0)
    >>> abs(round(found.log_evidence - float(np.log(2 * np.pi)), 1)), found.trusted
    (0.0, True)
    """
    size = 1 << max(int(np.ceil(np.log2(max(n_draws, 2)))) - 1, 2)  # of a round
    from scipy.stats.qmc import Sobol  # slow to load

    points = Sobol(len(mode) + 2, scramble=True, rng=np.random.default_rng(seed))
    first = [_Proposal.of(at, _WIDER**2 * own) for at, own in ((mode, covariance), *others)]
    now = _Mixture(tuple(first), np.full(len(first), 1 / len(first)))
    proposals: list[_Mixture] = []
    draws: list[Array] = []
    values: list[float] = []
    while True:
        # The first round has as many draws for each mode as one for a single mode.
        for _ in range(1 if proposals else len(first)):
            proposals.append(now)
            for theta in now.draw(points.random(size)):
                value = log_density(theta)
                draws.append(theta)
                values.append(value if np.isfinite(value) else -np.inf)
        params = np.array(draws)
        log_weights = np.array(values) - _log_mixture(proposals, params)
        found = weighted_draws(params, log_weights)
        rounds = len(proposals) - len(first)
        if rounds >= 1 and found.trusted:
            return found
        if rounds == 1 + _MOST_ROUNDS:  # better too wide than one draw that takes all the weight
            least = _LEAST_FOR_EACH * params.shape[1]
            return replace(found, weights=_tempered(log_weights, least))
        now = _adapted(now, first, params, log_weights)


def weighted_draws(params: Array, log_weights: Array) -> WeightedDraws:
    """Return draws (n, P) with their raw log-weights (n,) smoothed, and how good they are."""
    n = len(log_weights)
    log_evidence = float(logsumexp(log_weights) - np.log(n))
    raw = np.exp(log_weights - log_evidence)
    smoothed, k = smooth_weights(log_weights)
    weights = np.exp(smoothed - logsumexp(smoothed))
    return WeightedDraws(
        params,
        weights,
        log_evidence,
        float(raw.std(ddof=1) / np.sqrt(n)),
        float(1.0 / (weights**2).sum()),
        k,
    )


def weighted_quantiles(values: Array, weights: Array, probabilities: Sequence[float]) -> Array:
    """Return quantiles of weighted draws (n,), linear between the middles of their weights.

    Examples
    --------
    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.ones(3), [0.0, 0.5, 1.0])
    array([1., 2., 3.])
    """
    order = np.argsort(values, kind="stable")
    mass = np.asarray(weights)[order]
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return np.interp(probabilities, middle, values[order])


class _Proposal(NamedTuple):
    """A multivariate Student t."""

    centre: Array  # (P,)
    factor: Array  # (P, P), lower triangular

    @classmethod
    def of(cls, centre: Array, covariance: Array) -> _Proposal:
        return cls(centre, np.asarray(np.linalg.cholesky(covariance), dtype=np.float64))

    def draw(self, uniform: Array) -> Array:
        """Return one draw for each row of uniform numbers (n, P + 1)."""
        inside = np.clip(uniform, 1e-12, 1 - 1e-12)
        normal = ndtri(inside[:, :-1])
        scale = np.sqrt(_FREEDOM / (2 * gammaincinv(_FREEDOM / 2, inside[:, -1:])))  # chi-squared
        return np.asarray(self.centre + scale * normal @ self.factor.T)

    def log_density(self, params: Array) -> Array:
        """Return the log-density of each row (n,)."""
        P = len(self.centre)
        z = np.linalg.solve(self.factor, (params - self.centre).T)
        constant = gammaln((_FREEDOM + P) / 2) - gammaln(_FREEDOM / 2)
        constant -= 0.5 * P * np.log(_FREEDOM * np.pi) + np.log(np.diag(self.factor)).sum()
        return np.asarray(constant - 0.5 * (_FREEDOM + P) * np.log1p((z**2).sum(axis=0) / _FREEDOM))


class _Mixture(NamedTuple):
    """Several of them, of which a draw is from one."""

    parts: tuple[_Proposal, ...]
    shares: Array  # sum 1

    def draw(self, uniform: Array) -> Array:
        """Return one draw for each row of uniform numbers (n, P + 2)."""
        which = np.searchsorted(np.cumsum(self.shares)[:-1], uniform[:, -1])
        result = np.empty((len(uniform), uniform.shape[1] - 2))
        for i, part in enumerate(self.parts):
            result[which == i] = part.draw(uniform[which == i, :-1])
        return result

    def log_parts(self, params: Array) -> Array:
        """Return the log-density of each row and part, with its share (parts, n)."""
        logs = [part.log_density(params) for part in self.parts]
        return np.array(logs) + np.log(self.shares)[:, None]


def _log_mixture(proposals: Sequence[_Mixture], params: Array) -> Array:
    """Return the log-density of all proposals together, which drew equally often (n,)."""
    logs = np.array([logsumexp(proposal.log_parts(params), axis=0) for proposal in proposals])
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(proposals)))


def _adapted(
    now: _Mixture, first: Sequence[_Proposal], params: Array, log_weights: Array
) -> _Mixture:
    """Return the proposal whose parts have the mean and covariance of their weighted draws.

    The first guess of a part counts as much as twice as many draws as there are parameters: few
    effective draws cannot tell all directions apart.
    """
    P = params.shape[1]
    weights = _tempered(log_weights, _LEAST_FOR_EACH * P)
    logs = now.log_parts(params)
    belongs = np.exp(logs - logsumexp(logs, axis=0)) * weights  # (parts, n)
    parts = []
    for own, part in zip(belongs, first, strict=True):
        total = max(float(own.sum()), 1e-300)
        own = own / total
        effective = 1.0 / max(float(own @ own), 1e-300)
        share = effective / (effective + 2 * P)
        mean = own @ params
        off = params - mean
        spread = _WIDER**2 * (own[:, None] * off).T @ off
        centre = share * mean + (1 - share) * part.centre
        parts.append(
            _Proposal.of(centre, share * spread + (1 - share) * part.factor @ part.factor.T)
        )
    shares = np.maximum(belongs.sum(axis=1), _LEAST_OF_PART)
    return _Mixture(tuple(parts), shares / shares.sum())


def _tempered(log_weights: Array, least: float) -> Array:
    """Return weights (n,) to the largest power up to 1 that leaves so many of them effective."""
    least = min(least, 0.5 * len(log_weights))

    possible = log_weights > -np.inf

    def to_power(power: float) -> Array:
        logs = np.full(len(possible), -np.inf)
        logs[possible] = power * log_weights[possible]
        return np.asarray(np.exp(logs - logsumexp(logs)))

    low, high = 0.0, 1.0
    power = high
    for _ in range(20):
        weights = to_power(power)
        if 1.0 / float(weights @ weights) >= least:
            low = power
        else:
            high = power
        if low == 1.0:
            break
        power = 0.5 * (low + high)
    return to_power(low)


def smooth_weights(log_weights: Array) -> tuple[Array, float]:
    """Return log-weights whose largest were replaced by quantiles of a fitted Pareto tail, and k.

    The tail are the largest min(n/5, 3√n) weights (Pareto-smoothed importance sampling). With
    fewer than 25 draws, or a tail without spread, nothing is changed; k is then nan or −inf.

    Examples
    --------
    >>> smooth_weights(np.zeros(100))[1]
    -inf
    """
    n = len(log_weights)
    size = int(min(0.2 * n, 3.0 * np.sqrt(n)))
    if n < 25:
        return log_weights, float("nan")
    order = np.argsort(log_weights)
    tail, cut = order[-size:], log_weights[order[-size - 1]]
    top = log_weights.max()
    excess = np.exp(log_weights[tail] - top) - np.exp(cut - top)
    if not excess[-1] > 1e-12 * np.exp(cut - top) or not excess[0] > 0:
        return log_weights, float("-inf")
    k, scale = _generalised_pareto(excess)
    share = (np.arange(size) + 0.5) / size
    if abs(k) < 1e-12:
        quantiles = -scale * np.log1p(-share)
    else:
        with np.errstate(over="ignore"):  # beyond the largest that was seen, see below
            quantiles = scale * np.expm1(-k * np.log1p(-share)) / k
    result = log_weights.copy()
    smoothed = np.log(quantiles + np.exp(cut - top)) + top
    result[tail] = np.minimum(smoothed, top)  # no weight above the largest that was seen
    return result, k


def _generalised_pareto(excess: Array) -> tuple[float, float]:
    """Return shape and scale by the weighted estimate of Zhang and Stephens (2009).

    With the prior that shrinks the shape towards 0.5 by ten pseudo-observations, as usual for
    importance weights.
    """
    n = len(excess)
    m = 20 + int(np.sqrt(n))
    grid = np.arange(1, m + 1) - 0.5
    quartile = excess[int(n / 4 + 0.5) - 1]
    b = 1.0 / excess[-1] + (1.0 - np.sqrt(m / grid)) / (3.0 * quartile)
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    log_profile = n * (np.log(-b / k) - k - 1.0)
    weights = np.exp(log_profile - logsumexp(log_profile))
    b_mean = float(weights @ b)
    shape = float(np.log1p(-b_mean * excess).mean())
    scale = -shape / b_mean
    return (shape * n + 5.0) / (n + 10.0), scale
