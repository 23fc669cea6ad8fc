"""Which classes a model may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

# Name in the file → module. Only what stands here is ever imported for a file.
CLASSES: dict[str, str] = {
    "BernoulliMutation": "outtrees.mutations.bernoulli",
    "CategoricalMutation": "outtrees.mutations.categorical",
    "GaussianMutation": "outtrees.mutations.gaussian",
    "KernelMutation": "outtrees.mutations.kernel",
    "MixtureMutation": "outtrees.mutations.mixture",
    "PoissonMutation": "outtrees.mutations.poisson",
    "ProductMutation": "outtrees.mutations.product",
    "OutTreeDensity": "outtrees.estimators.density",
    # Variational Bayes
    "CategoricalPosterior": "outtrees.mutations.posteriors.categorical",
    "GaussianPosterior": "outtrees.mutations.posteriors.gaussian",
    "GaussianPrior": "outtrees.mutations.posteriors.gaussian_prior",
    "InverseWishart": "outtrees.mutations.posteriors.inverse_wishart",
    "KernelPosterior": "outtrees.mutations.posteriors.kernel",
    "MixturePosterior": "outtrees.mutations.posteriors.mixture",
    "PoissonPosterior": "outtrees.mutations.posteriors.poisson",
    "ProductPosterior": "outtrees.mutations.posteriors.product",
    "BayesianOutTree": "outtrees.estimators.bayesian",
    # Labels
    "CandidateLabelModel": "outtrees.learning.labels.candidate_model",
    "Choice": "outtrees.learning.labels.choice",
    "LabelAverage": "outtrees.learning.labels.averaging",
    "LabelModel": "outtrees.learning.labels.model",
    "PCA": "sklearn.decomposition",
    "OutTreeClassifier": "outtrees.estimators.classifier",
    # Hidden cells
    "Columns": "outtrees.estimators.imputer_columns",
    "Completions": "outtrees.estimators.imputer_density",
    "Dummies": "outtrees.learning.hidden.dummies",
    "FittedCandidate": "outtrees.learning.hidden.stack",
    "HiddenFit": "outtrees.learning.hidden.fitting",
    "HiddenModel": "outtrees.learning.hidden.model",
    "HiddenPosterior": "outtrees.learning.hidden.posterior",
    "LinearEdges": "outtrees.learning.hidden.linear",
    "Table": "outtrees.learning.hidden.stack",
    "OutTreeImputer": "outtrees.estimators.imputer",
    # Who came from whom
    "Column": "outtrees.records.column",
    "Records": "outtrees.records.records",
    "Counts": "outtrees.mutations.columns.counts",
    "Distances": "outtrees.mutations.columns.matrices",
    "Drift": "outtrees.mutations.columns.drift",
    "GivenWeights": "outtrees.mutations.columns.matrices",
    "GroupedDrift": "outtrees.mutations.columns.grouped_drift",
    "Lineage": "outtrees.mutations.columns.lineage",
    "LostMass": "outtrees.learning.candidates.lost",
    "PossibleEdges": "outtrees.learning.candidates.edges",
    "Reversion": "outtrees.mutations.columns.reversion",
    "Sticky": "outtrees.mutations.columns.sticky",
    "Substitution": "outtrees.mutations.columns.substitution",
    "Waiting": "outtrees.mutations.columns.waiting",
    "Ancestry": "outtrees.ancestry.estimator",
}
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


def find_class(allowed: Mapping[str, type | str], name: str) -> type:
    """Return an allowed class by its name."""
    found = allowed[name]
    return getattr(import_module(found), name) if isinstance(found, str) else found
