"""Sequences most like each other, found without comparing all pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = 255
_ORDERS = 12  # random orders of the sites, each of which sorts the sequences once
_BESIDE = 4  # sequences after each one in such an order that it is compared with
_SITES_SORTED = 128  # random sites that an order looks at: as many as four words hold
_PAIRS_AT_ONCE = 200_000


class Similar(NamedTuple):
    """The most similar other sequences of each one."""

    index: NDArray[np.int32]  # type: ignore[assignment]  # tuple.index is not needed; (m, k), −1 where fewer were found
    differing: NDArray[np.float32]  # (m, k), sites that differ, scaled to the whole length


def similar_sequences(codes: NDArray[np.uint8], k: int, n_constant: int = 0) -> Similar:
    """Return the k most similar sequences that were found for each of m.

    The sequences are sorted as words are, with their sites in twelve random orders (unread sites
    as the commonest letter); each is compared with the four after it and the four before it. A
    sequence that differs at d of L sites stands nearby in an order that has these sites late. The
    random orders are always the same. O(m (log m + L)).

    Parameters
    ----------
    codes : array of shape (m, L), letters as 0 … C − 1, 255 where unread
    k : int
    n_constant : int
        Further sites that all sequences show alike.

    Examples
    --------
    >>> codes = np.array([[0, 1, 2, 3], [3, 0, 0, 0], [0, 1, 2, 0]], dtype=np.uint8)
    >>> found = similar_sequences(codes, 1)
    >>> found.index[:, 0].tolist(), found.differing[:, 0].tolist()
    ([2, 2, 0], [1.0, 3.0, 1.0])
    """
    m, L = codes.shape
    letters = int(codes[codes != MISSING].max(initial=0)) + 1
    common = np.array([(codes == a).sum(axis=0) for a in range(letters)]).argmax(axis=0)
    filled = np.where(codes == MISSING, common.astype(np.uint8), codes)
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(_ORDERS):
        sites = rng.permutation(L)[:_SITES_SORTED]
        order = np.lexsort(_keys(filled[:, sites], letters))
        for beside in range(1, min(_BESIDE, m - 1) + 1):
            one, two = order[:-beside], order[beside:]
            pairs.append(np.minimum(one, two).astype(np.int64) * m + np.maximum(one, two))
    coded = np.unique(np.concatenate(pairs)) if pairs else np.zeros(0, dtype=np.int64)
    one, two = coded // m, coded % m
    differing = _differing(codes, one, two, n_constant)
    return _nearest(m, k, one, two, differing)


def _keys(rows: NDArray[np.uint8], letters: int) -> list[NDArray[np.uint64]]:
    """Return words that sort rows as their letters do, the least significant word first."""
    bits = max((letters - 1).bit_length(), 1)
    per_word = 64 // bits
    words = []
    for low in range(0, min(rows.shape[1], 4 * per_word), per_word):
        word = np.zeros(len(rows), dtype=np.uint64)
        for column in rows[:, low : low + per_word].T:
            word = (word << np.uint64(bits)) | column
        words.append(word)
    return words[::-1]


def _differing(
    codes: NDArray[np.uint8], one: NDArray[np.int64], two: NDArray[np.int64], n_constant: int
) -> NDArray[np.float32]:
    whole = codes.shape[1] + n_constant
    result = np.empty(len(one), dtype=np.float32)
    for low in range(0, len(one), _PAIRS_AT_ONCE):
        rows = slice(low, low + _PAIRS_AT_ONCE)
        a, b = codes[one[rows]], codes[two[rows]]
        shared = (a != MISSING) & (b != MISSING)
        different = ((a != b) & shared).sum(axis=1)
        result[rows] = different * (whole / np.maximum(shared.sum(axis=1) + n_constant, 1))
    return result


def _nearest(
    m: int,
    k: int,
    one: NDArray[np.int64],
    two: NDArray[np.int64],
    differing: NDArray[np.float32],
) -> Similar:
    mine, other = np.concatenate([one, two]), np.concatenate([two, one])
    both = np.concatenate([differing, differing])
    order = np.lexsort((other, both, mine))
    mine, other, both = mine[order], other[order], both[order]
    rank = np.arange(len(mine)) - np.searchsorted(mine, mine)
    kept = rank < k
    index = np.full((m, k), -1, dtype=np.int32)
    index[mine[kept], rank[kept]] = other[kept]
    distance = np.full((m, k), np.inf, dtype=np.float32)
    distance[mine[kept], rank[kept]] = both[kept]
    return Similar(index, distance)
