"""Nearest sampled ancestors: what trees of the transmission model say about who infected whom.

An edge v → u of that model stands for two things: u descends from v, or from beside it, from an
unsampled person above v (`outtrees.models.columns.Transmission`). Then u's nearest sampled ancestor
is that of v. Unread letters of sequences are drawn on drawn trees, several times over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.random import RandomState, as_generator
from outtrees.errors import NoSpanningTreeError
from outtrees.models.columns import EdgeWeights, Lineage, Transmission, TransmittedSequence
from outtrees.models.columns.lineage import order_by_cells
from outtrees.models.columns.similar import MISSING
from outtrees.models.columns.transmission import Clock, Edges
from outtrees.trees import OutTreeDistribution
from outtrees.trees.distribution import Consensus, Tree
from outtrees.views.report_data import MAX_WHAT_IF

if TYPE_CHECKING:
    from outtrees.ancestry.posterior import Member, Posterior

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_DRAWN = 200_000  # parents in the trees that are drawn, about
_FEWEST, _MOST = 400, 4000  # trees
NOTHING = 1e-5  # a path of descent from beside others this improbable is not followed further
_MEMBERS = 24  # draws of the parameters that answers average over
_FILLINGS, _ROUNDS = 12, 3  # draws of the unread letters, and trees that each is drawn on in turn
_MOST_COMPARED = 3_000_000_000  # letters, in all of them; tables with more are filled less often


class Part(NamedTuple):
    """One distribution over trees whose edges mean descent from a record or from beside it."""

    trees: OutTreeDistribution
    direct: Array  # (E,), the chance that an edge means descent from the record itself
    weight: float


def number_drawn(n_records: int) -> int:
    """Return the number of trees drawn from all parts together, about."""
    return int(np.clip(_DRAWN // n_records, _FEWEST, _MOST))


class Ancestors(ABC):
    """Nearest sampled ancestors of T records: supports of the edges that are listed.

    Parameters
    ----------
    child, parent : arrays of shape (E,)
        The ends of the edges, as rows of the table.
    n_records : int
    single : bool
        Whether there is one root (in each group), beside which nobody descends.
    groups : array of shape (T,), optional
        As the trees were given them, in rows of the table.
    """

    def __init__(
        self, child: Index, parent: Index, n_records: int, single: bool, groups: Index | None
    ) -> None:
        self.child, self.parent, self.n_records = child, parent, n_records
        self._single, self._groups = single, groups

    weights: Any  # (n,), of the parts of which supports are averages
    _found: Any  # supports of edges and roots in each part (n, E + T), chances of numbers of roots

    @cached_property
    def edge_marginals(self) -> Array:
        """The probability of each listed parent as the nearest sampled ancestor (E,)."""
        return np.asarray(self.weights @ self._found[0][:, : len(self.child)])

    @cached_property
    def root_marginals(self) -> Array:
        """The probability that a record has no sampled ancestor (T,)."""
        return np.asarray(self.weights @ self._found[0][:, len(self.child) :])

    @property
    def part_supports(self) -> Array:
        """The supports of edges and roots in each part (n, E + T)."""
        return np.asarray(self._found[0])

    def number_of_roots(self) -> Array:
        """Return the probabilities of 0, 1, 2, … records without sampled ancestors, by draws."""
        return np.trim_zeros(self._found[1], "b")

    @abstractmethod
    def sample(self, n: int = 1, random_state: RandomState = None) -> Index:
        """Return n forests of nearest sampled ancestors (n, T)."""

    @abstractmethod
    def mode(self) -> Tree:
        """Return the nearest sampled ancestors in the most probable tree."""

    @abstractmethod
    def given(
        self,
        parent: Mapping[int, int] | None = None,
        not_parent: Iterable[tuple[int, int]] = (),
        root: int | None = None,
    ) -> Ancestors:
        """Return the distribution if these records have these nearest sampled ancestors."""

    def consensus(self) -> Consensus:
        """Return the forest with the most expected right parents."""
        edges, roots = self.edge_marginals, self.root_marginals
        best = OutTreeDistribution.from_candidates(
            self.child,
            self.parent,
            np.where(edges > 0, edges, -np.inf),
            np.where(roots > 0, roots, -np.inf),
            roots="single" if self._single else "any",
            groups=self._groups,
        ).mode()
        right = float(roots[best.parents < 0].sum())
        listed = np.flatnonzero(best.parents[self.child] == self.parent)
        return Consensus(best.parents, right + float(edges[listed].sum()))


class NearestSampled(Ancestors):
    """Nearest sampled ancestors of T records, by trees in which some descend from beside others.

    Of the probability of a parent, descent from it is summed exactly over all trees; what comes to
    it from records beside it is averaged over drawn trees, always the same ones.

    Parameters
    ----------
    parts : sequence of Part
        Over the same edges.
    child, parent : arrays of shape (E,)
        Their ends, as rows of the table.
    order : array of shape (T,)
        The row of each record of the trees, which stand in an order that the cells decide.
    listed : array of shape (E,)
        The place of each edge of the trees in `child` and `parent`.
    single : bool
        Whether there is one root (in each group), beside which nobody descends.
    groups : array of shape (T,), optional
        As the trees were given them, in rows of the table.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        child: Index,
        parent: Index,
        order: Index,
        listed: Index,
        single: bool,
        groups: Index | None = None,
    ) -> None:
        super().__init__(child, parent, len(order), single, groups)
        self.parts = tuple(parts)
        self.order, self._listed = order, listed
        self._coded = np.argsort(child * len(order) + parent, kind="stable")
        self._codes = (child * len(order) + parent)[self._coded]

    def _edge(self, child: Index, parent: Index) -> Index:
        """Return the places of edges in the list, −1 for those that are not in it."""
        if not len(self._codes):
            return np.full(np.broadcast(child, parent).shape, -1, dtype=np.intp)
        code = child * self.n_records + parent
        at = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        listed = (self._codes[at] == code) & (parent >= 0)
        return np.asarray(np.where(listed, self._coded[at], -1))

    # Drawn trees ---------------------------------------------------------------------------

    def _of_rows(self, values: Array) -> Array:
        """Return what edges of the trees have, in the order of `child` and `parent`."""
        result = np.empty_like(values)
        result[self._listed] = values
        return result

    def _drawn(self, part: Part, n: int, rng: np.random.Generator) -> tuple[Index, Array]:
        """Return n trees of a part (n, T), and how surely each edge means direct descent (n, T)."""
        return self._told_apart(part, part.trees.sample(n, rng))

    def _told_apart(self, part: Part, found: Index) -> tuple[Index, Array]:
        """Return trees of a part (n, T) in rows of the table, and the chances of their edges."""
        parents = np.empty(found.shape, dtype=np.intp)
        parents[:, self.order] = np.where(found >= 0, self.order[found], -1)
        edge = self._edge(np.arange(self.n_records), parents)
        direct = np.append(self._of_rows(part.direct), 1.0)[edge]
        if self._single:
            rooted = np.take_along_axis(parents, np.maximum(parents, 0), axis=1) < 0
            direct[rooted] = 1.0
        return parents, direct

    def of_rows(self, part: Part) -> tuple[Array, Array, Array]:
        """Return log-weights of edges and roots, and the chances of direct descent, in rows."""
        log_root = np.empty(self.n_records)
        log_root[self.order] = part.trees.log_root
        return self._of_rows(part.trees.log_weight), log_root, self._of_rows(part.direct)

    @cached_property
    def weights(self) -> Array:
        """The weights of the parts."""
        return np.array([part.weight for part in self.parts])

    @cached_property
    def _by_child(self) -> tuple[Index, Index]:
        """The order of the trees' edges by child and parent, and each child's first (T + 1,)."""
        trees = self.parts[0].trees
        order = np.lexsort((trees.parent, trees.child))
        return order, np.searchsorted(trees.child[order], np.arange(self.n_records + 1))

    def _trees_of(self, part: Part, n: int, used: int) -> tuple[Index, int]:
        """Return n trees of a part (n, T), and how many random numbers have been used by then.

        Up to 500 records, a report draws the same trees for the same numbers.
        """
        from outtrees.ancestry.nearest_kernels import draw, eliminate

        trees, T = part.trees, self.n_records
        found = np.full((n, T), -1, dtype=np.intp)
        if T > MAX_WHAT_IF:
            return trees.sample(n, used), used + 1
        weight = np.full((T + 1, T + 1), -np.inf)  # roots last
        weight[trees.child, trees.parent] = trees.log_weight
        weight[:T, T] = trees.log_root
        top = weight[:, :T].max(axis=1) if self._single else weight.max(axis=1)
        weight = np.exp(weight - np.where(np.isfinite(top), top, 0.0)[:, None])
        group = np.zeros(T, dtype=np.intp)
        if self._single and self._groups is not None:
            group = self._groups[self.order]
        for g in np.unique(group):
            nodes = np.flatnonzero(group == g)
            if self._single:
                # The likeliest root stays last; of equal ones, however rounded, the first does.
                chances = trees.root_marginals[nodes]
                likely = int(np.flatnonzero(chances > chances.max() - 1e-6)[0])
                nodes[[0, likely]] = nodes[[likely, 0]]
            else:
                nodes = np.append(T, nodes)  # the parent of all roots, and the only root
            own = weight[np.ix_(nodes, np.append(nodes, T))]
            if not self._single:
                own[:, -1] = np.arange(len(own)) == 0
            q, pivots = own.copy(), np.ones(len(own))
            if not eliminate(q, pivots):
                return trees.sample(n, used), used + 1
            drawn = np.empty((n, len(own)), dtype=np.intp)
            used = draw(own, q, pivots, used, drawn)
            parents = np.append(nodes, T)[drawn]
            found[:, nodes[nodes < T]] = np.where(parents < T, parents, -1)[:, nodes < T]
        return found, used

    @cached_property
    def _found(self) -> tuple[Array, Array]:
        """Supports of edges and roots in each part (n, E + T), chances of 0, 1, 2, … roots."""
        T, rng = self.n_records, np.random.default_rng(0)
        supports, numbers, used = [], np.zeros(T + 1), 0
        for part in self.parts:
            n = max(2, int(np.ceil(number_drawn(T) * part.weight - 1e-6)))  # however rounded
            drawn, used = self._trees_of(part, n, used)
            roots = (self._resolved(*self._told_apart(part, drawn), rng) < 0).sum(axis=1)
            numbers += part.weight * np.bincount(roots, minlength=T + 1) / n
            supports.append(self._supports(part, drawn))
        return np.array(supports), numbers

    def _supports(self, part: Part, parents: Index) -> Array:
        """Return the supports of edges and roots in one part (E + T,), by trees drawn from it.

        The trees (n, T) are in the records of the part.
        """
        from outtrees.ancestry.nearest_kernels import follow

        T, trees = self.n_records, part.trees
        order, start = self._by_child
        own, direct = trees.edge_marginals, part.direct
        beside = own * (1 - direct)
        ordered, more_roots = np.zeros(len(own)), np.zeros(T)
        follow(
            *((start, trees.parent[order]), direct[order], self._single, NOTHING),
            *(parents, ordered, more_roots),
        )
        more_edges = np.empty_like(ordered)
        more_edges[order] = ordered
        # Altogether as much as is beside somebody, which is known exactly; what is too rare to
        # have been drawn counts as descent from the record itself.
        aside = np.bincount(trees.child, beside, minlength=T)
        drawn = np.bincount(trees.child, more_edges, minlength=T) + more_roots
        scale = np.divide(aside, drawn, out=np.zeros(T), where=drawn > 0)
        rare = np.where((drawn == 0)[trees.child], beside, 0.0)
        edges = own * direct + more_edges * scale[trees.child] + rare
        roots = np.empty(T)
        roots[self.order] = trees.root_marginals + more_roots * scale
        return np.concatenate([self._of_rows(edges), roots])

    def _resolved(self, parents: Index, chance: Array, rng: np.random.Generator) -> Index:
        """Return each record's nearest sampled ancestor in drawn trees (n, T), −1 for none."""
        n, T = parents.shape
        is_direct = (rng.random((n, T)) < chance) | (parents < 0)
        result = parents.copy()
        line, rows = np.arange(n)[:, None], np.broadcast_to(np.arange(T), (n, T))
        here = np.where(is_direct, rows, parents)  # the record whose own parent it shares
        for _ in range(T):
            moving = ~is_direct[line, here]
            if not moving.any():
                break
            here = np.where(moving, parents[line, here], here)
        found = parents[line, here]
        allowed = (found < 0) | (self._edge(rows, found) >= 0)
        return np.asarray(np.where(allowed, found, result))

    # Answers -------------------------------------------------------------------------------

    @cached_property
    def drawn_edges(self) -> Array:
        """The probability of each edge, whether descent from a record or from beside it (E,)."""
        parts = (part.weight * self._of_rows(part.trees.edge_marginals) for part in self.parts)
        return np.asarray(sum(parts))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Index:
        """Return n forests of nearest sampled ancestors (n, T)."""
        rng = as_generator(random_state)
        numbers = rng.multinomial(n, [part.weight for part in self.parts])
        drawn = [
            self._resolved(*self._drawn(part, int(number), rng), rng)
            for part, number in zip(self.parts, numbers, strict=True)
            if number
        ]
        empty = np.empty((0, self.n_records), dtype=np.intp)
        return np.concatenate([empty, *drawn])[rng.permutation(n)]

    def mode(self) -> Tree:
        """Return the nearest sampled ancestors in the most probable tree of the first part.

        An edge means what is more probable; the log-probability is that of tree and meanings.
        """
        part = self.parts[0]
        tree = part.trees.mode()
        parents, chance = self._told_apart(part, tree.parents[None])
        logs = np.log(np.maximum(chance, 1 - chance)).sum()
        likelier = (chance >= 0.5).astype(float)
        found = self._resolved(parents, likelier, np.random.default_rng(0))[0]
        return Tree(found, tree.log_prob + float(logs))

    def given(
        self,
        parent: Mapping[int, int] | None = None,
        not_parent: Iterable[tuple[int, int]] = (),
        root: int | None = None,
    ) -> NearestSampled:
        """Return the distribution if these records descend from these, and not from beside them."""
        known, pairs = dict(parent or {}), list(not_parent)
        rank = np.empty(self.n_records, dtype=np.intp)
        rank[self.order] = np.arange(self.n_records)

        def row(v: int) -> int:
            return int(rank[v]) if v >= 0 else -1

        parts, logs = [], []
        excluded: NoSpanningTreeError | None = None
        for part in self.parts:
            try:
                found = part.trees.given(
                    {row(u): row(v) for u, v in known.items()},
                    [(row(u), row(v)) for u, v in pairs],
                    None if root is None else row(root),
                )
                log_chance = found.log_z - part.trees.log_z
            except NoSpanningTreeError as error:
                excluded = error
                continue
            direct = self._of_rows(part.direct)
            meant = [(u, v) for u, v in known.items() if v >= 0]
            places = [int(self._edge(np.array([u]), np.array([v]))[0]) for u, v in meant]
            if not all(direct[place] > 0 for place in places):
                excluded = NoSpanningTreeError(
                    "a known parent is no possible infector, only a relative. Give another one.",
                    cause="excluded edge",
                    records=[u for u, _ in meant],
                )
                continue
            log_chance += float(np.log(direct[places]).sum())
            direct[places] = 1.0
            parts.append(part._replace(trees=found, direct=direct[self._listed]))
            logs.append(log_chance + float(np.log(part.weight)))
        if not parts:
            assert excluded is not None  # there is at least one part
            raise excluded
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        changed = [p._replace(weight=float(w)) for p, w in zip(parts, weights, strict=True)]
        ends = self.child, self.parent, self.order, self._listed
        return NearestSampled(changed, *ends, self._single, self._groups)


# From a posterior ----------------------------------------------------------------------------


def transmission_edges(
    lineage: Lineage,
    children: Sequence[Array],  # one (n, D_c) for each column
    parents: Sequence[Array],  # one (m, D_c) for each column
    child: Index,
    parent: Index,
) -> tuple[Transmission, Edges, Clock]:
    """Return the model of dates, and these edges as it weighs them, with sequences if there are."""
    kernel = transmission_of(lineage)
    assert kernel is not None  # other models have no such edges
    assert lineage.dates is not None
    column = _sequence_column(lineage)
    if column is None:
        new, old = children[lineage.dates], parents[lineage.dates]
        delta = new[child, 0] - old[parent, 0]
        slack = np.nan_to_num(new[child, 2] + old[parent, 2])
        edges = kernel._edges(np.where(np.isfinite(delta), delta, kernel.moments[0]), slack)
        return kernel, edges, kernel.clock._replace(with_sites=False)
    sequence = lineage.kernels[column]
    assert isinstance(sequence, TransmittedSequence)
    pairs = sequence.pairs(children[column], parents[column], child, parent)
    return kernel, *sequence._dated(pairs)


def transmission_of(lineage: Lineage) -> Transmission | None:
    """Return the transmission model of a lineage; None if it has another."""
    kernel = None if lineage.dates is None else lineage.kernels[lineage.dates]
    return kernel if isinstance(kernel, Transmission) else None


def _sequence_column(lineage: Lineage) -> int | None:
    found = [c for c in lineage.used if isinstance(lineage.kernels[c], TransmittedSequence)]
    return found[0] if found else None


def placed_beside(
    posterior: Posterior, new_values: Sequence[Array], supports: Array, child: Index, parent: Index
) -> Array:
    """Return the nearest sampled ancestors of new records (n, T + 1), from supports of edges.

    Those who descend from beside a record have its own nearest sampled ancestor.
    """
    kernel, edges, clock = transmission_edges(
        posterior.lineage, new_values, posterior.values, child, parent
    )
    direct = np.ones_like(supports)
    direct[child, parent] = kernel.direct_shares(edges, clock)
    T = len(posterior.records)
    above = np.zeros((T, T + 1))
    above[posterior.edges.child, posterior.edges.parent] = posterior.trees.edge_marginals
    above[:, T] = posterior.trees.root_marginals
    if posterior.roots == "single":  # beside the root nobody descends
        above[np.arange(T), np.arange(T)] = above[:, T]
        above[:, T] = 0.0
    return np.asarray(supports * direct + (supports * (1 - direct))[:, :T] @ above)


def nearest_sampled(posterior: Posterior) -> NearestSampled:
    """Return the distribution over nearest sampled ancestors of a fitted table."""
    order = order_by_cells(posterior.values)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    child, parent = posterior.edges.child, posterior.edges.parent
    listed = np.lexsort((rank[parent], rank[child]))
    # A parent that is known is no record beside which somebody descends.
    number = np.bincount(child, minlength=len(order))
    is_known = ((number == 1) & ~posterior.edges.root_allowed)[child]

    def part(values: tuple[Array, ...], member: Member, weight: float) -> Part:
        lineage, groups = member.lineage, posterior.edges.groups
        kernel, edges, clock = transmission_edges(lineage, values, values, child, parent)
        direct = np.where(is_known, 1.0, kernel.direct_shares(edges, clock))
        found = EdgeWeights(lineage, values, groups, posterior.backgrounds)
        pairs = posterior.pairs
        if values is not posterior.values:
            pairs = lineage.pairs(values, values, child, parent)
        log_root = found.log_root + member.log_introduction
        trees = OutTreeDistribution.from_candidates(
            rank[child][listed],
            rank[parent][listed],
            found.log_beta_pairs(pairs)[listed],
            np.where(posterior.edges.root_allowed, log_root, -np.inf)[order],
            groups=groups[order],
            roots=posterior.roots,
            method=posterior.method,
        )
        return Part(trees, direct[listed], weight)

    filler = _Filler.of(posterior, order)
    parts = []
    if filler is None:
        members = _some(posterior.members, _MEMBERS)
        parts = [part(posterior.values, m, 1 / len(members)) for m in members]
    else:
        rng = np.random.default_rng(0)
        first = part(posterior.values, posterior.members[0], 1.0)
        n = filler.number(len(child))
        for member in _some(posterior.members, n, whole=True):
            one = first
            for _ in range(_ROUNDS):
                values = filler.filled(one.trees.sample(1, rng)[0], rng)
                one = part(values, member, 1 / n)
            parts.append(one)
    single = posterior.roots == "single"
    return NearestSampled(parts, child, parent, order, listed, single, posterior.edges.groups)


def _some(members: Sequence[Member], n: int, whole: bool = False) -> list[Member]:
    """Return n of the members, each as often as it weighs; a single one once, or with `whole` n."""
    if len(members) == 1:
        return [members[0]] * (n if whole else 1)
    below = np.cumsum([member.weight for member in members])
    places = np.searchsorted(below / below[-1], (np.arange(n) + 0.5) / n)
    return [members[i] for i in places]


class _Filler:
    """Draws unread letters on trees, as mutations along the edges let them be."""

    def __init__(
        self, posterior: Posterior, order: Index, column: int, letters: NDArray[np.uint8]
    ) -> None:
        self.posterior, self.order, self.column = posterior, order, column
        sequence = posterior.lineage.kernels[column]
        assert isinstance(sequence, TransmittedSequence)
        self.n_letters, self.process = len(sequence.levels), sequence.process
        counts = np.array([(letters == a).any(axis=0) for a in range(self.n_letters)])
        self.varied = np.flatnonzero(counts.sum(axis=0) > 1)
        self.letters = np.ascontiguousarray(letters[:, self.varied][order])
        self.dates = posterior.values[column][order, 0]

    @classmethod
    def of(cls, posterior: Posterior, order: Index) -> _Filler | None:
        """Return what fills the sequences; None where there is nothing to fill."""
        column = _sequence_column(posterior.lineage)
        if column is None:
            return None
        values = posterior.records.column(posterior.names[column]).values
        # Sequences of which little was read stay as they are: nothing says where they belong.
        still = np.isnan(posterior.values[column][:, -values.shape[1] :])
        wanted = np.isnan(values) & ~still
        if not wanted.any():
            return None
        letters = np.where(np.isnan(values), MISSING, values).astype(np.uint8)
        filler = cls(posterior, order, column, letters)
        filler.wanted = np.ascontiguousarray(wanted[:, filler.varied])
        return filler if filler.wanted.any() else None

    wanted: NDArray[np.bool_]  # (T, n), the unread letters that are drawn, in rows of the table

    def number(self, n_edges: int) -> int:
        """Return how often letters are drawn."""
        compared = n_edges * max(len(self.varied), 1) * _ROUNDS
        return int(np.clip(_MOST_COMPARED // max(compared, 1), 2, _FILLINGS))

    def filled(self, parents: Index, rng: np.random.Generator) -> tuple[Array, ...]:
        """Return the cells of all columns with unread letters drawn on a tree."""
        from outtrees.models.columns.transmission_kernels import draw_letters

        T, found = len(parents), self.process.values_of(self.process.theta)
        apart = np.abs(self.dates - self.dates[np.maximum(parents, 0)])
        # The common ancestor lived about a delay before the earlier of the two was sampled.
        apart = np.where(np.isfinite(apart), apart, found["generation_mean"]) + found["delay_mean"]
        change = -np.expm1(-found["substitution_rate"] * apart)
        depth = np.zeros(T, dtype=np.intp)
        above = parents.copy()
        while (above >= 0).any():
            depth += above >= 0
            above = np.where(above >= 0, parents[np.maximum(above, 0)], -1)
        drawn = draw_letters(
            self.letters,
            parents,
            np.argsort(depth, kind="stable"),
            np.maximum(change, 1e-12),
            self.n_letters,
            rng.random(self.letters.shape),
        )
        rows = np.empty_like(drawn)
        rows[self.order] = drawn
        values = list(self.posterior.values)
        cells = values[self.column].copy()
        own = cells[:, cells.shape[1] - self._n_sites + self.varied]
        cells[:, cells.shape[1] - self._n_sites + self.varied] = np.where(self.wanted, rows, own)
        values[self.column] = cells
        return tuple(values)

    @property
    def _n_sites(self) -> int:
        sequence = self.posterior.lineage.kernels[self.column]
        assert isinstance(sequence, TransmittedSequence)
        return len(sequence.root)
