"""A run that would not fit into memory is refused before anything is allocated."""

from __future__ import annotations

from outtrees.cli.failing import CommandError


def refuse_too_large(what: str, needed: int, free: int | None, remedy: str) -> None:
    """Raise an error with exit code 4 if more memory is needed than there is."""
    from outtrees._common.files import size_text

    if free is not None and needed > free:
        raise CommandError(
            f"{what} needs about {size_text(needed)} of memory; {size_text(free)} are free. "
            f"{remedy}",
            exit_code=4,
        )
