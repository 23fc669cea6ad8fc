"""Help: complete, and there at once."""

import subprocess
import sys
import time

import pytest

import outtrees

COMMANDS = [
    *("ancestry", "populations", "density", "label", "impute", "sample", "show", "convert"),
    *("what-if", "app", "diseases"),
]
EXACT = ("show", "what-if", "app", "diseases")  # no seed: nothing random, or a fixed one
# The command line without the package's own __init__: what it alone imports.
ALONE = f"""
import sys, types
package = types.ModuleType("outtrees")
package.__path__ = {list(outtrees.__path__)!r}
package.__version__ = "0"
sys.modules["outtrees"] = package
from outtrees.cli import main
"""
HEAVY = ["numpy", "scipy", "sklearn", "rich", "pandas", "numba", "matplotlib", "safetensors"]


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_help_lists_the_commands(outtrees):
    result = outtrees("--help")
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [word for word in listed if word in COMMANDS][-len(COMMANDS) :] == COMMANDS
    assert "..." not in result.stdout.replace("[ARGS]...", "")  # no help is cut


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(outtrees, command):
    result = outtrees(command, "--help")
    assert result.exit_code == 0
    for option in ("--quiet", "--json", "--debug"):
        assert option in result.stdout
    assert ("--seed" in result.stdout) == (command not in EXACT)
    if command not in ("sample", "convert", *EXACT):
        assert "--check" in result.stdout
        assert "--jobs" in result.stdout


def test_choices_are_those_of_the_library():
    """Help must not import the library, so the names stand twice."""
    from outtrees.cli import convert, density, impute
    from outtrees.imputation import imputer
    from outtrees.io import FORMATS
    from outtrees.models import MUTATIONS

    assert list(MUTATIONS) == density.MUTATIONS
    assert list(FORMATS) == convert.FORMATS
    offered = next(p for p in impute.command.params if p.name == "mutation").type.choices
    assert list(imputer._NAMES) == list(offered)


def test_no_command_shows_help_and_is_an_error(outtrees):
    result = outtrees()
    assert result.exit_code == 2
    assert "Commands:" in result.output


def test_a_command_that_moved_says_where(refused):
    assert "run 'python -m paper' instead" in refused("reproduce", "figure1", "--quick")


def test_runs_as_a_module_and_tells_its_version():
    shown = subprocess.run(
        [sys.executable, "-m", "outtrees", "--version"], check=True, capture_output=True, text=True
    )
    assert shown.stdout.startswith("outtrees ")


@pytest.mark.parametrize("arguments", [["--help"], ["ancestry", "--help"]])
def test_help_imports_only_click(arguments):
    code = ALONE + (
        f"\ntry:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"heavy = set({HEAVY!r}) & set(sys.modules)\nassert not heavy, heavy"
    )
    assert "Usage: outtrees" in python(code)


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def quickest(*commands):
    """Return the shortest time of each command, taken in turns."""
    rounds = [[seconds(command) for command in commands] for _ in range(5)]
    return [min(times) for times in zip(*rounds, strict=True)]


def test_help_is_as_quick_as_importing_click():
    click = [sys.executable, "-c", "import click"]
    shown = [sys.executable, "-c", ALONE + "main(['--help'])"]
    base, time_taken = quickest(click, shown)
    assert time_taken <= 2.5 * base


def test_the_whole_program_is_as_quick():
    if "numpy" in python("import sys, outtrees; print(*sys.modules)").split():
        pytest.skip("`import outtrees` itself loads numpy; lazy names in its __init__ would not")
    base, time_taken = quickest(
        [sys.executable, "-c", "import click"], [sys.executable, "-m", "outtrees", "--help"]
    )
    assert time_taken <= 2.5 * base


def test_options_stand_under_headings(outtrees):
    shown = outtrees("ancestry", "--help").stdout
    headings = ["Table", "Columns", "Pairs of records", "Dates and waiting times"]
    headings += ["Transmission model", "Trees", "How children differ from parents"]
    headings += ["Computation", "Output"]
    assert [
        line[:-1] for line in shown.splitlines() if line[-1:] == ":" and line[0] != " "
    ] == headings
    dates = shown.split("Dates and waiting times:")[1].split("Transmission model:")[0]
    assert "--disease" in dates
    assert "--generation-mean" not in dates
