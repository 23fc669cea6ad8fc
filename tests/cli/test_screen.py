"""What goes where, on terminals and elsewhere."""

import os
import pty
import re
import subprocess
import sys
import warnings

import pytest

from outtrees.cli.errors import OPTIONS, exit_code, one_line, told
from outtrees.cli.group import COMMANDS, main
from outtrees.cli.screen import Screen
from outtrees.errors import ArgumentError, Message, Option


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (("pass ", Option("encoding", "latin-1")), "pass --encoding latin-1"),
        (("pass ", Option("id", "case nr")), "pass --id 'case nr'"),
        (("raise ", Option("max_iter", 100)), "raise --max-iter 100"),
        (("use ", Option("strict_dates", False)), "use --no-strict-dates"),
        (("use ", Option("ties", True)), "use --ties"),
        ((Option("roots", "any"), " counts"), "--roots any counts"),
        (("limit 4 GB (", Option("max_bytes"), ")"), "limit 4 GB (--max-bytes)"),
        (("raise ", Option("max_iter"), " or ", Option("tol")), "raise --max-iter or tol"),
        (("column 'max_iter' is empty",), "column 'max_iter' is empty"),
        (("give ", Option("forbidden")), "give --forbid"),
        (("valid=1 and id='x' and max_iter",), "valid=1 and id='x' and max_iter"),
        (("such as ", Option("kinds", {"a b": "ignore"})), "such as --kind 'a b=ignore'"),
        (("say ", Option("known_parents", {"a": "b"})), "say --known-parent 'a=b'"),
        (("not ", Option("root", None)), "not root=None"),
        (("name it (", Option("censored", "…"), ")"), "name it (--censored '…')"),
        (("a\n\tb\x1b[2J\u202e",), "a b\\x1b[2J\\u202e"),
    ],
)
def test_messages_speak_of_options(parts, line):
    assert told(Message(*parts)) == line
    assert one_line(ArgumentError(*parts)) == line
    assert one_line(MemoryError(Message(*parts))) == line


def test_options_named_in_messages_can_be_typed():
    typed = set()
    for name in COMMANDS:
        for parameter in main.get_command(None, name).params:
            typed.update(parameter.opts)
    typed |= {"--quotes", "--tracks"}  # only ever named as --no-quotes, --no-tracks
    assert {f"--{name}" for name in OPTIONS.values()} <= typed


def test_exit_codes():
    codes = [exit_code(kind()) for kind in (ValueError, OSError, MemoryError, KeyboardInterrupt)]
    assert codes == [2, 3, 4, 130]
    assert exit_code(RuntimeError()) == 1
    assert one_line(ValueError()) == "unexpected ValueError; --debug shows where"
    assert one_line(FileNotFoundError("no such file: 'x'")) == "no such file: 'x'"


def test_warnings_become_lines_told_once(capsys):
    screen = Screen()
    with screen.warnings_told():
        for _ in range(3):
            warnings.warn(Message("raise ", Option("max_iter", 5)), UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    shown = capsys.readouterr()
    assert shown.err == "warning: raise --max-iter 5\n"
    assert shown.out == ""


def test_warnings_are_told_before_an_error(capsys):
    def run():
        with Screen().warnings_told():
            warnings.warn("first", UserWarning, stacklevel=1)
            raise ValueError("later")

    with pytest.raises(ValueError, match="later"):
        run()
    assert capsys.readouterr().err == "warning: first\n"


def test_tables_take_hostile_cells_as_text(capsys):
    Screen().table({"[bold]name": ["[red]a[/red]", ":smile:", "\x1b[2J"], "n": [1, 2, 3]})
    shown = capsys.readouterr().out
    for text in ("[bold]name", "[red]a[/red]", ":smile:", "\\x1b[2J"):
        assert text in shown
    assert "\x1b" not in shown


def run_on_terminal(arguments):
    """Return what a process writes to a terminal of 100 columns on stderr, and its exit code."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "outtrees", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=env,
    )
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    return b"".join(pieces).decode(), process.wait()


def test_a_bar_with_the_likelihood_on_a_terminal(outbreak):
    wait = ["--waiting-mean", "3.5", "--waiting-sd", "1.2"]
    shown, code = run_on_terminal(["ancestry", outbreak.cases, "--date", "onset", *wait])
    assert code == 0, shown
    assert "weighing all trees" in shown
    assert re.search(r"penalised log-likelihood -?\d+\.\d\d", shown)
    assert re.search(r"(\n|2K) +\d+\.\d s  what each column adds\r\n", shown)


def test_a_terminal_of_another_alphabet():
    run = subprocess.run(
        [sys.executable, "-m", "outtrees", "ancestry", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert run.returncode == 0, run.stderr
    assert b"1, 2, ? units" in run.stdout  # an ellipsis, which Latin-1 lacks


def test_a_thousand_columns_do_not_fill_the_screen(outtrees, tmp_path):
    path = tmp_path / "words.csv"
    names = [f"w{i}" for i in range(200)]
    rows = [[f"n{row}", *(str((row * i) % 2) for i in range(200))] for row in range(6)]
    path.write_text("\n".join(",".join(row) for row in [["witness", *names], *rows]))
    found = outtrees("ancestry", path)
    assert len(found.stdout.splitlines()) < 150
    assert "more columns (in all: " in found.stdout
    assert "more sentences; outtrees show prints all" in found.stdout
