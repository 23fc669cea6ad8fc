"""
Manuscripts: which copy was made from which?
============================================

For stemmatologists, and for anyone with a matrix of characters, such as variant readings or the morphology of
species. There are no dates, one witness is incomplete, and one copy is lost.
"""

# %%
# Witnesses and readings
# ----------------------
# Thirteen witnesses of a text with 120 places of variation. A scribe changes one place in thirty. A is the original,
# one copy is lost, and witness M lacks the second half.

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
# Each place of variation is a category: a copy keeps the reading of its source, or changes it. Here the original is
# known (``root="A"``). Without dates and without a known original there is little evidence of the direction of copying,
# and a warning says so.

from outtrees import Ancestry

kinds = {name: "categorical" for name in table if name != "witness"}
found = Ancestry(id="witness", kinds=kinds, root="A", random_state=0).fit(table)
print(found.describe()[0])  # the first place; each place has its own parameters

# %%
# The consensus stemma. Thin lines have low support: another source is nearly as probable.

found.plot()

# %%
found.parents(min_support=0.15)

# %%
# What-if
# -------
# The sources of different witnesses depend on each other: if one source is fixed, the supports of others change.

print(found.what_if({"F": "C"}, min_change=0.05))

# %%
# Lost copies
# -----------
# F and G were copied from a lost copy of C. With ``links=2`` up to one lost copy may lie between a witness and its
# source. That helps little here: the model has no lost *common* source of two witnesses, so F and G still look like
# each other's source.

longer = Ancestry(id="witness", kinds=kinds, root="A", links=2, random_state=0).fit(table)
for row in longer.parents(min_support=0.15):
    if row.child in ("F", "G"):
        print(f"{row.child} from {row.parent}: {row.support:.2f}")

# %%
# Files for other tools
# ---------------------
# Newick, with witnesses also at internal nodes; ``to_nexus`` and ``to_graphml`` write other formats.

print(found.to_newick()[:70])

# %%
# Comparison with the truth
# -------------------------

tree = found.named_tree()
right = sum(tree[witness] == true for witness, true in truth.items())
print(f"{right} of {len(truth)} right; {found.expected_right_:.1f} expected")
