"""Long lists of simulated cases."""

from datetime import date

import numpy as np
import pytest

from outtrees.datasets import make_line_list


@pytest.fixture(scope="module")
def cases():
    return make_line_list(3000, random_state=1)


def test_cases_come_after_their_infectors(cases):
    onset = dict(
        zip(cases.table["case"], map(date.fromisoformat, cases.table["onset"]), strict=True)
    )
    waits = np.array([(onset[u] - onset[v]).days for u, v in cases.infectors.items() if v])
    assert waits.min() >= 0
    assert waits.mean() == pytest.approx(5.0, abs=0.2)  # four standard errors of 2 / √2900
    assert waits.std() == pytest.approx(2.0, abs=0.2)
    assert list(onset.values()) == sorted(onset.values())


def test_infectors_are_listed_and_some_cases_have_none(cases):
    assert set(cases.infectors) == set(cases.table["case"])
    assert set(cases.infectors.values()) <= {"", *cases.table["case"]}
    introduced = sum(not v for v in cases.infectors.values())
    assert 30 < introduced < 150


def test_places_wards_and_dna_follow_the_infector(cases):
    row = {name: i for i, name in enumerate(cases.table["case"])}
    pairs = [(row[u], row[v]) for u, v in cases.infectors.items() if v]
    u, v = np.array(pairs).T
    x = np.array(cases.table["x"], dtype=float)
    assert (x[u] - x[v]).std() == pytest.approx(1.0, abs=0.05)
    ward = np.array(cases.table["ward"])
    known = (ward[u] != "") & (ward[v] != "")
    assert (ward[u] == ward[v])[known].mean() == pytest.approx(0.8 + 0.2 / 20, abs=0.03)
    dna = np.array([list(text) for text in cases.sequences.values()])
    differing = ((dna[u] != dna[v]) & (dna[u] != "N") & (dna[v] != "N")).sum(axis=1)
    assert differing.mean() == pytest.approx(0.5 * 0.98**2, abs=0.06)
    assert dna.shape == (3000, 100)


def test_the_same_seed_gives_the_same_cases(cases):
    assert make_line_list(3000, random_state=1) == cases


@pytest.mark.parametrize("options", [{"n_cases": 0}, {"reproduction": 1.0}])
def test_refusals(options):
    with pytest.raises(ValueError, match="or the outbreaks would never end"):
        make_line_list(**options)
