"""Simulated outbreaks of which a part is sampled."""

from datetime import date

import numpy as np
import pytest

from outtrees.datasets import make_sampled_outbreak

START = date(2020, 1, 1)


def letters(outbreak):
    return {name: np.array(list(text)) for name, text in outbreak.sequences.items()}


def test_times_and_numbers_are_those_asked_for():
    made = make_sampled_outbreak(800, reproduction=3.0, n_sites=1, random_state=1)
    waits = np.array([made.infected[u] - made.infected[v] for u, v in made.infectors.items() if v])
    days = dict(zip(made.table["sample"], map(date.fromisoformat, made.table["date"]), strict=True))
    assert list(days.values()) == sorted(days.values())
    assert waits.min() > 0
    # Before the end, so that nothing is cut off.
    end = max(made.infected.values()) - 20
    early = [u for u, v in made.infectors.items() if v and made.infected[v] < end]
    waits = np.array([made.infected[u] - made.infected[made.infectors[u]] for u in early])
    assert abs(waits.mean() - 5.0) < 4 * np.sqrt(5 / len(waits))
    delays = np.array(
        [(days[u] - START).days + 0.5 - made.infected[u] for u in days if made.infected[u] < end]
    )
    assert abs(delays.mean() - 5.0) < 4 * np.sqrt(5 / len(delays))
    assert list(made.infectors.values()).count("") == 1


def test_what_children_inherit():
    """Infected at the first moment, all of the parent's changes are its own and its children's."""
    rate = {"n_sites": 4000, "substitution_rate": 1e-4, "sampled": 1.0, "random_state": 2}
    made = make_sampled_outbreak(150, settling=1e-9, late=0.0, **rate)
    found = letters(made)
    pairs = [(u, v) for u, v in made.infectors.items() if v in found and u in found]
    apart = np.array([(found[u] != found[v]).sum() for u, v in pairs])
    waits = np.array([made.infected[u] - made.infected[v] for u, v in pairs])
    expected = (0.4 * waits).sum()
    assert abs(apart.sum() - expected) < 4 * np.sqrt(expected)
    # With all that the parent gained, also what it gained from then until it was sampled.
    made = make_sampled_outbreak(150, **rate)
    found = letters(made)
    days = dict(zip(made.table["sample"], map(date.fromisoformat, made.table["date"]), strict=True))
    expected, apart = 0.0, 0
    for u, v in made.infectors.items():
        if v in found and u in found:
            until = [(days[x] - START).days + 0.5 - made.infected[u] for x in (u, v)]
            expected += 0.4 * (until[0] + abs(until[1]))
            apart += (found[u] != found[v]).sum()
    assert abs(apart - expected) < 4 * np.sqrt(expected) + 0.01 * expected  # days are rounded


def test_introductions_unread_letters_and_seeds():
    options = {"reproduction": 0.8, "introductions": 0.5, "read": 0.7, "random_state": 3}
    made = make_sampled_outbreak(100, n_sites=500, **options)
    assert list(made.infectors.values()).count("") > 10
    unread = np.mean([text.count("N") / 500 for text in made.sequences.values()])
    assert unread == pytest.approx(0.3, abs=0.01)
    assert make_sampled_outbreak(100, n_sites=500, **options) == made


@pytest.mark.parametrize(
    "options", [{"n_samples": 0}, {"sampled": 0.0}, {"sampled": 1.5}, {"reproduction": 1.0}]
)
def test_refusals(options):
    with pytest.raises(ValueError, match="must be"):
        make_sampled_outbreak(**options)
