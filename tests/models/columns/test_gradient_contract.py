"""Every kind in models/ gives the slopes of its log-densities: all of them, none forgotten.

A kind is found by what it inherits, in every module there is. One that is added without a case
here, or in the lists of the other contracts, fails.
"""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import outtrees.models
from outtrees.models import Mutation
from outtrees.models.clouds import CloudsMutation
from outtrees.models.column import ColumnKernel
from outtrees.models.columns import (
    Contacts,
    Distances,
    Drift,
    GivenWeights,
    GroupedDrift,
    Lineage,
    Reversion,
    Transmission,
    TransmittedSequence,
)
from outtrees.models.columns.transmission import sequence_cells
from outtrees.models.priors import Prior

from ..conftest import CASES as MUTATION_CASES
from ..test_priors import PRIORS
from .conftest import CASES as KERNEL_CASES
from .conftest import assert_near, dates, richardson, weighted_sum

WITHOUT_PARAMETERS = {CloudsMutation, GivenWeights}


def kinds(base: type) -> set[type]:
    """Return every class in models/ that can be made and inherits from base."""
    for module in pkgutil.walk_packages(outtrees.models.__path__, "outtrees.models."):
        importlib.import_module(module.name)
    found, waiting = set(), [base]
    while waiting:
        more = waiting.pop().__subclasses__()
        waiting += more
        found.update(more)
    return {
        kind
        for kind in found
        if kind.__module__.startswith("outtrees.models") and not inspect.isabstract(kind)
    }


@dataclass(frozen=True)
class Slopes:
    """A kernel away from its start, and cells; `of` makes it from parameters."""

    name: str
    kernel: Any
    column: np.ndarray  # (T, D)
    process: Any = None  # where the parameters are another column's
    tol: float = 2e-7
    step: float = 4e-3  # of the differences

    @property
    def params(self):
        return (self.process or self.kernel).params

    def of(self, params):
        if self.process is None:
            return self.kernel.with_params(params)
        return self.kernel.following(self.process.with_params(params))

    def assert_slopes(self, found, value):
        """`found` are ∂ value(kernel) / ∂ params."""
        right = richardson(lambda params: value(self.of(params)), self.params, self.step)
        assert_near(found, right, self.tol)


def away(kernel, seed=0):
    """Return the kernel at parameters that no start has."""
    step = np.random.default_rng(seed).normal(size=len(kernel.params))
    return kernel.with_params(kernel.params + 0.3 * step)


def walks():
    """Yield walks with every set of options, in one and two coordinates."""
    rng = np.random.default_rng(1)
    options = product((False, True), (False, True), (None, 4.0), (False, True), (1, 2))
    for (offset, clock, tail, ends, D), kind in product(options, (Drift, GroupedDrift)):
        cells = np.round(rng.normal(size=(9, D * (2 if ends else 1))), 2)
        if kind is GroupedDrift:
            cells = np.column_stack([cells, np.arange(9) % 2])
        kernel = kind(offset, clock, tail=tail, ends=ends).start(cells)
        words = [w for w, on in (("offset", offset), ("clock", clock), ("ends", ends)) if on]
        words += ["tail"] if tail else []
        yield Slopes("-".join([kind.__name__, f"{D}d", *words]), away(kernel), cells)


def of_matrices():
    records, rng = np.arange(7.0)[:, None], np.random.default_rng(3)
    matrix = rng.gamma(2.0, size=(7, 7))
    matrix[2, 4] = np.nan
    yield Slopes("distances", away(Distances(matrix).start(records)), records)
    yield Slopes("given-weights", GivenWeights(np.nan_to_num(matrix)).start(records), records)
    met, aside = np.array([7, 15, 39]), np.array([14, 22])
    contacts = Contacts(7, met, 3.0, 19.0, aside).start(records)
    yield Slopes("contacts", away(contacts), records)


def transmissions():
    rng = np.random.default_rng(5)
    cells = dates(np.sort(rng.integers(0, 30, size=9)))
    letters = np.where(rng.random((9, 80)) < 0.04, rng.integers(0, 4, (9, 80)), 0).astype(float)
    letters[3, :7] = np.nan
    values = [cells, sequence_cells(cells, letters)]
    given = {"generation_mean": 5.0, "generation_sd": 2.0, "delay_mean": 4.0, "delay_sd": 1.5}
    for name, options in {
        "all-learned": {},
        "times-given": given,
        "spread-given": {"generation_sd": 2.0, "sampled": 0.5},
        "all-sampled": {"sampled": 1.0},
    }.items():
        kernels = Transmission(**options), TransmittedSequence()
        process, sequence = Lineage(kernels).start(values).kernels
        process = away(process)
        # Laws of times are cut into cells, of which there are more when times are longer: steps
        # are so small that their number stays. Slopes are differences of the laws.
        how = {"tol": 2e-5, "step": 1e-4}
        yield Slopes(f"transmission-{name}", process, values[0], **how)
        yield Slopes(f"sequence-{name}", sequence.following(process), values[1], process, **how)


def stationary():
    numbers = np.random.default_rng(2).normal(1.0, 2.0, size=(9, 1))
    yield Slopes("stationary", away(Reversion(stationary=True).start(numbers)), numbers)


OWN = [
    *walks(),
    *stationary(),
    *of_matrices(),
    *transmissions(),
]  # test_kernel_contract.py has the others
CASES = [*(Slopes(case.name, case.kernel, case.column) for case in KERNEL_CASES), *OWN]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


own_cases = pytest.mark.parametrize("case", OWN, ids=lambda case: case.name)


def test_no_kind_is_forgotten():
    assert kinds(ColumnKernel) == {type(case.kernel) for case in CASES} & kinds(ColumnKernel)
    mutations = {type(case.make()) for case in MUTATION_CASES}
    assert kinds(Mutation) - mutations == kinds(Mutation) & WITHOUT_PARAMETERS
    assert kinds(Prior) == {type(prior) for prior in PRIORS}


def test_a_kind_that_is_added_would_be_missed():
    class Added(Prior):
        __module__ = "outtrees.models.added"
        log_density = slope = draw = from_normal = to_normal = None

    assert Added in kinds(Prior)
    del Added
    import gc

    gc.collect()  # or the test before would find it


def test_what_learns_nothing_has_no_slopes():
    X = np.random.default_rng(0).normal(size=(12, 2))
    clouds = CloudsMutation(n_sweeps=4, n_warmup=1).start(X, 0)
    assert clouds.params.shape == (0,)
    assert clouds.gradient(X, np.zeros((12, 12))).shape == (0,)
    assert all(not len(case.params) for case in CASES if type(case.kernel) is GivenWeights)


def edges_of(case, K=2, seed=0):
    """Return pairs of cells with a hole, weights of both signs of what is possible, and time."""
    rng, column = np.random.default_rng(seed), case.column.copy()
    if not isinstance(case.kernel, (Distances, GivenWeights, TransmittedSequence)):
        column[4] = np.nan
    T = len(column)
    child, parent = np.nonzero(~np.eye(T, dtype=bool))
    pairs = case.kernel.pairs(column, column, child, parent)
    weights, elapsed = rng.normal(size=(K, len(child))), rng.gamma(1.0, 2.0, size=len(child))
    for k in range(K):
        weights[k, np.isneginf(case.kernel.log_steps(pairs, k + 1, elapsed))] = 0.0
    return pairs, weights, elapsed, child


@own_cases
def test_slopes_of_edges(case):
    pairs, weights, elapsed, _ = edges_of(case)

    def value(kernel):
        return weighted_sum(kernel, pairs, weights, elapsed)

    found = case.kernel.slopes(pairs, weights, elapsed)
    case.assert_slopes(found, value)
    if len(found) and abs(found).max() > 1e-3:  # else nothing is learned from edges
        with pytest.raises(AssertionError):
            case.assert_slopes(1.001 * found, value)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.kernel.contrasted], ids=lambda case: case.name
)
def test_slopes_of_edges_beside_what_they_are_compared_with(case):
    """∂ log_relative by the parameters, and by the log-density without a parent of each child."""
    kernel = case.kernel
    pairs, weights, elapsed, child = edges_of(case)
    log_alone = np.random.default_rng(2).normal(-2.0, 0.5, size=len(case.column))[child]

    def total(moved, shift=0.0):
        value = 0.0
        for k, w in enumerate(weights, start=1):
            logs = moved.log_relative(pairs, k, elapsed, log_alone + shift)
            value += float(w[w != 0] @ logs[w != 0])
        return value

    found = kernel.slopes_relative(pairs, weights, elapsed, log_alone)
    case.assert_slopes(found, total)
    step = 1e-4
    change = (total(kernel, step) - total(kernel, -step)) / (2 * step)
    slopes = kernel.slopes_of_alone(pairs, weights, log_alone)
    assert slopes.sum() == pytest.approx(change, rel=1e-6, abs=1e-6)


@own_cases
def test_slopes_of_cells_without_a_parent_and_of_what_is_common(case):
    kernel = case.kernel
    weights = np.random.default_rng(4).normal(size=len(case.column))
    case.assert_slopes(
        kernel.slopes_alone(case.column, weights),
        lambda moved: float(weights @ moved.log_alone(case.column)),
    )
    if case.process is not None:
        return  # the prior is the other column's
    case.assert_slopes(kernel.slopes_common(), lambda moved: moved.log_common())
    case.assert_slopes(kernel.prior_slopes(), lambda moved: moved.log_prior())


def test_a_prior_falls_off_in_every_parameter(case):
    """No parameter is left without a prior: far off, its density is lower."""
    kernel = case.kernel
    for i in range(len(kernel.params)):
        ends = [
            kernel.with_params(kernel.params + sign * 60 * np.eye(len(kernel.params))[i])
            for sign in (1.0, -1.0)
        ]
        with np.errstate(over="ignore"):
            assert max(end.log_prior() for end in ends) < kernel.log_prior() + 1e-9
