"""The short form of tests/kills.py; `make kills` runs the long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
def test_killed_anywhere_nothing_is_torn_or_mixed():
    """In a process of its own, which has no threads when it forks."""
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, TESTS / "kills.py"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing torn, nothing mixed, every run again the same bytes" in done.stdout


def test_the_harness_notices_a_torn_file(tmp_path):
    """A file that is written in place is found torn."""
    import kills

    def act(folder):
        descriptor = os.open(folder / "x", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        data = b"new" * 100
        while data:
            data = data[os.write(descriptor, data) :]
        os.close(descriptor)

    scenario = kills.Scenario(
        "in place", act, lambda folder: (folder / "x").write_bytes(b"old"), kills.one_file("x")
    )
    with pytest.raises(AssertionError, match=r"in place, SIG.* at write .*: x is torn"):
        scenario.run(tmp_path, 0, print, every=True)


def test_the_harness_notices_a_mixed_folder(tmp_path):
    import kills

    def write(folder, text):
        (folder / "out").mkdir(exist_ok=True)
        for name in "ab":
            (folder / "new").write_text(text)
            os.replace(folder / "new", folder / "out" / name)

    scenario = kills.Scenario(
        "one by one",
        lambda folder: write(folder, "new"),
        lambda folder: write(folder, "old"),
        kills.one_run,
    )
    with pytest.raises(AssertionError, match="files of two runs"):
        scenario.run(tmp_path, 0, print, every=True)
