"""Files appear whole or not at all, whatever happens."""

import re
import signal
import subprocess
import sys
import time

import pytest

from outtrees.cli.errors import CommandError
from outtrees.cli.results import check_folder


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_a_folder_is_checked_before_the_work(tmp_path):
    check_folder(tmp_path / "new" / "deep", ["x.csv"])
    assert names(tmp_path) == []
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(CommandError) as error:
        check_folder(tmp_path, ["x.csv"])
    assert error.value.exit_code == 3


def test_a_link_to_nowhere_is_not_a_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "link")
    for path in (tmp_path / "link", tmp_path / "link" / "deep"):
        with pytest.raises(CommandError, match="link' is a link to nowhere"):
            check_folder(path)


@pytest.mark.parametrize("command", ["ancestry", "density", "label", "impute", "sample"])
def test_an_empty_name_is_not_this_folder(refused, command, tmp_path, monkeypatch):
    """As of a shell variable that is not set: --out "$RESULTS"."""
    monkeypatch.chdir(tmp_path)
    said = refused(command, "table.csv", "--out", "")
    assert "'--out': a name is needed; got an empty one" in said


def test_seeds_beyond_32_bits(refused):
    said = refused("ancestry", "table.csv", "--seed", 2**32)
    assert "'--seed': 4294967296 is not in the range" in said


@pytest.mark.parametrize(
    ("trouble", "code"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 3)]
)
@pytest.mark.parametrize(
    "writer", ["outtrees.ancestry.Ancestry.to_graphml", "outtrees.views.report.write_report"]
)
def test_an_interrupted_write_of_results_leaves_nothing(
    ancestry, tmp_path, monkeypatch, trouble, code, writer
):
    def broken(found, path, *_, **__):
        path.write_text("half")
        raise trouble

    monkeypatch.setattr(writer, broken)
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


def test_labels_of_an_earlier_run_do_not_stay(outtrees, outbreak, tmp_path):
    out = tmp_path / "results"

    def run(*options):
        result = outtrees(
            "ancestry", outbreak.cases, "--date", "onset", "--seed", 1, "--waiting-mean", "3.5",
            "--waiting-sd", "1.2", "--out", out, *options,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        return result

    run("--label", "outcome")
    assert (out / "labels.csv").exists()
    run("--ignore", "outcome")
    assert not (out / "labels.csv").exists()
    # One that no run is known to have written is the user's own.
    (out / "labels.csv").write_text("mine")
    assert "labels.csv' is not of this run" in run("--ignore", "outcome").stderr
    assert (out / "labels.csv").read_text() == "mine"


def test_a_full_disk_is_told_with_the_file(ancestry, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    result = ancestry("--out", tmp_path / "results")
    assert result.exit_code == 3
    said = result.stderr.splitlines()[-1]
    assert re.fullmatch(r"outtrees: '.*results/[a-z]+\.[a-z]+': No space left on device", said)


def test_no_escape_sequence_reaches_a_table(outtrees, tmp_path):
    table = tmp_path / "x.csv"
    table.write_text("id,a\n" + "".join(f"r\x1b]0;x\x07{i},{i}.5\n" for i in range(5)))
    out = tmp_path / "results"
    result = outtrees("ancestry", table, "--out", out)
    assert result.exit_code == 0, result.output
    for path in out.iterdir():
        if path.suffix != ".safetensors":
            assert not set(b"\x1b\x07\x9b") & set(path.read_bytes()), path.name
    assert r"r\x1b]0;x\x073" in (out / "parents.csv").read_text()
