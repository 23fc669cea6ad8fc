"""Sites that were not read: what the most similar sequences show there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MISSING = 255
_ALIKE = 2.0  # each differing site divides a sequence's vote by e²
_ALL = 0.2  # the vote of all sequences together
_PSEUDO = 0.1  # of each letter, among all sequences
_MOST_SEQUENCES = 5000  # beyond, comparing all pairs is not worth it: all sequences vote alike


class UnknownSites:
    """P(letter) at every unread site of m sequences, by the votes of the others.

    A sequence w votes with weight exp(−2·d), d the number of sites at which it differs from v, for
    the letter that it shows; all sequences together vote with weight 0.2. What a near relative
    shows is almost certain to be there. The letters' frequencies alone would charge a child for
    every mutation that its whole branch shares, as soon as its parent was not read at that site.

    Parameters
    ----------
    codes : array of shape (m, L), letters as 0 … C − 1, 255 where unread
    n_letters : int
    """

    def __init__(self, codes: NDArray[np.uint8], n_letters: int) -> None:
        m, L = codes.shape
        rows, sites = np.nonzero(codes == MISSING)
        self._place = np.full((m, L), -1, dtype=np.int32)
        self._place[rows, sites] = np.arange(len(rows))
        letters = [(codes == a).astype(np.float32) for a in range(n_letters)]
        self._counts = np.array([one.sum(axis=0) for one in letters], dtype=np.float64)  # (C, L)
        self._votes = np.zeros((len(rows), n_letters))
        self._weight: NDArray[np.float64] | None = None
        if m <= _MOST_SEQUENCES and len(rows):
            known = (codes != MISSING).astype(np.float32)
            shared = known @ known.T
            same = sum(one @ one.T for one in letters)
            differing = (shared - same) * (L / np.maximum(shared, 1.0))
            # In doubles, so that a vote taken out again leaves no trace.
            self._weight = np.exp(-_ALIKE * differing.astype(np.float64))
            np.fill_diagonal(self._weight, 0.0)
            for a, one in enumerate(letters):
                self._votes[:, a] = (self._weight @ one)[rows, sites]

    def log_letters(
        self,
        parent: NDArray[np.intp],  # (E,)
        letters: NDArray[np.uint8],  # (E, L), the children's
        child: NDArray[np.intp] | None = None,  # (E,), where children are among the sequences
    ) -> NDArray[np.float64]:
        """Return the sum of log P(child's letter) over the sites that only the child shows (E,).

        A child among the sequences has no vote on itself: it would vote for what it shows.
        """
        place = self._place[parent]
        edge, site = np.nonzero((place >= 0) & (letters != MISSING))
        shown, row = letters[edge, site], place[edge, site]
        votes, total = self._votes[row, shown], self._votes[row].sum(axis=1)
        count, counted = self._counts[shown, site], self._counts[:, site].sum(axis=0)
        if child is not None:
            count, counted = count - 1, counted - 1
            if self._weight is not None:
                own = self._weight[parent[edge], child[edge]]
                votes, total = votes - own, total - own
        overall = (count + _PSEUDO) / (counted + _PSEUDO * len(self._counts))
        log_share = np.log((_ALL * overall + votes) / (_ALL + total))
        return np.bincount(edge, log_share, minlength=len(parent))
