"""Arrays of probabilities on their way to the caller."""

from __future__ import annotations

import numpy as np

from outtrees.trees.weights import Floats


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
    if probabilities.min() < -1e-14 * n:
        raise ArithmeticError(
            f"a probability came out as {probabilities.min()}: please report this as a bug"
        )
    return np.maximum(probabilities, 0.0, out=probabilities)
