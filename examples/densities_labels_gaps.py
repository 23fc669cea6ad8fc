"""
Densities, labels and gaps with scikit-learn habits
===================================================

For data scientists. The same sum over all trees gives a density estimator that also finds outliers, a
semi-supervised classifier, and an imputer. They take arrays and data frames and follow the conventions of
scikit-learn.
"""

# %%
# A density
# ---------
# Every record descends from another, unknown record. The fit learns how far children lie from their parents, and in
# which direction. The result lies between a single Gaussian and a kernel density estimate. In the plot, orange lines
# are probable parents.

from outtrees import OutTreeClassifier, OutTreeDensity, OutTreeImputer
from outtrees.datasets import load_diabetes, load_zoo, make_spiral

X = make_spiral(160)[:, :2]
density = OutTreeDensity("gaussian", random_state=0).fit(X)
density.plot()

# %%
# ``score_samples`` returns normalised log-densities of new records. ``OutTreeDensity()`` averages over six models of
# change, with weights that are learned from held-out records.

default = OutTreeDensity(random_state=0).fit(X)
new = make_spiral(300, random_state=1)[:, :2]
print(f"one Gaussian change: {density.score_samples(new).mean():.2f} nats a new record")
print(f"default:             {default.score_samples(new).mean():.2f}")
for name, weight in zip(*map(default.cv_results_.get, ("params", "weight")), strict=True):
    print(f"  {name}: weight {weight:.2f}")

# %%
# Outliers
# --------
# ``fit_predict`` compares each record with the others; ``predict`` and ``decision_function`` are for new records. The
# last three of these records, 160 to 162, are outliers.

import numpy as np

with_outliers = np.vstack([X, [[0.0, 0.0], [1.2, 1.2], [-1.2, -1.2]]])
detector = OutTreeDensity("gaussian", contamination=0.02, random_state=0)
print("outliers:", np.flatnonzero(detector.fit_predict(with_outliers) == -1))

# %%
# Labels
# ------
# Animals of a zoo, of which every third has its type. Attributes and types are inherited along the trees.
# ``transduction_`` has a label for every training record; ``predict`` and ``predict_proba`` are for new ones.

zoo = load_zoo()
known = np.where(np.arange(101) % 3 == 1, zoo.target, "?")
labels = OutTreeClassifier("categorical", unlabeled="?", random_state=0).fit(zoo.data, known)
hidden = known == "?"
right = (labels.transduction_ == zoo.target)[hidden].mean()
promised = labels.label_distributions_.max(axis=1)[hidden].mean()
print(f"{right:.0%} of {hidden.sum()} hidden types right; {promised:.0%} promised")

# %%
# Gaps
# ----
# Measurements of Pima women (glucose, blood pressure, skin fold, insulin, body-mass index) with missing cells. The
# imputer fills these in from the record's other cells and from its probable relatives, with a standard deviation for
# each cell. ``sample`` draws complete tables for multiple imputation.

diabetes = load_diabetes(subset="paper", zeros="nan").data[:80, 1:6]
imputer = OutTreeImputer("gaussian", random_state=0)
filled = imputer.fit_transform(diabetes)
print(f"{np.isnan(diabetes).sum()} cells filled in; the first three rows:")
print(filled[:3].round(1))
print("standard deviations:")
print(imputer.std_[:3].round(1))

# %%
# Data frames
# -----------
# Data frames may have categories, booleans and dates. ``sample_table`` draws new records; ``parent`` is the row that a
# new record descends from, among the new ones, and -1 for their root.

import pandas as pd

rng = np.random.default_rng(0)
frame = pd.DataFrame(
    {
        "weight": rng.normal(70, 10, 60),
        "smoker": rng.random(60) < 0.3,
        "region": pd.Categorical(rng.choice(["north", "south"], 60)),
        "admitted": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 40, 60), "D"),
    }
)
mixed = OutTreeDensity(random_state=0).fit(frame)
mixed.sample_table(4, random_state=0)
