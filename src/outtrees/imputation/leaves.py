"""New records with hidden cells, each a leaf below one of the known records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from outtrees._common.edges import chunks
from outtrees._common.types import Array
from outtrees.imputation.model import HiddenModel, Regressions


class LeafCells(NamedTuple):
    """Hidden cells of new records, and the density of the observed ones."""

    mean: Array  # (n, D) of continuous cells; the most probable category of others
    variance: Array  # (n, D) of continuous cells, zero for others
    chances: list[Array]  # (n, C_d) for each categorical column
    log_density: Array  # (n,) of the observed cells; 0 for a record without any


def leaf_cells(
    model: HiddenModel,
    new: Array,  # (n, D), NaN where hidden
    completed: Array,  # (M, T, D) the known records, completed M times
) -> LeafCells:
    """Return what is expected of the hidden cells of new records, each by itself.

    A new record is a leaf below a record chosen at random, p(x) = (1/MT) Σ_mv p(x | x_v^m), the
    average over completions of the density that `OutTreeDensity.score_samples` uses. Its observed
    cells weigh the parents (and kinds of links); given these the hidden cells are Gaussian or
    follow a table. The same whatever other records are passed. Exact given the completions;
    O(n K M T D²).
    """
    parents = completed.reshape(-1, completed.shape[2])
    hidden = np.isnan(new)
    mean, variance = new.copy(), np.zeros_like(new)
    chances = [np.zeros((len(new), len(names))) for names in model.levels]
    log_density = np.zeros(len(new))
    D = len(model.continuous)
    for rows in chunks(len(new), len(parents) * max(1, D)):
        leaves = new[rows]
        tables = Regressions.of(model.edges.cov[: model.n_kinds], hidden[rows][:, model.continuous])
        log_pairs = _log_pairs(model, tables, leaves, parents)  # (K, n, MT)
        log_total = logsumexp(log_pairs, axis=(0, 2))
        log_density[rows] = log_total - np.log(len(parents))
        weights = np.exp(log_pairs - log_total[:, None])
        if D:
            found = _moments(model, tables, leaves[:, model.continuous], parents, weights)
            mean[rows, model.continuous], variance[rows, model.continuous] = found
        for d, (c, table) in enumerate(zip(model.categorical, model.log_tables, strict=True)):
            codes = parents[:, c].astype(np.intp)
            ones = np.eye(table.shape[1])[codes]  # (MT, C)
            chance = sum(weights[k] @ ones @ np.exp(table[k]).T for k in range(model.n_kinds))
            seen = ~hidden[rows, c]
            chance[seen] = np.eye(table.shape[1])[leaves[seen, c].astype(np.intp)]
            chances[d][rows] = chance / chance.sum(axis=1, keepdims=True)
            mean[rows, c] = chance.argmax(axis=1)
    return LeafCells(mean, variance, chances, log_density)


def _log_pairs(model: HiddenModel, tables: Regressions, leaves: Array, parents: Array) -> Array:
    """Return log weight_k p_k(observed cells of leaf u | parent v), (K, n, m)."""
    result = np.empty((model.n_kinds, len(leaves), len(parents)))
    cells = np.nan_to_num(leaves[:, model.continuous])
    missing = np.isnan(leaves[:, model.categorical])
    codes = np.nan_to_num(leaves[:, model.categorical]).astype(np.intp)
    above = parents[:, model.categorical].astype(np.intp)
    for k in range(model.n_kinds):
        few = parents[:1] if model.parent_free[k] else parents
        total = np.full((len(leaves), len(few)), model.log_weights[k])
        if model.continuous:
            A, b = model.edges.transition[k], model.edges.offset[k]
            means = few[:, model.continuous] @ A.T + b
            white = cells[:, None, :] @ tables.whitener[k] - means @ tables.whitener[k]
            distance = np.einsum("uvi,uvi->uv", white, white)
            total = total + tables.log_constant[k, :, None] - 0.5 * distance
        for d, table in enumerate(model.log_tables):
            by_child = np.where(missing[:, [d]], 0.0, table[k][codes[:, d]])
            total = total + np.take(by_child, above[: len(few), d], axis=1)
        result[k] = total
    return result


def _moments(
    model: HiddenModel, tables: Regressions, cells: Array, parents: Array, weights: Array
) -> tuple[Array, Array]:
    """Return mean and variance of the continuous cells of leaves, mixed over kinds and parents."""
    hidden = np.isnan(cells)
    mean, second = np.zeros_like(cells), np.zeros_like(cells)
    for k in range(model.n_kinds):
        A, b = model.edges.transition[k], model.edges.offset[k]
        means = parents[:, model.continuous] @ A.T + b  # (m, D)
        # The hidden cells' means are affine in the parent's: means − gain · means + gain · cells.
        turned = means @ (np.eye(len(A)) - np.swapaxes(tables.gain[k], 1, 2))
        turned += np.nan_to_num(cells)[:, None, :] @ np.swapaxes(tables.gain[k], 1, 2)
        mean += np.einsum("uv,uvi->ui", weights[k], turned)
        second += np.einsum("uv,uvi->ui", weights[k], turned**2)
        variance_left = np.diagonal(tables.rest[k], axis1=1, axis2=2)
        second += weights[k].sum(axis=1)[:, None] * variance_left
    variance = np.where(hidden, np.maximum(second - mean**2, 0.0), 0.0)
    return np.where(hidden, mean, cells), variance
