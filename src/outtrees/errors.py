"""What can go wrong, one small hierarchy; every message says what came and what to do."""


class OutTreesError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidWeightsError(OutTreesError, ValueError):
    """Log-weights that no distribution over out-trees can be built from."""


class NoSpanningTreeError(OutTreesError, ValueError):
    """The allowed edges and roots leave no out-tree that reaches every record."""
