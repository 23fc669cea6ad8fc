"""Modules for libraries that are not installed are not looked through for examples."""

from importlib.util import find_spec

collect_ignore = [
    f"src/outtrees/{library}.py" for library in ("torch", "jax") if find_spec(library) is None
]
