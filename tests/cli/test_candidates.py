"""`outtrees density` and `outtrees label` on candidate parents, and with a checkpoint."""

import json

import pytest

from outtrees import OutTreeDensity
from outtrees.datasets import make_spiral

# With few candidates much probability is left out, which is told; a test of its own looks at that.
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the candidates hold")


T = 70
ALL_PAIRS = 8 * 16 * T**2  # bytes of a dense fit


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "spiral.csv"
    X = make_spiral(T, random_state=0).tolist()
    lines = [
        f"s{i},{x!r},{y!r},{z!r},{'' if i % 3 else 'ab'[i % 2]}" for i, (x, y, z) in enumerate(X)
    ]
    path.write_text("name,u,v,w,side\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def command(outtrees, table):
    options = {
        "density": ["--ignore", "side", "--mutation", "parzen"],
        "label": ["--label", "side", "--stickiness", "0.9", "--sharpness", "1"],
    }

    def run(name, *more):
        return outtrees(name, table, *options[name], "--seed", 1, "--json", *more)

    return run


@pytest.fixture
def free(monkeypatch):
    def set_free(n):
        monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: n)

    return set_free


COMMANDS = ["density", "label"]


@pytest.mark.parametrize("name", COMMANDS)
def test_too_many_records_for_all_pairs_is_a_warning(command, free, monkeypatch, name):
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE_MATRIX", T - 1)
    check = command(name, "--n-candidates", 4, "--check")
    assert check.exit_code == 0, check.output
    assert json.loads(check.stdout)["candidates"] == "knn"
    assert "of one core, by fits of up to" in check.stderr
    result = command(name, "--n-candidates", 4)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("All pairs of 70 records would take very long") == 1
    assert "only the 4 best candidate parents of each record take part" in result.stderr
    assert "parents outside the candidates hold" in result.stderr
    summary = json.loads(result.stdout)
    assert 0 < summary["dropped_mass"]["mean"] < 1
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE_MATRIX", T)
    free(ALL_PAIRS)
    summary = json.loads(command(name, "--check").stdout)
    assert (summary["candidates"], summary["check"]["memory_bytes"]) == ("dense", ALL_PAIRS)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_does_not_fit_is_refused_before_anything_is_made(command, free, monkeypatch, name):
    for module in ("density.OutTreeDensity", "labels.classifier.OutTreeClassifier"):
        monkeypatch.setattr(f"outtrees.{module}.fit", None)
    free(1000)
    for way, remedy in (
        ("dense", "Use --candidates knn, or fewer records."),
        ("knn", "Use a smaller --n-candidates, or fewer records."),
        ("auto", "Use --candidates knn, or fewer records."),
    ):
        result = command(name, "--candidates", way)
        assert result.exit_code == 4
        assert result.stderr.splitlines()[-1].endswith(f"1.0 kB are free. {remedy}")
    free(ALL_PAIRS - 1)
    assert command(name, "--candidates", "dense").exit_code == 4
    assert command("label", "--method", "hill-climb").exit_code == 4


def test_candidates_are_those_of_the_estimator(command):
    result = command("density", "--candidates", "knn", "--n-candidates", 5)
    model = OutTreeDensity("parzen", candidates="knn", n_candidates=5, random_state=1)
    X = make_spiral(T, random_state=0)
    found = json.loads(result.stdout)["densities"]["log_density"]
    assert found == model.fit(X).score_samples(X).tolist()


def test_a_checkpoint_is_removed_when_it_has_served(command, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"

    def fail(*arguments):
        raise OSError("disk full")

    whole = command("density", "--checkpoint", path)
    assert whole.exit_code == 0
    assert not path.exists()
    with monkeypatch.context() as broken:
        broken.setattr("outtrees.cli.results.whole_folder", fail)
        failed = command("density", "--checkpoint", path, "--out", tmp_path / "out")
        assert failed.exit_code == 3
    assert path.exists()  # the fit is not lost
    other = command("density", "--checkpoint", path, "--max-iter", 7)
    assert other.exit_code == 2
    assert "'fit.checkpoint' is no checkpoint of this data with these settings" in other.stderr
    done = command("density", "--checkpoint", path, "--out", tmp_path / "out")
    assert json.loads(done.stdout)["densities"] == json.loads(whole.stdout)["densities"]
    assert not path.exists()
    model = tmp_path / "out" / "model.safetensors"
    path.write_text("mine")
    refused = command("density", "--model", model, "--checkpoint", path)
    assert refused.exit_code == 2
    assert "--checkpoint keeps a fit, but with --model there is none" in refused.stderr
    assert path.read_text() == "mine"


def test_a_checkpoint_of_many_fits_is_refused(command, tmp_path):
    result = command("density", "--mutation", "auto", "--checkpoint", tmp_path / "c")
    assert result.exit_code == 2
    assert "a checkpoint keeps one fit, but --mutation auto makes one for each" in result.stderr
