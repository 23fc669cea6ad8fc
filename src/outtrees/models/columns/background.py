"""Densities of cells without a parent: what the cells of earlier records foretell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from outtrees._common.types import Array
from outtrees.models.column import ColumnKernel, Index

LARGEST_LOG = 600.0  # its exponential, times a few records, is a double
# Cells that follow no earlier one: their share, and how many records begin with such cells.
SHARES = tuple(product((0.003, 0.03, 0.1, 0.2, 0.4, 0.97), (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)))
_FARTHEST = 5.0  # no parameter of a background moves further than this from its start
_POLISHING = 20  # steps in which a background's kernel is fitted


class Stretch(NamedTuple):
    """What the parameters do not change, for some edges that follow each other in the list."""

    rows: slice  # where they stand
    columns: tuple[Any, ...]  # what each column's kernel made of them
    elapsed: Array | None  # (n,), time from parent to child


class LineagePairs(NamedTuple):
    """What the parameters do not change, for a list of E possible edges.

    In stretches, so that sums over the list need memory for the columns and links of one stretch
    only.
    """

    stretches: tuple[Stretch, ...]
    children: tuple[Array, ...]  # the cells of each column (n, D_c)
    child: Index  # (E,)
    parent: Index  # (E,)


class Earlier(NamedTuple):
    """Pairs of each record and the records before it."""

    pairs: LineagePairs
    weight: Array  # (E',), 1, or 1/2 where dates do not tell which of the two came first
    met: Any = 1.0  # (E',), the ratio of their contacts, if any are known


class Anywhere(NamedTuple):
    """The density h of cells that follow none before, relative to a scale."""

    log_scale: Array  # (n,)
    ratio: Array  # (n,)
    possible: Array  # (n,), how often there can be such cells: less than 1 where none are left

    @property
    def log_density(self) -> Array:
        """log h (n,)."""
        return np.asarray(self.log_scale + np.log(self.ratio))


class Alone(NamedTuple):
    """The density of a contrasted column without a parent, beside the records before.

    Of contacts: their ratio, by which these records count.
    """

    kernel: ColumnKernel  # about each of these
    always: float  # share of cells that follow none of them
    first: float  # how many of these there are beside, at first

    def new(self, number: Array) -> Array:
        """Return the share of cells that follow none of so many earlier ones (n,)."""
        return self.always + (1 - self.always) * self.first / (self.first + number)

    def new_beside(self, base: Anywhere, number: Array) -> Array:
        """Return the share of cells that follow none, given what can be (n,)."""
        new = self.new(number)
        return np.asarray(new * base.possible / (1 - new + new * base.possible))

    def log_density(self, base: Anywhere, near: Array, number: Array) -> Array:
        """Return log ĝ (n,) by the density of any cell and the mean about earlier ones."""
        new = self.new_beside(base, number)
        return np.asarray(base.log_scale + np.log(new * base.ratio + (1 - new) * near))


@dataclass(frozen=True, eq=False)
class Beside:
    """One column of n records beside those before them."""

    values: Array  # (n, D), its cells
    earlier: Earlier
    column: int

    def best(self, kernels: Sequence[ColumnKernel]) -> Alone:
        """Return the background that foretells the cells best: a kernel, fitted, and its shares."""
        value, alone = max(map(self._with_shares, kernels), key=lambda found: found[0])
        if len(alone.kernel.params):
            polished, other = self._with_shares(self._polished(alone))
            alone = other if polished > value else alone
        return alone

    def _with_shares(self, kernel: ColumnKernel) -> tuple[float, Alone]:
        """Return how well a kernel predicts the cells, and the background it does so with."""
        rows = np.unique(self.earlier.pairs.child)
        base = self.base(kernel)
        near, number = self.near(kernel, base)
        base, near, number = Anywhere(*(x[rows] for x in base)), near[rows], number[rows]
        tried = [Alone(kernel, *shares) for shares in SHARES]
        logs = [float(alone.log_density(base, near, number).sum()) for alone in tried]
        best = int(np.argmax(logs))
        return logs[best], tried[best]

    def _polished(self, alone: Alone) -> ColumnKernel:
        """Return the background's kernel with the parameters that predict the cells best."""
        child = self.earlier.pairs.child
        base = self.base(alone.kernel)

        def loss(params: Array) -> tuple[float, Array]:
            kernel = alone.kernel.with_params(params)
            near, number = self.near(kernel, base)
            new = alone.new_beside(base, number)
            total = new * base.ratio + (1 - new) * near
            known = self._known(kernel, self.earlier.met)
            slopes = kernel.prior_slopes()
            for stretch in self.earlier.pairs.stretches:
                pairs, here = stretch.columns[self.column], child[stretch.rows]
                ratio = self._ratio(stretch, kernel, base)
                share = (1 - new[here]) * ratio / np.maximum(known * total, 1e-300)[here]
                slopes = slopes + kernel.slopes(pairs, share[None], stretch.elapsed)
            value = float(np.log(total[np.unique(child)]).sum()) + kernel.log_prior()
            return -value, -slopes

        start = alone.kernel.params
        bounds = [(x - _FARTHEST, x + _FARTHEST) for x in start]
        options = {"maxiter": _POLISHING}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return alone.kernel.with_params(found.x)

    def base(self, kernel: ColumnKernel) -> Anywhere:
        """Return the density of cells that follow none before."""
        child, weight = self.earlier.pairs.child, self.earlier.weight
        before = [
            (stretch.columns[self.column], child[stretch.rows], weight[stretch.rows])
            for stretch in self.earlier.pairs.stretches
        ]
        return Anywhere(kernel.log_base(self.values), *kernel.new_cells(len(self.values), before))

    def near(self, kernel: ColumnKernel, base: Anywhere) -> tuple[Array, Array]:
        """Return the mean of h(x_u | x_w) over known w before u, and their number (n,).

        In units of the scale. Those whom u met count by the ratio of contacts.
        """
        pairs, met = self.earlier.pairs, self.earlier.met
        near = np.zeros(len(self.values))
        for stretch in pairs.stretches:
            ratio = self._ratio(stretch, kernel, base)
            near += np.bincount(pairs.child[stretch.rows], ratio, minlength=len(near))
        number = self._known(kernel, 1.0)
        total = number if np.isscalar(met) else self._known(kernel, met)
        return np.where(total > 0, near / np.maximum(total, 1e-300), 1.0), number

    def _ratio(self, stretch: Stretch, kernel: ColumnKernel, base: Anywhere) -> Array:
        """Return h(x_u | x_w) of each pair over the scale, times its weight; 0 of unknown w."""
        pairs, here = stretch.columns[self.column], self.earlier.pairs.child[stretch.rows]
        logs = kernel.log_steps(pairs, 1, stretch.elapsed) - base.log_scale[here]
        ratio = np.exp(np.minimum(logs, LARGEST_LOG))
        ratio *= (self.earlier.weight * self.earlier.met)[stretch.rows]
        ratio[kernel.unknown_parents(pairs)] = 0.0
        return ratio

    def _known(self, kernel: ColumnKernel, factor: Any) -> Array:
        """Return the sum of the weights, times a factor, of the known w before each u (n,)."""
        pairs = self.earlier.pairs
        known = [
            ~kernel.unknown_parents(stretch.columns[self.column]) for stretch in pairs.stretches
        ]
        weights = np.concatenate([np.empty(0), *known]) * self.earlier.weight * factor
        return np.bincount(pairs.child, weights, minlength=len(self.values)).astype(float)


def by_contacts(earlier: Earlier, backgrounds: Sequence[Alone | None]) -> Earlier:
    """Return the pairs, weighed by the contacts of the two."""
    met = [(c, a.kernel) for c, a in enumerate(backgrounds) if a and a.kernel.relative]
    if not met:
        return earlier
    logs = [
        sum(kernel.log_steps(stretch.columns[c], 1) for c, kernel in met)
        for stretch in earlier.pairs.stretches
    ]
    return earlier._replace(met=np.exp(np.concatenate([np.empty(0), *logs])))
