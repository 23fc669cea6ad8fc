"""Files appear whole or not at all, whatever happens."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from outtrees.cli.errors import CommandError
from outtrees.cli.results import check_folder, uninterrupted, whole_folder


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_a_new_folder_appears_at_the_end(tmp_path):
    out = tmp_path / "a" / "b"
    with whole_folder(out) as stage:
        (stage / "x.csv").write_text("x")
        assert not out.exists()
    assert names(tmp_path) == ["a", "b", "x.csv"]


def test_an_existing_folder_changes_at_the_end(tmp_path):
    (tmp_path / "x.csv").write_text("old")
    (tmp_path / "x.csv").chmod(0o640)
    with whole_folder(tmp_path) as stage:
        (stage / "x.csv").write_text("new")
        (stage / "y.csv").write_text("y")
        assert (tmp_path / "x.csv").read_text() == "old"
    assert names(tmp_path) == ["x.csv", "y.csv"]
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


def test_ctrl_c_waits_for_the_moves(tmp_path, monkeypatch):
    replace = os.replace

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        replace(*arguments)

    monkeypatch.setattr("os.replace", interrupted)

    def write():
        with whole_folder(tmp_path) as stage:
            for name in "xyz":
                (stage / name).write_text(name)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names(tmp_path) == ["x", "y", "z"]


def test_ctrl_c_works_again_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_folder_is_checked_before_the_work(tmp_path):
    check_folder(tmp_path / "new" / "deep", ["x.csv"])
    assert names(tmp_path) == []
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(CommandError) as error:
        check_folder(tmp_path, ["x.csv"])
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("trouble", "code"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 3)]
)
@pytest.mark.parametrize("file", ["to_graphml", "report"])
def test_an_interrupted_write_of_results_leaves_nothing(
    ancestry, tmp_path, monkeypatch, trouble, code, file
):
    def broken(self, path, **_):
        path.write_text("half")
        raise trouble

    monkeypatch.setattr(f"outtrees.ancestry.Ancestry.{file}", broken)
    before = names(tmp_path)
    result = ancestry("--out", tmp_path / "results")
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if not re.match(r" *\d+\.\d s  ", line)]
    assert len(lines) == 1 + result.stderr.count("warning: ")  # but for what is under way
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_process_that_is_stopped_leaves_nothing(tmp_path, number, code):
    """The fit of 900 records takes long enough to be stopped after the kinds are printed."""
    table = tmp_path / "x.csv"
    table.write_text("id,a,b\n" + "".join(f"r{i},{i % 97}.5,{i % 89}.25\n" for i in range(900)))
    process = subprocess.Popen(
        [sys.executable, "-m", "outtrees", "ancestry", table, "--out", tmp_path / "results"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests themselves run in the background, the signal is ignored and would be here.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    for line in process.stdout:
        if line.startswith("b "):  # the last column: the fit begins
            break
    time.sleep(0.2)
    process.send_signal(number)
    _, complaint = process.communicate()
    assert process.returncode == code, complaint
    if number == signal.SIGINT:
        # Where the machine is slow a line of progress may stand before it.
        said = complaint.strip().splitlines()
        assert said[-1] == "outtrees: interrupted; no file is half-written"
    assert names(tmp_path) == ["x.csv"]
