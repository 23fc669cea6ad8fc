"""Trees and tables for other tools: Newick, NEXUS, GraphML, networkx, CSV.

Every function takes identities and parents, −1 at roots, of which there may be several; text goes
to disk with `write_text`, whole or not at all.
"""

from outtrees._common.files import write_atomically as write_text
from outtrees.io.graph import to_graphml, to_networkx
from outtrees.io.newick import NewickTree, read_newick, to_newick, to_nexus
from outtrees.io.table_files import neutral, to_csv, write_csv

__all__ = [
    "NewickTree",
    "neutral",
    "read_newick",
    "to_csv",
    "to_graphml",
    "to_networkx",
    "to_newick",
    "to_nexus",
    "write_csv",
    "write_text",
]
