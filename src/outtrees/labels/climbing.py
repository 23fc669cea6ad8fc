"""The paper's hill-climb over unknown labels, made exact.

`climb_labels` climbs; `Flips` computes the change of log Z when one label changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.arguments import check_count, check_number
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.labels.importance import weigh_trees
from outtrees.labels.model import LabelModel, Labels
from outtrees.trees import OutTreeDistribution
from outtrees.trees.elimination import Elimination, _derivatives, _swap

# A rise of log Z below this share of its size is rounding.
_ROUNDING = 1e-12
_HUGE = 1e300
_START_TREES = 100  # weighed, for the start from the posterior
# How far beyond the first-order effect of what is left out a change may still have either sign.
_SAFETY = 4.0
_SCALES = (10.0, 1.0, 0.01)  # of the tolerance, until the sign of a change is clear


class Climb(NamedTuple):
    """Labels that no single change improves, and the way there."""

    labels: Labels  # (T,)
    log_z: float
    log_zs: Array  # (n_sweeps + 1,) at the start and after each sweep; never falling
    n_flips: int
    converged: bool
    model: LabelModel  # refitted, if asked for
    log_z_of_starts: Array  # (n_init,) where each start ended


def climb_labels(
    model: LabelModel,
    known: Labels,  # (T,), −1 where unknown
    *,
    n_init: int = 5,
    start: Labels | None = None,  # (T,)
    tolerance: float = 1e-2,
    max_sweeps: int = 100,
    random_state: Any = None,
    refit: Callable[[LabelModel, OutTreeDistribution, Labels], LabelModel] | None = None,
) -> Climb:
    """Return the unknown labels that maximise Z(y) as far as single changes lead (section 5).

    The first start gives every unknown label the most frequent known one, the second its most
    probable label (`weigh_trees`), the others are random; the best end is returned. `start` is one
    of your own instead. Each sweep visits all unknown labels:

    1. Jensen's inequality with the edge marginals W at the sweep's start says that changes raise
       log Z by at least Σ_uv W_uv log(β'_uv / β_uv). As long as there are changes that raise
       this bound, they are made, many for one elimination.
    2. If there were none, each change is judged by the change of log Z itself
       (`Flips.change`, a low-rank update that may leave out `tolerance`), and made if log Z
       computed afresh confirms it. What is too close to call is computed afresh too.

    The climb ends when a sweep of the second kind changes nothing. Z never falls: a step that log Z
    does not confirm is not made.

    Parameters
    ----------
    refit : (model, trees, labels) -> model, optional
        Called whenever a climb ends, to refit the attributes' mutation to the edge marginals;
        the climb goes on while that raises Z.

    Notes
    -----
    A sweep costs a few eliminations, O(T³), and for each label O(T k + k³), k the number of
    records that may well descend from it.

    Examples
    --------
    >>> near = np.kron(np.eye(2), np.ones((2, 2)))
    >>> model = LabelModel(9 * near[None], np.zeros(4), np.array([0.5, 0.5]), 0.9)
    >>> climb_labels(model, np.array([0, -1, -1, 1]), random_state=0).labels
    array([0, 0, 1, 1])
    """
    check_count("climb_labels", "n_init", n_init, 1)
    check_count("climb_labels", "max_sweeps", max_sweeps, 1)
    check_number("climb_labels", "tolerance", tolerance, 0)
    labels = np.asarray(known)
    if start is None:
        begins = _starts(model, labels, n_init, as_generator(random_state))
    else:
        begins = [np.where(labels >= 0, labels, start)]
    climbs = [_climb(model, b, labels < 0, tolerance, max_sweeps, refit) for b in begins]
    ends = np.array([climb.log_z for climb in climbs])
    return climbs[int(ends.argmax())]._replace(log_z_of_starts=ends)


def _starts(
    model: LabelModel, known: Labels, n_init: int, rng: np.random.Generator
) -> list[Labels]:
    counts = np.bincount(known[known >= 0], minlength=model.n_classes)
    # Classes of marginal 0 have no weight at all; a random start must not hold them.
    possible = np.flatnonzero(model.marginal > 0)
    starts = [np.where(known >= 0, known, counts.argmax())]
    if n_init > 1:
        starts.append(weigh_trees(model, known, _START_TREES, rng).marginals.argmax(axis=1))
    for _ in range(n_init - 2):
        random = possible[rng.integers(len(possible), size=len(known))]
        starts.append(np.where(known >= 0, known, random))
    return starts


def _climb(
    model: LabelModel,
    start: Labels,
    hidden: NDArray[np.bool_],  # (T,) whether the label is unknown
    tolerance: float,
    max_sweeps: int,
    refit: Callable[[LabelModel, OutTreeDistribution, Labels], LabelModel] | None,
) -> Climb:
    rows = np.flatnonzero(hidden)
    flips = Flips(model, start, tolerance)
    log_zs = [flips.trees.log_z]
    n_flips, converged = 0, False
    while len(log_zs) <= max_sweeps:
        together = _raise_bound(model, flips.trees, flips.labels, rows)
        n_changed = int((together != flips.labels).sum())
        if n_changed:
            flips = _confirmed(flips, Flips(model, together, tolerance))
            n_changed = int((together == flips.labels).all()) * n_changed
        if not n_changed:
            n_changed = _sweep(flips, rows, model.n_classes)
        log_zs.append(flips.trees.log_z)
        n_flips += n_changed
        if n_changed:
            continue
        refitted = refit(model, flips.trees, flips.labels) if refit is not None else None
        if refitted is None:
            converged = True
            break
        moved = Flips(refitted, flips.labels, tolerance)
        if not moved.trees.log_z > flips.trees.log_z + tolerance:
            converged = True
            break
        model, flips = refitted, moved
        log_zs[-1] = flips.trees.log_z
    return Climb(
        labels=flips.labels,
        log_z=flips.trees.log_z,
        log_zs=np.array(log_zs),
        n_flips=n_flips,
        converged=converged,
        model=model,
        log_z_of_starts=np.array([flips.trees.log_z]),
    )


def _confirmed(before: Flips, after: Flips) -> Flips:
    """Return the later state if its log Z is higher, as it has to be but for rounding."""
    return after if after.trees.log_z > before.trees.log_z else before


def _raise_bound(
    model: LabelModel,
    trees: OutTreeDistribution,
    labels: Labels,  # (T,)
    rows: Labels,  # unknown ones
) -> Labels:
    """Return labels of higher Σ W log β + Σ R log ρ, changed one at a time; W, R stay."""
    W, R = np.maximum(trees.edge_marginals, 0.0), trees.root_marginals
    log_edge, value, keeping = _bound_terms(model, W)
    value += R[:, None] * np.maximum(model.log_marginal, -_HUGE)
    value += W @ log_edge[:, labels].T + W.T @ log_edge[labels]
    for c, kept in enumerate(keeping):
        value[:, c] += (kept + kept.T) @ (labels == c)
    found = labels.copy()
    least = _ROUNDING * max(1.0, abs(trees.log_z))
    changed = True
    while changed:
        changed = False
        for t in rows:
            old, new = int(found[t]), int(value[t].argmax())
            if not value[t, new] > value[t, old] + least:
                continue
            value += W[:, t, None] * (log_edge[:, new] - log_edge[:, old])
            value += W[t][:, None] * (log_edge[new] - log_edge[old])
            if len(keeping):
                value[:, new] += keeping[new][:, t] + keeping[new][t]
                value[:, old] -= keeping[old][:, t] + keeping[old][t]
            found[t] = new
            changed = True
    return found


def _bound_terms(
    model: LabelModel,
    W: Array,  # (T, T)
) -> tuple[Array, Array, Array]:
    """Return what Σ W log β is made of.

    log p(child's label | parent's) (C, C); what each label of a child gives by itself (T, C); and
    what an edge gains if both its ends have a label (C or 0, T, T).
    """
    T, C, log_edge = model.n_records, model.n_classes, np.maximum(model.log_edge, -_HUGE)
    origins = model.log_origins
    if origins is None and len(model.log_attributes) == 1:
        return log_edge, np.zeros((T, C)), np.empty((0, T, T))
    # 0 · (−inf) is nothing here, and anything else of it is far below every other choice.
    layers = np.maximum(model.log_layers, -_HUGE)
    if origins is not None:
        begun = np.maximum(origins, -_HUGE)  # (T, C)
        kept = np.logaddexp(model.log_stickiness + layers[0], begun.T[:, :, None])
        gain = W * (kept - begun.T[:, :, None])
        return np.zeros((C, C)), W.sum(axis=1)[:, None] * begun, gain
    finite = (layers > -_HUGE).all(axis=0)
    gain = W * np.subtract(layers[0], layers[1], out=np.zeros_like(W), where=finite)
    return log_edge, np.zeros((T, C)), np.broadcast_to(gain, (C, T, T))


def _sweep(flips: Flips, rows: Labels, n_classes: int) -> int:
    """Make each change that raises log Z, one label after the other; return how many."""
    n_flips = 0
    for t in rows:
        changes = [
            (flips.change(t, label), label)
            for label in range(n_classes)
            if label != flips.labels[t]
        ]
        for change, label in sorted(changes, reverse=True):
            if not change.log_ratio + _SAFETY * change.left_out > -1e-9:
                break
            trees = flips.changed(t, label)
            rise = _ROUNDING * max(1.0, abs(trees.log_z))
            if trees.log_z > flips.trees.log_z + rise:
                flips.flip(t, label, trees)
                n_flips += 1
                break
    return n_flips


# The change of log Z ------------------------------------------------------------------------------


class Change(NamedTuple):
    """The change of log Z if one label changes."""

    log_ratio: float  # log Z(y') − log Z(y), but for what was left out
    left_out: float  # how much edges that were left out may add to it or take off, to first order


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
        self._read(model.trees(self.labels))

    def _read(self, trees: OutTreeDistribution) -> None:
        """Take what changes are judged by from the trees of the labels. O(T³)."""
        self.trees = trees
        e: Any = trees._engine.elimination  # type: ignore[attr-defined]  # of all pairs
        self.in_range = isinstance(e, Elimination)
        if self.in_range:
            self._log_scale = e.log_scale
            self._root_scale = e.log_scale + e.root_shift
            self._slope = _derivatives(e)  # (T, T) [child, parent], of scaled weights
            _swap(self._slope, e.order)
            self._root_slope = (e.x / e.rho_0)[e.order]
            self._beta = np.exp(trees.log_beta - self._log_scale[:, None])

    def changed(self, t: int, label: int) -> OutTreeDistribution:
        """Return the trees if t had this label: the slow way to judge it."""
        labels = self.labels.copy()
        labels[t] = label
        trees: OutTreeDistribution = self._model.trees(labels)
        return trees

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
            if abs(found.log_ratio) > _SAFETY * found.left_out:
                break
        return found

    def flip(self, t: int, label: int, trees: OutTreeDistribution) -> None:
        """Change the label for good; `trees` are those of the changed labels."""
        self.labels[t] = label
        self._read(trees)

    # Inside -----------------------------------------------------------------------------------

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
        column = np.asarray(np.exp(logs - self._log_scale))
        column[t] = 0.0
        return column

    def _row(self, t: int, label: int) -> Array:
        """Scaled weights of all records as parents of t, if t has this label."""
        begun = None if self._origins is None else self._origins[t, label]
        logs = self._model.log_pairs(self._layers[:, t], np.intp(label), self.labels, begun)
        row = np.exp(logs - self._log_scale[t])
        row[t] = 0.0
        return np.asarray(row)

    def _root(self, t: int, label: int) -> float:
        """Scaled weight of t as the root, if it has this label."""
        log_weight = self._log_roots[t] + self._log_marginal[label] - self._root_scale[t]
        return float(np.exp(log_weight))
