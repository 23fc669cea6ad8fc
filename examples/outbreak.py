"""
An outbreak: who infected whom?
===============================

For epidemiologists. From a line list with dates of onset, wards and sequences, ``outtrees`` estimates who infected
whom. It returns the probable infectors of every case with their probabilities, draws figures for a situation report,
and writes one HTML file to pass on.

From a shell, ``outtrees demo`` writes the files of this page, and one command does what follows::

    outtrees ancestry outtrees-demo/cases.csv --id case --date onset \\
        --sequences outtrees-demo/dna.fasta --out results
"""

# %%
# The records
# -----------
# Forty cases of a simulated outbreak with two introductions. The analysis does not see the true infectors, which
# are in ``outbreak.infectors``.

from outtrees import Ancestry
from outtrees.datasets import make_outbreak

outbreak = make_outbreak(40, random_state=7)
for name, cells in outbreak.table.items():
    print(f"{name:6}", *cells[:5])

# %%
# Fit
# ---
# ``fit`` takes a path to a CSV or Excel file, a pandas or polars data frame, or a dictionary of columns;
# ``sequences=`` may be a path to an aligned FASTA file. The kind of each column is guessed from its name and cells.

model = Ancestry(id="case", random_state=0)
found = model.fit(outbreak.table, sequences=outbreak.sequences)
print(found.records.describe())

# %%
# Read the warnings first: they say what the table leaves open, and which option helps.

for warning in found.warnings_:
    print("-", warning)

# %%
# Probable infectors
# ------------------
# One row for each probable infector (``parent``) of each case. An empty parent means that the case was introduced.
# ``to_pandas()`` returns the table as a data frame.

parents = found.parents(min_support=0.1)
parents.head(12)

# %%
# The consensus tree, which has the largest expected number of right parents, by date of onset. Wide, dark lines
# have high support.

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
# Suppose that contact tracing shows that case 1, which has little support, infected case 14. The time between the two
# is long, so longer waiting times become more probable, and the supports of other cases change a little as well. The
# largest changes:

print(found.what_if({"case14": "case01"}, min_change=0.03))

# %%
# Evidence of each column
# -----------------------
# ``gain`` is how many nats of evidence a column adds beyond the same column shuffled among the cases, with the
# standard error over the shuffles. Ages add nothing here, and the fit left them out.

found.column_evidence(n_shuffles=2, random_state=0)

# %%
# Comparison with the truth
# -------------------------
# ``expected_right_`` is the number of right infectors that the supports promise. In single outbreaks the true number
# is sometimes below, sometimes above it.

tree = found.named_tree()
right = sum((tree[case] or "") == infector for case, infector in outbreak.infectors.items())
print(f"{right} of {len(tree)} right; {found.expected_right_:.1f} expected")

# %%
# Files for others
# ----------------
# The report is one HTML file that opens offline. Trees go to other tools as Newick, NEXUS or GraphML.

import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
found.report(folder / "report.html")
found.to_newick(folder / "tree.newick")
found.to_csv(folder / "parents.csv")
print(sorted(path.name for path in folder.iterdir()))
