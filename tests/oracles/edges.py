"""All edges that constraints leave, in one call."""

from outtrees.candidates import all_edges, constraints


def possible_edges(n_records, *args, **given):
    """Return all edges within groups that the constraints leave."""
    return all_edges(constraints(n_records, *args, **given))
