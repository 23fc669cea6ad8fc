"""
Filmed cells: which cell divided into which?
============================================

For cell biologists. A tracking program follows each cell from its birth to its division, but not across
divisions. From one row for each cell and frame, ``outtrees`` finds the mother of every cell.
"""

# %%
# A film
# ------
# Twelve founder cells move and divide at random. The table has what a tracking program writes: the track, the frame,
# and the position of the cell. The true mothers are kept apart.

import numpy as np

rng = np.random.default_rng(4)
LAST = 90  # frames
table = {"track": [], "frame": [], "x": [], "y": []}
mother = {}
waiting = [(0, rng.uniform(0, 60, 2), None) for _ in range(12)]  # birth, place, mother
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
# Mothers
# -------
# ``outtrees`` recognises a table of tracks and makes one record of each cell, with its first frame as the date, its
# last frame as the end, and its first and last positions. Waiting times count from the *end* of the mother's track.

from outtrees import Ancestry

found = Ancestry(id="track", random_state=0).fit(table)
print(found.records.notes[0])
for sentence in found.describe():
    print("-", sentence)

# %%
# The twelve founders have no mother in the table. Cells with more than one probable mother:

likely = found.parents(min_support=0.05)
unsure = {row.child for row in likely if row.rank > 1}
for row in likely:
    if row.child in unsure:
        print(f"{row.child} from {row.parent or 'nobody'}: {row.support:.2f}")

# %%
# The pedigree, by birth:

found.plot()

# %%
# The same in space. Each point is where a cell was first seen.

found.plot_map()

# %%
# At most two daughters
# ---------------------
# A cell divides into two, which the sum over all trees does not take into account. ``limited_parents`` samples trees in
# which no cell has more than two daughters, and reports the sampling error. Supports that change by more than 0.1:

limited = found.limited_parents(2, min_support=0.05, n_sweeps=2000, random_state=0)
before = {(row.child, row.parent): row.support for row in likely}
for row in limited:
    was = before.get((row.child, row.parent), 0.0)
    if abs(row.support - was) > 0.1:
        print(f"{row.child} from {row.parent}: {was:.2f} → {row.support:.2f} ± {row.error:.2f}")

# %%
# Comparison with the truth
# -------------------------

tree = found.named_tree()
right = sum(tree[cell] == true for cell, true in mother.items())
print(f"{right} of {len(mother)} right; {found.expected_right_:.1f} expected")
best = {row.child: row.parent or None for row in limited if row.rank == 1}
right = sum(best[cell] == true for cell, true in mother.items())
print(f"{right} right with at most two daughters")
