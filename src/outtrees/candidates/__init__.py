"""Candidates: which parents each record may have, which of these are listed, and what that drops.

A fit over all pairs takes O(T²) memory; a fit over candidates keeps the best few parents of each
record. There is one interface with two ways to rank parents, since records come in two forms:

======================  ==============================  =====================================
step                    rows of a matrix                records of a table
======================  ==============================  =====================================
what ranks a parent     a mutation whose density falls  a lineage: kernels of columns, with
                        with distances in a space       missing cells, dates and sequences
who may be a parent     everyone                        `edges.Constraints`, `windows` of dates
the best parents        `matrix_search.nearest_parents` `table_search.best_parents`: a compiled
                        (search trees)                  `scan`, or `proposals` if too many pairs
the list of edges       `matrix_candidates`             `table_candidates`
the parents left out    `parent_sample` (fit),          `table_dropped_mass`
                        `matrix_dropped_mass`
======================  ==============================  =====================================

A table has no space in which a tree of neighbours could search: a column may be missing in one
record, dates forbid half of all pairs, and a category is as far from any other. A matrix has one,
and O(T log T) searches with it. Both ways add `links` where the best parents leave no out-tree,
report one `DroppedMass`, and ask one `plan` for memory before anything is allocated.
"""

from outtrees.candidates.dropped_mass import DroppedMass, table_dropped_mass
from outtrees.candidates.edges import Constraints, PossibleEdges, all_edges, constraints
from outtrees.candidates.table_search import best_parents, table_candidates
from outtrees.candidates.windows import Windows, date_windows, in_order

__all__ = [
    "Constraints",
    "DroppedMass",
    "PossibleEdges",
    "Windows",
    "all_edges",
    "best_parents",
    "constraints",
    "date_windows",
    "in_order",
    "table_candidates",
    "table_dropped_mass",
]
