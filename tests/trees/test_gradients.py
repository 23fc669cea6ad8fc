"""`outtrees.torch` and `outtrees.jax`: values, gradients and gradients of gradients.

Run where the libraries are installed: `make test-gradients` installs them.
"""

import importlib
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from oracles.enumeration import EnumeratedDistribution
from oracles.precise import precise_sums
from oracles.weightings import clusters
from outtrees import OutTreeDistribution
from outtrees.errors import InvalidWeightsError

LENGTHS = np.array([4, 3])


def bridge(name):
    pytest.importorskip(name, reason=f"{name} is not installed: make test-gradients")
    return importlib.import_module(f"outtrees.{name}")


@pytest.fixture(params=["torch", "jax"])
def library(request):
    """Return functions from arrays to arrays: value and gradient of a function of scores."""
    module = bridge(request.param)
    if request.param == "torch":
        import torch

        def gradient(function, scores, lengths=None):
            x = torch.tensor(scores, requires_grad=True)
            n = None if lengths is None else torch.tensor(lengths)
            value = function(module, x, n)
            value.sum().backward()
            return value.detach().numpy(), x.grad.numpy()

        yield gradient
    else:
        import jax

        def gradient(function, scores, lengths=None):
            def total(x):
                value = function(module, x, lengths)
                return value.sum(), value

            with jax.enable_x64(True):
                slope, value = jax.jit(jax.grad(total, has_aux=True))(scores)
                return np.asarray(value), np.asarray(slope)

        yield gradient


def enumerated(scores, roots):
    return EnumeratedDistribution(
        np.where(np.eye(len(scores)), -np.inf, scores), np.diag(scores).copy(), roots
    )


@pytest.mark.parametrize("roots", ["single", "any"])
def test_gradients_are_marginals(library, roots):
    scores = np.random.default_rng(0).normal(size=(2, 4, 4))
    scores[0, 1, 2] = -np.inf
    scores[0, 3, 3] = -np.inf
    log_z, slope = library(lambda m, x, n: m.log_partition(x, n, roots=roots), scores, LENGTHS)
    marginal, _ = library(lambda m, x, n: m.marginals(x, n, roots=roots), scores, LENGTHS)
    for b, n in enumerate(LENGTHS):
        law = enumerated(scores[b, :n, :n], roots)
        assert log_z[b] == pytest.approx(law.log_z, rel=1e-12)
        right = law.edge_marginals + np.diag(law.root_marginals)
        np.testing.assert_allclose(slope[b, :n, :n], right, atol=1e-14)
        assert not slope[b, n:].any()
        assert not slope[b, :, n:].any()
    np.testing.assert_array_equal(marginal, slope)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_entropy_and_its_gradient(library, roots):
    """A function of gradients: its own gradient by differences of the enumerated entropy."""
    scores = np.random.default_rng(1).normal(size=(2, 4, 4))
    scores[0, 1, 2] = -np.inf
    value, slope = library(lambda m, x, n: m.entropy(x, n, roots=roots), scores, LENGTHS)
    step = 1e-5
    for b, n in enumerate(LENGTHS):
        assert value[b] == pytest.approx(enumerated(scores[b, :n, :n], roots).entropy, rel=1e-12)
        for u, v in ((0, 0), (0, 1), (1, 2), (2, 1)):
            shift = np.zeros((n, n))
            shift[u, v] = step
            above, below = (
                enumerated(scores[b, :n, :n] + sign * shift, roots).entropy for sign in (1, -1)
            )
            assert slope[b, u, v] == pytest.approx((above - below) / (2 * step), abs=1e-9)


def test_between_clusters_no_digit_is_lost(library):
    """Where determinants return noise; out of a double's range too."""
    for separation in (15, 60):
        log_beta, log_root = clusters(np.random.default_rng(2), (4, 4), separation)
        scores = log_beta.copy()
        np.fill_diagonal(scores, log_root)
        log_z, slope = library(lambda m, x, n: m.log_partition(x, n), scores)
        right, _, edge, root = precise_sums(log_beta, log_root)
        assert float(log_z) == pytest.approx(right, rel=1e-13)
        np.testing.assert_allclose(slope, edge + np.diag(root), atol=1e-13)


def test_torch_checks_itself():
    """Both derivatives against PyTorch's own differences, in single precision too."""
    module, torch = bridge("torch"), pytest.importorskip("torch")
    scores = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores.requires_grad_()
    for roots in ("single", "any"):

        def value(x, roots=roots):
            return module.log_partition(x, torch.tensor([3, 2]), roots=roots)

        assert torch.autograd.gradcheck(value, scores)
        assert torch.autograd.gradgradcheck(value, scores)
    single = scores.detach().float()
    assert module.log_partition(single).dtype == torch.float32
    with pytest.raises(NotImplementedError, match="third derivatives"):
        torch.autograd.functional.hessian(lambda x: module.entropy(x).sum(), scores.detach())


def test_jax_under_jit_and_vmap():
    module, jax = bridge("jax"), pytest.importorskip("jax")
    with jax.enable_x64(True):
        scores = jax.numpy.asarray(np.random.default_rng(3).normal(size=(5, 3, 3)))
        lengths = jax.numpy.asarray([3, 2, 1, 3, 2])
        at_once = module.log_partition(scores, lengths)
        mapped = jax.vmap(module.log_partition)(scores, lengths)
        twice = jax.jit(jax.vmap(jax.vmap(module.log_partition)))(scores[None], lengths[None])
        np.testing.assert_array_equal(mapped, at_once)
        np.testing.assert_array_equal(twice[0], at_once)
        second = jax.vmap(jax.jacrev(jax.grad(module.log_partition)))(scores)
        direction = np.random.default_rng(4).normal(size=(5, 3, 3))
        batch = OutTreeDistribution.batch(scores, np.einsum("bii->bi", scores))
        edge, root = batch.marginal_slopes(direction, np.einsum("bii->bi", direction))
        found = np.einsum("buvwz,bwz->buv", second, direction)
        np.testing.assert_allclose(found, edge + root[:, :, None] * np.eye(3), atol=1e-14)
    assert module.log_partition(np.zeros((2, 2), np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_bad_scores(name):
    module = bridge(name)
    make = importlib.import_module("torch").tensor if name == "torch" else np.asarray
    with pytest.raises(InvalidWeightsError, match=r"shape \(..., T, T\)"):
        module.log_partition(make([[1.0, 2.0]]))
    with pytest.raises(Exception, match="lengths must"):
        module.log_partition(make(np.zeros((2, 3, 3))), make([3]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parser", "latent_parents"])
def test_examples(name, capsys):
    """Trained without a hitch, and promises are kept: both shares within five points."""
    bridge("torch")
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "gradients" / f"{name}.py"))
    line = next(line for line in capsys.readouterr().out.splitlines() if "promised" in line)
    right, promised = (float(share) for share in re.findall(r"([\d.]+)%", line))
    assert right > 70
    assert abs(right - promised) < 5
