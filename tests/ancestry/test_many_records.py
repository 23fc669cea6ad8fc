"""Ancestry on candidate parents: when, what it says of itself, and that all answers work."""

import numpy as np
import pytest

from outtrees import Ancestry, load, save
from outtrees.ancestry.sentences import dropped_sentence
from outtrees.candidates.dropped_mass import DroppedMass
from outtrees.candidates.plan import table_plan
from outtrees.datasets import make_line_list, make_outbreak
from outtrees.records import read_records


@pytest.fixture(scope="module")
def cases():
    return make_line_list(240, days=40, random_state=5)


@pytest.fixture(scope="module")
def table(cases):
    return read_records(cases.table, id="case", sequences=cases.sequences)


@pytest.fixture(scope="module")
def found(table):
    # Draws of parameters differ with the list of edges; the fitted ones do not.
    options = {"roots": "any", "parameters": "fitted", "random_state": 0}
    return Ancestry(candidates="knn", n_candidates=15, **options).fit(table)


def test_as_many_parents_are_right_as_the_supports_promise(found, cases):
    ids = found.records.ids
    tree = found.tree()
    right = sum(
        (ids[p] if p >= 0 else "") == cases.infectors[name]
        for name, p in zip(ids, tree, strict=True)
    )
    supports = found.fitted.supports(tree)
    error = np.sqrt((supports * (1 - supports)).sum())
    # Four standard errors: parameters are fitted to the same 240 records.
    assert abs(right - found.expected_right_) < 4 * error
    listed = set(zip(found.edges_.child.tolist(), found.edges_.parent.tolist(), strict=True))
    row = {name: i for i, name in enumerate(ids)}
    true = [(row[u], row[v]) for u, v in cases.infectors.items() if v]
    assert sum(pair in listed for pair in true) >= len(true) - 2


def test_supports_are_those_of_all_pairs(found, table):
    dense = Ancestry(roots="any", candidates="dense", parameters="fitted").fit(table)
    assert dense.dropped_mass_ is None
    mine, theirs = found.fitted.support_of, dense.fitted.support_of
    off = [abs(mine.get(pair, 0.0) - support) for pair, support in theirs.items()]
    assert max(off) < 0.02  # both fits stop at a tolerance
    assert found.log_likelihood_ == pytest.approx(dense.log_likelihood_, abs=0.5)
    off = np.subtract(found.records_["log_density"], dense.records_["log_density"])
    # Introduced cases have no good parent, and many bad ones that are no candidates add up.
    assert abs(off).max() < 0.5
    assert np.median(abs(off)) < 0.01


def test_what_was_dropped_is_told(found):
    assert found.dropped_mass_.n_records == len(found.records)
    assert found.dropped_mass_.kind == "exact"  # so few that all pairs are looked at
    assert 0 <= found.dropped_mass_.mean < 1e-3
    assert found.dropped_mass_.error == 0
    (told,) = [s for s in found.describe() if "parents outside the candidates hold" in s]
    assert "records were looked at" in told
    sampled = dropped_sentence(DroppedMass(2e-4, 1e-4, 200, "bound", 3e-3))
    assert "0.0002 ± 0.0001 of a record's probability" in sampled
    assert sampled.endswith("(a sample of 200 records; at most 0.003).")
    assert not any("candidate" in word for word in found.warnings_)  # little was dropped


def test_much_that_was_dropped_is_a_warning(table):
    narrow = Ancestry(roots="any", candidates="knn", n_candidates=1).fit(table)
    assert narrow.dropped_mass_.mean > 0.05
    assert any("raise n_candidates" in word for word in narrow.warnings_)


def test_every_answer_works_on_candidates(found, tmp_path):
    child = int(np.flatnonzero(found.tree() >= 0)[0])
    assert len(found.what_if({found.records.ids[child]: None})["child"]) >= 2
    evidence = found.column_evidence(1, random_state=0)["column"]
    assert evidence == [name for name in found.column_names_ if name != "onset"]
    late = {"case": ["late"], "onset": ["2020-02-20"], "x": ["50"], "y": ["50"], "ward": ["W01"]}
    assert found.place(late, min_support=0.0)["child"][0] == "late"
    assert len(found.tree("sample", random_state=1)) == 240
    assert sum(found.n_roots_) == pytest.approx(1.0)
    found.report(tmp_path / "report.html")
    assert "outside the candidates hold" in (tmp_path / "report.html").read_text(encoding="utf-8")
    again = load(save(found, tmp_path / "model.safetensors"))
    assert again.dropped_mass_ == found.dropped_mass_
    assert again.log_likelihood_ == found.log_likelihood_
    np.testing.assert_array_equal(again.edges_.choices, found.edges_.choices)


def test_supports_of_a_tree_by_look_up(found):
    """The slow twin: the dictionary of all supports."""
    tree = found.tree("mode")
    slow = [found.fitted.support_of[child, parent] for child, parent in enumerate(tree.tolist())]
    np.testing.assert_array_equal(found.fitted.supports(tree), slow)
    wrong = tree.copy()
    child = int(np.flatnonzero(tree >= 0)[0])
    listed = found.edges_.parent[found.edges_.child == child]
    wrong[child] = next(v for v in range(240) if v != child and v not in listed)
    with pytest.raises(KeyError, match="not among the possible parents"):
        found.fitted.supports(wrong)


def test_auto_takes_all_pairs_of_few_records():
    outbreak = make_outbreak(15, random_state=1)
    options = {"id": "case", "roots": "any"}
    auto = Ancestry(**options).fit(outbreak.table, sequences=outbreak.sequences)
    dense = Ancestry(**options, candidates="dense").fit(
        outbreak.table, sequences=outbreak.sequences
    )
    assert auto.objectives_ == dense.objectives_
    assert auto.edges_.choices is None


def test_auto_says_why_it_takes_candidates(monkeypatch, table):
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE", 200)
    assert table_plan(table, "auto", 5).way == "knn"
    # The wait is given: with rival readings each would list its own five.
    options = {"waiting_mean": 5, "waiting_sd": 2, "max_iter": 3, "tol": 1.0}
    found = Ancestry(roots="any", n_candidates=5, **options).fit(table)
    assert found.warnings_[0].startswith("All pairs of 240 records would take very long")
    assert "only the 5 best candidate parents" in found.warnings_[0]
    assert (np.bincount(found.edges_.child) <= 5).all()


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch, table):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"Use a smaller n_candidates, fit groups"):
        Ancestry(candidates="knn").fit(table)
    with pytest.raises(
        MemoryError, match=r"about 8.3 MB of memory; 1.0 kB are free. Use candidates="
    ):
        Ancestry(candidates="dense").fit(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": "few"}, r"'candidates' parameter of Ancestry must be a str among"),
        ({"n_candidates": 0}, r"'n_candidates' parameter of Ancestry must be an int"),
    ],
)
def test_parameters_are_checked(table, options, message):
    with pytest.raises(ValueError, match=message):
        Ancestry(**options).fit(table)


def test_progress_is_told_in_words(table):
    class Told:
        def __init__(self):
            self.words, self.steps = [], []

        def __call__(self, iteration, objective):
            self.steps.append(iteration)

        def say(self, text):
            self.words.append(text)

    told = Told()
    Ancestry(roots="any", candidates="knn", n_candidates=5, progress=told).fit(table)
    assert told.words[0] == "parameters for 8 waiting times"
    assert any("candidate parents of 240 records" in text for text in told.words)
    assert told.steps[0] == 1


def test_known_and_forbidden_parents_hold(table, cases):
    ids = table.ids
    known = {ids[150]: ids[10], ids[151]: None}
    banned = [(u, v) for u, v in cases.infectors.items() if v][:20]
    banned = [pair for pair in banned if pair[0] not in known]
    found = Ancestry(
        roots="any", candidates="knn", n_candidates=4, known_parents=known, forbidden=banned
    ).fit(table)
    rows = list(found.parents(0.0).rows())
    supports = {(child, parent): support for child, parent, support, _ in rows}
    assert supports[ids[150], ids[10]] == pytest.approx(1.0)
    assert supports[ids[151], ""] == pytest.approx(1.0)
    assert not any(pair in supports for pair in banned)


def test_groups_stay_apart(cases):
    columns = {**cases.table, "region": ["east", "west"] * 120}
    found = Ancestry(
        id="case", kinds={"region": "group"}, roots="single", candidates="knn", n_candidates=6
    ).fit(columns)
    assert (found.edges_.child % 2 == found.edges_.parent % 2).all()
    tree = found.tree()
    assert (tree < 0).sum() == 2
