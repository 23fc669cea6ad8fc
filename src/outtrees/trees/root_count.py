"""How many roots a forest has."""

from __future__ import annotations

import numpy as np

from outtrees.trees.weights import Floats


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
