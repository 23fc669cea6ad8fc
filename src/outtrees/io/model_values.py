"""Values of a model as JSON and arrays, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from outtrees._common.files import size_text
from outtrees._common.text import shown
from outtrees.errors import Message, ModelFileError, Option
from outtrees.io.model_classes import (
    ALSO_FITTED,
    FORMER,
    NOT_SAVED,
    current_attributes,
    current_fields,
    find_class,
)
from outtrees.records.files import MAX_BYTES

_DEEPEST = 60
_FITTED = re.compile(r"[a-zA-Z]\w*_", re.ASCII)
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


class Encoder:
    """Turns values into JSON; arrays are put aside."""

    def __init__(self, allowed: Mapping[str, type | str]) -> None:
        self.allowed = allowed
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: dict[Any, dict[str, Any]] = {}
        self._kept: list[np.ndarray] = []  # as long as these live no address is used twice

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return the value as JSON; `where` names it in messages."""
        if depth > _DEEPEST:
            raise ModelFileError(f"{where[:200]} is nested too deep, or holds itself")
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is Message:
            parts = [self._part(part, where, depth) for part in value.parts]
            return {"kind": "message", "parts": parts}
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

    def _part(self, part: str | Option, where: str, depth: int) -> Any:
        """Return a part of a message: a text, or an option, whose value may be left open."""
        if not isinstance(part, Option):
            return part
        open_ = {} if part.value is ... else {"value": self.encode(part.value, where, depth + 1)}
        return {"kind": "option", "name": part.name, **open_}

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
        fitted = {k: v for k, v in vars(value).items() if _FITTED.fullmatch(k) or k in also}
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


class Decoder:
    """Turns JSON back into values; whatever `Encoder` does not write is refused.

    `max_bytes` bounds what arrays and texts take together. An array counts as often as the file
    refers to it, and eight bytes a number: whoever is made from it may copy it as floats.
    """

    def __init__(
        self,
        allowed: Mapping[str, type | str],
        arrays: dict[str, np.ndarray],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.allowed = allowed
        self.arrays = arrays
        self.max_bytes = max_bytes
        self._taken = 0
        self.used: set[str] = set()
        self._made: dict[str, np.ndarray] = {}  # the same node again is the same array

    def decode(self, node: Any, where: str, depth: int = 0) -> Any:
        """Return the value of a node; `where` names it in messages."""
        if depth > _DEEPEST:
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
            raise ModelFileError(f"{where}: {shown(reason, 200)}") from error

    def _make_float(self, node: dict[str, Any], where: str, depth: int) -> float:
        return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[node["value"]]

    def _make_message(self, node: dict[str, Any], where: str, depth: int) -> Message:
        return Message(*self.decode(self._list(node["parts"]), where, depth))

    def _make_option(self, node: dict[str, Any], where: str, depth: int) -> Option:
        value = self.decode(node["value"], where, depth) if "value" in node else ...
        return Option(str(node["name"]), value)

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
        self._take(8 * self.arrays[node["name"]].size, where)
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
        self._take(4 * len(items) * max((len(item) for item in items), default=0), where)
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
        found = {k: self.decode(v, f"{where}.{k}", depth) for k, v in node["fields"].items()}
        return cls(**current_fields(name, found))

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
            known = _FITTED.fullmatch(key) or key in ALSO_FITTED.get(name, ())
            if not known or hasattr(cls, key):
                raise ModelFileError(f"{where} ({name}): unknown attribute {key[:60]!r}")
            setattr(model, key, value)
        return model

    def _take(self, n_bytes: int, where: str) -> None:
        """Count bytes that are about to be allocated; refuse too many."""
        self._taken += n_bytes
        if self._taken > self.max_bytes:
            raise ModelFileError(
                f"{where[:200]}: its arrays and texts would take more than "
                f"{size_text(self.max_bytes)}, far more than the file; it is refused"
            )

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
            raise ModelFileError("items must be a list")
        return items
