"""Compiled loops stay within their arrays, and read nothing that was not written before.

Compiled code does not check indices: a work space that is too small is a write into memory of
something else, which mostly goes unnoticed. Here the same code runs without the compiler, NumPy
checks every index, and arrays begin with values that no result survives.
"""

import importlib
import math
import sys

import numpy as np
import pytest

from oracles.enumeration import EnumeratedDistribution
from oracles.weightings import random_weights
from outtrees._common import compiled as decorators

EMPTY = np.empty
# Compiled code does not warn either: random bits overflow, and 1/0 is inf.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def poisoned(shape, dtype=float, **options):
    """Return an array without values, filled with such as spoil what reads them."""
    array = EMPTY(shape, dtype, **options)
    if array.dtype.kind in "fc":
        array.fill(np.nan)
    elif array.dtype.kind == "i":
        array.fill(-(10**6) if array.dtype.itemsize > 2 else np.iinfo(array.dtype).min)
    return array


@pytest.fixture(scope="module")
def plain():
    """The package of trees, imported anew with decorators that do nothing."""
    own = {name: module for name, module in sys.modules.items() if name.startswith("outtrees.")}
    names = [name for name in own if name.startswith("outtrees.trees")]
    kept = {name: getattr(decorators, name) for name in ("compiled", "helper", "inlined")}
    parents = {name: own[name] for name in names}
    for name in names:
        del sys.modules[name]
    for name in kept:
        setattr(decorators, name, lambda function: function)
    try:
        trees = importlib.import_module("outtrees.trees")
        importlib.import_module("outtrees.trees.batch")
        importlib.import_module("outtrees.trees.limited")
        yield trees
    finally:
        for name in [name for name in sys.modules if name.startswith("outtrees.trees")]:
            del sys.modules[name]
        sys.modules.update(parents)
        for name, decorator in kept.items():
            setattr(decorators, name, decorator)
        for name, module in parents.items():  # packages hold their modules as attributes
            package, _, last = name.rpartition(".")
            setattr(sys.modules[package], last, module)


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    monkeypatch.setattr(np, "empty", poisoned)
    ldexp = math.ldexp
    monkeypatch.setattr(math, "ldexp", lambda m, e: ldexp(m, int(e)))  # refuses NumPy's integers


def cases():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        T = int(rng.integers(1, 6))
        scale = [0.0, 2.0, 2.0, 30.0, 2000.0, 2.0][seed]
        forbidden = [0.0, 0.0, 0.3, 0.3, 0.0, 0.3][seed]
        yield *random_weights(rng, T, scale, forbidden), ("single", "any")[seed % 2], seed


def all_forms(plain, log_beta, log_root, roots):
    child, parent = np.nonzero(log_beta > -np.inf)
    listed = child, parent, log_beta[child, parent], log_root
    made = plain.OutTreeDistribution
    yield made(log_beta, log_root, roots=roots)
    for method in ("dense", "sparse"):
        yield made.from_candidates(*listed, roots=roots, method=method)


def matrix_of(dist, values, T):
    if np.ndim(values) == 2:
        return values
    result = np.zeros((T, T))
    result[dist.child, dist.parent] = values
    return result


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"seed{case[3]}")
def test_every_method_without_the_compiler(plain, case):
    log_beta, log_root, roots, seed = case
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    T, possible = len(log_root), slow.log_weights > -np.inf
    top = np.sort(slow.log_weights[possible])[::-1][:4] - slow.log_z
    for dist in all_forms(plain, log_beta, log_root, roots):
        assert dist.log_z == pytest.approx(slow.log_z, abs=1e-9 * (1 + abs(slow.log_z)))
        edges = matrix_of(dist, dist.edge_marginals, T)
        np.testing.assert_allclose(edges, slow.edge_marginals, atol=1e-9)
        np.testing.assert_allclose(dist.root_marginals, slow.root_marginals, atol=1e-9)
        assert dist.entropy == pytest.approx(slow.entropy, abs=1e-8)
        counts = dist.number_of_roots()
        assert counts.shape == (T + 1,)
        np.testing.assert_allclose(counts, slow.number_of_roots(), atol=1e-9)
        for drawn in (dist.sample(20, seed), dist.sample(3, seed, replace=False)):
            assert {tuple(tree) for tree in drawn} <= {tuple(tree) for tree in slow.trees[possible]}
        ranked = dist.best(4)
        np.testing.assert_allclose([tree.log_prob for tree in ranked], top, atol=1e-8)


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("seed", range(4))
def test_trees_with_few_children_without_the_compiler(plain, seed, roots):
    """All records by themselves, each a root, is the deepest that the list of open sets gets."""
    rng = np.random.default_rng(seed)
    T = 2 + seed
    log_beta, log_root = random_weights(rng, T, 1.0)
    log_root += 3.0 * seed * (roots == "any")
    child, parent = np.nonzero(log_beta > -np.inf)
    limited = sys.modules["outtrees.trees.limited"].limited_trees
    found = limited(
        child, parent, log_beta[child, parent], log_root, 2, roots=roots, random_state=seed
    )
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    children = np.array([np.bincount(tree[tree >= 0], minlength=T).max() for tree in slow.trees])
    p = np.exp(slow.log_weights - slow.log_z) * (children <= 2)
    right = ((slow.trees[:, child] == parent).T * (p / p.sum())).sum(axis=1)
    np.testing.assert_allclose(found.edge_frequencies, right, atol=1e-9)


def test_several_problems_at_once_without_the_compiler(plain):
    """Some shorter than others, and all shorter than the arrays."""
    rng = np.random.default_rng(0)
    lengths = np.array([1, 3, 2, 4])
    log_beta, log_root = rng.normal(size=(4, 5, 5)), rng.normal(size=(4, 5))
    found = sys.modules["outtrees.trees.batch"].OutTreeBatch(log_beta, log_root, lengths=lengths)
    for b, n in enumerate(lengths):
        beta = log_beta[b, :n, :n].copy()
        np.fill_diagonal(beta, -np.inf)
        slow = EnumeratedDistribution(beta, log_root[b, :n], "single")
        assert found.log_z[b] == pytest.approx(slow.log_z, abs=1e-10)
        edges = found.edge_marginals[b]
        np.testing.assert_allclose(edges[:n, :n], slow.edge_marginals, atol=1e-10)
        assert not edges[n:].any()
        assert not edges[:, n:].any()
