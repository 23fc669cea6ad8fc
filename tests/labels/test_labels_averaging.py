"""Labels averaged over settings: the weighed sum of the enumerated posteriors."""

import numpy as np
import pytest

from oracles.labellings import FORMS, enumerate_labels, random_model
from outtrees import OutTreeClassifier
from outtrees.labels import Choice, average_labels

KNOWN = np.array([0, -1, 1, -1, -1])
SETTINGS = np.array([[0.5, 0.9, 0.5, 1], [0.3, 0.6, 1.0, 0], [0.2, 0.2, 1.5, 1]])


@pytest.mark.parametrize("form", FORMS)
def test_the_average_of_enumerated_posteriors(form):
    model = random_model(4, 5, 2, form=form)
    expected, edges = np.zeros((5, 2)), np.zeros((5, 5))
    for weight, sticky, sharp, fresh in SETTINGS:
        setting = model.with_options(stickiness=sticky, sharpness=sharp)
        if not fresh:
            setting = setting.with_options(log_fresh=None)
        marginals, of_edges, _, _, _ = enumerate_labels(setting, KNOWN)
        expected += weight * marginals
        edges += weight * of_edges
    found = average_labels(model, SETTINGS, KNOWN, 4, 200, 10, random_state=0)
    assert np.all(np.abs(found.mean - expected) < 4 * found.standard_error + 1e-9)
    assert found.standard_error.max() < 0.05
    first = model.with_options(stickiness=0.9, sharpness=0.5)
    alone = enumerate_labels(first, KNOWN)
    # The first setting by itself is told apart, and its log Z is the one that is kept.
    assert np.any(np.abs(alone[0] - expected) > 4 * found.standard_error + 1e-9)
    assert found.log_z == pytest.approx(alone[2], abs=0.3)
    edge, root = found.edges(model, 800)
    # Some 160 nearly independent draws for the least of the settings: 0.02 in all, times four.
    np.testing.assert_allclose(edge, edges, atol=0.08)
    np.testing.assert_allclose(edge.sum(axis=1) + root, 1.0)


def choice(scores, forms=0):
    numbers = np.arange(float(len(scores)))
    fresh = np.broadcast_to(forms, numbers.shape)
    return Choice(None, numbers, numbers, fresh, *[numbers] * 3, np.array(scores))


def test_weights_of_settings():
    found = choice([0.0, np.log(3.0), -50.0]).settings()
    np.testing.assert_allclose(found, [[0.75, 1, 1, 0], [0.25, 0, 0, 0]])  # the third says nothing
    assert len(choice(np.zeros(15)).settings()) == 8
    best = choice([0.0, 0.1, 0.2, -0.5], [1, 1, 1, 2]).settings(2)
    np.testing.assert_array_equal(best[:, 1], [2, 1])
    tied = choice(np.zeros(4), [1, 1, 1, 2]).settings(2)  # one of each form
    np.testing.assert_array_equal(tied[:, 1], [0, 3])
    impossible = choice([-np.inf, -np.inf]).settings()
    np.testing.assert_allclose(impossible[:, 0], 0.5)


def test_sampled_weights_are_in_the_error():
    """Weights that differ without a part of their trees widen the errors, as the jackknife says."""
    model = random_model(4, 5, 2, form=next(iter(FORMS)))
    how = model, SETTINGS, KNOWN, 2, 20, 2, 0
    plain = average_labels(*how)
    same = average_labels(*how, weights_without=np.tile(SETTINGS[:, 0], (4, 1)))
    np.testing.assert_allclose(same.standard_error, plain.standard_error)
    without = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    wider = average_labels(*how, weights_without=without)
    means = np.tensordot(without, plain.distributions, axes=1)
    added = 3 / 4 * ((means - means.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(wider.standard_error**2, plain.standard_error**2 + added)
    assert added.max() > 1e-4


def test_spread_over_seeds_is_the_reported_error():
    """With the settings left open: what is chosen among them is sampled too."""
    rng = np.random.default_rng(1)
    classes = rng.integers(2, size=24)
    X = rng.normal(size=(24, 2)) + 1.3 * classes[:, None]
    y = np.where(rng.random(24) < 0.35, classes, -1)
    found = [OutTreeClassifier(random_state=seed).fit(X, y) for seed in range(8)]
    assert len(found[0].average_.weights) > 1
    probabilities = np.array([model.label_distributions_ for model in found])
    errors = np.array([model.label_errors_ for model in found])
    unknown = y < 0
    spread = np.sqrt(probabilities.var(axis=0, ddof=1)[unknown].mean())
    reported = np.sqrt((errors[:, unknown] ** 2).mean())
    # It was 2 to 4 where folds were dealt at random and the error was that of the chains alone.
    assert 0.6 < spread / reported < 1.5
