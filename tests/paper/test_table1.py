"""Table 1 in its quick form, its folds, and the order of methods where it is known."""

import csv
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

from outtrees.datasets import make_out_tree
from outtrees.models import GaussianMutation
from paper import EXPERIMENTS, table1
from paper.__main__ import command
from paper.density_methods import DEFAULT, PEERS
from paper.table1 import (
    METHODS,
    PUBLISHED,
    ROWS,
    SETS,
    SPREAD,
    collect,
    compare,
    fold,
    holm,
    records,
    verdict,
)
from paper.units import Unit


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return table1.run(tmp_path_factory.mktemp("table"), quick=True, folds=1)


def test_quick_form_writes_a_table_with_every_method(page):
    table = list(csv.DictReader(page.with_suffix(".csv").read_text().splitlines()))
    assert len(table) == (len(SETS) + 1) * len(METHODS)  # and one set spread
    assert {row["method"] for row in table} == set(METHODS)
    assert all(np.isfinite(float(row["score"])) for row in table)
    text = page.read_text()
    for row in (*PEERS, *ROWS):
        assert f"| {row} |" in text
    assert "−499" in text  # published beside ours
    assert "A quick run" in text


def test_rows_are_the_numbers_of_their_methods():
    found = {
        Unit("table1", "heart", method, 0): {"score": i, "ratio score": -i}
        for i, method in enumerate(METHODS)
    }
    densities = collect(found, ["heart"], 1, "normalised")["heart"]
    assert list(densities) == [*PEERS, *ROWS]
    assert densities["tdid, kernel"] == [list(METHODS).index("tdid kernel")]
    ratios = collect(found, ["heart"], 1, "ratio")["heart"]
    assert list(ratios) == list(ROWS)
    assert ratios[DEFAULT] == [-list(METHODS).index(DEFAULT)]


def test_holm_rejects_what_the_steps_reject():
    """The slow twin: p-values from the smallest, each against 0.05 over how many are left."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(8) ** 4
        rejected = np.zeros(8, dtype=bool)
        for left, i in zip(range(8, 0, -1), np.argsort(p), strict=True):
            if p[i] * left >= 0.05:
                break
            rejected[i] = True
        assert np.array_equal(holm(p) < 0.05, rejected)


def test_verdict_says_who_is_behind_and_who_cannot_be_told_apart():
    noise = np.random.default_rng(0).normal(size=10)
    scores = {"heart": {peer: np.zeros(10) for peer in PEERS} | {DEFAULT: 5 + 0.1 * noise}}
    assert verdict("heart", compare(scores)) == "heart: ahead of all others."
    scores["heart"]["GMM-2"] = scores["heart"][DEFAULT] + noise - noise.mean()
    scores["heart"]["Parzen"] = np.full(10, 9.0)
    text = verdict("heart", compare(scores))
    assert "behind Parzen" in text
    assert "not told apart from GMM-2" in text


def test_correction_counts_all_comparisons_of_the_page():
    noise = np.random.default_rng(1).normal(size=10)
    one = {peer: np.zeros(10) for peer in PEERS} | {DEFAULT: 0.9 + noise}
    alone, beside = compare({"heart": one}), compare({"heart": one, "liver": one})
    for peer in PEERS:
        p, q = alone["heart", peer].p_value, beside["heart", peer].p_value
        assert q == pytest.approx(min(1.0, 2 * p))


def test_published_values_are_the_papers():
    assert PUBLISHED["tdid"] == (-3.91e2, -5.29e2, -8.87e2, -4.99e2)
    assert PUBLISHED["GMM-∞"] == (-4.86e2, -4.02e2, -8.22e2, -4.56e2)
    assert all(len(values) == len(SETS) for values in PUBLISHED.values())


def test_units_are_not_run_again(page, monkeypatch):
    def never(unit, settings):
        raise AssertionError(f"{unit} was run again")

    before = page.with_suffix(".csv").read_bytes()
    monkeypatch.setattr(table1, "evaluate", never)
    table1.run(page.parents[1], quick=True, folds=1)
    assert page.with_suffix(".csv").read_bytes() == before


@pytest.mark.parametrize("name", [*SETS, *SPREAD])
def test_folds_test_every_record_once(name):
    n = len(records(name))
    tested = []
    for number in range(10):
        train, validation, test = fold(name, n, number)
        together = np.concatenate([train, validation, test])
        assert sorted(together) == list(range(n))
        assert abs(len(test) - n / 10) < 1
        assert abs(len(train) - 0.8 * n) < 3
        tested.extend(test)
    assert sorted(tested) == list(range(n))


@pytest.mark.parametrize("name", SPREAD)
def test_spread_values_stay_in_their_rounding_interval(name):
    rough, fine = records(name.split()[0]), records(name)
    assert len(np.unique(fine)) == fine.size  # no value twice
    for before, after in zip(rough.T, fine.T, strict=True):
        assert np.abs(before - after).max() <= 0.5 * np.diff(np.unique(before)).min()


def test_out_trees_are_first_on_records_of_an_out_tree():
    """A turning walk in the plane, with little noise: one linear map explains every record."""
    angle = np.deg2rad(25)
    turn = 0.97 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    truth = GaussianMutation(
        transition_matrix=turn,
        mutation_cov=0.003 * np.eye(2),
        root_mean=[1.0, 0.0],
        root_cov=0.1 * np.eye(2),
    )
    methods = ["Parzen", "GMM-1", "GMM-5", "tdid"]
    total = dict.fromkeys(methods, 0.0)
    for seed in range(2):
        X, parents = make_out_tree(150, truth, seed)
        rng = np.random.default_rng(seed)
        leaves = rng.permutation(np.setdiff1d(np.arange(150), parents))[:30]
        test, validation = leaves[:15], leaves[15:]
        train = np.setdiff1d(np.arange(150), leaves)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in methods:
                parts = (X[rows] for rows in (train, validation, test))
                total[name] += METHODS[name](*parts, 0, True)["score"]
    assert max(total, key=total.get) == "tdid", total


def test_command_offers_every_experiment():
    (name,) = (p for p in command.params if p.name == "name")
    assert list(name.type.choices) == [*EXPERIMENTS, "all"]


def test_command_writes_a_page_and_checks(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(command, arguments)

    made = run("figure1", "--quick", "--out", str(tmp_path))
    assert made.exit_code == 0, made.output
    assert made.stdout == f"figure1: {tmp_path / 'figure1' / 'figure1.md'}\n"
    checked = run("all", "--check", "--out", str(tmp_path))
    assert checked.exit_code == 0
    assert "not yet" in checked.stdout
    assert not (tmp_path / "table1").exists()
    refused = run("figure3", "--quick", "--out", str(tmp_path), "--data", str(tmp_path / "none"))
    assert refused.exit_code == 3
    assert "no such file or folder" in refused.stderr
    assert run("figure9").exit_code == 2
