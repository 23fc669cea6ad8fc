"""How a failure is reported: one line that names the place and the remedy, and an exit code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from outtrees.errors import Message, MissingExtraError, Option, message_of

# The options of commands that are arguments of the library under another name.
_RENAMED = {
    "forbidden": "forbid",
    "kinds": "kind",
    "known_parents": "known-parent",
    "n_jobs": "jobs",
    "random_state": "seed",
}
# And those of the same name, with hyphens; any other argument is spelled as in Python.
_SAME = """
    background by candidates censored checkpoint clock date_uncertainty day_first distances
    contacts contacts_directed encoding extra_sequences place_end sheet tracks
    generation_time generation_mean generation_sd delay_mean delay_sd host variants
    introduction_distance
    links sampled substitution_rate transmission group_spread
    id log_weights max_bytes max_children max_iter method
    min_support missing mutation n_candidates n_draws quotes root roots scheduler sequences
    sharpness stays stickiness strict_dates substitution ties unsequenced until
    waiting_law waiting_mean waiting_sd disease keep na ignore introduction_column
"""
OPTIONS = {**_RENAMED, **{name: name.replace("_", "-") for name in _SAME.split()}}
_OFF = {"day-first": "month-first"}  # others begin with no-
_LONGEST = 2000
APP = "OUTTREES_APP"  # the variable by which the app says that a command runs for its page
# What its page has a place of its own for.
_ON_THE_PAGE = {
    "disease": "the disease (step 3)",
    "waiting_mean": "the mean time from parent to child (step 3)",
    "waiting_sd": "the standard deviation of that time (step 3)",
    **dict.fromkeys(("sequences", "contacts", "stays", "variants"), "that file (step 1)"),
    **dict.fromkeys(("distances", "log_weights", "generation_time"), "that file (step 1)"),
}
_KINDS = {"introduction_column": "introduction", "ignore": "ignore", "id": "id"}


class CommandError(click.ClickException):
    """Something the command line itself refuses; input unless another exit code is given."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class


def exit_code(error: BaseException) -> int:
    """Return 2 for input, 3 for files, 4 for memory, 130 for Ctrl-C, 1 for what nobody foresaw.

    Examples
    --------
    >>> exit_code(ValueError()), exit_code(FileNotFoundError()), exit_code(MemoryError())
    (2, 3, 4)
    """
    if isinstance(error, click.ClickException):
        return error.exit_code
    for kinds, code in (
        ((click.Abort, KeyboardInterrupt), 130),
        (MemoryError, 4),
        (OSError, 3),
        ((ValueError, MissingExtraError), 2),
    ):
        if isinstance(error, kinds):
            return code
    return 1


@contextmanager
def sound_model(path: Any, model: Any) -> Iterator[None]:
    """Refuse a model that fails in a way nobody foresaw: its checksum fits, its contents do not.

    A file says what its arrays are, and no file can be asked whether they make sense together; that
    shows when they are used.
    """
    try:
        yield
    except Exception as error:
        if exit_code(error) != 1:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise CommandError(
            f"{str(path)!r} holds a {type(model).__name__} whose contents do not belong together "
            f"({reason[:200]}); fit and save it again"
        ) from error


def one_line(error: BaseException, spell: Callable[[Option], str] | None = None) -> str:
    r"""Return what to print of an error: no line breaks, no control characters.

    Examples
    --------
    >>> print(one_line(ValueError(Message("UTF-16;\npass ", Option("encoding", "utf-16")))))
    UTF-16; pass --encoding utf-16
    >>> print(one_line(PermissionError(13, "Permission denied", "a.csv")))
    'a.csv': Permission denied
    """
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return "interrupted; no file is half-written"
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "outtrees"
        return flat(f"{error.format_message().rstrip('.')}; see '{where} --help'")
    if isinstance(error, click.ClickException):
        return flat(error.format_message())
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{str(error.filename)!r}: "
        return flat(f"{name}{error.strerror}")
    if isinstance(error, MemoryError):
        return told(message_of(error), spell) or "the memory is used up; give fewer records"
    if exit_code(error) == 1:
        return flat(
            f"unexpected {type(error).__name__}: {error}; this is a fault of the program, --debug "
            "shows where"
        )
    text = told(message_of(error), spell)
    return text or f"unexpected {type(error).__name__}; --debug shows where"


def told(text: str, spell: Callable[[Option], str] | None = None) -> str:
    """Return a text of the library on one line, its options as they are typed.

    In a command that the app runs, as they are chosen on its page.

    Examples
    --------
    >>> print(told(Message("pass ", Option("id", "case"), " or ", Option("strict_dates", False))))
    pass --id case or --no-strict-dates
    """
    if spell is None:
        spell = chosen if os.environ.get(APP) else typed
    return flat(text.spelled(spell) if isinstance(text, Message) else text)


def typed(option: Option) -> str:
    """Return an option as it is typed; one that no command has as in Python.

    Examples
    --------
    >>> typed(Option("max_iter")), typed(Option("kinds", {"day of onset": "date"}))
    ('--max-iter', "--kind 'day of onset=date'")
    >>> typed(Option("keep", ["age", "sex"]))
    '--keep age --keep sex'
    >>> typed(Option("quotes", False)), typed(Option("solver", "em"))
    ('--no-quotes', "solver='em'")
    """
    words = _words(option)
    if not words:
        return str(option)
    return " ".join(f"--{name}" + ("" if v is None else f" {_word(v)}") for name, v in words)


def chosen(option: Option) -> str:
    """Return an option as the page of `outtrees app` has it.

    Examples
    --------
    >>> chosen(Option("kinds", {"day of onset": "date"}))
    "the kind date for 'day of onset' (step 2)"
    >>> chosen(Option("keep", ["age", "sex"]))
    '“keep age”, “keep sex” (More options, step 3)'
    >>> chosen(Option("disease")), chosen(Option("strict_dates", False))
    ('the disease (step 3)', '“no-strict-dates” (More options, step 3)')
    """
    if option.name in _ON_THE_PAGE:
        return _ON_THE_PAGE[option.name]
    if option.name == "kinds" and isinstance(option.value, Mapping):
        kinds = (f"the kind {kind} for {name!r}" for name, kind in option.value.items())
        return ", ".join(kinds) + " (step 2)"
    if option.name in _KINDS and isinstance(option.value, str):
        return f"the kind {_KINDS[option.name]} for {option.value!r} (step 2)"
    words = _words(option)
    if not words:
        return str(option)
    told = ", ".join(f"“{name}" + ("”" if v is None else f" {v}”") for name, v in words)
    return f"{told} (More options, step 3)"


def _words(option: Option) -> list[tuple[str, str | None]]:
    """Return the names and values of the options of a command; none if no command has it."""
    if option.name not in OPTIONS or option.value is None:
        return []
    name, value = OPTIONS[option.name], option.value
    if value is ... or value is True:
        return [(name, None)]
    if value is False:
        return [(_OFF.get(name, f"no-{name}"), None)]
    if isinstance(value, Mapping):
        return [(name, f"{key}={item}") for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(name, str(item)) for item in value]
    return [(name, str(value))]


def _word(text: str) -> str:
    """Return text as one word of a command."""
    return text if re.fullmatch(r"[\w.,+/-]+", text) else f"'{text}'"


def flat(text: str) -> str:
    """Return text on one line, what would steer a terminal written as an escape, cut if long."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line[:_LONGEST])
    return line
