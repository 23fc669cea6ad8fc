"""The code in the README and the docs runs, in the order in which it stands."""

import re
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

from outtrees.cli import main

README = Path(__file__).parents[1] / "README.md"


ALL = [README, *sorted((README.parent / "docs").rglob("*.md"))]
PAGES = [page for page in ALL if "```python" in page.read_text()]


LONG = ("bayesian.md", "labels.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.name, marks=[pytest.mark.slow] * (p.name in LONG)) for p in PAGES],
)
def test_python_blocks(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    if page == README:  # a what-if that moves more than the record it is about
        moved = names["found"].what_if({"case14": "case01"})
        assert len(set(moved["child"])) > 3
    plt.close("all")


def commands(page):
    """Return the commands of outtrees in the console blocks of a page."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["outtrees"]:
                yield words[1:]


@pytest.mark.parametrize(
    "page", [README, README.parent / "docs" / "start.md"], ids=lambda p: p.name
)
def test_commands_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(commands(page))
    assert ["demo"] in found
    for words in found:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output


def test_commands_of_all_pages_exist():
    for page in ALL:
        for words in commands(page):
            assert words[0].startswith("-") or main.get_command(None, words[0]), (page, words)


def test_the_first_block_is_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL).group(1)
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
