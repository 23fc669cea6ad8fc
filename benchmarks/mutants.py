"""Claim: of edits to operators, constants and comparisons, tests notice at least 95 in 100.

An edit is made in memory: a fork of this process imports the edited module in place of the file,
and runs the tests that execute the edited function, the quickest first, until one fails or they
took 40 seconds. Which tests execute which functions is found once and kept in
build/mutants.json; test files that changed are looked at again. Edits that no test notices are
listed. So are those that benchmarks/mutants_harmless.txt knows to change nothing that a user sees,
each with its reason; they are not counted. `make mutants` samples
as many of trees/, models/ and inference/, each edit with the same probability within its folder.

    python benchmarks/mutants.py [--each 40] [--seed 0] [--only part/of/the/path[:line]]
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
KEPT = ROOT / "build" / "mutants.json"
FOLDERS = ("trees", "models", "inference")
TESTS = [  # that answer for them; those of estimators take longer and look at other things too
    *("tests/trees", "tests/models", "tests/inference", "tests/laws", "tests/fuzz/test_engine.py"),
    *(f"src/outtrees/{folder}" for folder in FOLDERS),
    *("tests/candidates", "tests/density/test_bad_inputs.py", "tests/density/test_stacking.py"),
]
HARMLESS = Path(__file__).with_name("mutants_harmless.txt")
SWAPS: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}
FIRST = 12  # quickest tests of a function, before the others
MOST = 40.0  # seconds of tests for one edit
CONTROLS = [  # a compiled function and a plain one
    ("outtrees/trees/limited_sum_kernels.py", "sum_subsets"),
    ("outtrees/inference/messages.py", "pass_messages"),
]
SECONDS = 30.0  # beside four times what the tests take; longer is an endless loop, and noticed


class Edit:
    """One change of one node of a file."""

    def __init__(
        self, file: Path, where: tuple[int, int], function: str, what: str, change: Callable
    ) -> None:
        self.file, self.function, self.what = file, function, what
        self.line, self.column = where
        self.change = change  # of the nodes of the parsed file, in the order of `_nodes`

    def tree(self) -> ast.Module:
        """Return the file with the change made."""
        tree = ast.parse((SRC / self.file).read_text())
        self.change([node for node, _ in _nodes(tree)])
        return tree

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays the same while lines move."""
        lines = (SRC / self.file).read_text().splitlines()
        line = lines[self.line - 1] if self.line else ""
        column = self.column - len(line) + len(line.lstrip())
        return str(self.file), line.strip(), f"{self.what}, column {column}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.what}"


def _nodes(tree: ast.AST, function: str = "", inside: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Yield every node that is executed, and the function it belongs to ("" for the module)."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                name, within = function, inside
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    name = function or f"{inside}{child.name}"
                elif isinstance(child, ast.ClassDef):
                    within = f"{inside}{child.name}."
                yield child, name
                yield from _nodes(child, name, within)


def edits(file: Path) -> list[Edit]:
    """Return every edit of a file."""
    found = []
    for number, (node, function) in enumerate(_nodes(ast.parse((SRC / file).read_text()))):
        for what, change in _changes(node):

            def made(nodes: list[ast.AST], number: int = number, change: Callable = change) -> None:
                change(nodes[number])

            found.append(Edit(file, _place(node), function, what, made))
    return found


def _place(node: Any) -> tuple[int, int]:
    """Return line and column of an operator or a constant."""
    left = getattr(node, "left", None) or getattr(node, "target", None)
    if isinstance(node, ast.BoolOp):
        left = node.values[0]
    return (
        (node.lineno, node.col_offset) if left is None else (left.end_lineno, left.end_col_offset)
    )


def _changes(node: Any) -> Iterator[tuple[str, Callable]]:
    """Yield what may be done to a node, and the function that does it."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)):
        for new in SWAPS.get(type(node.op), []):
            yield (
                f"{type(node.op).__name__} -> {new.__name__}",
                lambda node, new=new: setattr(node, "op", new()),
            )
    elif isinstance(node, ast.Compare):
        for new in SWAPS.get(type(node.ops[0]), []):
            yield (
                f"{type(node.ops[0]).__name__} -> {new.__name__}",
                lambda node, new=new: node.ops.__setitem__(0, new()),
            )
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield (
            f"{node.value} -> {node.value + 1}",
            lambda node: setattr(node, "value", node.value + 1),
        )


# Which tests execute which functions --------------------------------------------------------------


class Watch:
    """A plugin of pytest: records the functions of the package that each test executes."""

    def __init__(self) -> None:
        self.tests: dict[str, Any] = {}
        self.now: set[Any] = set()

    def pytest_runtest_protocol(self, item: Any) -> None:
        self.now.clear()
        sys.settrace(self.call)
        threading.settrace(self.call)

    def pytest_runtest_logreport(self, report: Any) -> None:
        known = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": True})
        known["seconds"] = round(known["seconds"] + report.duration, 3)
        known["passed"] = known["passed"] and report.passed
        if report.when == "teardown":
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            known["functions"] = sorted({name for code in self.now if (name := _name(code))})

    def call(self, frame: Any, event: str, argument: Any) -> None:
        self.now.add(frame.f_code)

    def kernels(self) -> None:
        """Record compiled functions too, with those they call."""
        from numba.core.registry import CPUDispatcher

        call = CPUDispatcher.__call__

        def recorded(dispatcher: Any, *arguments: Any, **options: Any) -> Any:
            self.add(dispatcher.py_func)
            return call(dispatcher, *arguments, **options)

        CPUDispatcher.__call__ = recorded

    def add(self, function: Any) -> None:
        if function.__code__ in self.now:
            return
        self.now.add(function.__code__)
        for name in function.__code__.co_names:
            called = function.__globals__.get(name)
            if hasattr(called, "py_func"):
                self.add(called.py_func)


def _name(code: Any) -> str:
    path = Path(code.co_filename)
    if SRC not in path.parents or code.co_name == "<module>":
        return ""
    return f"{path.relative_to(SRC)}:{code.co_qualname.partition('.<locals>')[0]}"


def watched(files: list[str]) -> dict[str, Any]:
    """Return what the tests of these files execute, by running them in a fork."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        import pytest

        os.close(reader)
        watch = Watch()
        watch.kernels()
        code = pytest.main(["-q", "-p", "no:cacheprovider", *files], plugins=[watch])
        with os.fdopen(writer, "w") as file:
            file.write(json.dumps(watch.tests if code in (0, 5) else {}))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = json.loads(file.read())
    os.waitpid(child, 0)
    if not found:
        raise SystemExit("the tests must pass before edits are made")
    return {
        name: {"seconds": test["seconds"], "functions": test["functions"]}
        for name, test in found.items()
        if test["passed"]
    }


def executed() -> dict[str, Any]:
    """Return what every test executes: from the kept file, or looked at again if it changed."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    files = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for where in TESTS
        for path in ([ROOT / where] if (ROOT / where).is_file() else (ROOT / where).rglob("*.py"))
        if path.name.startswith("test_") or ">>>" in path.read_text()
    }
    changed = [file for file in files if kept.get(file, {}).get("sha256") != files[file]]
    if changed:
        print(f"finding what the tests of {len(changed)} files execute", flush=True)
        tests = watched(changed)
        for file in changed:
            own = {name: test for name, test in tests.items() if name.split("::")[0] == file}
            kept[file] = {"sha256": files[file], "tests": own}
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(kept))
    return {name: test for file in files for name, test in kept[file]["tests"].items()}


# Edited modules ----------------------------------------------------------------------------------


class Edited(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one module from an edited tree."""

    def __init__(self, edit: Edit) -> None:
        super().__init__(_module(edit.file), str(SRC / edit.file))
        self.edit = edit

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, name: str) -> Any:
        return compile(ast.fix_missing_locations(self.edit.tree()), self.path, "exec")


def _module(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def compiled_with(file: Path) -> set[str]:
    """Return the modules whose compiled functions may hold code of this file: numba's cache does
    not know that."""
    imports: dict[str, set[str]] = {}
    for path in sorted((SRC / "outtrees").rglob("*.py")):
        text = path.read_text()
        if "_common.compiled import" in text:
            names = {
                node.module
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ImportFrom) and node.module
            }
            imports[_module(path.relative_to(SRC))] = names
    found = {_module(file)}
    while more := {name for name, needed in imports.items() if needed & found} - found:
        found |= more
    return found


def uncached(modules: set[str]) -> None:
    """Compile functions of these modules anew."""
    from outtrees._common import compiled as how

    options = dict(how._HOW)
    plain = {**options, "cache": False}
    kinds = {
        "compiled": {},
        "helper": {"no_cpython_wrapper": True},
        "inlined": {"inline": "always"},
    }
    for name, own in kinds.items():

        def decorate(function: Any, own: dict[str, Any] = own) -> Any:
            chosen = plain if function.__module__ in modules else options
            return how._njit(**chosen, **own)(function)

        setattr(how, name, decorate)


# Running ------------------------------------------------------------------------------------------


class First:
    """A plugin of pytest: some tests first, quickest first; the others after them or not at all."""

    def __init__(self, tests: list[str], others: bool) -> None:
        self.place = {name: place for place, name in enumerate(tests)}
        self.others = others

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        rest = [item for item in items if item.nodeid not in self.place]
        chosen = [item for item in items if item.nodeid in self.place]
        chosen.sort(key=lambda item: self.place[item.nodeid])
        items[:] = chosen + (rest if self.others else [])


def fails(edit: Edit, tests: list[str], others: bool, seconds: float) -> bool:
    """Whether a test fails with the edit."""
    child = os.fork()
    if child == 0:
        os.setsid()
        void = os.open(os.devnull, os.O_WRONLY)
        os.dup2(void, 1)
        os.dup2(void, 2)
        code = 1
        try:
            import pytest

            sys.meta_path.insert(0, Edited(edit))
            uncached(compiled_with(edit.file))
            importlib.import_module(_module(edit.file))
            files = list(dict.fromkeys(name.split("::")[0] for name in tests))
            options = ["-qx", "-p", "no:cacheprovider", *files]
            code = int(pytest.main(options, plugins=[First(tests, others)]))
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def executing(edit: Edit, tests: dict[str, Any]) -> list[str]:
    """Return the tests that execute the edited function: quickest and nearest first."""
    place, own = f"{edit.file}:{edit.function}", f"/{edit.file.parts[1]}/"
    chosen = [
        name
        for name, test in tests.items()
        if any(
            f == place if edit.function else f.startswith(f"{edit.file}:")
            for f in test["functions"]
        )
    ]
    return sorted(chosen, key=lambda name: tests[name]["seconds"] * (1 if own in name else 4))


def noticed(edit: Edit, tests: dict[str, Any]) -> bool:
    """Whether a test that executes the function, or another of its file, fails with the edit."""
    chosen = executing(edit, tests)
    if not chosen:
        return False

    def took(names: Iterable[str]) -> float:
        return sum(tests[name]["seconds"] for name in names)

    few = chosen[:FIRST]
    if fails(edit, few, False, SECONDS + 4 * took(few)):
        return True
    files = {name.split("::")[0] for name in chosen}
    rest = {name: test for name, test in tests.items() if name.split("::")[0] in files}
    if took(rest) <= MOST:  # what they share may be made in one test and looked at in another
        return fails(edit, chosen, True, SECONDS + 4 * took(rest))
    while took(chosen) > MOST:
        chosen.pop()
    return fails(edit, chosen, False, SECONDS + 4 * took(chosen))


def control(tests: dict[str, Any]) -> None:
    """Make sure that what fails with an edit does not fail without one."""
    for file, function in CONTROLS:
        nothing = Edit(Path(file), (0, 0), function, "nothing", lambda _: None)
        if not executing(nothing, tests) or noticed(nothing, tests):
            raise SystemExit(f"no tests of {file}, or they fail although nothing was changed")


def sample(each: int, seed: int, only: str) -> Iterator[Edit]:
    """Yield edits: so many of each folder, or all of one line."""
    part, _, line = only.partition(":")
    for folder in FOLDERS:
        possible = [
            edit
            for path in sorted((SRC / "outtrees" / folder).rglob("*.py"))
            if part in str(path)
            for edit in edits(path.relative_to(SRC))
            if not line or edit.line == int(line)
        ]
        chosen = (
            possible if line else random.Random(seed).sample(possible, min(each, len(possible)))
        )
        yield from sorted(chosen, key=lambda edit: (str(edit.file), edit.line))


def harmless() -> dict[tuple[str, str, str], str]:
    """Return the reasons of edits that change nothing that a user sees."""
    found = {}
    for entry in HARMLESS.read_text().strip().split("\n\n"):
        file, line, what, *reason = (part.strip() for part in entry.splitlines())
        found[file, line, what] = " ".join(reason)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=40, help="edits of each folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a path, or path:line for all of a line")
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(SRC))
    os.environ["OUTTREES_COMPILE_QUIETLY"] = "1"
    # Imported once, for all forks; of this package nothing.
    import numba  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.sparse.csgraph
    import scipy.stats  # noqa: F401
    import sklearn.model_selection
    import sklearn.utils.estimator_checks  # noqa: F401

    tests = executed()
    control(tests)
    known = harmless()
    counts: dict[str, Counter[str]] = {folder: Counter() for folder in FOLDERS}
    for edit in sample(options.each, options.seed, options.only):
        begin = time.monotonic()
        reason = known.get(edit.key)
        outcome = (
            "noticed" if reason is None and noticed(edit, tests)
            else "SURVIVED" if reason is None
            else "harmless"
        )  # fmt: skip
        counts[edit.file.parts[1]][outcome] += 1
        took = f"{time.monotonic() - begin:5.1f} s"
        print(f"{outcome:8} {took}  {edit}{f': {reason}' if reason else ''}", flush=True)
        if outcome == "SURVIVED":
            print("\n".join(["", *edit.key, ""]), flush=True)
    print("| edits of | made | change nothing | others | noticed |\n|---|---|---|---|---|")
    counts["all"] = sum(counts.values(), Counter())
    for folder, count in counts.items():
        others = count["noticed"] + count["SURVIVED"]
        print(
            f"| {folder} | {count.total()} | {count['harmless']} | {others} "
            f"| {count['noticed']} ({count['noticed'] / max(others, 1):.0%}) |"
        )


if __name__ == "__main__":
    main()
