"""Sites that were not read: what the most similar sequences show there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outtrees.models.columns.similar import MISSING, similar_sequences

_ALIKE = 2.0  # each differing site divides a sequence's vote by e²
_FILLED_ALIKE = 0.8  # the same in `filled`, where sites count that both show
_HALF = 0.5  # of its sites, at least, must be read in a sequence that is filled
_ALL = 0.2  # the vote of all sequences together
_PSEUDO = 0.1  # of each letter, among all sequences
_MOST_SEQUENCES = 5000  # beyond, comparing all pairs is not worth it: only the most similar vote
_VOTERS = 16  # for each sequence, in that case
_CELLS_AT_ONCE = 500_000


class UnknownSites:
    """P(letter) at every unread site of m sequences, by the votes of the others.

    A sequence w votes with weight exp(−2·d), d the number of sites at which it differs from v, for
    the letter that it shows; all sequences together vote with weight 0.2. What a near relative
    shows is almost certain to be there. The letters' frequencies alone would charge a child for
    every mutation that its whole branch shares, as soon as its parent was not read at that site.

    Of more than 5,000 sequences only 16 vote, the most similar ones that `similar_sequences` finds.

    Parameters
    ----------
    codes : array of shape (m, L), letters as 0 … C − 1, 255 where unread
    n_letters : int
    n_constant : int
        Further sites that all sequences show alike; they count in how similar two are.
    alike : float
        Each differing site divides a sequence's vote by the exponential of this.
    """

    def __init__(
        self,
        codes: NDArray[np.uint8],
        n_letters: int,
        n_constant: int = 0,
        alike: float = _ALIKE,
    ) -> None:
        m, L = codes.shape
        self._alike = alike
        rows, sites = np.nonzero(codes == MISSING)
        self._place = np.full((m, L), -1, dtype=np.int32)
        self._place[rows, sites] = np.arange(len(rows))
        self._counts = np.array(
            [(codes == a).sum(axis=0) for a in range(n_letters)], dtype=np.float64
        )  # (C, L)
        self._votes = np.zeros((len(rows), n_letters))
        self._weight: NDArray[np.float64] | None = None  # (m, m)
        self._voters: NDArray[np.int32] | None = None  # (m, 16)
        if not len(rows):
            return
        if m <= _MOST_SEQUENCES:
            self._all_vote(codes, n_letters, n_constant, rows, sites)
        else:
            self._similar_vote(codes, n_constant, rows, sites)

    def _all_vote(
        self,
        codes: NDArray[np.uint8],
        n_letters: int,
        n_constant: int,
        rows: NDArray[np.intp],
        sites: NDArray[np.intp],
    ) -> None:
        letters = [(codes == a).astype(np.float32) for a in range(n_letters)]
        known = (codes != MISSING).astype(np.float32)
        shared = known @ known.T
        different = shared - sum(one @ one.T for one in letters)
        whole = codes.shape[1] + n_constant
        differing = different * (whole / np.maximum(shared + n_constant, 1.0))
        # In doubles, so that a vote taken out again leaves no trace.
        self._weight = np.exp(-self._alike * differing.astype(np.float64))
        np.fill_diagonal(self._weight, 0.0)
        for a, one in enumerate(letters):
            self._votes[:, a] = (self._weight @ one)[rows, sites]

    def _similar_vote(
        self,
        codes: NDArray[np.uint8],
        n_constant: int,
        rows: NDArray[np.intp],
        sites: NDArray[np.intp],
    ) -> None:
        found = similar_sequences(codes, _VOTERS, n_constant)
        self._voters = found.index
        self._voter_weight = np.exp(-self._alike * found.differing.astype(np.float64))  # 0 for none
        for low in range(0, len(rows), _CELLS_AT_ONCE):
            some = slice(low, low + _CELLS_AT_ONCE)
            voters, weight = self._voters[rows[some]], self._voter_weight[rows[some]]
            shown = codes[voters, sites[some, None]]
            for a in range(self._votes.shape[1]):
                self._votes[some, a] = (weight * (shown == a)).sum(axis=1)

    def _own_vote(self, parent: NDArray[np.intp], child: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the weight of each child's vote on its parent's sites."""
        if self._weight is not None:
            return self._weight[parent, child]
        if self._voters is None:
            return np.zeros(len(parent))
        is_own = self._voters[parent] == child[:, None]
        return np.where(is_own, self._voter_weight[parent], 0.0).sum(axis=1)

    def most_voted(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Return rows, sites and the letters with the most votes there, of all unread sites."""
        rows, sites = np.nonzero(self._place >= 0)
        overall = self._counts[:, sites] / np.maximum(self._counts[:, sites].sum(axis=0), 1.0)
        votes = self._votes[self._place[rows, sites]] + _ALL * overall.T
        return rows, sites, votes.argmax(axis=1)

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
            own = self._own_vote(parent, child)[edge] if len(edge) else np.zeros(0)
            votes, total = votes - own, total - own
        overall = (count + _PSEUDO) / (counted + _PSEUDO * len(self._counts))
        log_share = np.log((_ALL * overall + votes) / (_ALL + total))
        return np.asarray(np.bincount(edge, log_share, minlength=len(parent)), dtype=np.float64)


def filled(codes: NDArray[np.uint8], n_letters: int) -> NDArray[np.uint8]:
    """Return the sequences (m, L) with unread sites as the most similar ones show them.

    Only those of which at least half was read: the relatives of others are not known. A site that
    nobody read remains unread.
    """
    known = codes != MISSING
    whole = known.mean(axis=1) >= _HALF
    if known[whole].all():
        return codes
    counts = np.array([(codes == a).sum(axis=0) for a in range(n_letters)])
    result = codes.copy()
    commonest = np.where(counts.any(axis=0), counts.argmax(axis=0), MISSING).astype(np.uint8)
    varied = np.flatnonzero((counts > 0).sum(axis=0) > 1)
    rows, sites, letters = UnknownSites(
        np.ascontiguousarray(codes[:, varied]), n_letters, alike=_FILLED_ALIKE
    ).most_voted()
    chosen = np.tile(commonest, (len(codes), 1))
    chosen[rows, varied[sites]] = letters
    wanted = ~known & whole[:, None]
    result[wanted] = chosen[wanted]
    return result
