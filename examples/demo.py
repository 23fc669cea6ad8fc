"""Twelve records in two places: who came from whom, and how sure may one be?"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from outtrees import OutTreeDistribution
from outtrees.views.parents import parent_table, plot_parents

NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jill", "Kurt", "Lena"]


def main() -> None:
    """Print the table and draw the picture."""
    # Two groups twenty standard deviations apart:
    # here the textbook determinant has no digit left.
    rng = np.random.default_rng(4)
    places = rng.normal(size=(12, 2))
    places[6:, 0] += 20.0
    squared_distance = ((places[:, None] - places[None]) ** 2).sum(axis=-1)
    dist = OutTreeDistribution(-2.0 * squared_distance)  # child ~ N(parent, I / 4)

    print(f"{dist}: {12**11:,} possible out-trees, all summed")
    print(f"log Z = {dist.log_z:.6f}   entropy = {dist.entropy:.3f} nats\n")
    parents, log_prob = dist.mode()
    best = [f"{NAMES[v]}→{NAMES[u]}" for u, v in enumerate(parents) if v >= 0]
    print(f"Most probable tree (p = {np.exp(log_prob):.2g}): {', '.join(best)}")
    consensus = dist.consensus()
    print(f"Consensus tree: {consensus.expected_right:.2f} of 12 parents expected right\n")

    print(f"{'child':8}{'parent':10}support")
    for child, parent, support in parent_table(dist, NAMES, min_support=0.2):
        print(f"{child:8}{parent or '(root)':10}{support:7.3f}  {'█' * round(30 * support)}")

    picture = Path("outtrees-demo") / "parents.png"
    picture.parent.mkdir(exist_ok=True)
    figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
    plot_parents(dist, places, NAMES, ax=ax)
    ax.set_title("Every likely parent; arrows as wide as their probability")
    figure.savefig(picture, dpi=110)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
