"""Files are written whole or not at all, and what killed processes leave is removed."""

import os
import subprocess
import sys
import time

import pytest

from outtrees._common import files
from outtrees._common.files import remove_litter, temporary_path, write_atomically


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(files, "_cleared", set())


def dead():
    """Return the number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def named(path, pid):
    return path.with_name(path.name.replace(f"-{os.getpid()}-", f"-{pid}-"))


def test_litter_of_dead_processes_is_removed(tmp_path):
    gone = named(temporary_path(tmp_path), dead())
    gone.write_text("half")
    folder = named(temporary_path(tmp_path), dead())
    folder.mkdir()
    (folder / "x").write_text("half")
    alive = [temporary_path(tmp_path), named(temporary_path(tmp_path), os.getppid())]
    for path in alive:
        path.write_text("half")
    write_atomically(tmp_path / "x", "whole")
    assert sorted(os.listdir(tmp_path)) == sorted(["x", *(path.name for path in alive)])


@pytest.mark.parametrize(
    "name", [".outtrees-{}.tmp".format("0" * 16), ".outtrees-{}-1-{}.tmp".format("f" * 8, "0" * 16)]
)
def test_litter_of_elsewhere_is_removed_after_a_day(tmp_path, name):
    path = tmp_path / name
    path.write_text("half")
    remove_litter(tmp_path)
    assert path.exists()
    files._cleared.clear()
    os.utime(path, times=(time.time() - 90_000,) * 2)
    remove_litter(tmp_path)
    assert not path.exists()


@pytest.mark.parametrize(
    "name", [".outtrees-x.tmp", "outtrees-0000000000000000.tmp", ".outtrees-commit"]
)
def test_other_files_stay(tmp_path, name):
    path = tmp_path / name
    path.write_text("mine")
    os.utime(path, times=(0, 0))
    remove_litter(tmp_path)
    assert path.exists()


def test_a_folder_is_looked_through_once(tmp_path, monkeypatch):
    looks = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or real(path))
    for number in range(3):
        write_atomically(tmp_path / str(number), "x")
    assert looks == [tmp_path]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "parents.csv"
    path.write_text("old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*parents\.csv'"):
        write_atomically(path, "new")
    assert os.listdir(tmp_path) == ["parents.csv"]
    assert path.read_text() == "old"


def test_short_writes_go_on(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:3]))
    write_atomically(tmp_path / "x", "abcdefgh")
    assert (tmp_path / "x").read_text() == "abcdefgh"


def test_bytes_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    """Without fsync a crash of the machine may leave the new name on an empty file."""
    done = []
    for name in ("write", "fsync", "replace"):
        real = getattr(os, name)

        def noted(*arguments, name=name, real=real):
            done.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, noted)
    write_atomically(tmp_path / "x", "abc")
    assert done == ["write", "fsync", "replace"]


def test_what_takes_a_files_place_is_on_the_disk(tmp_path, monkeypatch):
    """Else a power cut could leave the name of the new file with nothing in it."""
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: done.append("fsync") or fsync(file))
    monkeypatch.setattr(os, "replace", lambda *ends: done.append("replace") or replace(*ends))
    write_atomically(tmp_path / "x", "whole")
    assert done[:2] == ["fsync", "replace"]
