import re

import numpy as np
import pytest
from click.testing import CliRunner

from cli.outbreak import write_outbreak
from outtrees import OutTreeDensity
from outtrees.cli import main
from outtrees.cli.cost import Timed
from outtrees.datasets import make_spiral
from outtrees.io import save


@pytest.fixture
def outtrees():
    """Run a command in this process; returns exit_code, stdout, stderr."""

    def run(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def untried(monkeypatch):
    """Let --check read and refuse as it does, without the fits by which it estimates the time."""
    monkeypatch.setattr("outtrees.cli.cost.by_trials", lambda n, *_: Timed(1.0, n))


@pytest.fixture
def refused(outtrees):
    """Run a command that must fail; returns its one line."""

    def run(*arguments, code=2):
        result = outtrees(*arguments)
        assert result.exit_code == code, result.output
        lines = result.stderr.splitlines()
        besides = r"warning: | *\d+\.\d s  "  # and what is under way
        complaints = [line for line in lines if not re.match(besides, line)]
        assert len(complaints) == 1, result.stderr
        assert "Traceback" not in result.output
        assert complaints[0].startswith("outtrees: ")
        return complaints[0].removeprefix("outtrees: ")

    return run


@pytest.fixture
def outbreak(tmp_path):
    return write_outbreak(tmp_path)


@pytest.fixture
def ancestry(outtrees, outbreak):
    """Run `outtrees ancestry` on the outbreak of one case; given waiting times make it quick."""

    def run(*more, wait=("--waiting-mean", 3.5, "--waiting-sd", 1.2)):
        return outtrees(
            "ancestry", outbreak.cases, "--id", "case", "--date", "onset", "--ignore", "outcome",
            "--sequences", outbreak.dna, "--roots", "single", *wait, *more,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def spiral(tmp_path_factory):
    """Points of a spiral: the path of the table, and the points."""
    X = make_spiral(14, random_state=0)
    path = tmp_path_factory.mktemp("spiral") / "spiral.csv"
    lines = [f"s{i},{x!r},{y!r},{z!r}" for i, (x, y, z) in enumerate(X.tolist())]
    path.write_text("name,u,v,w\n" + "\n".join(lines) + "\n")
    return path, X


@pytest.fixture
def mixed(tmp_path):
    """Two clouds with a category each; cells and labels missing here and there."""
    rng = np.random.default_rng(0)
    lines = ["id,height,colour,species"]
    for i in range(24):
        side = i % 2
        height = "" if i == 5 else f"{10 * side + rng.normal():.3f}"
        colour = "" if i == 8 else ["red", "blue"][side]
        species = "" if i >= 18 else ["oak", "elm"][side]
        lines.append(f"t{i},{height},{colour},{species}")
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(spiral):
    """A density of the spiral, saved."""
    return save(
        OutTreeDensity("parzen", random_state=0).fit(spiral[1]), spiral[0].parent / "m.safetensors"
    )
