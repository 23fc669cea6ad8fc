"""From values to JSON and arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from outtrees.errors import ModelFileError
from outtrees.io.model_classes import ALSO_FITTED, NOT_SAVED, find_class

DEEPEST = 60
FITTED = re.compile(r"[a-zA-Z]\w*_", re.ASCII)


class Encoder:
    """Turns values into JSON; arrays are put aside."""

    def __init__(self, allowed: Mapping[str, type | str]) -> None:
        self.allowed = allowed
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: dict[Any, dict[str, Any]] = {}
        self._kept: list[np.ndarray] = []  # as long as these live no address is used twice

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return the value as JSON; `where` names it in messages."""
        if depth > DEEPEST:
            raise ModelFileError(f"{where[:200]} is nested too deep, or holds itself")
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if np.isfinite(value) else {"kind": "float", "value": repr(value)}
        if kind is np.ndarray:
            return self._array(value, where, depth)
        if isinstance(value, np.generic):
            return {"kind": "scalar", "value": self._array(np.asarray(value), where, depth)}
        if kind in (list, tuple):
            items = [self.encode(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
            return items if kind is list else {"kind": "tuple", "items": items}
        if kind in (set, frozenset):
            ordered = sorted(value, key=repr)  # the same file for the same set
            items = [self.encode(v, f"an item of {where}", depth + 1) for v in ordered]
            return {"kind": kind.__name__, "items": items}
        if isinstance(value, Mapping):
            items = [
                [self.encode(k, f"a key of {where}", depth + 1), self._at(v, where, k, depth)]
                for k, v in value.items()
            ]
            return {"kind": "dict", "items": items}
        if isinstance(value, np.random.Generator):
            state = self.encode(value.bit_generator.state, where, depth + 1)
            return {"kind": "generator", "state": state}
        if isinstance(value, np.random.RandomState):
            state = self.encode(value.get_state(legacy=False), where, depth + 1)
            return {"kind": "random_state", "state": state}
        return self._object(value, where, depth)

    def _at(self, value: Any, where: str, key: Any, depth: int) -> Any:
        return self.encode(value, f"{where}[{str(key)[:40]!r}]", depth + 1)

    def _array(self, array: np.ndarray, where: str, depth: int) -> dict[str, Any]:
        if array.dtype.kind in "OU":
            values = [self.encode(v, where, depth + 1) for v in array.ravel().tolist()]
            text = array.dtype.kind == "U"
            return {"kind": "objects", "text": text, "shape": list(array.shape), "items": values}
        if array.dtype.kind not in "biufmM" or array.dtype.itemsize > 8:
            raise ModelFileError(
                f"{where} is an array of {array.dtype}, which cannot be saved; use float64"
            )
        # One array in two places stays one: it saves room, and a product of a matrix with itself
        # is computed in another way than that with a copy.
        memory = (array.ctypes.data, array.shape, array.strides, array.dtype.str)
        if array.size and memory in self._seen:
            return self._seen[memory]
        node: dict[str, Any] = {"kind": "array", "name": f"{len(self.arrays)}"}
        self._seen[memory] = node
        self._kept.append(array)
        if array.dtype.kind in "mM":
            node["dtype"] = array.dtype.newbyteorder("<").str
            array = array.astype(array.dtype.newbyteorder("<")).view("<i8")
        if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
            node["order"] = "F"
            array = array.T
        little = array.astype(array.dtype.newbyteorder("="), copy=False)
        self.arrays[node["name"]] = np.ascontiguousarray(little).reshape(array.shape)
        return node

    def _object(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        name = type(value).__name__
        if name not in self.allowed or find_class(self.allowed, name) is not type(value):
            raise ModelFileError(
                f"{where} is a {name}, which cannot be saved; numbers, text, arrays, lists, "
                "tuples, dicts and the classes of outtrees can, and your own if you name them: "
                "save(..., classes=[...])"
            )
        if hasattr(value, "_asdict"):  # a named tuple
            parts = value._asdict()
            return {"kind": "named", "class": name, "fields": self._parts(parts, where, depth)}
        if is_dataclass(value):
            parts = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
            return {"kind": "dataclass", "class": name, "fields": self._parts(parts, where, depth)}
        return self._estimator(value, name, where, depth)

    def _estimator(self, value: Any, name: str, where: str, depth: int) -> dict[str, Any]:
        if not hasattr(value, "get_params"):
            raise ModelFileError(f"{where} is a {name}, neither a dataclass nor an estimator")
        also = ALSO_FITTED.get(name, ())
        fitted = {k: v for k, v in vars(value).items() if FITTED.fullmatch(k) or k in also}
        dropped = NOT_SAVED.get(name, ())
        params = {k: v for k, v in value.get_params(deep=False).items() if k not in dropped}
        return {
            "kind": "estimator",
            "class": name,
            "params": self._parts(params, where, depth),
            "fitted": self._parts(fitted, where, depth),
        }

    def _parts(self, parts: Mapping[str, Any], where: str, depth: int) -> dict[str, Any]:
        return {k: self.encode(v, f"{where}.{k}", depth + 1) for k, v in parts.items()}
