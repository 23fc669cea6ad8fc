"""The code in the README runs, in the order in which it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)


def test_the_first_block_is_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL).group(1)
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
