"""The command line: load, call, print; no mathematics.

Nothing but click is imported until a command runs, so that help appears at once.
"""

from outtrees.cli.group import main

__all__ = ["main"]
