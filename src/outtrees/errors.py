"""What can go wrong, one small hierarchy; every message says what came and what to do."""


class OutTreesError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidWeightsError(OutTreesError, ValueError):
    """Log-weights that no distribution over out-trees can be built from."""


class NoSpanningTreeError(OutTreesError, ValueError):
    """The allowed edges and roots leave no out-tree that reaches every record."""


class RecordsError(OutTreesError, ValueError):
    """Records that cannot be read as they stand; the message names file, line and column."""


class ModelFileError(OutTreesError, ValueError):
    """A model that cannot be saved, or a file that is no model, is damaged or is refused."""


class RunFolderError(OutTreesError, ValueError):
    """A folder of results that belongs to another run, or is damaged."""
