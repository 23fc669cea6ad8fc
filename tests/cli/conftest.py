import pytest
from click.testing import CliRunner

from cli.outbreak import write_outbreak
from outtrees.cli import main


@pytest.fixture
def outtrees():
    """Run a command in this process; returns exit_code, stdout, stderr."""

    def run(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def refused(outtrees):
    """Run a command that must fail; returns its one line."""

    def run(*arguments, code=2):
        result = outtrees(*arguments)
        assert result.exit_code == code, result.output
        lines = result.stderr.splitlines()
        complaints = [line for line in lines if not line.startswith("warning: ")]
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
    """Run `outtrees ancestry` on the outbreak."""

    def run(*more):
        return outtrees(
            "ancestry", outbreak.cases, "--id", "case", "--date", "onset", "--ignore", "outcome",
            "--sequences", outbreak.dna, *more,
        )  # fmt: skip

    return run
