"""
Filmed cells: which cell divided into which?
============================================

For cell biologists. A tracking program follows each cell from its birth to its division, but not across
divisions. From one row for each cell and frame, ``outtrees`` finds the mother of every cell.
"""

# %%
# A film
# ------
# Twelve founder cells divide at random and wander about. The table has what a tracking program writes: the
# number of the track, the frame, and where the cell was. The mothers are kept aside.

import numpy as np

rng = np.random.default_rng(4)
LAST = 90  # frames
table = {"track": [], "frame": [], "x": [], "y": []}
mother = {}
waiting = [(0, rng.uniform(0, 300, 2), None) for _ in range(12)]  # birth, place, mother
while waiting:
    birth, place, parent = waiting.pop(0)
    track = f"c{len(mother) + 1:02}"
    mother[track] = parent
    division = birth + round(rng.gamma(25, 35 / 25))
    for frame in range(birth, min(division, LAST)):
        table["track"].append(track)
        table["frame"].append(frame)
        table["x"].append(round(float(place[0]), 1))
        table["y"].append(round(float(place[1]), 1))
        place = place + rng.normal(scale=3.0, size=2)
    if division < LAST:
        for side in (-6.0, 6.0):  # daughters lie beside where the mother divided
            beside = place + np.array([side, 0.0]) + rng.normal(scale=3.0, size=2)
            waiting.append((division, beside, track))
print(f"{len(mother)} cells, {len(table['track'])} rows, of which the first is")
print({name: cells[0] for name, cells in table.items()})

# %%
# Find the mothers
# ----------------
# The table is recognised as one of tracks: a record for each cell, with the first frame as its date, the last as
# its end, and its first and last place. Daughters wait from the mother's *end*.

from outtrees import Ancestry

found = Ancestry(id="track", random_state=0).fit(table)
print(found.records.notes[0])
for sentence in found.describe():
    print("-", sentence)

# %%
found.parents(min_support=0.2).head(10)

# %%
# The pedigree, by birth:

found.plot()

# %%
# The same in space. A cell stands where it was born.

found.plot_map()

# %%
# At most two daughters
# ---------------------
# A cell divides into two. Sums over trees do not know that; where it matters, ``limited_parents`` samples
# trees that obey the limit and reports the sampling error.

limited = found.limited_parents(2, min_support=0.2, n_sweeps=2000, random_state=0)
print(limited.head(5))

# %%
# Was it right?
# -------------

tree = found.named_tree()
right = sum(tree[cell] == true for cell, true in mother.items())
print(f"{right} of {len(mother)} right; {found.expected_right_:.1f} expected")
