"""Which classes a model may hold.

A class joins by its line in `CLASSES`, or by being named to `save` and `load`:

- a frozen dataclass (a mutation) is saved as its fields and made anew from them, with its checks;
- an estimator is saved as its parameters and the attributes that end in an underscore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

# Name in the file → module. Only what stands here is ever imported for a file.
CLASSES: dict[str, str] = {
    "BernoulliMutation": "outtrees.models.category",
    "CategoricalMutation": "outtrees.models.category",
    "CloudsMutation": "outtrees.models.clouds",
    "ColumnMutation": "outtrees.models.column",
    "GaussianMutation": "outtrees.models.normal",
    "KernelMutation": "outtrees.models.kernel",
    "MixtureMutation": "outtrees.models.mixture",
    "PoissonMutation": "outtrees.models.count",
    "ProductMutation": "outtrees.models.product",
    "DroppedMass": "outtrees.candidates.dropped_mass",
    "OutTreeDensity": "outtrees.density.estimator",
    # Variational Bayes
    "CategoricalPosterior": "outtrees.models.category",
    "GaussianPosterior": "outtrees.models.normal",
    "GaussianPrior": "outtrees.models.regression",
    "InverseWishart": "outtrees.models.covariance",
    "KernelPosterior": "outtrees.models.kernel",
    "MixturePosterior": "outtrees.models.mixture",
    "PointPosterior": "outtrees.models.posterior",
    "PoissonPosterior": "outtrees.models.count",
    "ProductPosterior": "outtrees.models.product",
    "BayesianOutTree": "outtrees.bayes.estimator",
    # Labels
    "CandidateLabelModel": "outtrees.labels.model",
    "Choice": "outtrees.labels.choice",
    "LabelAverage": "outtrees.labels.posterior",
    "LabelModel": "outtrees.labels.model",
    "PCA": "sklearn.decomposition",
    "OutTreeClassifier": "outtrees.labels.classifier",
    # Hidden cells
    "Columns": "outtrees.imputation.imputer",
    "Completions": "outtrees.density.incomplete",
    "Dummies": "outtrees.imputation.stack",
    "FittedModel": "outtrees.imputation.stack",
    "HiddenFit": "outtrees.imputation.em",
    "HiddenModel": "outtrees.imputation.model",
    "HiddenPosterior": "outtrees.imputation.posterior",
    "LinearEdges": "outtrees.imputation.model",
    "Table": "outtrees.imputation.stack",
    "OutTreeImputer": "outtrees.imputation.imputer",
    # Who came from whom
    "Column": "outtrees.records.column",
    "Records": "outtrees.records.records",
    "Samples": "outtrees.records.samples",
    "Contacts": "outtrees.models.columns.contacts",
    "Counts": "outtrees.models.count",
    "Distances": "outtrees.models.columns.matrices",
    "Drift": "outtrees.models.place",
    "GivenWeights": "outtrees.models.columns.matrices",
    "GroupedDrift": "outtrees.models.place",
    "Alone": "outtrees.models.columns.background",
    "Lineage": "outtrees.models.columns.lineage",
    "Reading": "outtrees.ancestry.learning",
    "PossibleEdges": "outtrees.candidates.edges",
    "Reversion": "outtrees.models.normal",
    "Spots": "outtrees.models.columns.sticky",
    "Sticky": "outtrees.models.columns.sticky",
    "Substitution": "outtrees.models.columns.substitution",
    "Transmission": "outtrees.models.columns.transmission",
    "TransmittedSequence": "outtrees.models.columns.transmission",
    "Waiting": "outtrees.models.columns.waiting",
    "WeightedDraws": "outtrees.inference.importance",
    "Ancestry": "outtrees.ancestry.estimator",
}
# Names in files of version 0.1 → names of today.
FORMER = {"LostMass": "DroppedMass", "FittedCandidate": "FittedModel"}
# Attributes of fitted estimators beside those that end in an underscore.
ALSO_FITTED: dict[str, tuple[str, ...]] = {
    "OutTreeDensity": ("_completions",),
    "OutTreeImputer": ("_columns", "_table", "_mean", "_cells", "_fitted", "_posteriors"),
}

# Parameters that only serve a fit under way, such as a progress display: not saved.
NOT_SAVED: dict[str, tuple[str, ...]] = {"Ancestry": ("progress",)}


def allowed_classes(classes: Iterable[type] = ()) -> dict[str, type | str]:
    """Return what may be saved and loaded: name → module, or the class itself."""
    return {**CLASSES, **{cls.__name__: cls for cls in classes}}


def current_fields(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass in a file of version 0.1 or later as those of today."""
    if name == "Column" and "projected" not in fields:
        # Version 0.1 wrote it into the reason only.
        return {**fields, "projected": "km east and north" in str(fields.get("reason"))}
    if name == "PossibleEdges" and "n_records" not in fields:
        return {**fields, "n_records": len(fields["groups"])}  # each record has a group
    return fields


def current_attributes(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fitted attributes of an estimator in a file as this version has them.

    Up to 0.1 the dropped mass of a density or a classifier was three numbers.
    """
    attributes = dict(fitted)
    if "dropped_mass_error_" in attributes:
        error, bound = (attributes.pop(f"dropped_mass_{part}_") for part in ("error", "bound"))
        n = min(200, len(attributes["X_"]))
        sampled = "estimate" if bound is None else "bound"
        kind = "exact" if n == len(attributes["X_"]) else sampled
        mass = find_class(CLASSES, "DroppedMass")
        attributes["dropped_mass_"] = mass(attributes["dropped_mass_"], error, n, kind, bound)
    return attributes


def find_class(allowed: Mapping[str, type | str], name: str) -> type:
    """Return an allowed class by its name."""
    found = allowed[name]
    if isinstance(found, str):
        cls: type = getattr(import_module(found), name)
        return cls
    return found
