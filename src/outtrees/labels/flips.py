"""The change of log Z when one label changes, by a low-rank update."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outtrees._common.types import Array
from outtrees.labels.model import LabelModel, Labels
from outtrees.trees import OutTreeDistribution
from outtrees.trees.elimination import Elimination, _derivatives, _swap
from outtrees.trees.weights import Ints

# How far beyond the first-order effect of what is left out a change may still have either sign.
SAFETY = 4.0
_SCALES = (10.0, 1.0, 0.01)  # of the tolerance, until the sign of a change is clear


class Change(NamedTuple):
    """The change of log Z if one label changes."""

    log_ratio: float  # log Z(y') − log Z(y), but for what was left out
    left_out: float  # how much edges that were left out may add to it or take off, to first order


class _Update(NamedTuple):
    log_ratio: float
    left_out: float
    rows: Ints  # (k,) of the Laplacian that change, t last
    children: Array  # (k − 1,) changes of β[u, t], u in rows
    columns: Ints  # (p,) parents of t whose weight changes
    parents: Array  # (p,) changes of β[t, v], v in columns
    root: float  # change of ρ[t]
    core: Array  # (k, k)


class Flips:
    """Judges changes of single labels around one setting of all labels.

    Changing y_t changes row t and column t of β, and the weight of t as a root. In the
    Laplacian L = diag(β 1) − β + ρ bᵀ (Σ b = 1), whose determinant is Z, that changes row t, and
    row u for every u that could descend from t. With J these rows, D their changes and G = L⁻¹,

        Z(y') / Z(y) = det(I + D G[:, J]).

    So it is not the rank-one change that the paper speaks of, but one of rank |J|. D takes
    differences inside columns of G only: those are the slopes ∂ log Z / ∂β[u, v] =
    G[u, u] − G[v, u], which the elimination gives without cancellation; and ∂ log Z / ∂ρ.
    No matrix is inverted.

    Edges of t are left out, the least important first, as long as to first order they move log Z
    by ten times `tolerance` at most, Σ |β' − β| ∂ log Z / ∂β over those to children, and over
    those to parents. If that is too much to tell the sign of the change, `tolerance` itself and
    then a hundredth of it are tried. With tolerance 0 the change is exact.
    """

    def __init__(self, model: LabelModel, labels: Labels, tolerance: float) -> None:
        self._model = model
        self.labels = np.array(labels, dtype=np.intp)
        self._tolerance = tolerance
        self._layers, self._origins = model.log_layers, model.log_origins
        self._log_roots, self._log_marginal = model.log_roots, model.log_marginal
        self.rebuild()

    def rebuild(self) -> None:
        """Compute everything afresh from the labels. O(T³)."""
        self.trees = self._model.trees(self.labels)
        elimination = self.trees._elimination
        self.in_range = isinstance(elimination, Elimination)
        if self.in_range:
            self._read(elimination)

    def _read(self, e: Elimination) -> None:
        self._log_scale = e.log_scale
        self._root_scale = e.log_scale + e.root_shift
        self._slope = _derivatives(e)  # (T, T) [child, parent], of scaled weights
        _swap(self._slope, e.order)
        self._root_slope = (e.x / e.rho_0)[e.order]
        self._beta = np.exp(self.trees.log_beta - self._log_scale[:, None])

    def changed(self, t: int, label: int) -> OutTreeDistribution:
        """Return the trees if t had this label: the slow way to judge it."""
        labels = self.labels.copy()
        labels[t] = label
        return self._model.trees(labels)

    def change(self, t: int, label: int) -> Change:
        """Return the change of log Z if y_t becomes `label`. O(T + k³), k = |J|."""
        if not self.in_range:
            return Change(self.changed(t, label).log_z - self.trees.log_z, 0.0)
        from outtrees.labels.flip_kernels import judge

        new = self._changes(t, label)
        found = Change(0.0, np.inf)
        for scale in _SCALES:
            tolerance = scale * self._tolerance
            found = Change(*judge(self._slope, self._root_slope, *new, t, tolerance))
            if abs(found.log_ratio) > SAFETY * found.left_out:
                break
        return found

    def flip(self, t: int, label: int, trees: OutTreeDistribution) -> None:
        """Change the label for good; `trees` are those of the changed labels. O(T² k)."""
        if not self.in_range:
            self.labels[t] = label
            self.trees = trees
            return
        update = self._update(t, label, _SCALES[-1] * self._tolerance)
        rows, columns, slope = update.rows, update.columns, self._slope
        # D G in all columns; then Sherman, Morrison and Woodbury on differences inside columns.
        across = np.empty((len(rows), len(slope)))
        across[:-1] = update.children[:, None] * (slope[:, t] - slope[:, rows[:-1]].T)
        across[-1] = slope[:, columns] @ update.parents - slope[:, t] * update.parents.sum()
        across[-1] += update.root * self._root_slope
        passed = np.linalg.solve(update.core, across)  # (k, T)
        self._root_slope = self._root_slope - self._root_slope[rows] @ passed
        self._slope = slope - passed.T @ slope[rows]
        self._slope -= np.diag(self._slope)[:, None].copy()
        self._beta[:, t], self._beta[t] = self._column(t, label), self._row(t, label)
        self.labels[t] = label
        self.trees = trees

    # Inside -----------------------------------------------------------------------------------

    def _update(self, t: int, label: int, tolerance: float) -> _Update:
        slope = self._slope
        children, parents, root = self._changes(t, label)
        some, lost_children = _largest(np.abs(children) * slope[:, t], tolerance)
        columns, lost_parents = _largest(np.abs(parents) * slope[t], tolerance)
        left_out = lost_children + lost_parents
        rows = np.append(some, t)
        children, parents = children[some], parents[columns]
        own = slope[np.ix_(rows, rows)]  # (k, k)
        core = np.eye(len(rows))
        core[:-1] += children[:, None] * (own[:, -1] - own[:, :-1].T)
        core[-1] += slope[np.ix_(rows, columns)] @ parents - own[:, -1] * parents.sum()
        core[-1] += root * self._root_slope[rows]
        sign, log_ratio = np.linalg.slogdet(core)
        found = float(log_ratio) if sign > 0 else -np.inf
        return _Update(found, left_out, rows, children, columns, parents, root, core)

    def _changes(self, t: int, label: int) -> tuple[Array, Array, float]:
        """Return the changes of column t and of row t of β, and of t's weight as a root."""
        root = self._root(t, label) - self._root(t, int(self.labels[t]))
        children = self._column(t, label) - self._beta[:, t]
        return children, self._row(t, label) - self._beta[t], root

    def _column(self, t: int, label: int) -> Array:
        """Scaled weights of all records as children of t, if t has this label."""
        begun = None
        if self._origins is not None:
            begun = self._origins[np.arange(len(self.labels)), self.labels]
        logs = self._model.log_pairs(self._layers[:, :, t], self.labels, np.intp(label), begun)
        column = np.exp(logs - self._log_scale)
        column[t] = 0.0
        return column

    def _row(self, t: int, label: int) -> Array:
        """Scaled weights of all records as parents of t, if t has this label."""
        begun = None if self._origins is None else self._origins[t, label]
        logs = self._model.log_pairs(self._layers[:, t], np.intp(label), self.labels, begun)
        row = np.exp(logs - self._log_scale[t])
        row[t] = 0.0
        return row

    def _root(self, t: int, label: int) -> float:
        """Scaled weight of t as the root, if it has this label."""
        log_weight = self._log_roots[t] + self._log_marginal[label] - self._root_scale[t]
        return float(np.exp(log_weight))


def _largest(effects: Array, tolerance: float) -> tuple[Ints, float]:
    """Return which effects are not zero but for a sum of `tolerance`, and the sum left out."""
    order = np.argsort(effects)
    total = np.cumsum(effects[order])
    n_out = int(np.searchsorted(total, tolerance, side="right"))
    return order[n_out:], float(total[n_out - 1]) if n_out else 0.0
