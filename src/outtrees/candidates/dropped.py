"""How much probability a list of possible parents leaves out: an estimate, and a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp

from outtrees._common.arguments import check_count
from outtrees._common.random import as_generator
from outtrees._common.types import Array


class DroppedMass(NamedTuple):
    """The mean share of a record's parents that is not in the list, and its sampling error."""

    mean: float
    standard_error: float  # 0 if all records were looked at
    n_sampled: int
    largest: float  # of the records looked at


def dropped_mass(
    n_records: int,
    log_weights: Callable[[NDArray[np.intp]], Array],
    listed: Callable[[int], NDArray[np.intp]],
    *,
    n_sampled: int = 200,
    random_state: Any = None,
    at_once: int = 16,
) -> DroppedMass:
    """Return the share of the normalised weights of a record's parents that a list leaves out.

    For records drawn at random without replacement, the weights of all their possible parents
    are computed; what is averaged is Σ_{v not listed} β_uv / Σ_v β_uv, exact for each record. It
    is the probability that the parent is not listed where every record chooses for itself
    (dates that forbid cycles), and close to it otherwise.

    Parameters
    ----------
    log_weights : function of row numbers (n,)
        Returns (n, K) log-weights, one column for each thing that the record can descend from;
        −inf where it cannot. Called with at most `at_once` rows.
    listed : function of a row number
        Returns which of the K columns are in the list.

    Examples
    --------
    >>> weights = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [0.3, 0.7, 0.0]])
    >>> with np.errstate(divide="ignore"):
    ...     log_beta = np.log(weights)
    >>> kept = [[1], [0, 2], [1]]
    >>> found = dropped_mass(3, lambda rows: log_beta[rows], lambda u: np.array(kept[u]))
    >>> f"{found.mean:.3f}", found.standard_error
    ('0.133', 0.0)
    """
    check_count("dropped_mass", "n_sampled", n_sampled, 2)
    n = min(n_sampled, n_records)
    rows = np.sort(as_generator(random_state).permutation(n_records)[:n])
    shares = np.empty(n)
    for low in range(0, n, at_once):
        log_rows = log_weights(rows[low : low + at_once])
        for i, log_row in enumerate(log_rows):
            top = log_row.max(initial=-np.inf)
            # A record without any possible parent loses nothing.
            weight = np.exp(log_row - top) if top > -np.inf else np.zeros(len(log_row))
            left = weight.copy()
            left[listed(int(rows[low + i]))] = 0.0
            shares[low + i] = left.sum() / max(weight.sum(), 1.0)  # at the top it is one
    # Records seen leave no doubt about themselves: the error is that of the others.
    unseen = 1.0 - n / n_records
    error = float(np.sqrt(unseen / n) * shares.std(ddof=1)) if n > 1 else 0.0
    return DroppedMass(float(shares.mean()), error, n, float(shares.max()))


def dropped_bound(
    log_listed: ArrayLike,  # (T, k) log-weights of the listed parents
    n_left: int,
) -> float:
    """Return an upper bound of the mean share left out, where the k likeliest are listed.

    None of the n_left others weighs more than the least of those listed, so a record's share is
    at most n_left w / (Σ listed + n_left w) with w its least listed weight. No sampling; loose
    where weights fall slowly.

    Examples
    --------
    >>> f"{dropped_bound(np.log([[0.6, 0.1], [0.4, 0.2]]), 2):.3f}"
    '0.311'
    """
    table = np.asarray(log_listed, dtype=np.float64)
    if n_left == 0:
        return 0.0
    log_left = np.log(n_left) + table.min(axis=1)
    kept = logsumexp(table, axis=1)
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(log_left), 0.0, expit(log_left - kept))
    return float(share.mean())
