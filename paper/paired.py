"""Two methods compared fold by fold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class PairedTest(NamedTuple):
    """How far the first method is ahead of the second."""

    difference: float  # mean over folds
    standard_error: float | None  # of that mean, as if folds were independent; None for one fold
    p_value: float | None  # two-sided, corrected for what training sets share
    ahead: int  # folds in which the first is ahead
    folds: int

    def text(self) -> str:
        """Return the comparison in words."""
        difference = f"{self.difference:+.1f}".replace("-", "−")
        if self.standard_error is None or self.p_value is None:
            return f"{difference} (one fold)"
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        return (
            f"{difference} ± {self.standard_error:.1f}, {p}, ahead in {self.ahead} of {self.folds}"
        )


def paired_test(ours: ArrayLike, theirs: ArrayLike, overlap: float = 0.0) -> PairedTest:
    """Return the paired t-test of two methods' scores on the same folds.

    Training sets of different folds share records, so differences vary less between folds than
    between data sets; the variance of the mean is taken as (1/n + overlap) s² (Nadeau and Bengio
    2003), where `overlap` is the number of test records over that of training records. With 0 it
    is the usual test.

    Examples
    --------
    >>> paired_test([3.0, 4.0, 6.0], [1.0, 3.0, 3.0], overlap=1 / 9).text()
    '+2.0 ± 0.6, p = 0.095, ahead in 3 of 3'
    """
    lead = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    n = len(lead)
    mean, ahead = float(lead.mean()), int((lead > 0).sum())
    if n < 2:
        return PairedTest(mean, None, None, ahead, n)
    spread = float(lead.std(ddof=1))
    error = spread / float(np.sqrt(n))
    if spread == 0.0:  # the same lead in every fold
        return PairedTest(mean, error, 1.0 if mean == 0.0 else 0.0, ahead, n)
    t = mean / (spread * float(np.sqrt(1.0 / n + overlap)))
    return PairedTest(mean, error, float(2.0 * stats.t.sf(abs(t), n - 1)), ahead, n)
