"""Several samples of one host, and variants within samples, in whole outbreaks that are drawn."""

import numpy as np
import pytest

from outtrees import Ancestry
from outtrees.datasets import make_sampled_outbreak
from outtrees.errors import RecordsError
from outtrees.io import load, save

GIVEN = {
    "generation_mean": 5.0,
    "generation_sd": 5**0.5,
    "delay_mean": 5.0,
    "delay_sd": 5**0.5,
    "sampled": 0.6,
    "substitution_rate": 2e-5,
}


@pytest.fixture(scope="module")
def outbreak():
    more = {"settling": 1.0, "late": 0.7, "drift": 0.3, "repeats": 1.0}
    return make_sampled_outbreak(8, variants=4, mixed=0.3, random_state=5, **more)


@pytest.fixture(scope="module")
def found(outbreak):
    model = Ancestry(id="sample", host="host", **GIVEN)
    return model.fit(outbreak.table, sequences=outbreak.sequences, variants=outbreak.variants)


def test_results_are_those_of_hosts(found, outbreak):
    hosts = list(dict.fromkeys(outbreak.table["host"]))
    assert list(found.records.ids) == hosts
    assert len(hosts) == 8 < len(outbreak.table["sample"])
    assert set(found.named_tree()) == set(hosts)
    spread = found.spread()
    assert list(spread.infections["record"]) == hosts
    learned = [row.parameter for row in spread.parameters if not row.given]
    assert learned[-2:] == ["consensus_drifts", "two_founders"]
    # Everybody was infected before all of its samples.
    last = dict(zip(spread.infections["record"], spread.infections["upper"], strict=True))
    days = zip(outbreak.table["host"], outbreak.table["date"], strict=True)
    assert all(last[host] <= day for host, day in days)
    assert "hosts: parents are hosts" in found.records.describe()


def test_a_saved_model_answers_alike(found, tmp_path):
    again = load(save(found, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(
        again.fitted.trees.edge_marginals, found.fitted.trees.edge_marginals
    )


def test_one_sample_of_each_host_is_the_plain_table():
    """With the first samples only, naming hosts changes nothing."""
    made = make_sampled_outbreak(6, random_state=1)
    table = made.table | {"person": [f"host of {name}" for name in made.table["sample"]]}
    options = {"id": "sample", "kinds": {"person": "ignore"}, **GIVEN}
    plain = Ancestry(**options).fit(table, sequences=made.sequences)
    named = Ancestry(**(options | {"host": "person", "kinds": None}))
    named.fit(table, sequences=made.sequences)
    assert named.records.ids == tuple(table["person"])
    np.testing.assert_array_equal(
        named.fitted.trees.draws.parents, plain.fitted.trees.draws.parents
    )


def test_a_minor_letter_of_the_parent_tells_who_infected():
    """c has a letter that a third of a's strains have, and none of b's, who is else like a."""
    dna = {"a": "A" * 400, "b": "A" * 400, "c": "CC" + "A" * 398}
    table = {"case": list("abc"), "date": ["2020-03-01", "2020-03-01", "2020-03-07"]}
    listed = {
        "sample": ["a", "a"],
        "position": [1, 2],
        "base": ["C", "C"],
        "frequency": [0.35, 0.35],
    }
    model = Ancestry(id="case", **(GIVEN | {"substitution_rate": 1e-4}))
    plain = model.fit(table, sequences=dna).parents(0.0)
    support = {row.parent: row.support for row in plain if row.child == "c"}
    assert support["a"] == pytest.approx(support["b"], abs=0.1)
    told = model.fit(table, sequences=dna, variants=listed).parents(0.0)
    support = {row.parent: row.support for row in told if row.child == "c"}
    assert support["a"] > 2 * support["b"]


def test_introductions_from_a_background_that_differs():
    """Two clusters as far apart as introductions are said to be, each alike within."""
    rng = np.random.default_rng(0)
    one = rng.integers(4, size=2000)
    other = one.copy()
    sites = rng.choice(2000, 8, replace=False)
    other[sites] = (other[sites] + 1) % 4
    text = ["".join("ACGT"[c] for c in dna) for dna in (one, other)]
    names = list("abcdef")
    days = [f"2020-03-{day:02}" for day in (1, 2, 6, 7, 11, 12)]
    dna = {name: text[i % 2] for i, name in enumerate(names)}
    options = {"id": "case", **(GIVEN | {"substitution_rate": 2e-5}), "introduction_distance": 4e-3}
    model = Ancestry(**options).fit({"case": names, "date": days}, sequences=dna)
    roots = model.fitted.trees.root_marginals
    assert min(roots[:2]) > 0.9
    assert max(roots[2:]) < 0.3
    rows = {row.parameter: row for row in model.spread().parameters}
    assert "origin" not in rows
    assert rows["introduction_distance"].given
    assert rows["introduction_distance"].estimate == 4e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transmission": False}, "host needs the transmission model"),
        ({"parameters": "fitted", **GIVEN}, "parameters that are not 'fitted'"),
        ({"introduction_distance": 1e-3, "roots": "single"}, "introduction_distance is between"),
        ({"introduction_distance": 1e-3, "root": "p2"}, "introduction_distance is between"),
        ({"host": "person", **GIVEN}, "the table has no column .person."),
    ],
)
def test_what_cannot_be_used_is_refused(outbreak, options, message):
    model = Ancestry(**({"id": "sample", "host": "host"} | options))
    with pytest.raises(RecordsError, match=message):
        model.fit(outbreak.table, sequences=outbreak.sequences)


def test_tables_that_are_too_large_are_refused():
    made = make_sampled_outbreak(151, n_sites=50, random_state=0)
    listed = {"sample": made.table["sample"][:1], "position": [1], "base": ["A"]}
    other = "C" if made.sequences[made.table["sample"][0]][0] == "A" else "A"
    listed |= {"base": [other], "frequency": [0.2]}
    with pytest.raises(
        RecordsError, match=r"variants needs .* at most 150 hosts; this table has 1"
    ):
        Ancestry(id="sample", **GIVEN).fit(made.table, sequences=made.sequences, variants=listed)
