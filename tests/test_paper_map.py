"""docs/paper.md leaves no place of the paper out, and names only what exists."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
# The paper's own numbers; displayed formulas without one are lettered within their section.
UNNUMBERED = {3: 11, 4: 9, 5: 2, 6: 6, 8: 1, 9: 2}
PLACES = {
    *(f"section {n}" for n in range(1, 11)),
    *(f"eq. {n}" for n in range(1, 5)),
    "Theorem 1",
    "Proof 1",
    *(f"Figure {n}" for n in range(1, 5)),
    "Table 1",
    *(f"{section}{'abcdefghijk'[i]}" for section, n in UNNUMBERED.items() for i in range(n)),
}
UNPROVED = {"section 10"}


def rows(text):
    """Yield (place, code cell, test cell, deviation cell) of every row of every table."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith(("| place", "|---")):
            place, _, code, test, deviation = (cell.strip() for cell in line.split("|")[1:-1])
            yield place, code, test, deviation


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def missing_object(dotted):
    """Return why a dotted name cannot be imported, None if it can."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:n]))
        except ModuleNotFoundError as error:
            if error.name is not None and not dotted.startswith(error.name):
                raise  # the module is there, and something that it needs is not
            continue
        for part in parts[n:]:
            # A dataclass field without a default is no attribute of the class.
            if part in getattr(found, "__annotations__", {}):
                break
            if not hasattr(found, part):
                return f"{dotted}: {'.'.join(parts[:n])} has no {part}"
            found = getattr(found, part)
        return None
    return f"{dotted}: no such module"


def missing_test(named):
    """Return why path::name is no test function, None if it is one."""
    path, _, function = named.partition("::")
    file = ROOT / path
    if not file.is_file():
        return f"{named}: no such file"
    body = ast.parse(file.read_text()).body
    tests = {n.name for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}
    return None if function in tests else f"{named}: no such test"


ROWS = list(rows(PAGE.read_text()))


def test_no_place_is_left_out_and_none_invented():
    assert {place for place, *_ in ROWS} == PLACES


@pytest.mark.parametrize("place", sorted(PLACES - UNPROVED))
def test_every_place_has_a_test(place):
    assert any(names(test) for where, _, test, _ in ROWS if where == place)


@pytest.mark.parametrize("dotted", sorted({n for _, code, _, _ in ROWS for n in names(code)}))
def test_modules_exist(dotted):
    assert missing_object(dotted) is None


@pytest.mark.parametrize("named", sorted({n for _, _, test, _ in ROWS for n in names(test)}))
def test_tests_exist(named):
    assert missing_test(named) is None


def test_names_in_deviations_exist():
    dotted = [n for *_, cell in ROWS for n in names(cell) if n.startswith("outtrees.")]
    assert dotted
    assert [missing_object(name) for name in dotted] == [None] * len(dotted)


def test_links_lead_somewhere():
    links = set(re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()))
    assert len(links) >= 4
    assert [link for link in sorted(links) if not (PAGE.parent / link).is_file()] == []


def test_wrong_names_are_noticed():
    assert missing_object("outtrees.inference.likelihood.log_likelihod") is not None
    assert missing_object("outtrees.likelyhood.log_likelihood") is not None
    assert missing_object("outtrees.trees.OutTreeDistribution.log_zed") is not None
    assert missing_test("tests/laws/test_tree_laws.py::test_theorem_2") is not None
    assert missing_test("tests/laws/test_no_laws.py::test_theorem_1") is not None
    assert missing_test("tests/test_paper_map.py::rows") is not None  # exists, but is no test
    assert list(rows("| eq. 9 | x | `a.b` | `c::d` | |")) == [("eq. 9", "`a.b`", "`c::d`", "")]
