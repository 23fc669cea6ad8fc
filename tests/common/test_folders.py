"""A folder of results holds those of one run, whatever happens, beside what the user put there."""

import json
import os
import signal
import threading

import pytest

from outtrees._common import folders
from outtrees._common.files import write_atomically
from outtrees._common.folders import problems, uninterrupted, whole_folder


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def write(folder, files):
    with whole_folder(folder, {"command": "test"}) as stage:
        for name, text in files.items():
            (stage / name).write_text(text)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_new_folder_appears_at_the_end(tmp_path):
    out = tmp_path / "a" / "b"
    with whole_folder(out) as stage:
        (stage / "x.csv").write_text("x")
        assert not out.exists()
    assert names(tmp_path) == ["a", "b", "results.json", "x.csv"]


def test_an_existing_folder_changes_at_the_end(tmp_path):
    (tmp_path / "x.csv").write_text("old")
    (tmp_path / "x.csv").chmod(0o640)
    with whole_folder(tmp_path) as stage:
        (stage / "x.csv").write_text("new")
        (stage / "y.csv").write_text("y")
        assert (tmp_path / "x.csv").read_text() == "old"
    assert names(tmp_path) == ["results.json", "x.csv", "y.csv"]
    assert (tmp_path / "x.csv").read_text() == "new"
    assert (tmp_path / "x.csv").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, OSError, SystemExit])
@pytest.mark.parametrize("exists", [True, False])
def test_trouble_leaves_nothing(tmp_path, trouble, exists):
    out = tmp_path / "a" / "b"
    if exists:
        out.mkdir(parents=True)
        (out / "x.csv").write_text("old")
    before = names(tmp_path)

    def write():
        with whole_folder(out) as stage:
            (stage / "x.csv").write_text("half")
            raise trouble

    with pytest.raises(trouble):
        write()
    assert names(tmp_path) == before
    if exists:
        assert (out / "x.csv").read_text() == "old"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("own", [True, False])
def test_signals_wait_for_the_moves(tmp_path, monkeypatch, number, own):
    """Both where folders are exchanged and where files are moved one by one."""
    out = tmp_path / "out"
    write(out, {"x": "old", "y": "old"})
    if own:
        (out / "notes").write_text("mine")
    came = []
    before = signal.signal(number, lambda *_: came.append(sorted(contents(out).items())))
    for name in ("replace", "rename"):
        real = getattr(os, name)

        def interrupted(*arguments, real=real):
            os.kill(os.getpid(), number)
            return real(*arguments)

        monkeypatch.setattr(os, name, interrupted)
    try:
        write(out, {"x": "new", "z": "new"})
    finally:
        signal.signal(number, before)
    assert came == [sorted(contents(out).items())]  # once, when all was done
    assert problems(out) == []
    notes = {"notes": "mine"} if own else {}
    found = contents(out)
    del found["results.json"]
    assert found == {"x": "new", "z": "new", **notes}


def test_ctrl_c_works_again_afterwards():
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        with uninterrupted():
            assert signal.getsignal(number) is not before
        assert signal.getsignal(number) is before


@pytest.mark.parametrize("exchange", [True, False])
def test_files_of_an_earlier_run_go_with_it(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(folders, "_exchanged", lambda stage, target: False)
    out = tmp_path / "out"
    write(out, {"parents.csv": "1", "labels.csv": "1"})
    write(out, {"parents.csv": "2"})
    assert names(out) == ["parents.csv", "results.json"]
    assert names(tmp_path) == ["out", "parents.csv", "results.json"]
    assert problems(out) == []


def test_the_folder_is_exchanged_in_one_step(tmp_path):
    """No system call of its own but that one changes what is seen."""
    out = tmp_path / "out"
    write(out, {"x": "1"})
    before = out.stat().st_ino
    write(out, {"x": "2"})
    if folders.sys.platform == "linux":
        assert out.stat().st_ino != before
    (out / "notes").write_text("mine")
    before = out.stat().st_ino
    write(out, {"x": "3"})
    assert out.stat().st_ino == before


def test_what_the_user_put_there_stays(tmp_path):
    out = tmp_path / "out"
    write(out, {"parents.csv": "1", "labels.csv": "1", "model": "1"})
    (out / "notes").mkdir()
    (out / "notes" / "today").write_text("mine")
    (out / "labels.csv").write_text("1, corrected by hand")
    (out / "link").symlink_to("parents.csv")
    write(out, {"parents.csv": "2"})
    assert names(out) == ["labels.csv", "link", "notes", "parents.csv", "results.json", "today"]
    assert (out / "labels.csv").read_text() == "1, corrected by hand"
    assert (out / "link").read_text() == "2"


def test_the_folder_one_stands_in_stays(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write(out, {"x": "1"})
    monkeypatch.chdir(out)
    write(".", {"y": "2"})
    assert sorted(os.listdir()) == ["results.json", "y"]


def test_the_second_of_two_runs_into_one_new_folder_keeps_its_results(tmp_path):
    out = tmp_path / "out"
    with whole_folder(out) as first:
        (first / "x").write_text("first")
        (first / "z").write_text("first")
        with whole_folder(out) as second:
            (second / "x").write_text("second")
            (second / "y").write_text("second")
        assert contents(out)["y"] == "second"
    assert names(tmp_path) == ["out", "results.json", "x", "z"]
    assert contents(out)["x"] == "first"
    assert problems(out) == []


def test_many_runs_at_once_leave_one_of_them(tmp_path):
    """From threads: each holds the folder by a lock of its own."""
    out = tmp_path / "out"

    def run(number):
        write(out, {f"{number % 5}-{name}": str(number) for name in "abc"})

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = contents(out)
    listed = json.loads(found.pop("results.json"))["files"]
    assert len(set(found.values())) == 1
    assert sorted(found) == sorted(listed)
    assert problems(out) == []
    assert [name for name in os.listdir(tmp_path) if name != "out"] == []


def test_a_torn_folder_is_recognised(tmp_path):
    write(tmp_path, {"x": "1", "y": "1"})
    assert problems(tmp_path) == []
    (tmp_path / "x").write_text("2")
    (tmp_path / "y").unlink()
    said = problems(tmp_path)
    assert said[0].startswith("x is not what the run wrote")
    assert said[1] == "y is missing"
    (tmp_path / "results.json").write_text("[]")
    assert problems(tmp_path) is None


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", "..", ".outtrees-commit", "a/b"])
def test_a_list_cannot_name_files_elsewhere(tmp_path, name):
    (tmp_path / "x").write_text("1")
    out = tmp_path / "out"
    out.mkdir()
    entry = folders._entry(tmp_path / "x")
    (out / "results.json").write_text(json.dumps({"files": {name: entry}}))
    assert folders.read_manifest(out) is None
    write(out, {"y": "2"})
    assert (tmp_path / "x").exists()


@pytest.mark.parametrize("place", ["stage", "out"])
def test_a_full_disk_names_the_file(tmp_path, monkeypatch, place):
    out = tmp_path / "out"

    def full(*_):
        raise OSError(28, "No space left on device")

    def fails(old, new):
        raise OSError(28, "No space left on device", os.path.join(old, "x.csv"))

    def run():
        with whole_folder(out) as stage:
            if place == "stage":
                monkeypatch.setattr(os, "fsync", full)
                write_atomically(stage / "x.csv", "x")
            (stage / "x.csv").write_text("x")
            monkeypatch.setattr(os, "rename", fails)

    with pytest.raises(OSError, match=r"No space left on device: '.*out/x\.csv'") as caught:
        run()
    monkeypatch.undo()
    assert caught.value.filename == str(out / "x.csv")
    assert not out.exists()
