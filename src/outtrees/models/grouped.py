"""Groups of columns, each with a model of its own: what products of models share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from outtrees._common.random import as_generator
from outtrees._common.types import Array


class Grouped:
    """A product over groups of columns, for mutations and for posteriors alike.

    A product is a frozen dataclass with the fields `groups`, (model, columns) pairs or one model
    that stands for a copy of it for every column, and `parts`, the started models, one per group.
    """

    _family: ClassVar[type]  # what the models are
    groups: Any
    parts: Any

    def __post_init__(self) -> None:
        if isinstance(self.groups, self._family):
            return
        owner, family = type(self).__name__, self._family.__name__
        columns: list[Any] = []
        for group in self.groups:
            pair = isinstance(group, tuple) and len(group) == 2
            if not (pair and isinstance(group[0], self._family)):
                raise ValueError(
                    f"{owner} expects groups as ({family.lower()}, columns) pairs, but got "
                    f"{group!r}; write for example (Gaussian{family}(), [0, 1])."
                )
            columns.extend(np.atleast_1d(np.asarray(group[1])).tolist())
        whole = all(isinstance(c, int) and not isinstance(c, bool) for c in columns)
        if not columns or not whole or sorted(columns) != list(range(len(columns))):
            raise ValueError(
                f"{owner} expects each of the columns 0, 1, ..., D − 1 in exactly one "
                f"group, but the groups hold {columns}; list every column once."
            )

    @property
    def _templates(self) -> list[Any]:
        if isinstance(self.groups, self._family):
            return [self.groups]
        return [model for model, _ in self.groups]

    @property
    def _columns(self) -> list[list[int]]:
        return [np.atleast_1d(np.asarray(columns)).tolist() for _, columns in self.groups]

    def _start(self, X: Array, random_state: Any) -> Self:
        if isinstance(self.groups, self._family):
            each: Sequence[Any] = [(self.groups, [d]) for d in range(X.shape[1])]
            return replace(self, groups=each)._start(X, random_state)  # type: ignore[type-var]
        D = sum(len(columns) for columns in self._columns)
        if X.shape[1] != D:
            raise ValueError(
                f"{type(self).__name__} knows {D} columns, but X has {X.shape[1]}; put every "
                "column of X in a group."
            )
        rng = as_generator(random_state)
        parts = [
            model.start(X[:, columns], rng)
            for model, columns in zip(self._templates, self._columns, strict=True)
        ]
        return replace(self, parts=tuple(parts))  # type: ignore[type-var]

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.parts is None else sum(len(columns) for columns in self._columns)

    @property
    def allows_missing(self) -> bool:
        """Whether some part accepts NaN cells; each decides for its own columns."""
        return any(model.allows_missing for model in self._templates)

    @property
    def parent_free(self) -> bool:
        """Whether all parts ignore the parent."""
        return all(model.parent_free for model in self._templates)

    def _each(self, *arrays: Array) -> list[tuple[Any, ...]]:
        """Return (part, its columns of each array) for each group."""
        return [
            (part, *[array[:, columns] for array in arrays])
            for part, columns in zip(self.parts, self._columns, strict=True)
        ]

    def _check_values(self, X: Array, name: str) -> None:
        if self.parts is not None:
            for part, block in self._each(X):
                part._checked(block, name)
