"""Many small distributions over out-trees at once: the same answers without a Python loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.arguments import as_count
from outtrees._common.random import RandomState, as_generator
from outtrees._common.threads import in_threads
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees.probabilities import read_only, settled, weighted
from outtrees.trees.weights import (
    Floats,
    Ints,
    as_floats,
    real_numbers,
    refuse_infinite,
    refuse_wide,
    smallest_finite,
)

if TYPE_CHECKING:
    from outtrees.trees.distribution import OutTreeDistribution, Roots

# Problems with more nodes go through the engine of one problem, whose matrix products win.
_MOST_NODES = 72
_CHUNK = 128  # problems that a thread takes at a time
_WORTH_THREADS = 2_000_000  # nodes cubed of all problems together: about a millisecond
_STEP = 1e-20  # of the imaginary parts: its square is nothing beside one


class Trees(NamedTuple):
    """One out-tree for each problem, and their log-probabilities.

    Attributes
    ----------
    parents : array of shape (B, T)
        −1 at a root and beyond a problem's length.
    log_prob : array of shape (B,)
        Log-probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from outtrees import OutTreeDistribution
    >>> OutTreeDistribution.batch(np.zeros((2, 1, 1))).mode().parents.tolist()
    [[-1], [-1]]
    """

    parents: Ints
    log_prob: Floats


class OutTreeBatch:
    """The distributions over the out-trees of B problems of up to T records each.

    Made by `OutTreeDistribution.batch`. Answers have one more axis, in front, than those of
    `OutTreeDistribution`, of which ``batch[b]`` is the b-th. They are exact in the same sense;
    a problem whose weights leave the range of a double is handed to the engine of one problem.

    Attributes
    ----------
    log_beta, log_root : arrays of shape (B, T, T) and (B, T)
        The log-weights, −inf on diagonals and beyond a problem's length; read-only.
    lengths : integer array of shape (B,)
        How many records each problem has.

    Examples
    --------
    >>> import numpy as np
    >>> from outtrees import OutTreeDistribution
    >>> batch = OutTreeDistribution.batch(np.zeros((100, 3, 3)))
    >>> batch.edge_marginals.shape, round(float(batch[99].log_z - np.log(9)), 12)
    ((100, 3, 3), 0.0)
    """

    def __init__(
        self,
        log_beta: ArrayLike,  # (B, T, T) [child, parent]
        log_root: ArrayLike | None = None,  # (B, T)
        lengths: ArrayLike | None = None,  # (B,)
        *,
        roots: Roots = "single",
    ) -> None:
        raw = real_numbers(log_beta, "log_beta")
        if raw.ndim != 3 or raw.shape[1] != raw.shape[2] or raw.shape[1] == 0:
            raise InvalidWeightsError(
                f"log_beta must have shape (B, T, T) [problem, child, parent]; got {raw.shape}"
            )
        B, T, _ = raw.shape
        # Room for the marginals too: one array of megabytes gets large pages of memory, and small
        # ones cost as much as the sums.
        beta, self._room = np.empty((2, B, T, T))
        beta[:] = raw
        root = np.zeros((B, T)) if log_root is None else as_floats(log_root, "log_root")
        if root.shape != (B, T):
            raise InvalidWeightsError(f"log_root must have shape {(B, T)}; got {root.shape}")
        self.roots, self.lengths = roots, _checked_lengths(lengths, B, T)
        self.log_beta, self.log_root, complete = _checked(beta, root, self.lengths)
        self._lifted = int(roots == "any")
        self._nodes = self.lengths + self._lifted  # of each problem
        self._beta, self._root = self._of_nodes()
        self._scale = self._beta.max(axis=2, initial=-np.inf)
        self._scale[np.isneginf(self._scale)] = 0.0
        if complete:
            self._anchor = self._scale.argmax(axis=1) * (1 - self._lifted)
        else:
            self._anchor = self._anchors()

    def __len__(self) -> int:
        """B."""
        return len(self.lengths)

    def __getitem__(self, b: int) -> OutTreeDistribution:
        """Return the distribution of one problem."""
        from outtrees.trees.distribution import OutTreeDistribution

        T = self.lengths[b]
        return OutTreeDistribution(self.log_beta[b, :T, :T], self.log_root[b, :T], roots=self.roots)

    def __iter__(self) -> Iterator[OutTreeDistribution]:
        """Yield the distribution of each problem."""
        return (self[b] for b in range(len(self)))

    def __repr__(self) -> str:
        B, T = self.log_root.shape
        return f"OutTreeBatch({B} problems of up to {T} records, roots={self.roots!r})"

    # ------------------------------------------------------------------ sums over all trees

    @cached_property
    def log_z(self) -> Floats:
        """Log of the sum of all tree weights, (B,)."""
        return self._sums[0] if "_sums" in self.__dict__ else self._log_z()

    @property
    def edge_marginals(self) -> Floats:
        """P(u descends directly from v), (B, T, T) [problem, child, parent]."""
        return self._sums[1]

    @property
    def root_marginals(self) -> Floats:
        """P(r is a root), (B, T)."""
        return self._sums[2]

    @cached_property
    def entropy(self) -> Floats:
        """Entropy of each problem's tree in nats, (B,)."""
        scale = self._scale[:, self._lifted :]
        edge = weighted(self.edge_marginals, self.log_beta - scale[:, :, None]).sum(axis=(1, 2))
        root = weighted(self.root_marginals, self.log_root - scale).sum(axis=1)
        return read_only(self.log_z - scale.sum(axis=1) - edge - root)

    def marginal_slopes(self, edge: Floats, root: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of both marginals as the log-weights move in a direction.

        By symmetry this is also what carries a gradient with respect to the marginals back to the
        log-weights. Exact, by the imaginary parts of the same elimination on complex weights.

        Parameters
        ----------
        edge : array of shape (B, T, T)
            The direction of ``log_beta``.
        root : array of shape (B, T)
            The direction of ``log_root``.

        Returns
        -------
        arrays of shape (B, T, T) and (B, T)
            The derivatives of ``edge_marginals`` and ``root_marginals``.
        """
        at = self._lifted
        direction = np.zeros(self._beta.shape)
        direction[:, at:, at:] = edge
        of_root = np.zeros(self._root.shape)
        (direction[:, 1:, 0] if at else of_root)[:] = root
        size = max(np.abs(direction).max(initial=0.0), np.abs(of_root).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(self.log_beta), np.zeros_like(self.log_root)
        tilts = (1j * _STEP / size) * direction, (1j * _STEP / size) * of_root
        slope, root_slope = np.empty(self._beta.shape), np.empty(self._root.shape)

        def fill(at: slice, space: Floats) -> None:
            fits = self._solve("LOG_Z", at, space).fits  # else complex numbers divide by zero
            if not fits.all():
                b = at.start + int(np.flatnonzero(~fits)[0])
                raise InvalidWeightsError(
                    f"the log-weights of problem {b} span too much for second derivatives: more "
                    "than doubles hold. Use -inf for edges that are not allowed"
                )
            solved = self._solve("MARGINALS", at, space, tilts=tilts)
            slope[at] = solved.out.imag * (size / _STEP)
            root_slope[at] = solved.root.imag * (size / _STEP)

        self._in_threads(fill)
        return self._of_records(slope, root_slope)

    # ------------------------------------------------------------------ single trees

    def log_prob(self, parents: ArrayLike) -> Floats:
        """Return the log-probability of one tree for each problem.

        Parameters
        ----------
        parents : array of shape (B, T)
            −1 at roots and beyond a problem's length.

        Returns
        -------
        array of shape (B,)
            −inf for what is no such tree.
        """
        trees = np.asarray(parents)
        if trees.shape != self.log_root.shape:
            raise ValueError(f"parents must have shape {self.log_root.shape}; got {trees.shape}")
        return np.array(
            [one.log_prob(t[: one.n_records]) for one, t in zip(self, trees, strict=True)]
        )

    def sample(self, n: int = 1, random_state: RandomState = None) -> Ints:
        """Return n independent trees of each problem. Exact.

        Parameters
        ----------
        n : int
            The number of trees of each.
        random_state : int, Generator or None
            For the draws.

        Returns
        -------
        array of shape (B, n, T)
            Parents, −1 at roots and beyond a problem's length.
        """
        n_trees, rng = as_count("n", n, 0), as_generator(random_state)
        B, T = self.log_root.shape
        trees = np.full((B, n_trees, T + self._lifted), -1, dtype=np.intp)
        state = rng.integers(2**64, size=(B, 4), dtype=np.uint64)
        done = np.zeros(B, dtype=bool)

        def fill(at: slice, space: Floats) -> None:
            from outtrees.trees.batch_kernels import draw

            solved = self._solve("FACTORS", at, space)
            done[at] = solved.fits
            nodes = np.where(solved.fits, self._nodes[at], 0)  # out of range: no factors to draw by
            kept = solved.beta, solved.rho, nodes, self._anchor[at]
            draw(state[at], *kept, solved.out, solved.s, solved.y, solved.rho_0, trees[at])

        if self._small:
            self._in_threads(fill)
        found: Ints = np.maximum(trees[:, :, self._lifted :] - self._lifted, -1)
        for b in np.flatnonzero(~done).tolist():
            own = np.random.default_rng(state[b])
            found[b, :, : self.lengths[b]] = self[b].sample(n_trees, own)
        return found

    def mode(self) -> Trees:
        """Return each problem's most probable tree and its log-probability. Exact and certified.

        Returns
        -------
        Trees
            Parents (B, T) and log-probabilities (B,).

        Examples
        --------
        >>> import numpy as np
        >>> from outtrees import OutTreeDistribution
        >>> weight = np.array([[[0.5, 1.0], [3.0, 0.5]], [[0.5, 2.0], [1.0, 0.5]]])
        >>> parents, log_prob = OutTreeDistribution.batch(np.log(weight)).mode()
        >>> parents.tolist(), np.exp(log_prob).round(2).tolist()
        ([[-1, 0], [1, -1]], [0.75, 0.67])
        """
        from outtrees.trees.batch_kernels import best_trees

        parents = np.full(self._root.shape, -1, dtype=np.intp)
        bound = np.empty(len(self))
        best_trees(self._beta, self._root, self._nodes, parents, bound)
        trees = parents[:, self._lifted :] - self._lifted
        trees[trees < 0] = -1
        b, u = np.nonzero(trees >= 0)
        weight = np.zeros(trees.shape)
        weight[b, u] = self.log_beta[b, u, trees[b, u]]
        roots = (trees < 0) & (np.arange(trees.shape[1]) < self.lengths[:, None])
        weight[roots] = self.log_root[roots]
        found = weight.sum(axis=1)
        room = 1e-12 * trees.shape[1] * np.maximum(1.0, np.abs(weight).max(axis=1))
        if not (np.abs(found - bound) <= room).all():
            raise ArithmeticError(
                "a best tree does not meet its bound: please report this as a bug"
            )
        return Trees(trees, found - self.log_z)

    # ------------------------------------------------------------------ inside

    @property
    def _small(self) -> bool:
        """Whether problems are solved side by side."""
        return len(self) > 0 and self._beta.shape[1] <= _MOST_NODES

    def _of_nodes(self) -> tuple[Floats, Floats]:
        """Return log-weights of the single-root problems; see `weights.lift`."""
        if not self._lifted:
            return self.log_beta, self.log_root
        B, T = self.log_root.shape
        beta = np.full((B, T + 1, T + 1), -np.inf)
        beta[:, 1:, 1:], beta[:, 1:, 0] = self.log_beta, self.log_root
        root = np.full((B, T + 1), -np.inf)
        root[:, 0] = 0.0
        return beta, root

    def _anchors(self) -> Ints:
        """Return the nodes that stay last: the densest possible roots; raise where none is."""
        allowed = self._beta > -np.inf
        member = np.arange(self._beta.shape[1]) < self._nodes[:, None]
        some = np.flatnonzero(allowed.sum(axis=(1, 2)) < self._nodes * (self._nodes - 1))
        if len(some):
            from outtrees.trees.batch_kernels import possible_roots

            found = np.zeros((len(some), member.shape[1]), dtype=bool)
            possible_roots(allowed[some], self._nodes[some], found)
            member[some] = found
        none = ~(member & (self._root > -np.inf)).any(axis=1)
        if none.any():
            b = int(np.flatnonzero(none)[0])
            try:
                self[b]
            except NoSpanningTreeError as error:
                error.add_note(f"This is problem {b} of the batch.")
                raise
        anchor: Ints = np.where(member, self._scale, -np.inf).argmax(axis=1)
        return anchor

    def _solve(
        self,
        what: str,
        at: slice,
        space: Floats,
        out: NDArray[Any] | None = None,
        tilts: tuple[NDArray[Any], NDArray[Any]] | None = None,
    ) -> _Solved:
        """Solve some problems, the weights multiplied by one plus ``tilts`` if given.

        ``space`` is overwritten by scaled weights. Edges' probabilities go to ``out``.
        """
        from outtrees.trees import batch_kernels

        log_rho = self._root[at] - self._scale[at]
        shift = log_rho.max(axis=1)
        rho: NDArray[Any] = np.exp(log_rho - shift[:, None])
        B, n = rho.shape
        beta: NDArray[Any] = space[:B]
        np.subtract(self._beta[at], self._scale[at, :, None], out=beta)
        np.exp(beta, out=beta)
        if tilts is not None:
            beta, rho = beta * (1.0 + tilts[0][at]), rho * (1.0 + tilts[1][at])
        if out is None:
            out = np.empty((0, 0, 0) if what == "LOG_Z" else (B, n, n), beta.dtype)
        s, y, root = np.empty((3, B, n), beta.dtype)
        rho_0, fits = np.empty(B, beta.dtype), np.zeros(B, dtype=bool)
        problem = beta, rho, self._nodes[at], self._anchor[at]
        code = getattr(batch_kernels, what)
        batch_kernels.solve(code, *problem, s, y, rho_0, fits, out, root)
        return _Solved(beta, rho, shift, s, y, root, rho_0, out, fits)

    def _log_z_of(self, solved: _Solved, at: slice) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):  # problems out of range come later
            scaled = np.log(solved.s).sum(axis=1) + np.log(solved.rho_0)
        return np.asarray(scaled + self._scale[at].sum(axis=1) + solved.shift)

    def _log_z(self) -> Floats:
        B = len(self)
        log_z, fits = np.empty(B), np.zeros(B, dtype=bool)

        def fill(at: slice, space: Floats) -> None:
            solved = self._solve("LOG_Z", at, space)
            log_z[at], fits[at] = self._log_z_of(solved, at), solved.fits

        if self._small:
            self._in_threads(fill)
        for b in np.flatnonzero(~fits).tolist():
            log_z[b] = self[b].log_z
        return read_only(log_z)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats]:
        """Log Z and both marginals."""
        B, T = self.log_root.shape
        log_z, fits = np.empty(B), np.zeros(B, dtype=bool)
        edge, root = self._room, np.empty((B, T))

        def fill(at: slice, space: Floats) -> None:
            solved = self._solve("MARGINALS", at, space, None if self._lifted else edge[at])
            log_z[at], fits[at] = self._log_z_of(solved, at), solved.fits
            if not solved.fits.all():
                solved.out[~solved.fits] = solved.root[~solved.fits] = 0.0
            settled(solved.out, T + 1)
            if self._lifted:
                edge[at], root[at] = self._of_records(solved.out, solved.root)
            else:
                root[at] = solved.root

        if self._small:
            self._in_threads(fill)
        for b in np.flatnonzero(~fits).tolist():
            n, one = self.lengths[b], self[b]
            edge[b], root[b] = 0.0, 0.0
            log_z[b], edge[b, :n, :n], root[b, :n] = (
                one.log_z,
                one.edge_marginals,
                one.root_marginals,
            )
        return read_only(log_z), read_only(edge), read_only(root)

    def _in_threads(self, work: Callable[[slice, Floats], None]) -> None:
        """Call ``work`` on stretches of problems, in threads if there are several.

        Each thread has one array that is used again and again: new ones cost as much as the sums.
        """
        B, n = self._root.shape
        chunks = [slice(lo, min(lo + _CHUNK, B)) for lo in range(0, B, _CHUNK)]
        n_threads = min(os.cpu_count() or 1, len(chunks)) if B * n**3 > _WORTH_THREADS else 1

        def some(first: int) -> None:
            space = np.empty((min(_CHUNK, B), n, n))
            for at in chunks[first::n_threads]:
                work(at, space)

        in_threads(some, n_threads)

    def _of_records(self, edge: Floats, root: Floats) -> tuple[Floats, Floats]:
        """Return both arrays of nodes as those of records."""
        if not self._lifted:
            return edge, root
        # The edges from the virtual root.
        return np.ascontiguousarray(edge[:, 1:, 1:]), edge[:, 1:, 0].copy()


class _Solved(NamedTuple):
    """Some problems in scaled weights, and what `batch_kernels.solve` found."""

    beta: NDArray[Any]  # (B, n, n)
    rho: NDArray[Any]  # (B, n)
    shift: Floats  # (B,) log of what ρ was divided by
    s: NDArray[Any]  # (B, n)
    y: NDArray[Any]  # (B, n)
    root: NDArray[Any]  # (B, n)
    rho_0: NDArray[Any]  # (B,)
    out: NDArray[Any]  # (B, n, n)
    fits: NDArray[np.bool_]  # (B,) in range


def _checked_lengths(lengths: ArrayLike | None, B: int, T: int) -> Ints:
    if lengths is None:
        return np.full(B, T, dtype=np.intp)
    array = np.asarray(lengths)
    if array.shape != (B,) or array.dtype.kind not in "iu":
        raise InvalidWeightsError(
            f"lengths must be {B} whole numbers, one for each problem; got shape {array.shape}, "
            f"dtype {array.dtype}"
        )
    wrong = np.flatnonzero((array < 1) | (array > T))
    if len(wrong):
        raise InvalidWeightsError(
            f"lengths must lie between 1 and {T}; got {array[wrong[0]]} for problem {wrong[0]}"
        )
    return array.astype(np.intp)


def _checked(beta: Floats, root: Floats, lengths: Ints) -> tuple[Floats, Floats, bool]:
    """Return the log-weights, −inf on diagonals and beyond each length; refuse NaN and +inf.

    And whether all pairs and all roots are possible.
    """
    T = root.shape[1]
    diagonal = np.arange(T)
    beta[:, diagonal, diagonal] = 0.0  # ignored whatever it holds, and not to be mistaken for −inf
    if (lengths < T).any():
        beyond = diagonal >= lengths[:, None]
        root[beyond] = -np.inf
        beta[np.broadcast_to(beyond[:, :, None], beta.shape)] = -np.inf
        beta[np.broadcast_to(beyond[:, None, :], beta.shape)] = -np.inf
    low, high, complete = 0.0, 0.0, True
    for name, values in (("log_beta", beta), ("log_root", root)):
        largest, smallest = values.max(initial=0.0), values.min(initial=0.0)
        refuse_infinite(values, largest, name)
        if np.isneginf(smallest):
            complete, smallest = False, smallest_finite(values)
        low, high = min(low, smallest), max(high, largest)
    refuse_wide(low, high, T)
    beta[:, diagonal, diagonal] = -np.inf
    return read_only(beta), read_only(root), complete
