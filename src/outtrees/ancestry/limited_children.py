"""Supports where no record can have more than so many children: sampled, with their errors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.arguments import as_count
from outtrees._common.progress import takes_long
from outtrees.ancestry.constraints import named
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.support import parents_columns, ranked
from outtrees.errors import NoSpanningTreeError, Option
from outtrees.io.tables import Table
from outtrees.trees.limited import limited_trees

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

Array = NDArray[np.float64]
_MIXED = 1.05  # the largest R̂ of chains that agree


@takes_long
def limited_parents(
    self: Ancestry,
    max_children: int,
    min_support: float = 0.1,
    *,
    n_sweeps: int = 8000,
    n_chains: int = 4,
    random_state: Any = None,
) -> Table:
    """Return child, parent, support, error, rank if no record has more children than that.

    For cells, which divide into two, or other records known to have few children. No exact
    formula is known for such trees, so supports are sampled (`outtrees.trees.limited`); `error`
    is their Monte-Carlo error, 0 in groups where the limit cannot bind. The fitted parameters
    are those without the limit, and so is every other answer of this class. Known parents can
    calibrate these supports too: `calibrate(parents, max_children=max_children)`.

    Parameters
    ----------
    max_children : int
        The most children that a record has.
    min_support : float
        Parents with less support are left out.
    n_sweeps : int
        Rounds of each chain.
    n_chains : int
        Chains, which a warning compares.
    random_state : int, Generator or None
        By default that of the model.

    Returns
    -------
    Table
        Columns child, parent, support, error (Monte-Carlo) and rank.
    """
    most = as_count("max_children", max_children, 1)
    posterior, exponents = self.fitted, self._limited_exponents.get(most)
    if exponents is not None:
        posterior = posterior.with_exponents(exponents)
    rng = self._generator(random_state)
    found = limited_supports(posterior, most, n_sweeps, n_chains, rng)
    return limited_table(found, posterior, min_support)


class LimitedSupports(NamedTuple):
    """Supports of the possible edges and of being a root, under a limit on children."""

    edges: Array  # (E,)
    edge_errors: Array  # (E,) Monte-Carlo standard errors; 0 where exact
    roots: Array  # (T,)
    root_errors: Array  # (T,)
    r_hat: float  # the largest of any group; 1 where all is exact


def limited_supports(
    posterior: Posterior, max_children: int, n_sweeps: int, n_chains: int, rng: np.random.Generator
) -> LimitedSupports:
    """Return the supports if no record has more than `max_children` children.

    Group by group: what one group's records do says nothing of another's. Where no record of a
    group has more possible children than that, its supports are exact. By the best reading.
    """
    trees, T = posterior.best_trees, len(posterior.records)
    groups = posterior.edges.groups
    edges, roots = trees.edge_marginals.copy(), trees.root_marginals.copy()
    edge_errors, root_errors = np.zeros_like(edges), np.zeros_like(roots)
    r_hat = 1.0
    possible = np.bincount(trees.parent[trees.log_weight > -np.inf], minlength=T)
    place = np.empty(T, dtype=np.intp)
    for group in np.unique(groups[possible > max_children]):
        rows, listed = np.flatnonzero(groups == group), np.flatnonzero(groups[trees.child] == group)
        place[rows] = np.arange(len(rows))
        try:
            found = limited_trees(
                place[trees.child[listed]],
                place[trees.parent[listed]],
                trees.log_weight[listed],
                trees.log_root[rows],
                max_children,
                roots=trees.roots,
                n_sweeps=n_sweeps,
                n_chains=n_chains,
                random_state=rng,
            )
        except NoSpanningTreeError as error:
            raise no_limited_tree(
                error, [posterior.records.ids[i] for i in rows], max_children
            ) from error
        edges[listed], edge_errors[listed] = found.edge_frequencies, found.edge_errors
        roots[rows], root_errors[rows] = found.root_frequencies, found.root_errors
        r_hat = max(r_hat, found.r_hat)
    return LimitedSupports(edges, edge_errors, roots, root_errors, r_hat)


def no_limited_tree(
    error: NoSpanningTreeError, ids: Sequence[str], max_children: int
) -> NoSpanningTreeError:
    """Return the error that no tree of these records obeys the limit, in words of the table."""
    if error.cause != "too many children":
        return named(error, ids)
    return NoSpanningTreeError(
        f"no tree was found among the relatives of {ids[0]!r} in which every record "
        f"has at most {max_children} children; raise ",
        Option("max_children"),
        ", or forbid fewer pairs",
        cause=error.cause,
        records=[ids[int(number)] for number in error.records],
    )


def limited_table(found: LimitedSupports, posterior: Posterior, min_support: float) -> Table:
    """Return the rows (child, parent, support, error, rank); warn where chains disagree."""
    if found.r_hat > _MIXED:
        warnings.warn(
            f"the chains of trees had not mixed (largest R̂ {found.r_hat:.2f}, at most {_MIXED} is "
            "expected): errors of some supports are larger than said; raise n_sweeps",
            UserWarning,
            stacklevel=4,
        )
    order = ranked(posterior, np.append(found.edges, found.roots))
    error = np.concatenate([found.edge_errors, found.root_errors])[order.edge]
    rows = order.support >= min_support
    columns = parents_columns(posterior, order, rows)
    rank = columns.pop("rank")
    return Table({**columns, "error": error[rows].tolist(), "rank": rank})
