"""What is compared on labels: out-trees in four forms, and six methods of scikit-learn.

Each method has several settings; each setting gives every record a probability for every class.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from outtrees._common.types import Array
from outtrees.inference import fit_mutation
from outtrees.labels import LabelModel, climb_labels, smoothed_marginal, weigh_trees
from outtrees.labels.choice import usual_sharpness
from outtrees.labels.refitting import AttributeMutations
from outtrees.models import CategoricalMutation, GaussianMutation, Mutation
from paper.label_tasks import components, indicators

OURS = ("hill-climb, as printed", "hill-climb", "posterior", "posterior, wide choice")
OTHERS = (
    "SVM linear",
    "SVM RBF",
    "SelfTraining(SVC)",
    "LabelSpreading",
    "LabelPropagation",
    "k-NN",
)
BASELINE = "most frequent label"
# Of the forms that choose the paper's α alone; for two classes α = 0.65, 0.8, 0.9, 0.95, 0.985.
STICKINESS = (0.3, 0.6, 0.8, 0.9, 0.97)
# Of the wide choice, beside five sharpnesses, two label priors, and attributes inherited or drawn
# afresh with the label.
WIDE_STICKINESS = (0.6, 0.9)
WIDE_SHARPNESS = 2.0 ** np.arange(-3, 2)  # of the usual one
N_TREES = {"posterior": 300, "posterior, wide choice": 60}
_STARTS = 2

Labels = NDArray[np.intp]


class Inputs(NamedTuple):
    """The records of one task as out-trees take them, mutations fitted without labels."""

    records: Array  # (T, D)
    mutation: Mutation
    printed: Mutation | None  # as the paper prints it; three components only


def our_inputs(codes: Array, inputs: str) -> Inputs:
    """Return the paper's three components, or the characters themselves with missing cells.

    Examples
    --------
    >>> from paper.characters import generated
    >>> our_inputs(generated().codes, "3d").records.shape
    (40, 3)
    """
    if inputs == "full":
        return Inputs(codes, fit_mutation(CategoricalMutation(), codes).mutation, None)
    Z = components(codes)
    near = fit_mutation(GaussianMutation("spherical", "identity"), Z).mutation
    printed = fit_mutation(GaussianMutation("spherical", "full"), Z).mutation
    return Inputs(Z, near, printed)


def other_inputs(codes: Array, inputs: str) -> Array:
    """Return the paper's three components, or indicator columns of all characters.

    Examples
    --------
    >>> from paper.characters import generated
    >>> other_inputs(generated().codes, "3d").shape
    (40, 3)
    """
    return indicators(codes) if inputs == "full" else components(codes)


def our_votes(
    inputs: Inputs,
    known: Labels,  # (T,), −1 where hidden
    n_classes: int,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Return for each form of the out-tree its settings' class probabilities, (n, T, C)."""
    uniform = np.full(n_classes, 1 / n_classes)

    def at(mutation: Mutation) -> LabelModel:
        return AttributeMutations(mutation).model(inputs.records, uniform, 0.9, 1.0)

    plain = at(inputs.mutation)
    models = [plain.with_options(stickiness=s) for s in STICKINESS]
    votes = {}
    if inputs.printed is not None:
        printed = at(inputs.printed)
        climbs = [
            _from_random_starts(printed.with_options(stickiness=s), known, rng) for s in STICKINESS
        ]
        votes["hill-climb, as printed"] = _hard(climbs, n_classes)
    climbs = [climb_labels(m, known, n_init=_STARTS, random_state=rng).labels for m in models]
    votes["hill-climb"] = _hard(climbs, n_classes)
    votes["posterior"] = _averaged(models, known, N_TREES["posterior"], rng)
    classes = AttributeMutations(inputs.mutation).knowing(known, n_classes)
    fresh = plain.with_options(log_fresh=classes.fresh(inputs.records, inputs.records))
    wide = [
        model.with_options(marginal=marginal, stickiness=s, sharpness=a)
        for model in (plain, fresh)
        for marginal in (uniform, smoothed_marginal(known, n_classes))
        for a in usual_sharpness(inputs.records.shape[1]) * WIDE_SHARPNESS
        for s in WIDE_STICKINESS
    ]
    name = "posterior, wide choice"
    votes[name] = _averaged(wide, known, N_TREES[name], rng)
    return votes


def other_votes(
    columns: Array,  # (T, D)
    known: Labels,  # (T,), −1 where hidden
    n_classes: int,
) -> dict[str, Array]:
    """Return for each other method its settings' class probabilities, (n, T, C)."""
    votes = {
        name: _competitor(models, semi, columns, known, n_classes)
        for name, (models, semi) in competitors(int((known >= 0).sum())).items()
    }
    counts = np.bincount(known[known >= 0], minlength=n_classes)
    most = np.full(len(known), counts.argmax())
    votes[BASELINE] = np.eye(n_classes)[most][None]
    return votes


def competitors(n: int) -> dict[str, tuple[list[Any], bool]]:
    """Return for each method its settings, and whether it takes unlabelled records too.

    Examples
    --------
    >>> {name: len(models) for name, (models, _) in competitors(8).items()}["SVM RBF"]
    20
    """
    gammas, wide = (0.03, 0.1, 0.3, 1.0, 3.0), (0.3, 1.0, 3.0, 10.0, 30.0)
    rbf = [{"C": C, "gamma": g} for C in (0.1, 1.0, 10.0, 100.0) for g in gammas]
    training = [SelfTrainingClassifier(_ScoredSVC(**o), criterion="k_best", k_best=5)
                for o in rbf[6:14:2]]  # fmt: skip
    spreading = [LabelSpreading(gamma=g, alpha=a) for g in wide for a in (0.1, 0.5, 0.9)]
    neighbours = [KNeighborsClassifier(k, weights=w)
                  for k in (1, 2, 3, 5, 7) if k <= n for w in ("uniform", "distance")]  # fmt: skip
    models: list[tuple[list[Any], bool]] = [
        ([SVC(kernel="linear", C=10.0**power) for power in range(-2, 4)], False),
        ([SVC(**options) for options in rbf], False),
        (training, True),
        (spreading, True),
        ([LabelPropagation(gamma=g, max_iter=300) for g in wide], True),
        (neighbours, False),
    ]
    return dict(zip(OTHERS, models, strict=True))


class _ScoredSVC(SVC):  # type: ignore[misc]
    """An SVC whose confidence is its decision value, squashed: no inner cross-validation."""

    def predict_proba(self, X: Array) -> Array:
        """Return numbers in the order of the decision values, one row a record."""
        value = np.asarray(self.decision_function(X))
        if value.ndim == 1:
            value = np.column_stack([-value, value]) / 2
        value = np.exp(value - value.max(axis=1, keepdims=True))
        return np.asarray(value / value.sum(axis=1, keepdims=True))


def _competitor(
    models: Sequence[Any], semi: bool, columns: Array, known: Labels, n_classes: int
) -> Array:
    rows = np.flatnonzero(known >= 0)
    votes = []
    for model in models:
        with warnings.catch_warnings():
            # Settings that do not converge, or whose kernel is so narrow that nothing is near
            # anything, take part as what they are, or not at all if they say nothing.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            try:
                model.fit(columns, known) if semi else model.fit(columns[rows], known[rows])
                found = _chances(model, columns)
            except ValueError:
                continue
        vote = np.zeros((len(columns), n_classes))
        vote[:, model.classes_] = found
        if np.isfinite(vote).all():
            votes.append(vote)
    return np.array(votes).reshape(-1, len(columns), n_classes)


def _chances(model: Any, columns: Array) -> Array:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(columns))
    return np.asarray(model.predict(columns)[:, None] == model.classes_, dtype=np.float64)


def _from_random_starts(model: LabelModel, known: Labels, rng: np.random.Generator) -> Labels:
    """Return the better end of climbs from random labels, as the paper begins."""
    starts = rng.integers(model.n_classes, size=(_STARTS, len(known)))
    climbs = [climb_labels(model, known, start=start) for start in starts]
    return max(climbs, key=lambda climb: climb.log_z).labels


def _averaged(
    models: Sequence[LabelModel], known: Labels, n_trees: int, rng: np.random.Generator
) -> Array:
    return np.array([weigh_trees(model, known, n_trees, rng).marginals for model in models])


def _hard(climbs: Sequence[Labels], n_classes: int) -> Array:
    return np.eye(n_classes)[np.array(climbs)]
