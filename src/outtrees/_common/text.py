"""Numbers as words of a sentence."""

from __future__ import annotations


def short_number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits, never as a power of ten.

    Examples
    --------
    >>> short_number(7.25), short_number(1096.4), short_number(182.5, 2)
    ('7.25', '1,096', '182')
    """
    return f"{value:,.0f}" if value >= 10**digits else f"{value:.{digits}g}"
