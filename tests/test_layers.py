"""The layer order of the architecture, read off the source; and what an import may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import outtrees

SOURCE = Path(outtrees.__file__).parent
# A module imports only from lower numbers, its own package, and errors.
LAYER = {
    "errors": 0,
    "_common": 1,
    "records": 2,
    # Bundled data are records.
    "datasets": 3,
    # Work units know nothing of what they carry.
    "parallel": 3,
    # Model files name classes, and import what a file names; formats take arrays and names.
    "io": 3,
    "models": 4,
    "trees": 4,
    # Bridges to libraries that differentiate.
    "torch": 5,
    "jax": 5,
    "candidates": 5,
    "inference": 6,
    # Pictures take arrays and names; estimators draw themselves with them.
    "views": 7,
    "imputation": 7,
    "density": 8,
    "labels": 8,
    "bayes": 8,
    # Tables of records need all of the above: models, trees, pictures and files.
    "ancestry": 10,
    "cli": 11,
    "__init__": 12,
    "__main__": 12,
}
FORBIDDEN = {("trees", "records"), ("trees", "models"), ("models", "trees")}


def room(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names = [node.module]
            if node.module == "outtrees":
                # Every room may know the version.
                aliases = [alias.name for alias in node.names if alias.name != "__version__"]
                names = [f"outtrees.{alias}" for alias in aliases]
        for name in names:
            parts = name.split(".")
            if parts[0] == "outtrees" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_layers(path):
    here = room(path)
    for there in imported_rooms(path):
        if there == here:
            continue
        assert LAYER[there] < LAYER[here], f"{path}: {here} may not import {there}"
        assert (here, there) not in FORBIDDEN, f"{path}: {here} may not know {there}"


def test_the_rule_can_fail(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from outtrees import views\nimport outtrees.trees.weights\n")
    assert list(imported_rooms(wrong)) == ["views", "trees"]


def test_importing_is_light():
    """Nobody waits for a compiler, a plotting library or a data frame to say hello."""
    code = (
        "import sys, outtrees; outtrees.OutTreeDistribution([[0, 0], [0, 0]]).edge_marginals; "
        "heavy = {'matplotlib', 'numba', 'pandas', 'networkx'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
