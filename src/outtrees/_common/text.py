"""Numbers, and text from outside, as parts of a sentence."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape


def short_number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits, never as a power of ten.

    Examples
    --------
    >>> short_number(7.25), short_number(1096.4), short_number(182.5, 2)
    ('7.25', '1,096', '182')
    """
    return f"{value:,.0f}" if value >= 10**digits else f"{value:.{digits}g}"


def shown(text: object, length: int = 60) -> str:
    r"""Return text from outside fit for a message: one line, no control characters, not too long.

    Examples
    --------
    >>> print(shown("a\nb"), shown("x" * 100, 8))
    a\nb xxxxxxx…
    """
    text = str(text)
    if len(text) > length:
        text = text[: length - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def quoted(text: object) -> str:
    """Return `shown` text in quotation marks."""
    return f"'{shown(text)}'"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "record"), counted(2000, "record")
    ('1 record', '2,000 records')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def first_ten(items: Sequence[str]) -> str:
    """Return up to ten items in quotation marks, and how many there are if there are more."""
    listed = ", ".join(quoted(item) for item in items[:10])
    return listed if len(items) <= 10 else f"{listed}, … ({len(items)} in all)"


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name with as many underscores behind it as make it another than those taken.

    Examples
    --------
    >>> free_name("x", {"x", "x_"}), free_name("y", {"x"})
    ('x__', 'y')
    """
    while name in taken:
        name += "_"
    return name


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Container[int] = ()
) -> str:
    """Return a table as a notebook shows it: cells are text, never markup; some end at the right.

    Examples
    --------
    >>> print(html_table(["child", "support"], [["<b>", "0.9"]], right={1}).splitlines()[2])
    <tr><td style="text-align: left">&lt;b&gt;</td><td style="text-align: right">0.9</td></tr>
    """

    def line(cells: Sequence[str], tag: str) -> str:
        inner = (
            f'<{tag} style="text-align: {"right" if i in right else "left"}">{escape(cell)}</{tag}>'
            for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(inner)}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table>\n<thead>{line(head, 'th')}</thead><tbody>\n{body}\n</tbody>\n</table>"
