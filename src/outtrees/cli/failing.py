"""How a failure is told: one line that names the place and the remedy, and an exit code."""

from __future__ import annotations

import re

import click

# What Python calls name=value is an option here; a message from below is put in those words.
_OPTIONS = (
    "candidates|censored|date_uncertainty|distances|encoding|forbidden|generation_time|generations|id|"
    "known_parents|log_weights|max_bytes|max_children|max_iter|min_support|missing|mutation|n_draws|roots|root|"
    "sequences|stickiness|sharpness|substitution|unsequenced|until|waiting_mean|waiting_sd"
)
_SWITCHES = "background|clock|group_spread|quotes|strict_dates|ties"
_VALUE = r"(?:'(?P<text>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<bare>[\w.+-]*[\w]|\.\.\.))"
_GIVEN = re.compile(rf"(?<![\w-])(?P<name>{_OPTIONS})=(?:{_VALUE})")
_SWITCH = re.compile(rf"(?<![\w-])(?P<name>{_SWITCHES})=(?P<value>True|False)")
# Names that can be nothing else; quotation marks make a name that of a column.
_BARE = re.compile(
    r"(?<![\w'\"-])(?:date_uncertainty|generation_time|known_parents|log_weights|max_bytes|max_iter|"
    r"max_children|group_spread|"
    r"min_support|n_candidates|n_draws|waiting_mean|waiting_sd|strict_dates)(?![\w'\"=])"
)
_NAMES = {"forbidden": "forbid", "known_parents": "known-parent"}
_LONGEST = 2000


class CommandError(click.ClickException):
    """Something the command line itself refuses; input unless another exit code is given."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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
        (ValueError, 2),
    ):
        if isinstance(error, kinds):
            return code
    return 1


def one_line(error: BaseException) -> str:
    r"""Return what to print of an error: no line breaks, no control characters.

    Examples
    --------
    >>> print(one_line(ValueError("x.csv is UTF-16;\npass encoding='utf-16'")))
    x.csv is UTF-16; pass --encoding utf-16
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
        return spoken(str(error)) or "the memory is used up; give fewer records"
    if exit_code(error) == 1:
        return flat(
            f"unexpected {type(error).__name__}: {error}; this is a fault of the program, --debug "
            "shows where"
        )
    return spoken(str(error)) or f"unexpected {type(error).__name__}; --debug shows where"


def spoken(message: str) -> str:
    """Return a message of the library in the words of the command line, on one line.

    Examples
    --------
    >>> print(spoken("pass id='case', or strict_dates=False; limit 4 GB (max_bytes)"))
    pass --id case, or --no-strict-dates; limit 4 GB (--max-bytes)
    """

    def option(found: re.Match[str]) -> str:
        text = next((t for t in (found["text"], found["double"], found["bare"]) if t), "")
        return f"--{_option_name(found['name'])} {_word(text)}"

    def switch(found: re.Match[str]) -> str:
        no = "no-" if found["value"] == "False" else ""
        return f"--{no}{found['name'].replace('_', '-')}"

    message = re.sub(r"kinds=\{'([^']*)': '(\w+)'\}", r"--kind '\1=\2'", message)
    text = _SWITCH.sub(switch, _GIVEN.sub(option, flat(message)))
    return _BARE.sub(lambda found: f"--{_option_name(found[0])}", text)


def _option_name(name: str) -> str:
    return _NAMES.get(name, name.replace("_", "-"))


def flat(text: str) -> str:
    """Return text on one line, what would steer a terminal written as an escape, cut if long."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line[:_LONGEST])
    return line


def _word(text: str) -> str:
    return text if re.fullmatch(r"[\w.,+/-]+", text) else f"'{text}'"
