"""The alternating sampler: its law on a problem small enough to enumerate, and its error bars."""

from itertools import cycle

import numpy as np
import pytest

from outtrees.inference.chains import alternate

ROOT_0, ROOT_1 = np.array([-1, 0]), np.array([1, -1])


def two_by_two(joint):
    """Exact conditional draws of a 2 × 2 table [tree, state]; the state, and P(state | tree)."""

    def draw_tree(state, rng):
        p = joint[:, state] / joint[:, state].sum()
        return ROOT_0 if rng.random() < p[0] else ROOT_1

    def draw_hidden(parents, state, rng):
        p = joint[int(parents[0] >= 0)]
        chance = p[1] / p.sum()
        new = int(rng.random() < chance)
        return new, np.array([new, chance])

    return draw_tree, draw_hidden


def ar1(coefficient):
    """A chain whose long-run variance is known: x' = a x + noise of variance 1."""

    def draw_tree(state, rng):
        return ROOT_0

    def draw_hidden(parents, state, rng):
        new = coefficient * state + rng.normal()
        return new, np.array([new])

    return draw_tree, draw_hidden


def test_the_joint_law_and_less_noise_by_rao_blackwell():
    joint = np.array([[0.35, 0.15], [0.1, 0.4]])
    chains = alternate(0, *two_by_two(joint), 4, 3000, 20, random_state=1)
    assert np.all(np.abs(chains.mean - 0.55) < 4 * chains.standard_error)
    assert chains.standard_error[1] < chains.standard_error[0]
    assert chains.r_hat.max() < 1.02


@pytest.mark.parametrize("coefficient", [0.0, 0.6])
def test_the_standard_error_is_the_one_of_dependent_draws(coefficient):
    """Long-run variance of AR(1): 1 / (1 − a)². Over many runs the claimed error matches it."""
    n_chains, n_draws = 4, 400
    true = 1 / (1 - coefficient) / np.sqrt(n_chains * n_draws)
    claimed, squared = [], []
    for seed in range(50):
        chains = alternate(0.0, *ar1(coefficient), n_chains, n_draws, 50, random_state=seed)
        claimed.append(chains.standard_error[0])
        squared.append(chains.mean[0] ** 2)
    # 50 runs know a standard deviation to 10 %; the larger of two estimates errs high by up to
    # 30 %, batches of 20 draws err low by about (1 + a) / (1 − a) / 20 / 2, 10 % at 0.6.
    assert 0.85 * true < np.mean(claimed) < 1.4 * true
    assert 0.7 * true < np.sqrt(np.mean(squared)) < 1.3 * true


def test_chains_stuck_apart_are_noticed():
    """Two places without a way between them: each chain alone looks perfect."""

    places = cycle([0.0, 10.0])

    def draw_hidden(parents, state, rng):
        return state, np.array([state + rng.normal()])

    chains = alternate(
        lambda rng: next(places), lambda s, rng: ROOT_0, draw_hidden, 6, 200, 0, random_state=3
    )
    assert chains.r_hat.max() > 3
    # The mean is off by up to 5, and the batches alone would claim an error of 0.2.
    assert chains.standard_error[0] > 1
    well = alternate(0.0, *ar1(0.3), 6, 200, 0, random_state=3)
    assert well.r_hat.max() < 1.1


def test_split_r_hat_against_its_definition():
    chains = alternate(5.0, *ar1(0.9), 3, 41, 0, random_state=0, keep=True)
    assert chains.draws.shape == (3, 41, 1)
    x = chains.draws[:, :, 0]
    halves = np.concatenate([x[:, :20], x[:, 21:]])
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    assert chains.r_hat[0] == pytest.approx(np.sqrt(19 / 20 + between / within))
    assert chains.mean[0] == pytest.approx(x.mean())
    batches = x[:, :36].reshape(3 * 6, 6).mean(axis=1)
    by_chain = x.mean(axis=1).std(ddof=1) / np.sqrt(3)
    expected = max(batches.std(ddof=1) / np.sqrt(18), by_chain)
    assert chains.standard_error[0] == pytest.approx(expected)


def test_statistics_that_never_change_or_never_meet():
    def draw_hidden(parents, state, rng):
        return state, np.array([[0.3, state]])

    chains = alternate(
        lambda rng: rng.random(), lambda s, rng: ROOT_0, draw_hidden, 3, 10, 0, random_state=0
    )
    np.testing.assert_array_equal(chains.r_hat, [[1.0, np.inf]])
    assert chains.standard_error[0, 0] == pytest.approx(0.0, abs=1e-15)


def test_the_same_whatever_ran_before():
    arguments = (0.0, *ar1(0.5), 3, 20, 5)
    first = alternate(*arguments, random_state=4)
    np.testing.assert_array_equal(first.mean, alternate(*arguments, random_state=4).mean)
    # Chains do not share a stream: with fewer chains the others' draws stay the same.
    three = alternate(*arguments, random_state=4, keep=True).draws
    two = alternate(0.0, *ar1(0.5), 2, 20, 5, random_state=4, keep=True).draws
    np.testing.assert_array_equal(three[:2], two)
    assert not np.array_equal(three[0], three[1])


def test_progress_is_told():
    steps = []
    alternate(0.0, *ar1(0.5), 2, 2, 1, random_state=0, on_draw=lambda c, s: steps.append((c, s)))
    assert steps == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(("name", "value"), [("n_chains", 0), ("n_draws", 1), ("burn_in", -1)])
def test_refusals(name, value):
    with pytest.raises(ValueError, match=f"{name} of .* must be an integer of at least "):
        alternate(0.0, *ar1(0.5), **{name: value})


def test_one_chain_has_the_error_of_its_batches():
    chains = alternate(0.0, *ar1(0.0), 1, 400, 0, random_state=0)
    assert chains.standard_error[0] == pytest.approx(1 / np.sqrt(400), rel=0.6)


def test_what_is_always_zero_has_converged():
    def draw_hidden(parents, state, rng):
        return state, np.zeros(2)

    chains = alternate(0.0, ar1(0.0)[0], draw_hidden, 2, 20, 0, random_state=0)
    np.testing.assert_array_equal(chains.r_hat, 1.0)


def test_four_chains_are_the_default():
    assert (
        len(alternate(0.0, *ar1(0.0), n_draws=2, burn_in=0, random_state=0, keep=True).draws) == 4
    )
