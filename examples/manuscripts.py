"""
Manuscripts: which copy was made from which?
============================================

For stemmatologists, and anyone with a matrix of characters: variant readings, morphological characters of
species, versions of a file. There are no dates; some witnesses have gaps; some copies are lost.
"""

# %%
# Witnesses and readings
# ----------------------
# Thirteen witnesses of a text with 120 places where copies differ. A scribe changes one place in thirty; A is the
# original. One copy is lost, and witness M lacks the second half.

import numpy as np

rng = np.random.default_rng(3)
source = {
    "A": None, "B": "A", "C": "A", "D": "B", "E": "B", "lost": "C", "F": "lost", "G": "lost",
    "H": "D", "I": "D", "J": "E", "K": "G", "L": "G", "M": "H",
}  # fmt: skip
texts = {}
for witness, copied in source.items():
    if copied is None:
        texts[witness] = np.zeros(120, dtype=int)
        continue
    change = rng.random(120) < 1 / 30
    texts[witness] = np.where(change, rng.integers(1, 4, 120), texts[copied])
del texts["lost"]
truth = {w: ("C" if copied == "lost" else copied) for w, copied in source.items() if w != "lost"}

table = {"witness": list(texts)}
for place in range(120):
    readings = ["abcd"[texts[witness][place]] for witness in texts]
    if place >= 60:
        readings[-1] = ""  # M breaks off
    if len(set(readings)) > 1:
        table[f"place{place + 1}"] = readings
print(f"{len(table) - 1} places vary")

# %%
# Stemma
# ------
# Each place is a category: a copy keeps it, or changes it. The original is known; without it, or without dates, the
# direction of copying rests on little, and a warning says so.

from outtrees import Ancestry

kinds = {name: "categorical" for name in table if name != "witness"}
found = Ancestry(id="witness", kinds=kinds, root="A", random_state=0).fit(table)
print(found.describe()[0])

# %%
# The stemma. Where the line is thin, another source is nearly as probable.

found.plot()

# %%
found.parents(min_support=0.15)

# %%
# What-if
# -------
# Without dates, the sources of witnesses depend on each other: fix one source, and the supports of others move.

print(found.what_if({"F": "C"}, min_change=0.05))

# %%
# Lost copies
# -----------
# F and G were copied from a lost copy of C. With ``links=2`` up to one unobserved copy may lie between a witness
# and its source. C is then a probable source of both, but so is each of the other: a missing *common* source of two
# witnesses is not in the model, and makes one of them look like the source of the other.

longer = Ancestry(id="witness", kinds=kinds, root="A", links=2, random_state=0).fit(table)
for row in longer.parents(min_support=0.15):
    if row.child in ("F", "G"):
        print(row)

# %%
# Files for other tools
# ---------------------
# Newick with the witnesses at internal nodes, and NEXUS:

print(found.to_newick()[:70])

# %%
# Comparison with the truth
# -------------------------

tree = found.named_tree()
right = sum(tree[witness] == true for witness, true in truth.items())
print(f"{right} of {len(truth)} right; {found.expected_right_:.1f} expected")
