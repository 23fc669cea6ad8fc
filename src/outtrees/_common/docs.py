"""Sections that several docstrings share, written once."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def shared_docs(**sections: str) -> Callable[[_F], _F]:
    r"""Return a decorator of functions whose docstrings name some of these sections.

    A line that is {name} becomes the lines of the section of that name, indented as it is.

    Examples
    --------
    >>> @shared_docs(ax="ax : Axes, optional")
    ... def plot(ax): "Parameters\n    {ax}"
    >>> plot.__doc__.split()  # from Python 3.13 on docstrings come without their indentation
    ['Parameters', 'ax', ':', 'Axes,', 'optional']
    """

    def written(found: re.Match[str]) -> str:
        return textwrap.indent(sections[found[2]], found[1])

    def documented(function: _F) -> _F:
        if function.__doc__ is not None:  # as it is with python -OO
            named = rf"(?m)^( *)\{{({'|'.join(sections)})\}}$"
            function.__doc__ = re.sub(named, written, function.__doc__)
        return function

    return documented
