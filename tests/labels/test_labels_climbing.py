"""The hill-climb over labels: exact changes, never down, and no single change left that helps."""

import numpy as np
import pytest

from oracles.labellings import FORMS, enumerate_labels, random_model
from oracles.weightings import clusters
from outtrees.labels import LabelModel, climb_labels
from outtrees.labels.climbing import Flips
from outtrees.labels.flip_kernels import judge


def exact_change(model, labels, t, label):
    other = labels.copy()
    other[t] = label
    return model.trees(other).log_z - model.trees(labels).log_z


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_a_change_is_the_difference_of_two_log_z(seed, form):
    """One after the other, so that the updated state is tested too."""
    T, C = 20, 3
    model = random_model(seed, T, C, form=form, scale=3.0)
    rng = np.random.default_rng(seed)
    flips = Flips(model, rng.integers(C, size=T), tolerance=0.0)
    for _ in range(8):
        t = int(rng.integers(T))
        label = int((flips.labels[t] + rng.integers(1, C)) % C)
        exact = exact_change(model, flips.labels, t, label)
        assert flips.change(t, label).log_ratio == pytest.approx(exact, abs=1e-10)
        flips.flip(t, label, flips.changed(t, label))


@pytest.mark.parametrize("separation", [5, 30, 200])
def test_changes_on_separated_clusters(separation):
    """Where the inverse of the Laplacian has no digit left; at 200 the range of a double ends."""
    rng = np.random.default_rng(0)
    log_beta, log_root = clusters(rng, (8, 8, 8), separation)
    np.fill_diagonal(log_beta, 0.0)
    model = LabelModel(log_beta[None], log_root, np.array([0.3, 0.7]), 0.8)
    flips = Flips(model, rng.integers(2, size=24), tolerance=0.0)
    for t in range(0, 24, 3):
        label = 1 - int(flips.labels[t])
        exact = exact_change(model, flips.labels, t, label)
        assert flips.change(t, label).log_ratio == pytest.approx(exact, abs=1e-8)


def judged_slowly(flips, children, parents, root, t, tolerance):
    """`judge` in NumPy: log Z(y') − log Z(y), what was left out, and the number of rows."""
    slope = flips._slope

    def largest(effects):
        order = np.argsort(effects)
        total = np.cumsum(effects[order])
        n_out = int(np.searchsorted(total, tolerance, side="right"))
        return order[n_out:], float(total[n_out - 1]) if n_out else 0.0

    some, lost_children = largest(np.abs(children) * slope[:, t])
    columns, lost_parents = largest(np.abs(parents) * slope[t])
    rows = np.append(some, t)
    children, parents = children[some], parents[columns]
    own = slope[np.ix_(rows, rows)]
    core = np.eye(len(rows))
    core[:-1] += children[:, None] * (own[:, -1] - own[:, :-1].T)
    core[-1] += slope[np.ix_(rows, columns)] @ parents - own[:, -1] * parents.sum()
    core[-1] += root * flips._root_slope[rows]
    sign, log_ratio = np.linalg.slogdet(core)
    return log_ratio if sign > 0 else -np.inf, lost_children + lost_parents, len(rows)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2])
def test_what_is_left_out_is_bounded(tolerance):
    model = random_model(4, 40, 2, scale=3.0)
    labels = np.random.default_rng(1).integers(2, size=40)
    flips = Flips(model, labels, tolerance)
    fewer = 0
    for t in range(40):
        change = flips.change(t, 1 - int(labels[t]))
        exact = exact_change(model, labels, t, 1 - int(labels[t]))
        assert change.left_out <= 20 * tolerance  # ten times, of children and of parents
        # To first order; the factor is the one that the climb itself allows for.
        assert abs(change.log_ratio - exact) <= 4 * change.left_out + 1e-10
        moved = (*flips._changes(t, 1 - int(labels[t])), t, tolerance)
        log_ratio, left_out, n_rows = judged_slowly(flips, *moved)
        coarse = judge(flips._slope, flips._root_slope, *moved)
        assert coarse[0] == pytest.approx(log_ratio, abs=1e-12)
        assert coarse[1] == pytest.approx(left_out, abs=1e-12)
        fewer += n_rows < 40
    assert fewer > 20  # it does leave something out


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_the_end_is_a_maximum_and_of_many_starts_the_highest(seed, form):
    known = np.array([0, -1, 1, -1, -1])
    model = random_model(seed, 5, 2, form=form)
    climb = climb_labels(model, known, n_init=10, random_state=seed)
    assert climb.converged
    assert climb.log_z == pytest.approx(model.trees(climb.labels).log_z, abs=1e-12)
    np.testing.assert_array_equal(climb.labels[known >= 0], known[known >= 0])
    for t in np.flatnonzero(known < 0):
        assert exact_change(model, climb.labels, t, 1 - climb.labels[t]) <= 1e-9
    # Ten starts among eight settings find the best one.
    assert climb.log_z == pytest.approx(enumerate_labels(model, known)[4], abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_never_down_and_no_change_left(seed, form):
    """From a random start, the hardest; what it ends at is a maximum, if not the highest one."""
    T, C = 40, 3
    rng = np.random.default_rng(seed)
    known = np.where(rng.random(T) < 0.2, rng.integers(C, size=T), -1)
    model = random_model(seed, T, C, form=form, scale=2.0, stickiness=0.6)
    climb = climb_labels(model, known, start=rng.integers(C, size=T))
    assert climb.converged
    assert np.all(np.diff(climb.log_zs) >= 0)
    assert climb.n_flips > 5
    for t in np.flatnonzero(known < 0):
        for label in range(C):
            assert exact_change(model, climb.labels, t, label) <= 1e-9


def test_several_starts_and_the_best_end():
    known = np.array([0, -1, 1, -1, -1, -1, -1])
    model = random_model(3, 7, 2)
    climb = climb_labels(model, known, n_init=6, random_state=0)
    assert climb.log_z_of_starts.shape == (6,)
    assert climb.log_z == climb.log_z_of_starts.max() == climb.log_zs[-1]


def test_a_state_out_of_range_is_climbed_too():
    log_beta, log_root = clusters(np.random.default_rng(0), (4, 4), 500)
    np.fill_diagonal(log_beta, 0.0)
    model = LabelModel(log_beta[None], log_root, np.array([0.5, 0.5]), 0.9)
    known = np.array([0, -1, -1, -1, 1, -1, -1, -1])
    climb = climb_labels(model, known, n_init=2, random_state=0)
    np.testing.assert_array_equal(climb.labels, [0, 0, 0, 0, 1, 1, 1, 1])


def test_a_refit_goes_on_while_it_helps():
    model = random_model(0, 8, 2)
    known = np.array([0, 1, -1, -1, -1, -1, -1, -1])
    calls = []

    def refit(current, trees, labels):
        calls.append(trees.log_z)
        return current.with_options(log_root=current.log_root + (1.0 if len(calls) < 3 else 0.0))

    climb = climb_labels(model, known, n_init=1, random_state=0, refit=refit)
    assert len(calls) == 3
    np.testing.assert_allclose(climb.model.log_root, model.log_root + 2.0)
    assert np.all(np.diff(climb.log_zs) >= 0)


def test_sweeps_that_run_out():
    model = random_model(1, 30, 3)
    known = np.full(30, -1)
    known[:2] = 0, 1
    start = np.random.default_rng(0).integers(3, size=30)
    climb = climb_labels(model, known, start=start, max_sweeps=1)
    assert not climb.converged
    assert len(climb.log_zs) == 2


@pytest.mark.slow
def test_a_sweep_costs_a_few_evaluations():
    """At T = 500 a sweep over all unknown labels is no slower than 15 evaluations of log Z."""
    from time import process_time

    rng = np.random.default_rng(0)
    T = 500
    X = rng.normal(size=(T, 3)) + 4 * rng.integers(3, size=(T, 1))
    log_beta = -2 * ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    known = np.where(rng.random(T) < 0.1, (X[:, 0] > 4).astype(int), -1)
    model = LabelModel(log_beta[None], np.zeros(T), np.array([0.5, 0.5]), 0.9)
    labels = np.where(known >= 0, known, 0)
    evaluation = []
    for _ in range(5):
        began = process_time()
        _ = model.trees(labels).log_z
        evaluation.append(process_time() - began)
    began = process_time()
    climb = climb_labels(model, known, n_init=1, random_state=0)
    per_sweep = (process_time() - began) / (len(climb.log_zs) - 1)
    assert per_sweep < 15 * np.median(evaluation)
