"""Every public method of the distribution, fuzzed: matrix, dense list, sparse list, enumeration.

Weights with ties, forbidden edges and spreads beyond the range of doubles; sums also in ball
arithmetic. `make fuzz` looks at more cases than `make test`.
"""

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.special import logsumexp

from fuzz.timed import fuzzed
from oracles.enumeration import EnumeratedDistribution
from oracles.precise import precise_sums
from outtrees import OutTreeDistribution
from outtrees.errors import NoSpanningTreeError

TIED = [-np.inf, 0.0, 0.0, -1.0, 1.0]
WIDE = [-np.inf, 0.0, 700.0, -745.0, 1e4, -1e4, 3.5, -36.04]


@st.composite
def weightings(draw, largest=5):
    """Return (log_beta, log_root, roots): tied, of any size, or far apart."""
    T = draw(st.integers(1, largest))
    kind = draw(st.sampled_from(["tied", "any", "wide"]))
    near = st.one_of(st.just(-np.inf), st.floats(-40, 40))
    entry = {"tied": st.sampled_from(TIED), "any": near, "wide": st.sampled_from(WIDE)}[kind]
    values = np.array(draw(st.lists(entry, min_size=T * T + T, max_size=T * T + T)))
    log_beta = values[: T * T].reshape(T, T).copy()
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, values[T * T :], draw(st.sampled_from(["single", "any"]))


def forms(log_beta, log_root, roots):
    """Return the distribution in its three forms, or the error of each."""
    child, parent = np.nonzero(log_beta > -np.inf)
    listed = child, parent, log_beta[child, parent], log_root

    def made(make):
        try:
            found = make()
            found.log_z  # noqa: B018  # some find out late that there is no tree
        except NoSpanningTreeError as error:
            return error
        return found

    result = {"matrix": made(lambda: OutTreeDistribution(log_beta, log_root, roots=roots))}
    for method in ("dense", "sparse"):
        result[method] = made(
            lambda method=method: OutTreeDistribution.from_candidates(
                *listed, roots=roots, method=method
            )
        )
    return result


def matrix_of(dist, values):
    """Return values of edges as a (T, T) matrix."""
    if not dist.listed:
        return values
    result = np.zeros((dist.n_records, dist.n_records))
    result[dist.child, dist.parent] = values
    return result


def in_form(dist, matrix):
    """Return a (T, T) matrix in the form of the distribution's edges."""
    return matrix[dist.child, dist.parent] if dist.listed else matrix


def scale_of(log_beta, log_root):
    """Return the size of the log-weights: errors are relative to it, once it exceeds one."""
    values = np.concatenate([log_beta.ravel(), log_root])
    return max(1.0, float(np.abs(values[values > -np.inf]).max(initial=1.0)))


@fuzzed(weightings(), examples=10)
def test_sums_are_those_of_every_tree(case):
    log_beta, log_root, roots = case
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    T, scale = len(log_root), scale_of(log_beta, log_root)
    possible = bool((slow.log_weights > -np.inf).any())
    for name, dist in forms(*case).items():
        assert isinstance(dist, NoSpanningTreeError) != possible, name
        if not possible:
            continue
        assert dist.log_z == pytest.approx(slow.log_z, abs=1e-12 * T * scale), name
        edge = matrix_of(dist, dist.edge_marginals)
        np.testing.assert_allclose(edge, slow.edge_marginals, atol=1e-13 * scale, err_msg=name)
        root = dist.root_marginals
        np.testing.assert_allclose(root, slow.root_marginals, atol=1e-13 * scale, err_msg=name)
        np.testing.assert_allclose(edge.sum(axis=1) + root, 1.0, atol=1e-13 * scale)
        p = slow.probabilities[slow.probabilities > 0]
        assert dist.entropy == pytest.approx(-(p * np.log(p)).sum(), abs=1e-11 * T * scale), name
        values = np.random.default_rng(0).normal(size=(T, T))
        expected = (values * slow.edge_marginals)[~np.eye(T, dtype=bool)].sum()
        found = dist.expectation(in_form(dist, values))
        assert found == pytest.approx(expected, abs=1e-12 * T * scale), name
        numbers = np.zeros(T + 1)
        np.add.at(numbers, (slow.trees < 0).sum(axis=1), slow.probabilities)
        found = dist.number_of_roots()
        np.testing.assert_allclose(found, numbers[: len(found)], atol=1e-12 * scale, err_msg=name)
        assert numbers[len(found) :].sum() <= 1e-12
        rooted, expected = dist.log_z_rooted, slow.log_z_rooted
        finite = expected > -np.inf
        if roots == "single":  # without their own weight only those that may be roots are told
            finite &= log_root > -np.inf
        np.testing.assert_allclose(rooted[finite], expected[finite], atol=1e-12 * T * scale)
        assert not np.isfinite(rooted[np.isneginf(expected)]).any()


@fuzzed(weightings(), examples=10)
def test_single_trees_are_those_of_the_list(case):
    log_beta, log_root, roots = case
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    if not (slow.log_weights > -np.inf).any():
        return
    T, scale = len(log_root), scale_of(log_beta, log_root)
    tolerance = 1e-12 * T * scale
    log_probs = slow.log_weights - slow.log_z
    ranked = np.sort(log_probs[log_probs > -np.inf])[::-1]
    allowed = {tuple(t): lp for t, lp in zip(slow.trees.tolist(), log_probs, strict=True)}
    for name, dist in forms(*case).items():
        np.testing.assert_allclose(dist.log_prob(slow.trees), log_probs, atol=tolerance)
        parents, log_prob = dist.mode()
        assert log_prob == pytest.approx(ranked[0], abs=tolerance), name
        assert allowed[tuple(parents.tolist())] == pytest.approx(ranked[0], abs=tolerance), name
        best = dist.best(12)
        assert len(best) == min(12, len(ranked)), name
        assert len({tuple(tree.parents.tolist()) for tree in best}) == len(best), name
        found = [tree.log_prob for tree in best]
        np.testing.assert_allclose(found, ranked[: len(best)], atol=tolerance, err_msg=name)
        for tree in dist.sample(20, random_state=0).tolist():
            assert allowed[tuple(tree)] > -np.inf, name
        padded = np.column_stack([slow.edge_marginals, slow.root_marginals])
        gains = padded[np.arange(T), slow.trees].sum(axis=1)
        consensus = dist.consensus()
        assert consensus.expected_right == pytest.approx(
            gains[log_probs > -np.inf].max(), abs=1e-12 * T * scale
        ), name
        assert allowed[tuple(consensus.parents.tolist())] > -np.inf, name


@fuzzed(weightings(), st.integers(0, 4), st.integers(-1, 4), st.booleans(), examples=10)
def test_what_is_known_conditions(case, u, v, is_so):
    log_beta, log_root, roots = case
    T = len(log_root)
    u, v = u % T, min(v, T - 1)
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    if u == v or not (slow.log_weights > -np.inf).any():
        return
    agrees = (slow.trees[:, u] == v) == is_so
    log_known = logsumexp(np.where(agrees, slow.log_weights, -np.inf))
    scale = scale_of(log_beta, log_root)
    for name, dist in forms(*case).items():
        # What a list does not hold cannot be asked for.
        if dist.listed and v >= 0 and log_beta[u, v] == -np.inf:
            continue
        known = {"parent": {u: v}} if is_so else {"not_parent": [(u, v)]}
        try:
            found = dist.given(**known)
            log_z = found.log_z
        except NoSpanningTreeError:
            assert log_known == -np.inf, name
            continue
        assert log_z == pytest.approx(log_known, abs=1e-12 * T * scale), name
        p = np.exp(np.where(agrees, slow.log_weights, -np.inf) - log_known)
        roots_known = p @ (slow.trees < 0)
        np.testing.assert_allclose(found.root_marginals, roots_known, atol=1e-13 * scale)
        assert found.kl(dist) == pytest.approx(slow.log_z - log_known, abs=1e-11 * T * scale), name


@fuzzed(weightings(largest=7), examples=10)
def test_sums_are_those_of_ball_arithmetic(case):
    # A ball around the log of zero never gets small: edges that are forbidden get e^-800 here.
    log_beta, log_root = (np.clip(values, -800.0, 700.0) for values in case[:2])
    np.fill_diagonal(log_beta, -np.inf)
    found = forms(log_beta, log_root, "single")
    log_z, _, edge, root = precise_sums(log_beta, log_root)
    scale = scale_of(log_beta, log_root)
    for name, dist in found.items():
        assert dist.log_z == pytest.approx(log_z, abs=1e-12 * len(log_root) * scale), name
        edges = matrix_of(dist, dist.edge_marginals)
        np.testing.assert_allclose(edges, edge, atol=1e-13 * scale, err_msg=name)
        np.testing.assert_allclose(dist.root_marginals, root, atol=1e-13 * scale, err_msg=name)
