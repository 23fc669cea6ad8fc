"""The two forms in which weights are given, and in which every answer about edges comes back.

`AllPairs`: every record may descend from every other one. An array of edges is a matrix (T, T)
[child, parent].

`ListedEdges`: the possible edges are a list. An array of edges is a vector (E,) in the order of the
list; ``child`` and ``parent`` (E,) name the ends. Records may be in groups that no edge joins, and
then every group has a tree, or a forest, of its own.

Here is all that differs between the two outside the engines that sum over trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import fsum
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from outtrees._common.arguments import whole_number
from outtrees._common.edges import EdgeList
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees.weights import Floats, Ints, as_floats

Bools = NDArray[np.bool_]


class Edges(Protocol):
    """Weights of possible edges and roots, in one form or the other."""

    @property
    def child(self) -> Ints:
        """Child of each listed edge (E,)."""

    @property
    def parent(self) -> Ints:
        """Parent of each listed edge (E,)."""

    @property
    def log_weight(self) -> Floats:
        """Log-weights of the edges, (T, T) or (E,)."""

    @property
    def log_root(self) -> Floats:
        """Log-weights of the roots, (T,)."""

    @property
    def n_groups(self) -> int:
        """How many groups of records have a tree each."""

    @property
    def group_codes(self) -> Ints:
        """The group of each record (T,), numbered from 0."""

    def ends(self, some: Bools) -> tuple[Ints, Ints]:
        """Return child and parent of some edges; ``some`` has the shape of ``log_weight``."""

    def weights_in(self, other: Edges) -> Floats:
        """Return what these edges weigh in another form or list, in the shape of this one."""

    def into(self, child: int) -> tuple[Ints, Ints]:
        """Return the places in ``log_weight.flat`` of the edges into a record, and the parents."""

    def weights_at(self, child: Ints, parent: Ints) -> Floats:
        """Return the log-weights of these edges, −inf where an edge is not possible."""

    def expected(self, marginals: Floats, values: ArrayLike) -> float:
        """Return the expected sum of the values over a tree's edges."""

    def summands(self, edge: Floats, root: Floats, roots: str) -> list[float]:
        """Return numbers that sum to the sum of all values of edges and roots."""


class AllPairs:
    """Weights of all pairs, as matrices."""

    n_groups = 1

    def __init__(self, log_beta: Floats, log_root: Floats) -> None:
        self.log_weight = log_beta
        self.log_root = log_root

    @property
    def child(self) -> Ints:
        """Not there: raises AttributeError."""
        raise AttributeError("all pairs of records are possible edges: no list names their ends")

    parent = child

    @property
    def group_codes(self) -> Ints:
        """Zeros: all records are in one group."""
        return np.zeros(len(self.log_root), dtype=np.intp)

    def ends(self, some: Bools) -> tuple[Ints, Ints]:
        """Return child and parent of some pairs."""
        child, parent = np.nonzero(some)
        return child, parent

    def weights_in(self, other: Edges) -> Floats:
        """Return what all pairs weigh there (T, T)."""
        everyone = np.arange(len(self.log_root))
        return other.weights_at(everyone[:, None], everyone[None, :])

    def into(self, child: int) -> tuple[Ints, Ints]:
        """Return where row ``child`` is in the flat matrix, and its columns."""
        everyone = np.arange(len(self.log_root))
        return child * len(everyone) + everyone, everyone

    def weights_at(self, child: Ints, parent: Ints) -> Floats:
        """Return the log-weights of these edges."""
        return self.log_weight[child, parent]

    def expected(self, marginals: Floats, values: ArrayLike) -> float:
        """Return the expected sum of ``values[child, parent]``; the diagonal is ignored."""
        return fsum((marginals * self._checked(values)).sum(axis=1))

    def summands(self, edge: Floats, root: Floats, roots: str) -> list[float]:
        """Return one number for each record; a forest's roots are one more column."""
        if roots == "any":
            return [*np.column_stack([root, edge]).sum(axis=1)]
        return [*edge.sum(axis=1), *root]

    def _checked(self, values: ArrayLike) -> Floats:
        """Return finite values (T, T), 0 on the diagonal, in an array of their own."""
        shape = self.log_weight.shape
        try:
            raw = np.asarray(values)
        except ValueError:  # rows of different lengths
            raw = np.empty(0, dtype=object)
        if raw.dtype.kind not in "biuf":
            raise ValueError(f"values must be real numbers [child, parent]; got {values!r}")
        if raw.shape != shape:
            raise ValueError(f"values must have shape {shape}; got {raw.shape}")
        array = np.array(raw, dtype=np.float64)
        np.fill_diagonal(array, 0.0)
        if not np.isfinite(array).all():
            u, v = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(f"values[{u}, {v}] is {array[u, v]}; every value must be finite")
        return array


class ListedEdges(EdgeList):
    """Weights of a list of possible edges, in the caller's order."""

    def __init__(
        self,
        child: ArrayLike,  # (E,)
        parent: ArrayLike,  # (E,)
        log_weight: ArrayLike,  # (E,)
        log_root: ArrayLike,  # (T,)
        groups: ArrayLike | None = None,  # (T,)
    ) -> None:
        # Arrays of its own: answers are computed when asked for, and must not change with what the
        # caller writes into theirs.
        self.log_root = as_floats(log_root, "log_root")
        ends = _as_records(child, "child"), _as_records(parent, "parent")
        super().__init__(*ends, self.log_root.size)
        self.log_weight = as_floats(log_weight, "log_weight")
        self._check_shapes()
        self.groups = self._checked_groups(groups)  # (T,) numbered from 0; None: one group

    @classmethod
    def read(
        cls,
        child: Any,  # (E,), or a SciPy sparse array (T, T) [child, parent] of log-weights
        parent: ArrayLike | None,
        log_weight: ArrayLike | None,
        log_root: ArrayLike | None,
        n_records: int | None,
        groups: ArrayLike | None,
    ) -> ListedEdges:
        """Return the list from any of the forms in which it may be given."""
        if issparse(child):
            if parent is not None or log_weight is not None:
                raise InvalidWeightsError(
                    "a sparse array holds both ends and the log-weight of each edge; leave out "
                    "parent and log_weight, or give three arrays"
                )
            listed = child.tocoo()
            if listed.shape[0] != listed.shape[1]:
                raise InvalidWeightsError(
                    "a sparse array must be square, (T, T) [child, parent]; got shape "
                    f"{listed.shape}"
                )
            n_records = listed.shape[0] if n_records is None else n_records
            child, parent, log_weight = listed.row, listed.col, listed.data
        if parent is None or log_weight is None:
            raise InvalidWeightsError(
                "child, parent and log_weight are expected, one entry for each possible edge, or "
                "one sparse array; got child alone"
            )
        if log_root is None:
            if n_records is None:
                raise InvalidWeightsError("the number of records is not said; give n_records")
            log_root = np.zeros(n_records)
        elif n_records is not None and np.shape(log_root) != (n_records,):
            raise InvalidWeightsError(
                f"log_root must hold one log-weight for each of {n_records} records; got shape "
                f"{np.shape(log_root)}"
            )
        return cls(child, parent, log_weight, log_root, groups)

    @property
    def n_groups(self) -> int:
        """How many groups of records have a tree each."""
        return 1 if self.groups is None else int(self.groups.max()) + 1

    @property
    def group_codes(self) -> Ints:
        """The group of each record (T,)."""
        return np.zeros(self.n_records, dtype=np.intp) if self.groups is None else self.groups

    @property
    def n_pairs(self) -> int:
        """How many pairs of records are in the same group."""
        return int((np.bincount(self.group_codes).astype(np.int64) ** 2).sum())

    def ends(self, some: Bools) -> tuple[Ints, Ints]:
        """Return child and parent of some edges."""
        return self.child[some], self.parent[some]

    def weights_in(self, other: Edges) -> Floats:
        """Return what the listed edges weigh there (E,)."""
        return other.weights_at(self.child, self.parent)

    def weights_at(self, child: Ints, parent: Ints) -> Floats:
        """Return the log-weights of these edges, −inf where an edge is not listed."""
        keys, order = self._by_ends
        wanted = child * self.n_records + parent
        result = np.full(wanted.shape, -np.inf)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found = keys[place] == wanted
            result[found] = self.log_weight[order[place[found]]]
        return result

    def expected(self, marginals: Floats, values: ArrayLike) -> float:
        """Return the expected sum of one value for each listed edge."""
        array = np.asarray(values, dtype=np.float64)
        if array.shape != self.child.shape or not np.isfinite(array).all():
            raise ValueError(
                f"values must hold a finite number for each of {len(self.child)} possible edges; "
                f"got shape {array.shape}"
                + ("" if array.shape != self.child.shape else " with some that are not finite")
            )
        return float(marginals @ array)

    def summands(self, edge: Floats, root: Floats, roots: str) -> list[float]:
        """Return all values: they are few."""
        return [*edge, *root]

    @cached_property
    def _by_ends(self) -> tuple[Ints, Ints]:
        """child · T + parent of each edge in order, and the edges in that order."""
        keys = self.child * self.n_records + self.parent
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def _check_shapes(self) -> None:
        shapes = self.child.shape, self.parent.shape, self.log_weight.shape
        if len(set(shapes)) > 1 or self.child.ndim != 1:
            raise InvalidWeightsError(
                "child, parent and log_weight must hold one entry for each possible edge; got "
                f"shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        if self.log_root.ndim != 1 or not len(self.log_root):
            raise InvalidWeightsError(
                "log_root must hold one log-weight for each record, at least one; got shape "
                f"{self.log_root.shape}"
            )

    def _checked_groups(self, groups: ArrayLike | None) -> Ints | None:
        if groups is None:
            return None
        codes = np.asarray(groups)
        if codes.shape != (self.n_records,):
            raise InvalidWeightsError(
                f"groups must hold one number for each of {self.n_records} records; got shape "
                f"{codes.shape}"
            )
        number: Ints = np.unique(codes, return_inverse=True)[1].ravel()
        inside = (self.child >= 0) & (self.child < len(number))
        inside &= (self.parent >= 0) & (self.parent < len(number))
        across = np.flatnonzero(
            inside
            & (number[np.where(inside, self.child, 0)] != number[np.where(inside, self.parent, 0)])
        )
        if len(across):
            edge = int(across[0])
            raise InvalidWeightsError(
                f"edges are expected within groups, but {self.parent[edge]} → {self.child[edge]} "
                "joins two; leave it out or join the groups."
            )
        return number if number.max() > 0 else None


def no_record(name: str, number: int, T: int) -> InvalidWeightsError:
    """Return the error of an end that is not among the records."""
    return InvalidWeightsError(
        f"{name} must hold records 0 … {T - 1}; got {number}. What a root weighs goes into log_root"
    )


def own_parent(edge: int, record: int) -> InvalidWeightsError:
    """Return the error of an edge from a record to itself."""
    return InvalidWeightsError(f"edge {edge} makes record {record} its own parent; leave it out")


def listed_twice(child: int, parent: int) -> InvalidWeightsError:
    """Return the error of an edge that is listed again."""
    return InvalidWeightsError(
        f"each edge is expected once, but {parent} → {child} is listed several times; add up its "
        "weights"
    )


def condition(
    edges: Edges,
    parent: Mapping[int, int] | None,
    not_parent: Iterable[tuple[int, int]],
    root: int | None,
) -> tuple[Floats, Floats]:
    """Return weights under which only the trees that agree with what is known are possible."""
    log_weight, log_root = edges.log_weight.copy(), edges.log_root.copy()
    flat = log_weight.reshape(-1)  # no copy: the copy above is contiguous
    T = len(log_root)
    items = _mapping(parent).items()
    known = {_record(u, 0, T): _record(v, -1, T) for u, v in items}
    if root is not None and known.setdefault(_record(root, 0, T), -1) != -1:
        raise ValueError(f"record {root} cannot be a root and descend from {known[root]}")
    for child, not_from in _pairs(not_parent):
        u, w = _record(child, 0, T), _record(not_from, -1, T)
        if w < 0:
            log_root[u] = -np.inf
        else:
            places, parents = edges.into(u)
            flat[places[parents == w]] = -np.inf
    for u, v in known.items():
        places, parents = edges.into(u)
        flat[places[parents != v]] = -np.inf
        if v >= 0:  # where one root is asked for, a record without parents is it
            log_root[u] = -np.inf
            if not (flat[places] > -np.inf).any():
                raise NoSpanningTreeError(
                    f"{v} is not among the possible parents of {u}; allow that edge first.",
                    cause="excluded edge",
                    records=[u, v],
                )
    return log_weight, log_root


def _mapping(value: object) -> Mapping[object, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(
            f"parent must be a dict {{child: parent}}; got {value!r}. Write parent={{2: 0}} for "
            "'record 2 descends from record 0'"
        )
    return value


def _pairs(value: object) -> list[tuple[object, object]]:
    expected = (
        "not_parent must be a list of pairs (child, parent); got {!r}. Write not_parent=[(2, 0)] "
        "for 'record 2 does not descend from record 0'"
    )
    if not isinstance(value, Iterable) or isinstance(value, Mapping | str):
        raise ValueError(expected.format(value))
    pairs = []
    for pair in value:
        if not isinstance(pair, Iterable) or isinstance(pair, str):
            raise ValueError(expected.format(value))
        ends = tuple(pair)
        if len(ends) != 2:
            raise ValueError(expected.format(value))
        pairs.append(ends)
    return pairs


def _record(value: object, lowest: int, T: int) -> int:
    index = whole_number(value)
    if index is None or not lowest <= index < T:
        raise ValueError(f"a record must be an integer {lowest} … {T - 1}; got {value!r}")
    return index


def _as_records(values: ArrayLike, name: str) -> Ints:
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidWeightsError(
            f"{name} must hold the numbers of records, integers from 0; got dtype {array.dtype}"
        )
    return np.array(array, dtype=np.intp, order="C")
