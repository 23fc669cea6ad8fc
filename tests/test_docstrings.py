"""Everything public says what it takes and returns, as numpydoc reads it, with an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from numpydoc.validate import validate

MODULES = (
    "outtrees",
    "outtrees.datasets",
    "outtrees.io",
    "outtrees.models",
    "outtrees.records",
    "outtrees.trees",
    "outtrees.views",
)
# No docstring, no summary, a summary of several lines, parameters that are not documented, unknown
# or in another order, no returned value.
REFUSED = {"GL08", "SS01", "SS06", "PR01", "PR02", "PR03", "RT01", "YD01"}


def public():
    """Yield the qualified name of each public class and function, and the object."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{thing.__module__}.{thing.__qualname__}", thing


PUBLIC = dict(public())


def methods(path, thing):
    for name, value in vars(thing).items():
        method = getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(method):
            yield f"{path}.{name}"


METHODS = [
    name
    for path, thing in PUBLIC.items()
    if inspect.isclass(thing)
    for name in methods(path, thing)
]


def complaints(path, refused):
    return [f"{code}: {text}" for code, text in validate(path)["errors"] if code in refused]


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.removeprefix("outtrees."))
def test_classes_and_functions(path):
    thing = PUBLIC[path]
    refused = set(REFUSED)
    if inspect.isclass(thing):
        described = "Attributes\n" in inspect.getdoc(thing) or ".models." in path
        if described or issubclass(thing, Exception):  # the base class says what errors take
            refused -= {"PR01", "PR02"}
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        refused |= {"EX01"}
    assert complaints(path, refused) == []


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.removeprefix("outtrees."))
def test_methods(path):
    # A method that returns its object, or writes, has an example with its class.
    if "Yields\n" in inspect.getdoc(_found(path)):
        return
    assert complaints(path, REFUSED) == []


def _found(path):
    owner, name = path.rsplit(".", 1)
    return getattr(PUBLIC[owner], name)


def test_the_check_can_fail():
    assert complaints("outtrees.io.tables.Table.rows", {"RT01"})  # which yields


def test_the_site_lists_everything_public():
    listed = (Path(__file__).parents[1] / "docs" / "api" / "index.rst").read_text()
    names = {thing.__name__ for thing in PUBLIC.values()} - {"Mutation", "write_atomically"}
    missing = {
        name for name in names if not re.search(rf"^   (\w+\.)?{name}$", listed, flags=re.MULTILINE)
    }
    assert not missing
