"""A fit that is killed, really killed, goes on where it stood and ends with the same bits."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from outtrees import Ancestry, ModelFileError, RecordsError, load, save
from outtrees.datasets import make_outbreak
from outtrees.inference.checkpoint import CheckpointFile

OPTIONS = {"id": "case", "roots": "any", "max_iter": 8, "tol": 1e-7}
# Fits an outbreak and kills itself, as a batch system would, when asked the n-th time for progress.
PROGRAM = """
import os, signal, sys, warnings
from outtrees import Ancestry, save
from outtrees.datasets import make_outbreak
warnings.simplefilter("ignore")
checkpoint, way, left, model = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
def progress(iteration, objective):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
outbreak = make_outbreak(18, random_state=3)
found = Ancestry(id="case", roots="any", max_iter=8, tol=1e-7, candidates=way, n_candidates=6,
                 progress=progress)
found.fit(outbreak.table, sequences=outbreak.sequences, checkpoint=checkpoint)
save(found, model)
"""


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The fit had not converged")
@pytest.mark.parametrize("way", ["dense", "knn"])
def test_a_killed_process_goes_on(tmp_path, way):
    outbreak = make_outbreak(18, random_state=3)
    whole = Ancestry(**OPTIONS, candidates=way, n_candidates=6).fit(
        outbreak.table, sequences=outbreak.sequences
    )
    checkpoint, model = tmp_path / "fit.checkpoint", tmp_path / "model.safetensors"
    for left in (3, 4) if way == "dense" else (4,):  # each run gets further than the one before
        killed = run(checkpoint, way, left, model)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert checkpoint.exists()
        assert not model.exists()
    done = run(checkpoint, way, -1, model)
    assert done.returncode == 0, done.stderr
    resumed = load(model)
    assert resumed.objectives_ == whole.objectives_
    assert resumed.n_iter_ == whole.n_iter_
    assert resumed.log_likelihood_ == whole.log_likelihood_
    np.testing.assert_array_equal(
        resumed.fitted.trees.edge_marginals, whole.fitted.trees.edge_marginals
    )
    # A fit that had ended is not climbed again.
    steps = []
    Ancestry(**OPTIONS, candidates=way, n_candidates=6, progress=lambda i, o: steps.append(i)).fit(
        outbreak.table, sequences=outbreak.sequences, checkpoint=checkpoint
    )
    assert steps == []


@pytest.fixture
def kept(tmp_path):
    outbreak = make_outbreak(10, random_state=4)
    path = tmp_path / "fit.checkpoint"
    Ancestry(id="case").fit(outbreak.table, checkpoint=path)
    return outbreak, path


@pytest.mark.parametrize("change", ["setting", "cell", "constraint", "kept column"])
def test_a_checkpoint_of_something_else_is_refused(kept, change):
    outbreak, path = kept
    table, options = dict(outbreak.table), {"id": "case"}
    if change == "setting":
        options["roots"] = "single"
    elif change == "constraint":
        options["root"] = table["case"][0]
    elif change == "kept column":
        options["keep"] = ["age"]
    else:
        table["age"] = ["33", *table["age"][1:]]
    with pytest.raises(RecordsError, match=r"'fit.checkpoint' is no checkpoint of this table with"):
        Ancestry(**options).fit(table, checkpoint=path)


def test_the_progress_display_and_the_seed_do_not_matter(kept):
    outbreak, path = kept
    Ancestry(id="case", random_state=7, progress=lambda i, o: None).fit(
        outbreak.table, checkpoint=path
    )


def test_candidates_are_chosen_after_the_fit(kept):
    """They share its checkpoint: nothing is climbed again."""
    outbreak, path = kept
    steps = []
    options = {"id": "case", "candidates": "knn", "progress": lambda i, o: steps.append(i)}
    Ancestry(**options).fit(outbreak.table, checkpoint=path)
    assert steps == []


def test_other_files_are_refused(kept, tmp_path):
    outbreak, path = kept
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelFileError, match=r"fit\.checkpoint: "):
        Ancestry(id="case").fit(outbreak.table, checkpoint=path)
    model = save(Ancestry(id="case").fit(outbreak.table), tmp_path / "a.model")
    with pytest.raises(RecordsError, match=r"'a.model' is no checkpoint of this table"):
        Ancestry(id="case").fit(outbreak.table, checkpoint=model)


def test_a_folder_that_is_not_there_is_told_of(kept):
    outbreak, path = kept
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Ancestry(id="case").fit(outbreak.table, checkpoint=path.parent / "no" / "where")


def test_matrices_are_not_copied_into_the_file(tmp_path):
    outbreak = make_outbreak(40, random_state=5)
    far = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0)))
    path = Path(tmp_path) / "fit.checkpoint"
    options = {"distances": far, "checkpoint": path}
    first = Ancestry(id="case").fit(outbreak.table, **options)
    assert b"matrix" in path.read_bytes()
    # With a matrix for each of the climbs it would be twice as large as this.
    climbs = len(load(path, classes=[CheckpointFile]).stages)
    assert path.stat().st_size < 0.5 * climbs * far.nbytes
    again = Ancestry(id="case").fit(outbreak.table, **options)
    assert again.log_likelihood_ == first.log_likelihood_
