"""Claim: of edits to operators, constants and comparisons, tests notice at least 95 in 100.

Each edit is made in a copy of the package, and the tests of its folder run on the copy until one
fails; edits that no test notices are listed. `make mutants` samples trees/, models/ and inference/.

    python benchmarks/mutants.py [n_mutants] [seed] [part of the path, such as trees/ranking]
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {  # the tests that answer for a folder
    "trees": ["tests/trees", "tests/fuzz/test_engine.py"],
    "models": ["tests/models"],
    "inference": ["tests/inference", "tests/laws"],
}
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
SECONDS = 900  # after which an edit that leads into an endless loop counts as noticed


def edits(source: str) -> list[tuple[int, str, str]]:
    """Return (line, what, source) of every edit, one at a time."""
    found = []
    count = len(list(ast.walk(ast.parse(source))))
    for number in range(count):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[number]
        for what in _changes(node):
            found.append((getattr(node, "lineno", 0), what, ast.unparse(tree)))
    return found


def _changes(node: ast.AST):
    """Change the node, yield what was done, and change it back."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)):
        old = node.op
        for new in SWAPS.get(type(old), []):
            node.op = new()
            yield f"{type(old).__name__} -> {new.__name__}"
        node.op = old
    elif isinstance(node, ast.Compare):
        old = node.ops[0]
        for new in SWAPS.get(type(old), []):
            node.ops[0] = new()
            yield f"{type(old).__name__} -> {new.__name__}"
        node.ops[0] = old
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        old = node.value
        node.value = old + 1
        yield f"{old} -> {old + 1}"
        node.value = old


def noticed(file: Path, source: str, tests: list[str]) -> bool:
    """Whether a test fails with the file replaced by this source, in a copy of the package."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        (Path(folder) / "src" / file).write_text(source)
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *tests]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return True
        return ended.returncode != 0


def main() -> None:
    given = [int(a) for a in sys.argv[1:3]]
    n, seed = [*given, *[60, 0][len(given) :]]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    files = [
        path.relative_to(ROOT / "src")
        for folder in FOLDERS
        for path in sorted((ROOT / "src" / "outtrees" / folder).rglob("*.py"))
    ]
    rng, survivors, tried = random.Random(seed), 0, 0
    chosen = [file for file in files if part in str(file) and file.name != "__init__.py"]
    while tried < n:
        file = rng.choice(chosen)
        possible = edits((ROOT / "src" / file).read_text())
        if not possible:
            continue
        line, what, source = rng.choice(possible)
        tried += 1
        alive = not noticed(file, source, FOLDERS[file.parts[1]])
        survivors += alive
        print(f"{'SURVIVED' if alive else 'noticed '} {file}:{line} {what}", flush=True)
    print(f"{tried - survivors} of {tried} noticed")


if __name__ == "__main__":
    main()
