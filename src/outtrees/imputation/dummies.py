"""Categories as 0/1 columns, so that Gaussian mutations can tie them to continuous columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from outtrees._common.types import Array

_LEAST_CHANCE = 1e-3  # a Gaussian mean may leave [0, 1]; no category is ruled out for that


@dataclass(frozen=True)
class Dummies:
    """A table with codes in some columns ↔ a table of continuous columns only.

    A column with C categories becomes C − 1 columns, one for each category but the last, 0 or 1,
    and standardised; all of them are hidden where the category is. Continuous columns come first
    and stay as they are.
    """

    continuous: list[int]
    categorical: list[int]
    shares: list[Array]  # (C_d,) of each categorical column: the categories' frequencies

    @classmethod
    def of(cls, table: Array, categorical: list[int], n_levels: list[int]) -> Self:
        """Return the coding for a table (T, D) with codes in the categorical columns."""
        shares = []
        for c, C in zip(categorical, n_levels, strict=True):
            codes = table[~np.isnan(table[:, c]), c].astype(np.intp)
            # One record more, spread evenly: a category may be absent, and all scales positive.
            counts = np.bincount(codes, minlength=C) + 1.0 / C
            shares.append(counts / counts.sum())
        continuous = [c for c in range(table.shape[1]) if c not in categorical]
        return cls(continuous, list(categorical), shares)

    def encode(self, table: Array) -> Array:
        """Return the continuous columns and the dummies, (n, D′)."""
        blocks = [table[:, self.continuous]]
        for c, share in zip(self.categorical, self.shares, strict=True):
            p = share[:-1]
            ones = (table[:, [c]] == np.arange(len(p))) - p
            ones = ones / np.sqrt(p * (1 - p))
            ones[np.isnan(table[:, c])] = np.nan
            blocks.append(ones)
        return np.column_stack(blocks)

    def chances(self, encoded: Array) -> list[Array]:
        """Return the chance of each category from expected dummies, (n, C_d) each."""
        result = []
        for cells, share in self._blocks(encoded):
            p = share[:-1]
            first = cells * np.sqrt(p * (1 - p)) + p
            every = np.column_stack([first, 1.0 - first.sum(axis=1)])
            bounded = np.clip(every, _LEAST_CHANCE, None)
            result.append(bounded / bounded.sum(axis=1, keepdims=True))
        return result

    def decode(self, encoded: Array) -> Array:
        """Return the table again, with the category whose expected dummy is largest, (n, D)."""
        result = np.empty((len(encoded), len(self.continuous) + len(self.categorical)))
        result[:, self.continuous] = encoded[:, : len(self.continuous)]
        for c, chance in zip(self.categorical, self.chances(encoded), strict=True):
            result[:, c] = chance.argmax(axis=1)
        return result

    def _blocks(self, encoded: Array) -> list[tuple[Array, Array]]:
        at = len(self.continuous)
        result = []
        for share in self.shares:
            width = len(share) - 1
            result.append((encoded[:, at : at + width], share))
            at += width
        return result
