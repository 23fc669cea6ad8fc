"""Long work says what it does; short work, and work that others show, says nothing."""

import time

import pytest

from outtrees import OutTreeDensity, show_progress
from outtrees._common import progress
from outtrees.cli.screen import running
from outtrees.datasets import make_spiral


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "_ELSEWHERE", 0.02)
    monkeypatch.setattr(progress, "_AT_ONCE", 0.02)
    monkeypatch.delenv(progress.QUIET, raising=False)


def wait_for(capsys):
    """Return what was printed, once something was."""
    text = ""
    while not text:
        time.sleep(0.01)
        text = capsys.readouterr().err
    return text


def test_a_line_says_what_is_done(impatient, capsys):
    with progress.under_way("fit"), progress.under_way("part of it"):
        progress.note("step 3")
        assert wait_for(capsys).startswith("fit: 0 s, step 3\n")
    progress.note("later")
    time.sleep(0.06)
    assert capsys.readouterr().err == ""


def test_nothing_is_said_of_what_is_short(capsys):
    with progress.under_way("fit"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("how", ["silenced", "switched off"])
def test_silence(impatient, capsys, how, monkeypatch):
    monkeypatch.setenv(progress.QUIET, "")
    if how == "switched off":
        show_progress(False)
    outer = progress.silenced() if how == "silenced" else progress.under_way("outer")
    with outer, progress.under_way("fit"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_fits_tell_their_steps(impatient, capsys):
    told = ""
    while "OutTreeDensity: 0 s, log posterior" not in told:
        OutTreeDensity("mixture", n_components=3, random_state=0).fit(make_spiral(60))
        told += capsys.readouterr().err


def test_a_command_prints_lines_at_even_intervals(impatient, capsys):
    """Where stderr is no terminal, as in a log or a notebook's shell."""
    begin, text = time.monotonic(), ""
    with running("ancestry", {"quiet": False, "as_json": True}):
        progress.note("candidate parents")
        while text.count("\n") < 8:
            time.sleep(0.01)
            text += capsys.readouterr().err
    assert set(text.splitlines()) == {"outtrees ancestry: 0 s, candidate parents"}
    # Intervals that double would reach 0.02 · 2⁷ = 2.6 s by the eighth line.
    assert time.monotonic() - begin < 2.0


def test_a_server_prints_no_lines(impatient, capsys):
    with running("app", {"quiet": False, "as_json": True}, ends=False):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
