"""The code in the README and the docs runs, in the order in which it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


PAGES = [README, *sorted((README.parent / "docs").glob("*.md"))]
PAGES = [page for page in PAGES if "```python" in page.read_text()]


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


def test_the_first_block_is_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL).group(1)
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
