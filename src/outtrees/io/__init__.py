"""Models on disk, without pickle: arrays as safetensors, everything else as JSON beside them.

A file holds numbers, text and the names of classes; loading looks the names up in `CLASSES` and
runs nothing else. A checksum covers every byte. A class joins by its line in `CLASSES`, or by being
named to `save` and `load`:

- a frozen dataclass (a mutation) is saved as its fields and made anew from them, with its checks;
- an estimator is saved as its parameters and the attributes that end in an underscore.
"""

from outtrees.io.model_classes import CLASSES
from outtrees.io.model_files import FORMAT, load, save

__all__ = ["CLASSES", "FORMAT", "load", "save"]
