"""Files: models, trees and tables, other tools' formats (`FORMATS`), readers of theirs.

Models are kept without pickle: arrays as safetensors, everything else as JSON beside them. A file
holds numbers, text and the names of classes; loading looks the names up in `CLASSES` and runs
nothing else. A checksum covers every byte. Text goes to disk with `write_text`, whole or not at
all.
"""

from outtrees._common.files import write_atomically as write_text
from outtrees.io.formats import FORMATS
from outtrees.io.model_classes import CLASSES
from outtrees.io.model_files import FORMAT, load, save
from outtrees.io.readers import read_ctc, read_delta, read_geff
from outtrees.io.tables import Table, neutral, to_csv, write_csv
from outtrees.io.trees import to_graphml, to_networkx, to_newick, to_nexus

__all__ = [
    "CLASSES",
    "FORMAT",
    "FORMATS",
    "Table",
    "load",
    "neutral",
    "read_ctc",
    "read_delta",
    "read_geff",
    "save",
    "to_csv",
    "to_graphml",
    "to_networkx",
    "to_newick",
    "to_nexus",
    "write_csv",
    "write_text",
]
