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


LONG = ("bayesian.md", "labels.md", "trust.md")


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
    """Return the commands of outtrees in the code blocks of a page, indented ones included."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    for line in [*"\n".join(blocks).splitlines(), *re.findall(r"^ {4,}(outtrees .*)$", text, re.M)]:
        words = shlex.split(line, comments=True)
        if words[:1] == ["outtrees"]:
            yield words[1:]


# The app waits for its reader, and a scheduler for workers; both have tests of their own.
ENDLESS = ("app", "--scheduler")
TYPED = {page: [c for c in commands(page) if not {*ENDLESS} & {*c}] for page in ALL}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of somebody who has typed what the README says."""
    made = tmp_path_factory.mktemp("typed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        assert ["demo"] in TYPED[README]
        for words in TYPED[README]:
            result = CliRunner().invoke(main, words)
            assert result.exit_code == 0, result.output
    return made


def cases():
    """Return the commands of each page, but for those of the README; the longest ones slow."""
    seen = list(TYPED[README])
    for page, found in TYPED.items():
        for words in found:
            if words not in seen:
                seen.append(words)
                slow = {"populations", "--transmission"} & {*words}
                marks = [pytest.mark.slow] * bool(slow)
                yield pytest.param(words, id=f"{page.name}: {words[0]}", marks=marks)


@pytest.mark.parametrize("words", list(cases()))
def test_commands_run_as_printed(words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output


def test_commands_of_all_pages_exist():
    for page in ALL:
        for words in commands(page):
            assert words[0].startswith("-") or main.get_command(None, words[0]), (page, words)


def test_scripts_of_all_pages_exist():
    named = {name for page in ALL for name in re.findall(r"python (\S+\.py)", page.read_text())}
    assert len(named) > 10
    assert [name for name in named if not (README.parent / name).exists()] == []


def test_the_first_block_is_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL).group(1)
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
