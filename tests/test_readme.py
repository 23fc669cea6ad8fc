"""The code in the README and the docs runs, in the order in which it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("page", [README, README.parent / "docs/density.md"], ids=lambda p: p.name)
def test_python_blocks(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_the_first_block_is_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL).group(1)
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
