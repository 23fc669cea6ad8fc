"""docs/architecture.md names only files and folders that exist, and every folder of the package."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "outtrees"
PAGE = ROOT / "docs" / "architecture.md"


def missing(text):
    """Return the files and folders named that are neither in the package nor in the repository."""
    named = re.findall(r"`([\w./-]+(?:\.py|/))`", text)
    return [name for name in named if not any((at / name).exists() for at in (PACKAGE, ROOT))]


def test_every_file_that_is_named_exists():
    assert missing(PAGE.read_text(encoding="utf-8")) == []


def test_every_folder_is_named():
    text = PAGE.read_text(encoding="utf-8")
    folders = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    assert [name for name in folders if f"`{name}/`" not in text] == []


def test_a_file_that_is_gone_is_found_out():
    assert missing("`trees/` and `trees/nothing.py` in `nowhere/`") == [
        "trees/nothing.py",
        "nowhere/",
    ]
