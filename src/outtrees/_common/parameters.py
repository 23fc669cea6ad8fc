"""Parameters of estimators: what they may be, and the base of those that do without scikit-learn.

scikit-learn brings pandas and most of SciPy, which take longer to import than a small table takes
to fit; it is imported where one of its errors or pictures is asked for.
"""

from __future__ import annotations

import inspect
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np


class Interval(NamedTuple):
    """Numbers in a range; None: no limit."""

    kind: type[Integral] | type[Real]
    low: float | None
    high: float | None
    closed: Literal["left", "right", "both", "neither"]

    def takes(self, value: Any) -> bool:
        """Return whether a value is such a number; True and False are none."""
        if not isinstance(value, self.kind) or isinstance(value, (bool, np.bool_)):
            return False
        number: Any = value
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        above = number >= low if self.closed in ("left", "both") else number > low
        return bool(
            above and (number <= high if self.closed in ("right", "both") else number < high)
        )

    def __str__(self) -> str:
        written = int if self.kind is Integral else float
        low = "-inf" if self.low is None else written(self.low)
        high = "inf" if self.high is None else written(self.high)
        left = "[" if self.closed in ("left", "both") else "("
        right = "]" if self.closed in ("right", "both") else ")"
        what = "an int" if self.kind is Integral else "a float"
        return f"{what} in the range {left}{low}, {high}{right}"


class StrOptions(NamedTuple):
    """One of some words."""

    words: set[str]

    def takes(self, value: Any) -> bool:
        """Return whether a value is one of them."""
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.words)))}}}"


# Words that stand for several constraints.
_SEVERAL: dict[str, list[Any]] = {
    "verbose": ["boolean", Interval(Integral, 0, None, "left")],
    "random_state": [Interval(Integral, 0, 2**32 - 1, "both"), np.random.RandomState, None],
}


def _takes(constraint: Any, value: Any) -> bool:
    is_bool = isinstance(value, (bool, np.bool_))
    if constraint is None:
        return value is None
    if constraint == "boolean":
        return is_bool
    if constraint == "array-like":
        sized = any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))
        return sized and not np.isscalar(value)
    if isinstance(constraint, type):
        return isinstance(value, constraint) and not is_bool
    return bool(callable(value) if constraint is callable else constraint.takes(value))


def _words(constraint: Any) -> str:
    if isinstance(constraint, type):
        return f"an instance of {constraint.__qualname__!r}"
    if constraint == "array-like":
        return "an array-like"
    if constraint == "boolean":
        return "an instance of 'bool'"
    return "a callable" if constraint is callable else str(constraint)


def check_params(estimator: Any) -> None:
    """Raise scikit-learn's InvalidParameterError for the first parameter out of range.

    Unlike scikit-learn, True is not accepted for 1 where a number is asked for.
    """
    for name, value in estimator.get_params(deep=False).items():
        if name not in estimator._parameter_constraints:  # of a class that extends an estimator
            continue
        constraints = [
            part
            for constraint in estimator._parameter_constraints[name]
            for part in (_SEVERAL[constraint] if constraint in list(_SEVERAL) else [constraint])
        ]
        if not any(_takes(constraint, value) for constraint in constraints):
            from sklearn.utils._param_validation import InvalidParameterError

            *first, last = map(_words, constraints)
            allowed = f"{', '.join(first)} or {last}" if first else last
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {allowed}. Got "
                f"{value!r} instead."
            )


class Parameters:
    """What scikit-learn's BaseEstimator does, which takes a second to import: the parameters of
    the constructor by name, for `clone`, searches of parameters and notebooks.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            For scikit-learn; parameters have no parameters of their own.

        Returns
        -------
        dict
            Name → value.
        """
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        known = inspect.signature(type(self)).parameters.items()
        return {name: getattr(self, name) for name, one in known if one.kind not in several}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; return the estimator.

        Parameters
        ----------
        **params
            Name → value.

        Returns
        -------
        estimator
            Itself.

        Raises
        ------
        ValueError
            If there is no parameter of that name.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{name!r} is not a parameter of {type(self).__name__}; its parameters are "
                    f"{', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(usual[name].default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)
