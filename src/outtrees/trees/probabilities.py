"""Arrays of probabilities on their way to the caller, and how many roots a forest has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outtrees.trees.weights import Floats, Ints


def read_only(array: Floats) -> Floats:
    """Return the same array, closed to writing: results are shared, not copied."""
    array.flags.writeable = False
    return array


def weighted(probabilities: Floats, log_values: Floats) -> Floats:
    """Return probabilities · log_values, with 0 · −inf = 0: what never happens costs nothing."""
    product = np.zeros_like(probabilities)
    possible = (probabilities > 0) & (log_values > -np.inf)
    np.multiply(probabilities, log_values, out=product, where=possible)
    return product


def settled(probabilities: Floats, n: int) -> Floats:
    """Return the probabilities with the negative ones, which must be rounding, set to 0.

    A marginal is the difference of numbers up to the expected number of children, so rounding
    may leave an impossible edge at −1e-17. Anything lower would be an error in this library.
    """
    smallest = probabilities.min()
    if smallest < -1e-14 * n:
        raise ArithmeticError(f"a probability came out as {smallest}: please report this as a bug")
    return probabilities if smallest >= 0.0 else np.maximum(probabilities, 0.0, out=probabilities)


def root_count_distribution(absorption: Floats) -> Floats:
    """Return P(k roots) for k = 0 … T, given ``absorption[u, v]`` = P(v is the root above u).

    The roots of a random forest are a determinantal process with that kernel K (the all-minors
    matrix tree theorem), so E z^(number of roots) = det(I + (z − 1) K) = Π (1 − λ + λ z) over
    the eigenvalues λ of K. Taking the values at the T + 1 roots of unity, where none exceeds
    one, and transforming back loses nothing: the error is absolute and of the order of T times
    rounding. Multiplying the factors out would not do, as λ may be complex. O(T³).
    """
    T = len(absorption)
    eigenvalues = np.linalg.eigvals(absorption)
    z = np.exp(-2j * np.pi * np.arange(T + 1) / (T + 1))
    values = np.ones(T + 1, dtype=complex)
    for eigenvalue in eigenvalues:
        values *= 1.0 + (z - 1.0) * eigenvalue
    return np.asarray(np.fft.ifft(values).real)


_MOST_EIGENVALUES = 2000  # which take seconds; those of more records take minutes
_DRAWN = 2000  # trees in which the roots of more records are counted


def too_many_for_eigenvalues(n: int) -> bool:
    """Return whether the roots of so many records are counted in drawn trees."""
    return n > _MOST_EIGENVALUES


def root_counts_drawn(sample: Callable[[int, np.random.Generator], Ints]) -> Floats:
    """Return the shares of 0, 1, 2, … roots in 2,000 trees, always the same ones."""
    drawn = sample(_DRAWN, np.random.default_rng(0))
    return np.bincount((drawn < 0).sum(axis=1)) / _DRAWN
