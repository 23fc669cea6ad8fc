"""The alternating sampler: a tree given what is hidden, then what is hidden given the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from outtrees._common.arguments import check_count
from outtrees._common.random import as_generator
from outtrees._common.types import Array

State = TypeVar("State")
Parents = NDArray[np.intp]

# Spreads below this fraction of a statistic's size are rounding, not randomness.
_ROUNDING = 1e-12


class Chains(NamedTuple):
    """Averages over the draws of several chains, with what is known of their error."""

    mean: Array  # (…) over all chains and draws
    standard_error: Array  # (…) Monte-Carlo error of the mean, see `alternate`
    r_hat: Array  # (…) split R-hat; 1 for a statistic that never changes
    draws: Array | None  # (n_chains, n_draws, …) if kept


def alternate(
    start_state: State | Callable[[np.random.Generator], State],
    draw_tree: Callable[[State, np.random.Generator], Parents],
    draw_hidden: Callable[[Parents, State, np.random.Generator], tuple[State, Array]],
    n_chains: int = 4,
    n_draws: int = 100,
    burn_in: int = 20,
    random_state: Any = None,
    *,
    keep: bool = False,
    on_draw: Callable[[int, int], object] | None = None,
) -> Chains:
    """Return the averages of statistics over draws of (tree, hidden state) from their joint law.

    A step draws the parents (T,) given the state, then the state given the parents; if both draws
    are exact, the pair has the joint posterior as its stationary law (Gibbs sampling in two
    blocks). `draw_hidden` also returns an array of statistics; where these are expectations given
    the tree or given the state (Rao–Blackwell) rather than the draws themselves, their average has
    the same mean and less noise.

    The chains have random streams of their own, spawned from `random_state`: results do not
    depend on the order in which they run.

    Parameters
    ----------
    start_state : a state, or a function of a Generator that returns one
        With a function every chain starts from a place of its own, without which R-hat says
        little.
    draw_tree : (state, rng) -> parents
    draw_hidden : (parents, state, rng) -> (new state, array of statistics)
        The array's shape is the same at every step.
    n_draws : int
        Steps averaged per chain, after `burn_in` steps that are not.
    keep : bool
        Whether to return the statistics of every draw too.
    on_draw : (chain, step) -> anything
        Called after every step, to show progress.

    Notes
    -----
    Two estimates of the Monte-Carlo error are made, and for each statistic the larger is returned:
    from the means of batches of about √n_draws successive draws, around the grand mean; and from
    the means of whole chains, which notices chains that are stuck apart. One alone errs low.
    With a single chain there are batches only.

    Split R-hat compares the two halves of each chain: √((n−1)/n + B/W), with B the variance of
    the means of halves of n draws and W the mean variance within them. It needs at least four
    draws, and is NaN with fewer.

    Examples
    --------
    A coin (the state) and a tree of two records, whose root it decides with probability 0.8.

    >>> def draw_tree(coin, rng):
    ...     root = coin if rng.random() < 0.8 else 1 - coin
    ...     return np.array([-1, 0]) if root == 0 else np.array([1, -1])
    >>> def draw_coin(parents, coin, rng):
    ...     chance = 0.8 if parents[1] < 0 else 0.2  # of heads, given the tree
    ...     return int(rng.random() < chance), np.array([chance])
    >>> chains = alternate(0, draw_tree, draw_coin, 4, 1000, 10, random_state=0)
    >>> bool(abs(chains.mean[0] - 0.5) < 4 * chains.standard_error[0])
    True
    """
    check_count("alternate", "n_chains", n_chains, 1)
    check_count("alternate", "n_draws", n_draws, 2)
    check_count("alternate", "burn_in", burn_in, 0)
    tallies, kept = [], []
    for chain, rng in enumerate(as_generator(random_state).spawn(n_chains)):
        state: Any = start_state(rng) if callable(start_state) else start_state
        tally = _Tally(n_draws)
        drawn = []
        for step in range(burn_in + n_draws):
            parents = draw_tree(state, rng)
            state, statistics = draw_hidden(parents, state, rng)
            if step >= burn_in:
                values = np.asarray(statistics, dtype=np.float64)
                tally.add(values)
                if keep:
                    drawn.append(values.copy())
            if on_draw is not None:
                on_draw(chain, step)
        tallies.append(tally)
        kept.append(drawn)
    draws = np.array(kept) if keep else None
    means = np.array([tally.mean for tally in tallies])
    mean = means.mean(axis=0)
    batches = np.concatenate([tally.batch_means for tally in tallies])
    error = _standard_error(batches)
    if n_chains > 1:
        error = np.maximum(error, _standard_error(means))
    return Chains(mean, error, _split_r_hat(tallies), draws)


class _Tally:
    """Running sums of one chain: its batches, and its two halves."""

    def __init__(self, n_draws: int) -> None:
        self._size = max(1, int(np.sqrt(n_draws)))
        self._n_draws = n_draws
        self._seen = 0
        self._batches: list[Array] = []  # sums
        self._half_size = n_draws // 2
        self._half_mean: list[Array] = []
        self._half_square: list[Array] = []  # sums of squares about the mean so far
        self._in_half = 0

    def add(self, values: Array) -> None:
        if self._seen % self._size == 0:
            self._batches.append(np.zeros_like(values))
        self._batches[-1] += values
        # An odd draw in the middle belongs to neither half.
        half = self._half_size
        if self._seen < half or self._seen >= self._n_draws - half:
            if self._in_half % max(half, 1) == 0:
                self._half_mean.append(np.zeros_like(values))
                self._half_square.append(np.zeros_like(values))
            count = self._in_half % max(half, 1) + 1
            delta = values - self._half_mean[-1]
            self._half_mean[-1] += delta / count
            self._half_square[-1] += delta * (values - self._half_mean[-1])
            self._in_half += 1
        self._seen += 1

    @property
    def mean(self) -> Array:
        return np.asarray(np.sum(self._batches, axis=0) / self._seen)

    @property
    def batch_means(self) -> Array:
        full = self._seen // self._size  # a last, shorter batch is left out
        return np.array(self._batches[:full]) / self._size

    def halves(self) -> tuple[Array, Array, int]:
        """Return the means (2, …), the variances (2, …) and the length of the halves."""
        n = self._half_size
        return np.array(self._half_mean), np.array(self._half_square) / max(n - 1, 1), n


def _standard_error(means: Array) -> Array:
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(len(means)))


def _split_r_hat(tallies: list[_Tally]) -> Array:
    means, variances = [], []
    n = 0
    for tally in tallies:
        mean, variance, n = tally.halves()
        means.append(mean)
        variances.append(variance)
    every_mean, every_variance = np.concatenate(means), np.concatenate(variances)
    if n < 2:
        return np.full(every_mean.shape[1:], np.nan)
    between = every_mean.var(axis=0, ddof=1)
    within = every_variance.mean(axis=0)
    size = np.abs(every_mean).max(axis=0)
    constant = np.maximum(between, within) <= (_ROUNDING * size) ** 2
    stuck = ~constant & (within <= (_ROUNDING * size) ** 2)  # each half in a place of its own
    ratio = np.divide(between, within, out=np.zeros_like(between), where=~(constant | stuck))
    r_hat = np.sqrt((n - 1) / n + ratio)
    return np.asarray(np.where(constant, 1.0, np.where(stuck, np.inf, r_hat)))
