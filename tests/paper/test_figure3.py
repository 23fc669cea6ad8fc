"""Figures 3 and 4 on generated trees: what out-trees reach, what is written, what is kept."""

import csv

import numpy as np
import pytest
from scipy import stats
from sklearn.svm import SVC

from paper import experiment, label_errors
from paper.characters import CharacterMatrix, generated, zoo
from paper.label_errors import (
    Error,
    Protocol,
    by_task,
    mean_and_error,
    one_unit,
    outcome,
    paired,
    run_tasks,
    shared_counts,
)
from paper.label_figures import below_both_svms, verdict
from paper.label_methods import BASELINE, OTHERS, OURS, other_votes
from paper.label_tasks import INPUTS, components, indicators, split, targets
from paper.units import Unit

FILES = ("figure3.md", "figure3.csv", "figure3.png", "figure3-matrices.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A quick run, with its files."""
    out = tmp_path_factory.mktemp("reproduced")
    seen = []
    page = experiment("figure3")(out, quick=True, progress=lambda *told: seen.append(told))
    assert page == out / "figure3" / "figure3.md"
    assert seen[-1][0] == seen[-1][1] == len(list((out / "figure3" / "units").iterdir()))
    return out / "figure3"


def read(folder):
    with (folder / "figure3.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_labels_follow_the_tree(folder):
    """On characters that mutated along one tree every form is better than the common label."""
    rows = read(folder)
    for inputs in INPUTS:
        means = {}
        for method in (*OURS, *OTHERS, BASELINE):
            own = [row for row in rows if (row["inputs"], row["method"]) == (inputs, method)]
            found = [float(row["vote"]) for row in own]
            if found:
                means[method] = np.mean(found)
        assert (OURS[0] in means) == (inputs == "3d")  # the printed form has no other inputs
        assert len(means) == len(OURS) + len(OTHERS) + (inputs == "3d")
        for method in OURS:
            if method in means:
                assert means[method] < means[BASELINE] - 0.05
                assert means[method] < 0.4  # two classes: chance is 0.5


@pytest.mark.slow
def test_shuffled_labels_cannot_be_found():
    """The comparison above can fail: a label that has nothing to do with the tree."""
    matrix = generated()
    rng = np.random.default_rng(0)
    errors = []
    for label in range(3):
        codes = matrix.codes.copy()
        codes[:, label] = rng.permutation(np.arange(len(codes)) % 2)
        shuffled = CharacterMatrix("shuffled", codes)
        unit = Unit("figure3", f"s full {label}", "out-tree", 0)
        found = one_unit({"s": shuffled}, unit, {"counts": [8]})["errors"]
        errors += [row["vote"] for row in found if row["method"] == "posterior"]
    assert np.mean(errors) > 0.4


def test_files_are_whole(folder):
    page = (folder / "figure3.md").read_text()
    assert all((folder / file).stat().st_size > 500 for file in FILES)
    assert all(f"({file})" in page for file in FILES[1:])
    for picture in FILES[2:]:
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    for word in ("statistically significant advantage", "Protocol", "Seeds", "Where we differ"):
        assert word in page
    assert "--quick" in page
    assert "nan" not in page
    rows = read(folder)
    assert {row["method"] for row in rows} == {*OURS, *OTHERS, BASELINE}
    assert all(0 <= float(row[rule]) <= 1 for row in rows for rule in ("vote", "single"))
    assert all(1 <= int(row["n_tied"]) <= int(row["n_settings"]) for row in rows)


def test_resuming_computes_nothing_twice_and_gives_the_same_bytes(folder, monkeypatch):
    before = {file: (folder / file).read_bytes() for file in FILES}
    units = sorted((folder / "units").iterdir())
    content = units[0].read_bytes()
    units[0].unlink()  # as if interrupted before it
    done = []

    def counted(by_name, unit, settings):
        done.append(unit.file)
        return one_unit(by_name, unit, settings)

    monkeypatch.setattr(label_errors, "one_unit", counted)
    experiment("figure3")(folder.parent, quick=True)
    assert done == [units[0].name]
    assert units[0].read_bytes() == content
    assert {file: (folder / file).read_bytes() for file in FILES} == before


@pytest.mark.slow
def test_jobs_do_not_matter(tmp_path):
    protocol = Protocol(counts=(8,), labels=1, folds=1)
    for n_jobs in (1, 2):
        run_tasks(tmp_path / str(n_jobs), "figure3", [generated()], protocol, n_jobs=n_jobs)
    files = sorted(file.name for file in (tmp_path / "1" / "units").iterdir())
    assert len(files) == 4
    for file in files:
        one, two = ((tmp_path / jobs / "units" / file).read_bytes() for jobs in ("1", "2"))
        assert one == two


# Its parts ---------------------------------------------------------------------------------------


def test_splits_hide_what_they_should():
    y = targets(zoo(), 16)
    parts = split(y, 12, "zoo", 16, 0)
    rows = np.concatenate(parts)
    assert sorted(rows) == sorted(np.flatnonzero(y >= 0))
    assert len(parts.labelled) == 12
    assert abs(len(parts.validation) - len(parts.test)) <= 1
    assert len(np.unique(y[parts.labelled])) > 1
    np.testing.assert_array_equal(rows, np.concatenate(split(y, 12, "zoo", 16, 0)))
    others = [split(y, 12, "zoo", 16, 1), split(y, 12, "zoo", 15, 0), split(y, 12, "ark", 16, 0)]
    assert all(not np.array_equal(rows, np.concatenate(other)) for other in others)
    assert split(y, 96, "zoo", 16, 0) is None  # fewer than six others
    assert split(np.zeros(30, dtype=int), 4, "zoo", 16, 0) is None  # one class


def test_inputs_are_principal_components_of_indicators():
    codes = np.array([[0.0, 2.0], [1.0, np.nan], [0.0, 3.0], [1.0, 2.0], [0.0, 4.0]])
    found = indicators(codes)
    assert found.shape == (5, 5)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-12)
    assert found.var(axis=0).sum() == pytest.approx(3.0)
    assert found[1, 2] == pytest.approx(0.0)  # a missing cell is at its column's mean
    Z = components(codes)
    values = np.linalg.eigvalsh(found.T @ found)[::-1][:3]
    np.testing.assert_allclose(np.diag(Z.T @ Z) / values, (Z.T @ Z)[0, 0] / values[0])


def test_other_methods_see_labelled_rows_alone():
    """The linear SVM's votes are those of an SVM fitted by hand to the labelled rows."""
    matrix = generated()
    y = targets(matrix, 1)
    columns = components(matrix.without(1))
    known = np.where(np.arange(len(y)) < 8, y, -1)
    found = other_votes(columns, known, 2)
    assert list(found) == [*OTHERS, BASELINE]
    by_hand = SVC(kernel="linear", C=1.0).fit(columns[:8], y[:8]).predict(columns)
    np.testing.assert_array_equal(found["SVM linear"][2].argmax(axis=1), by_hand)
    most = np.bincount(y[:8]).argmax()
    assert (found[BASELINE][0].argmax(axis=1) == most).all()


def test_only_the_best_on_validation_count():
    y = np.array([0, 1, 0, 1, 1, 0])
    validation, test = np.array([0, 1, 2]), np.array([3, 4, 5])
    good, also_good, bad = y.copy(), y.copy(), 1 - y
    also_good[test] = 1 - y[test]
    bad[test] = y[test]  # right on the test, wrong on validation: not to be looked at
    votes = np.eye(2)[np.array([good, also_good, bad])]
    votes[0] = 0.9 * votes[0] + 0.1 * (1 - votes[0])
    found = outcome(votes, y, validation, test)
    assert found == {"n_settings": 3, "n_tied": 2, "vote": 1.0, "single": 0.5}
    alone = outcome(votes[:1], y, validation, test)
    assert (alone["vote"], alone["single"]) == (0.0, 0.0)
    with pytest.raises(ValueError, match="at least one setting"):
        outcome(votes[:0], y, validation, test)


def made_up(lead, noise=0.02, matrices=("a", "b"), n_labels=8):
    """Errors in which all out-trees are lower than all others by `lead`."""
    rng = np.random.default_rng(0)
    return [
        Error(matrix, inputs, label, n, 0, method, 5, 1, float(error), float(error))
        for matrix in matrices
        for inputs in INPUTS
        for label in range(n_labels)
        for n in ((4, 8) if matrix == "a" else (4, 8, 64))
        for method in (*OURS, *OTHERS)
        for error in [0.3 - lead * (method in OURS) + noise * rng.normal()]
    ]


def test_means_and_tests_are_those_of_scipy():
    errors = made_up(0.05)
    assert shared_counts(errors) == [4, 8]  # 64 is in one matrix only
    tasks = by_task([e for e in errors if e.n == 4], "3d", "vote")
    assert by_task(errors, "3d", "vote", 4) == tasks
    ours, theirs = tasks["posterior"], tasks["SVM RBF"]
    result = paired(ours, theirs)
    x, y = np.array(list(ours.values())), np.array(list(theirs.values()))
    assert result.n_tasks == 16
    assert result.mean == pytest.approx((x - y).mean())
    assert result.standard_error == pytest.approx(stats.sem(x - y))
    assert result.p_t == pytest.approx(stats.ttest_rel(x, y).pvalue)
    assert result.p_wilcoxon == pytest.approx(stats.wilcoxon(x, y, method="approx").pvalue)
    assert paired(ours, ours) == (0.0, 0.0, 1.0, 1.0, 16)
    a, b = x[:8], x[8:]  # labels of one matrix, then of the other
    mean, error = mean_and_error(ours)
    assert mean == pytest.approx((a.mean() + b.mean()) / 2)
    assert error == pytest.approx(np.hypot(stats.sem(a), stats.sem(b)) / 2)


def test_the_claim_is_judged_both_ways():
    better, level, worse = made_up(0.05), made_up(0.0), made_up(-0.05)
    assert below_both_svms(better, "3d", "posterior", "vote")
    assert not below_both_svms(level, "3d", "posterior", "vote")
    assert not below_both_svms(worse, "3d", "posterior", "vote")  # significant, the wrong way
    assert "no form of the out-tree" in verdict(worse)
    assert "hill-climb, as printed (three principal components)" in verdict(better)
    assert "only" not in verdict(better)
    flattered = [
        Error(**{**vars(e), "single": 0.3 + (e.method in OURS) * 0.01 * e.label}) for e in better
    ]
    assert "with the vote only: hill-climb, as printed" in verdict(flattered)
