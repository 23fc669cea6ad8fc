"""
An outbreak: who infected whom?
===============================

For epidemiologists. A line list with dates of onset, wards and sequences goes in. The probable infectors of
every case come out, with their probabilities, figures for a situation report, and one HTML file to pass on.

From a shell, ``outtrees demo`` writes the files of this page, and one command does what follows::

    outtrees ancestry outtrees-demo/cases.csv --id case --date onset \\
        --sequences outtrees-demo/dna.fasta --out results
"""

# %%
# The records
# -----------
# Forty cases of a simulated outbreak with two introductions. ``outbreak.infectors`` is the truth, which the
# analysis does not see.

from outtrees import Ancestry
from outtrees.datasets import make_outbreak

outbreak = make_outbreak(40, random_state=7)
for name, cells in outbreak.table.items():
    print(f"{name:6}", *cells[:5])

# %%
# Fit
# ---
# ``table`` may be a path to a CSV or Excel file, a pandas or polars data frame, or a dictionary of columns;
# ``sequences`` a path to an aligned FASTA file. The kind of each column is guessed from its name and cells.

model = Ancestry(id="case", random_state=0)
found = model.fit(outbreak.table, sequences=outbreak.sequences)
print(found.records.describe())

# %%
# Read the warnings first: they say what the table does not settle, and what to state if you know it.

for warning in found.warnings_:
    print("-", warning)

# %%
# Probable infectors
# ------------------
# One row for each probable parent of each case. A case without a parent was introduced. In a notebook the
# table shows itself as HTML; ``to_pandas()`` makes a data frame of it.

parents = found.parents(min_support=0.1)
parents.head(12)

# %%
# The tree with the most expected right parents, by date of onset. Wide, dark lines have high support.

found.plot(color="ward")

# %%
# Supports of all pairs. A pale row is a case whose infector is uncertain.

found.plot_support()

# %%
# The epidemic curve, coloured by introduction.

found.plot_epicurve(color="introduction")

# %%
# Number of introductions
# -----------------------

for number, probability in enumerate(found.n_roots_):
    if probability > 0.01:
        print(f"{number} introductions: {probability:.0%}")

# %%
# What-if
# -------
# Suppose contact tracing shows that case 14 was infected by case 1, which has little support. The wait from case 1 to
# case 14 is long, so longer waits become more probable, and the supports of other cases move too.

print(found.what_if({"case14": "case01"}))

# %%
# Evidence of each column
# -----------------------
# ``gain`` is the evidence (in nats) that a column adds beyond the same column shuffled among the cases. Ages
# add none here, and were left out.

found.column_evidence(n_shuffles=2, random_state=0)

# %%
# Comparison with the truth
# -------------------------
# The truth is known here. ``expected_right_`` is how many parents the supports lead one to expect to be right;
# with other outbreaks the number of right ones is sometimes below, sometimes above it.

tree = found.named_tree()
right = sum((tree[case] or "") == infector for case, infector in outbreak.infectors.items())
print(f"{right} of {len(tree)} right; {found.expected_right_:.1f} expected")

# %%
# Files for others
# ----------------
# The report is one HTML file that opens offline, to zoom, search and click. Trees go to other tools as Newick,
# NEXUS or GraphML.

import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
found.report(folder / "report.html")
found.to_newick(folder / "tree.newick")
found.to_csv(folder / "parents.csv")
print(sorted(path.name for path in folder.iterdir()))
