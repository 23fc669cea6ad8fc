"""From JSON and arrays back to values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from outtrees.errors import ModelFileError
from outtrees.io.model_classes import ALSO_FITTED, FORMER, current_attributes, find_class
from outtrees.io.model_encoding import DEEPEST, FITTED
from outtrees.records.files import MAX_BYTES

_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


class Decoder:
    """Turns JSON back into values; whatever `Encoder` does not write is refused."""

    def __init__(self, allowed: Mapping[str, type | str], arrays: dict[str, np.ndarray]) -> None:
        self.allowed = allowed
        self.arrays = arrays
        self.used: set[str] = set()
        self._made: dict[str, np.ndarray] = {}  # the same node again is the same array

    def decode(self, node: Any, where: str, depth: int = 0) -> Any:
        """Return the value of a node; `where` names it in messages."""
        if depth > DEEPEST:
            raise ModelFileError(f"{where[:200]} is nested too deep")
        if not isinstance(node, (dict, list)):
            return node
        if isinstance(node, list):
            return [self.decode(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(node)]
        make = getattr(self, f"_make_{node.get('kind')}", None)
        if not isinstance(node.get("kind"), str) or make is None:
            raise ModelFileError(f"{where}: unknown kind {str(node.get('kind'))[:60]!r}")
        try:
            return make(node, where, depth + 1)
        except ModelFileError:
            raise
        except Exception as error:  # a constructor refused a value, a key is missing, ...
            reason = f"{type(error).__name__}: {error}"
            raise ModelFileError(f"{where}: {reason[:200]}") from error

    def _make_float(self, node: dict[str, Any], where: str, depth: int) -> float:
        return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[node["value"]]

    def _make_tuple(self, node: dict[str, Any], where: str, depth: int) -> tuple[Any, ...]:
        return tuple(self.decode(self._list(node["items"]), where, depth))

    def _make_set(self, node: dict[str, Any], where: str, depth: int) -> set[Any]:
        return set(self.decode(self._list(node["items"]), where, depth))

    def _make_frozenset(self, node: dict[str, Any], where: str, depth: int) -> frozenset[Any]:
        return frozenset(self.decode(self._list(node["items"]), where, depth))

    def _make_dict(self, node: dict[str, Any], where: str, depth: int) -> dict[Any, Any]:
        pairs = self.decode(self._list(node["items"]), where, depth)
        return {key: value for key, value in pairs}

    def _make_array(self, node: dict[str, Any], where: str, depth: int) -> np.ndarray:
        key = repr(sorted(node.items()))
        if key in self._made:
            return self._made[key]
        self.used.add(node["name"])
        array = self.arrays[node["name"]].copy()  # its own memory, and writable
        if "dtype" in node:
            if not re.fullmatch(r"<[mM]8(\[\w+\])?", str(node["dtype"])):
                raise ModelFileError(f"{where}: unknown dtype {str(node['dtype'])[:60]!r}")
            array = array.view(node["dtype"])
        self._made[key] = array.T if node.get("order") == "F" else array
        return self._made[key]

    def _make_scalar(self, node: dict[str, Any], where: str, depth: int) -> Any:
        return self.decode(node["value"], where, depth)[()]

    def _make_objects(self, node: dict[str, Any], where: str, depth: int) -> np.ndarray:
        items = self.decode(self._list(node["items"]), where, depth)
        if not node["text"]:
            array = np.empty(len(items), dtype=object)
            array[:] = items
            return array.reshape(node["shape"])
        # All cells get the room of the longest.
        if len(items) * max((len(item) for item in items), default=0) > MAX_BYTES // 4:
            raise ModelFileError(f"{where}: text that would take more than {MAX_BYTES} bytes")
        return np.array(items, dtype=str).reshape(node["shape"])

    def _make_generator(self, node: dict[str, Any], where: str, depth: int) -> Any:
        state = self.decode(node["state"], where, depth)
        if state["bit_generator"] not in _GENERATORS:
            raise ModelFileError(f"{where}: unknown generator {str(state['bit_generator'])[:60]!r}")
        bits = getattr(np.random, state["bit_generator"])(0)
        bits.state = state
        return np.random.Generator(bits)

    def _make_random_state(self, node: dict[str, Any], where: str, depth: int) -> Any:
        state = np.random.RandomState(0)
        state.set_state(self.decode(node["state"], where, depth))
        return state

    def _make_dataclass(self, node: dict[str, Any], where: str, depth: int) -> Any:
        cls, name = self._known_class(node, where)
        known = {f.name for f in fields(cls) if f.init}
        self._check_keys(node["fields"], known, f"{where} ({name})")
        return cls(**{k: self.decode(v, f"{where}.{k}", depth) for k, v in node["fields"].items()})

    def _make_named(self, node: dict[str, Any], where: str, depth: int) -> Any:
        cls, name = self._known_class(node, where)
        if is_dataclass(cls):  # a named tuple when the file was written
            return self._make_dataclass(node, where, depth)
        self._check_keys(node["fields"], set(cls._fields), f"{where} ({name})")
        return cls(**{k: self.decode(v, f"{where}.{k}", depth) for k, v in node["fields"].items()})

    def _make_estimator(self, node: dict[str, Any], where: str, depth: int) -> Any:
        cls, name = self._known_class(node, where)
        self._check_keys(node["params"], set(cls().get_params(deep=False)), f"{where} ({name})")
        model = cls(**{k: self.decode(v, f"{where}.{k}", depth) for k, v in node["params"].items()})
        fitted = {
            key: self.decode(value, f"{where}.{key}", depth)
            for key, value in node["fitted"].items()
        }
        for key, value in current_attributes(fitted).items():
            known = FITTED.fullmatch(key) or key in ALSO_FITTED.get(name, ())
            if not known or hasattr(cls, key):
                raise ModelFileError(f"{where} ({name}): unknown attribute {key[:60]!r}")
            setattr(model, key, value)
        return model

    def _known_class(self, node: dict[str, Any], where: str) -> tuple[Any, str]:
        name = node["class"]
        name = FORMER.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self.allowed:
            raise ModelFileError(
                f"{where}: class {str(name)[:60]!r} is not allowed in a model; if it is yours and "
                "you trust the file, load(..., classes=[...])"
            )
        return find_class(self.allowed, name), name

    @staticmethod
    def _check_keys(found: Mapping[str, Any], known: set[str], where: str) -> None:
        for key in found:
            if key not in known:
                raise ModelFileError(f"{where}: unknown parameter {key[:60]!r}")

    @staticmethod
    def _list(items: Any) -> list[Any]:
        if not isinstance(items, list):
            raise ModelFileError("a list is expected where items are")
        return items
