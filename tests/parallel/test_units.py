"""The same results from every backend; nothing lost when a run is interrupted or a unit fails."""

import json
import os

import numpy as np
import pytest
from joblib import parallel_config
from joblib._parallel_backends import ThreadingBackend
from threadpoolctl import threadpool_info, threadpool_limits

from outtrees import OutTreesError
from outtrees._common.threads import one_thread
from outtrees.errors import RunFolderError
from outtrees.parallel import RunFolder, run_units, run_units_into, unit_seed
from outtrees.parallel.folder import open_text
from unit_work import die, draw, nested

NAMES = [f"unit {i}" for i in range(6)]
UNITS = {name: name for name in NAMES}
DATA = np.eye(200)


@pytest.fixture(scope="module")
def expected():
    with one_thread():
        return {name: draw(name, DATA, unit_seed(3, name)) for name in NAMES}


def results(found):
    return {name: outcome.result for name, outcome in found.items()}


def test_one_after_the_other(expected):
    assert results(run_units(draw, UNITS, data=DATA, seed=3)) == expected


class ListsOnly(ThreadingBackend):
    """A backend that cannot stream its results, as joblib's multiprocessing and Ray's."""

    supports_return_generator = False


@pytest.mark.parametrize("backend", ["loky", "threading", ListsOnly()])
def test_backends_of_joblib_give_the_same_bits(backend):
    here = results(run_units(draw, UNITS, data=DATA, seed=3))
    with parallel_config(backend=backend, n_jobs=2):
        assert results(run_units(draw, UNITS, data=DATA, seed=3)) == here
    assert results(run_units(draw, UNITS, data=DATA, seed=4)) != here


def test_results_do_not_depend_on_order_or_company():
    here = results(run_units(draw, UNITS, data=DATA, seed=3))
    some = {name: name for name in reversed(NAMES[2:4])}
    found = results(run_units(draw, some, data=DATA, seed=3))
    assert list(found) == list(some)
    assert found == {name: here[name] for name in some}


def test_a_unit_that_fails_takes_no_other_with_it():
    moves = []
    found = run_units(
        draw, {"a": "a", "b": "bad", "c": "c"}, data=DATA, progress=lambda *at: moves.append(at)
    )
    assert found["b"] == ("b", None, "this unit is bad")
    assert not found["a"].failure
    assert not found["c"].failure
    assert moves == [(1, 3), (2, 3), (3, 3)]


def test_a_unit_that_cannot_be_cut_out_is_reported():
    class Broken(dict):
        def __getitem__(self, name):
            if name == "b":
                raise KeyError("no such rows")
            return super().__getitem__(name)

    found = run_units(draw, Broken(a="a", b="b", c="c"), data=DATA, n_jobs=2)
    assert found["b"].failure == "KeyError: 'no such rows'"
    assert not found["a"].failure + found["c"].failure


def test_a_unit_that_kills_its_process_is_found_out():
    """All units under way die with it; run alone, they show who it was."""
    units = {"unit 0": "unit 0", "killer": os.getpid(), **UNITS}
    found = run_units(die, units, data=DATA, seed=3, n_jobs=2)
    assert "its worker process died" in found["killer"].failure
    here = results(run_units(draw, UNITS, data=DATA, seed=3))
    assert {name: found[name].result for name in NAMES} == here


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_a_unit_keeps_to_one_core(backend):
    """Also in threads, to which threadpoolctl does not listen while another one holds a limit."""
    with threadpool_limits(2), parallel_config(backend=backend, n_jobs=2):
        before = most_threads()
        found = results(run_units(nested, {name: 0 for name in "abcd"}))
        assert found == {name: [1, 1] for name in "abcd"}
        assert most_threads() == before == 2


def most_threads():
    return max(pool["num_threads"] for pool in threadpool_info())


def test_no_units_at_all(tmp_path):
    assert run_units(draw, {}) == {}
    assert run_units_into(RunFolder(tmp_path, "", {}), draw, {}) == {}


# Folders ------------------------------------------------------------------------------------


def files(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    whole = RunFolder(tmp_path / "whole", "data", {"a": 1}, seed=3)
    assert run_units_into(whole, draw, UNITS, data=DATA) == {}

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_units_into(
            RunFolder(tmp_path / "part", "data", {"a": 1}, seed=3), draw, UNITS, data=DATA,
            progress=stop,
        )  # fmt: skip
    part = RunFolder(tmp_path / "part", "data", {"a": 1})
    done = [name for name in NAMES if part.has(name)]
    assert len(done) == 2
    before = {name: part.file(name).stat().st_mtime_ns for name in done}
    moves = []
    run_units_into(part, draw, UNITS, data=DATA, progress=lambda *at: moves.append(at))
    assert moves[0] == (2, 6)
    assert moves[-1] == (6, 6)
    assert {name: part.file(name).stat().st_mtime_ns for name in done} == before
    assert files(tmp_path / "part") == files(tmp_path / "whole")
    assert part.read(NAMES[0]) == whole.read(NAMES[0])


def test_a_run_without_a_seed_keeps_the_one_it_drew(tmp_path):
    first = RunFolder(tmp_path, "data", {})
    assert RunFolder(tmp_path, "data", {}).seed == first.seed
    assert RunFolder(tmp_path / "other", "data", {}).seed != first.seed


@pytest.mark.parametrize(
    ("data", "settings", "seed", "said"),
    [
        ("other", {"tol": 1, "ties": True}, 0, "the data differ"),
        ("data", {"tol": 2, "ties": True}, 0, "tol was 1 and is 2"),
        ("data", {"tol": 1}, 0, "ties was true and is null"),
        ("data", {"tol": 1, "ties": True}, 1, "seed was 0 and is 1"),
    ],
)
def test_a_folder_of_another_run_is_refused(tmp_path, data, settings, seed, said):
    RunFolder(tmp_path, "data", {"tol": 1, "ties": True}, seed=0)
    before = files(tmp_path)
    with pytest.raises(OutTreesError, match=rf"holds another run \({said}\); name another folder"):
        RunFolder(tmp_path, data, settings, seed)
    assert files(tmp_path) == before


def test_a_folder_of_another_format_is_refused(tmp_path):
    RunFolder(tmp_path, "data", {}, seed=0)
    file = tmp_path / "run.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "format": about["format"] + 1}))
    with pytest.raises(OutTreesError, match=r"holds another run \(format was \d+ and is \d+\)"):
        RunFolder(tmp_path, "data", {})


@pytest.mark.parametrize("left", [(), (".",), ("units",)])
def test_a_run_killed_before_it_had_a_name_begins_again(tmp_path, left):
    for name in left:
        (tmp_path / "run" / name).mkdir(parents=True)
    folder = RunFolder(tmp_path / "run", "data", {}, seed=5)
    folder.write("a", b"[1]")
    assert RunFolder(tmp_path / "run", "data", {}).seed == 5


def test_damaged_folders_are_refused(tmp_path):
    folder = RunFolder(tmp_path, "data", {})
    folder.write("a", b"[1]")
    folder.file("a").write_bytes(b"[1")
    with pytest.raises(RunFolderError, match=r"damaged; delete it and run again: only that unit"):
        folder.read("a")
    for damage in ("{", "[]", json.dumps({"format": 1})):
        (tmp_path / "run.json").write_text(damage)
        with pytest.raises(RunFolderError, match=r"run\.json' is damaged, or another program"):
            RunFolder(tmp_path, "data", {})
    (tmp_path / "run.json").unlink()
    with pytest.raises(RunFolderError, match=r"has 'units' in it but no 'run\.json'"):
        RunFolder(tmp_path, "data", {})


def test_names_of_units_cannot_leave_the_folder(tmp_path):
    folder = RunFolder(tmp_path, "data", {})
    names = ["../../x", "a/b", "", "=cmd", "x" * 10_000, "a b", "a-b", "\udcff", "Ä", "CON"]
    for name in names:
        assert folder.file(name).parent == tmp_path / "units"
        assert len(folder.file(name).name) < 80
    assert len({folder.file(name).name.lower() for name in names}) == len(names)


def test_a_merged_file_appears_whole_or_not_at_all(tmp_path):
    folder = RunFolder(tmp_path, "data", {})
    before = files(tmp_path)

    def interrupted():
        with folder.results() as stage, open_text(stage / "all.csv") as text:
            text.write("a,b\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert files(tmp_path) == before
    with folder.results() as stage, open_text(stage / "all.csv") as text:
        text.write("a,b\n")
    assert (tmp_path / "all.csv").read_text() == "a,b\n"


def test_results_that_json_cannot_hold_are_failures(tmp_path):
    folder = RunFolder(tmp_path, "data", {})
    failures = run_units_into(folder, not_a_number, {"a": 0})
    assert "not JSON compliant" in failures["a"]
    assert not folder.has("a")


def not_a_number(unit, data, seed):
    return float("nan")
