"""Errors and warnings that carry their facts as fields, so that no text is ever parsed.

An error says what is wrong and what to do, and holds the same facts as attributes: the records, the
column, the place in a file, the options. Its message is made of parts. An option is a part of its
own, an `Option`, so that Python and the command line each spell it in their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from types import EllipsisType
from typing import Any, Literal, NamedTuple, TypeAlias


class Option(NamedTuple):
    """An argument of the library that a message names, with or without a value.

    Parameters
    ----------
    name : str
        As Python calls it.
    value : object
        ``...`` names the option alone.

    Examples
    --------
    >>> print(Option("strict_dates", False), Option("id", "case"), Option("max_iter"))
    strict_dates=False id='case' max_iter
    """

    name: str
    value: Any = ...

    def __str__(self) -> str:
        """Return the option as Python spells it."""
        return self.name if isinstance(self.value, EllipsisType) else f"{self.name}={self.value!r}"


Part: TypeAlias = "str | Option"


class Message(str):
    """Text that remembers which of its parts are options; for everyone else it is a str.

    A warning of the library is such a text: ``warnings.warn(Message(...))``.

    Parameters
    ----------
    *parts : str, Option or Message
        What the text is made of, in order.

    Attributes
    ----------
    parts : tuple of str and Option
        What the text is made of.
    options : tuple of Option
        The options that it names.

    Examples
    --------
    >>> text = Message("the fit did not converge; raise ", Option("max_iter"))
    >>> print(text)
    the fit did not converge; raise max_iter
    >>> text.spelled(lambda option: "--" + option.name.replace("_", "-"))
    'the fit did not converge; raise --max-iter'
    """

    parts: tuple[Part, ...]

    def __new__(cls, *parts: Part) -> Message:
        """Join the parts; those of another Message are taken over."""
        flat: list[Part] = []
        for part in parts:
            flat += part.parts if isinstance(part, Message) else [part]
        text = super().__new__(cls, "".join(map(str, flat)))
        text.parts = tuple(flat)
        return text

    def __getnewargs__(self) -> tuple[Part, ...]:  # type: ignore[override]  # str has a single one
        """Return what a copy in another process is made of."""
        return self.parts

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that the text names."""
        return tuple(part for part in self.parts if isinstance(part, Option))

    def spelled(self, spell: Callable[[Option], str]) -> str:
        """Return the text with every option spelled by `spell`."""
        return "".join(spell(part) if isinstance(part, Option) else part for part in self.parts)


class OutTreesError(Exception):
    """Base of every error this library raises on purpose.

    Parameters
    ----------
    *parts : str, Option or Message
        What the message is made of, in order: "X must be …; got …. Do …".
    records : iterable of int or str
        The records concerned: identities where a table was given, else row numbers.
    column : str or int, optional
        The column concerned.
    file : str, optional
        The file concerned.
    line : int, optional
        The line of the file, counted from 1.

    Attributes
    ----------
    message : Message
        The text with its parts; ``str(error)`` is the same text, with options as in Python.
    options : tuple of Option
        The options that the message names.
    option : Option or None
        The first of these: the argument at fault, or else the one that helps.
    records, column, file, line
        As given.

    Examples
    --------
    >>> error = RecordsError("cases.csv is UTF-16; pass ", Option("encoding", "utf-16"),
    ...                      file="cases.csv")
    >>> print(error)
    cases.csv is UTF-16; pass encoding='utf-16'
    >>> error.file, error.option.name, error.option.value
    ('cases.csv', 'encoding', 'utf-16')
    """

    def __init__(
        self,
        *parts: Part,
        records: Iterable[int | str] = (),
        column: str | int | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(Message(*parts))
        self.records = tuple(records)
        self.column = column
        self.file = file
        self.line = line

    @property
    def message(self) -> Message:
        """The text with its parts."""
        message: Message = self.args[0]
        return message

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that the message names."""
        return self.message.options

    @property
    def option(self) -> Option | None:
        """The first option of the message: the argument at fault, or else the one that helps."""
        return self.options[0] if self.options else None


class ArgumentError(OutTreesError, ValueError):
    """An argument that cannot be used; `option` names it.

    Examples
    --------
    >>> error = ArgumentError(Option("max_iter"), " must be at least 1; got 0")
    >>> print(error.option, "|", error)
    max_iter | max_iter must be at least 1; got 0
    """


class InvalidWeightsError(OutTreesError, ValueError):
    """Log-weights that no distribution over out-trees can be built from."""


Cause: TypeAlias = Literal[
    "separate groups",  # several groups have no allowed parent outside themselves
    "excluded roots",  # only these records could be the root, and none of them may
    "no way to a root",  # allowed parents of these records never lead to a possible root
    "too many children",  # no tree obeys the largest number of children
    "excluded edge",  # a wanted edge, child and parent, is not among the possible ones
]


class NoSpanningTreeError(OutTreesError, ValueError):
    """The allowed edges and roots leave no out-tree that reaches every record.

    Parameters
    ----------
    *parts, records, column, file, line
        As in `OutTreesError`; `records` are those that the message speaks of.
    cause : str, optional
        "separate groups", "excluded roots", "no way to a root", "too many children" or
        "excluded edge".
    groups : iterable of iterables of int or str
        The groups of records that have no allowed parent outside themselves.

    Examples
    --------
    >>> error = NoSpanningTreeError(
    ...     "2 groups have no allowed parent outside themselves; allow one, or use ",
    ...     Option("roots", "any"), cause="separate groups", groups=[[0, 1], [2]])
    >>> error.cause, error.groups, str(error.option)
    ('separate groups', ((0, 1), (2,)), "roots='any'")
    """

    def __init__(
        self,
        *parts: Part,
        cause: Cause | None = None,
        groups: Iterable[Iterable[int | str]] = (),
        **fields: Any,
    ) -> None:
        super().__init__(*parts, **fields)
        self.cause = cause
        self.groups = tuple(tuple(group) for group in groups)


class RecordsError(OutTreesError, ValueError):
    """Records that cannot be read as they stand; the message names file, line and column."""


class MissingExtraError(OutTreesError, ImportError):
    """An optional library that is not installed; the message says how to install it."""


def library(name: str, message: str) -> Any:
    """Return an optional library, or raise `MissingExtraError` with the message."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(message) from None


class ModelFileError(OutTreesError, ValueError):
    """A model that cannot be saved, or a file that is no model, is damaged or is refused."""


class RunFolderError(OutTreesError, ValueError):
    """A folder of results that belongs to another run, or is damaged."""


def message_of(error: BaseException | str) -> Message:
    """Return the message of any error or warning, with its parts if it was made of some.

    Examples
    --------
    >>> message_of(MemoryError(Message("use ", Option("candidates", "knn")))).options
    (Option(name='candidates', value='knn'),)
    """
    first = error.args[0] if isinstance(error, BaseException) and error.args else error
    return first if isinstance(first, Message) else Message(str(error))
