"""What was observed: reading files, column kinds, missing values, identities."""

from outtrees.records.column import Column
from outtrees.records.matrix import read_matrix
from outtrees.records.reading import read_records
from outtrees.records.records import Records

__all__ = ["Column", "Records", "read_matrix", "read_records"]
