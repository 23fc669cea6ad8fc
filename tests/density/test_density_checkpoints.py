"""A density's fit that is killed goes on where it stood and ends with the same bits."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from outtrees import ModelFileError, OutTreeDensity, RecordsError, load, save
from outtrees.datasets import make_spiral
from outtrees.inference.checkpoint import Checkpoint
from outtrees.models import GaussianMutation, KernelMutation, PoissonMutation, ProductMutation

SPIRAL = make_spiral(60, random_state=1)
COUNTS = np.random.default_rng(2).poisson([2.0, 9.0], size=(40, 2)).astype(float)

FITS = {
    "gaussian, three starts": (SPIRAL[:12], {"mutation": "gaussian", "max_iter": 4}),
    "mixture, two starts": (
        SPIRAL[:25],
        {"mutation": "mixture", "n_components": 2, "n_init": 2, "random_state": 5, "max_iter": 5},
    ),
    "kernel": (SPIRAL[:25], {"mutation": KernelMutation(), "max_iter": 4}),
    "counts": (COUNTS, {"mutation": PoissonMutation(), "max_iter": 6}),
    "columns": (SPIRAL[:25], {"mutation": ProductMutation(GaussianMutation()), "max_iter": 5}),
    "early stopping": (
        SPIRAL,
        {"mutation": "parzen", "early_stopping": True, "random_state": 3, "n_iter_no_change": 3},
    ),
    "candidates": (
        SPIRAL,
        {
            "mutation": "parzen",
            "candidates": "knn",
            "n_candidates": 6,
            "random_state": 4,
            "max_iter": 13,
        },
    ),
    "candidates of a mixture, stopped early": (
        SPIRAL,
        {
            "mutation": "mixture",
            "n_components": 2,
            "candidates": "knn",
            "n_candidates": 6,
            "random_state": 4,
            "early_stopping": True,
            "max_iter": 6,
        },
    ),
    "all as candidates": (
        SPIRAL[:12],
        {"mutation": "parzen", "candidates": "knn", "n_candidates": 20, "random_state": 4},
    ),
}
SAME = ("log_likelihood_", "n_iter_", "n_evaluations_", "converged_")
pytestmark = pytest.mark.filterwarnings("ignore:OutTreeDensity did not converge")


class Killed(BaseException):
    pass


def assert_same_bits(model, other):
    for name in SAME:
        assert getattr(model, name) == getattr(other, name), name
    assert model.log_likelihoods_.tobytes() == other.log_likelihoods_.tobytes()
    assert model.mutation_.params.tobytes() == other.mutation_.params.tobytes()
    scores = [getattr(m, "validation_scores_", np.empty(0)).tobytes() for m in (model, other)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("name", FITS)
def test_killed_after_every_step(tmp_path, monkeypatch, name):
    """A new process after each step: everything that a step depends on is in the file."""
    X, options = FITS[name]
    whole = OutTreeDensity(**{"mutation": "gaussian", **options}).fit(X)
    path = tmp_path / "fit.checkpoint"
    original = Checkpoint.record

    def record(self, number, stage):
        original(self, number, stage)
        raise Killed

    runs = 0
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "record", record)
        while True:
            runs += 1
            try:
                resumed = OutTreeDensity(**{"mutation": "gaussian", **options}).fit(
                    X, checkpoint=path
                )
                break
            except Killed:
                assert path.exists()
    assert runs >= max(4, whole.n_iter_)
    assert_same_bits(resumed, whole)


# Kills itself, as a batch system would, in the middle of writing the n-th step.
PROGRAM = """
import os, signal, sys
from outtrees import OutTreeDensity, save
from outtrees.datasets import make_spiral
checkpoint, left, model = sys.argv[1], int(sys.argv[2]), sys.argv[3]
fsync = os.fsync
def killing(file):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)
os.fsync = killing
found = OutTreeDensity("parzen", candidates="knn", n_candidates=6, random_state=4)
save(found.fit(make_spiral(60, random_state=1), checkpoint=checkpoint), model)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.slow
def test_a_process_killed_while_it_writes(tmp_path):
    options = {"mutation": "parzen", "candidates": "knn", "n_candidates": 6, "random_state": 4}
    checkpoint, model = tmp_path / "fit.checkpoint", tmp_path / "model"

    def run(left):
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, (checkpoint, left, model))],
            capture_output=True,
            text=True,
        )

    assert run(3).returncode == -signal.SIGKILL
    assert checkpoint.exists()
    assert not model.exists()
    done = run(-1)
    assert done.returncode == 0, done.stderr
    assert_same_bits(load(model), OutTreeDensity(**{"mutation": "gaussian", **options}).fit(SPIRAL))


def test_a_seed_that_was_drawn_is_kept(tmp_path):
    path = tmp_path / "fit.checkpoint"
    options = {"mutation": "mixture", "n_components": 2, "max_iter": 5, "early_stopping": True}
    first = OutTreeDensity(**{"mutation": "gaussian", **options}).fit(SPIRAL, checkpoint=path)
    again = OutTreeDensity(**{"mutation": "gaussian", **options}).fit(SPIRAL, checkpoint=path)
    assert_same_bits(first, again)


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "fit.checkpoint"
    OutTreeDensity("parzen", random_state=0).fit(SPIRAL, checkpoint=path)
    return path


@pytest.mark.parametrize(
    "change",
    [{"tol": 1e-3}, {"mutation": "iid"}, {"mutation": GaussianMutation("diag")}, {"cell": 1},
     {"random_state": 1}, {"candidates": "knn"}],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_of_something_else_is_refused(kept, change):
    X = SPIRAL.copy()
    X[3, 1] += change.pop("cell", 0)
    options = {"mutation": "parzen", "random_state": 0, **change}
    with pytest.raises(RecordsError, match=r"'fit\.checkpoint' is no checkpoint of this data with"):
        OutTreeDensity(**{"mutation": "gaussian", **options}).fit(X, checkpoint=kept)


def test_what_does_not_matter_may_change(kept, capsys):
    model = OutTreeDensity("parzen", random_state=0, verbose=1, n_jobs=1, candidates="dense")
    model.fit(SPIRAL, checkpoint=kept)
    assert capsys.readouterr().out == ""  # no step was left to take


def test_other_files_are_refused(kept, tmp_path):
    model = save(OutTreeDensity("parzen", random_state=0).fit(SPIRAL), tmp_path / "a.model")
    with pytest.raises(RecordsError, match=r"'a\.model' is no checkpoint"):
        OutTreeDensity("parzen", random_state=0).fit(SPIRAL, checkpoint=model)
    kept.write_bytes(kept.read_bytes()[:-7])
    with pytest.raises(ModelFileError, match=r"fit\.checkpoint: "):
        OutTreeDensity("parzen", random_state=0).fit(SPIRAL, checkpoint=kept)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mutation": "auto"}, "mutation='auto' makes one for each fold"),
        ({"prior_strength": "auto"}, "prior_strength='auto' makes one for each fold"),
        ({"solver": "lbfgs"}, "solver must be 'em' for a checkpoint; got 'lbfgs'"),
        ({"missing": "integrate"}, "some cells are missing; fill them in"),
        (
            {"random_state": np.random.default_rng(0)},
            "int or None for a checkpoint; got a Generator",
        ),
    ],
    ids=["mutation", "prior_strength", "solver", "missing", "random_state"],
)
def test_what_cannot_be_kept_is_refused(tmp_path, options, sentence):
    X = SPIRAL.copy()
    if options.get("missing"):
        X[0, 0] = np.nan
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(ValueError, match=sentence):
        OutTreeDensity(**{"mutation": "gaussian", **options}).fit(X, checkpoint=path)
    assert not path.exists()
