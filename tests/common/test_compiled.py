"""One line on stderr for whoever waits for the compiler."""

import threading
import time
from types import SimpleNamespace

import pytest

from outtrees._common import compiled

LINE = "outtrees: compiling sampling kernels (once; cached for next time)…\n"


@pytest.fixture(autouse=True)
def heard(monkeypatch):
    monkeypatch.delenv(compiled.QUIET)


def function(module="outtrees.trees.sampling_kernels"):
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def compile_for(notice, seconds, *events):
    """Send the events of functions that are compiled one within the other."""
    for event in events:
        notice.on_start(event)
    time.sleep(seconds)
    for event in reversed(events):
        notice.on_end(event)


def wait_for_timers():
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(10.0)
            assert not thread.is_alive()


def test_the_line_comes_while_the_compiler_works(capsys):
    notice = compiled.Notice(patience=0.05)
    notice.on_start(function())
    notice.on_start(function("outtrees.trees.limited_kernels"))
    wait_for_timers()
    assert capsys.readouterr().err == LINE


def test_short_compilations_add_up_to_one_line(capsys):
    notice = compiled.Notice(patience=0.2)
    for _ in range(6):
        compile_for(notice, 0.06, function())
    wait_for_timers()
    assert capsys.readouterr().err == LINE


def test_nothing_is_said_of_what_is_quick_or_not_ours(capsys):
    notice = compiled.Notice(patience=30.0)
    compile_for(notice, 0.0, function(), function())
    notice = compiled.Notice(patience=0.0)
    compile_for(notice, 0.1, function("somewhere.else"))
    wait_for_timers()  # none lasts the 30 seconds
    assert capsys.readouterr().err == ""


def test_quiet(capsys, monkeypatch):
    monkeypatch.setenv(compiled.QUIET, "1")
    compile_for(compiled.Notice(patience=0.0), 0.1, function())
    assert capsys.readouterr().err == ""


def test_numba_sends_the_events(capsys):
    """The real thing, on a function that no cache holds."""
    import numba
    from numba.core import event

    def double(x):
        return 2 * x

    double.__module__ = "outtrees.trees.sampling_kernels"
    with event.install_listener("numba:compile", compiled.Notice(patience=0.0)):
        numba.njit(double)(1)
    assert capsys.readouterr().err == LINE
