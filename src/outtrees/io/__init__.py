"""Files: models, trees for other tools, tables.

Models are kept without pickle: arrays as safetensors, everything else as JSON beside them. A file
holds numbers, text and the names of classes; loading looks the names up in `CLASSES` and runs
nothing else. A checksum covers every byte. Text goes to disk with `write_text`, whole or not at
all.
"""

from outtrees._common.files import write_atomically as write_text
from outtrees.io.model_classes import CLASSES
from outtrees.io.model_files import FORMAT, load, save
from outtrees.io.tables import Table, neutral, to_csv, write_csv
from outtrees.io.trees import to_graphml, to_networkx, to_newick, to_nexus

__all__ = [
    "CLASSES",
    "FORMAT",
    "Table",
    "load",
    "neutral",
    "save",
    "to_csv",
    "to_graphml",
    "to_networkx",
    "to_newick",
    "to_nexus",
    "write_csv",
    "write_text",
]
