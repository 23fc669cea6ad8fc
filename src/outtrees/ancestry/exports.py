"""The ways out of a fitted ancestry: report, trees and tables as files."""

from __future__ import annotations

import os
from typing import Any

from outtrees.ancestry import reporting
from outtrees.io import write_csv
from outtrees.views.report import write_report


class Exports:
    """What `Ancestry` writes for people and other tools."""

    def report_data(self, command: str | None = None) -> Any:
        """Return what the report shows."""
        return reporting.report_data(self, command)

    def report(self, path: str | os.PathLike[str], command: str | None = None) -> Any:
        """Write the report, one HTML file that needs nothing else; return its path."""
        return write_report(self.report_data(command), path)

    def to_newick(self, path: Any = None, kind: str = "consensus", *, leaves: bool = False) -> str:
        """Return (and write) the tree as Newick, a line for each root."""
        return reporting.exported(self, "newick", path, kind, leaves=leaves)

    def to_nexus(self, path: Any = None, kind: str = "consensus", *, leaves: bool = False) -> str:
        """Return (and write) the tree as NEXUS."""
        return reporting.exported(self, "nexus", path, kind, leaves=leaves)

    def to_graphml(self, path: Any = None, kind: str = "consensus") -> str:
        """Return (and write) the tree as GraphML."""
        return reporting.exported(self, "graphml", path, kind)

    def to_networkx(self, kind: str = "consensus") -> Any:
        """Return the tree as a networkx graph, from parents to children."""
        return reporting.exported(self, "networkx", None, kind)

    def to_csv(self, path: str | os.PathLike[str], min_support: float = 0.01) -> Any:
        """Write the parents' table; return its path."""
        return write_csv(path, self.parents(min_support))
