"""Labels on trees of listed edges: the part of a classifier that knows candidates."""

from __future__ import annotations

from typing import Any

from outtrees._common.types import Array
from outtrees.candidates.dropped_mass import DroppedMass, former_part, matrix_dropped_mass
from outtrees.candidates.matrix_search import matrix_candidates
from outtrees.candidates.plan import Plan, matrix_plan, matrix_way
from outtrees.errors import ArgumentError, Option
from outtrees.labels import LabelModel
from outtrees.labels.candidate_model import CandidateLabelModel
from outtrees.labels.choice import neighbourhoods
from outtrees.labels.classifier_fitting import FoundLabels
from outtrees.labels.refitting import AttributeMutations
from outtrees.models.edges import EdgeList

OF_CANDIDATES = ("dropped_mass_",)
_CHOICE_RECORDS = 1000  # among which settings are chosen
_EDGE_ARRAYS = 150  # measured peak: an elimination that keeps what drawing trees needs


def labels_plan(model: Any, n_records: int) -> Plan:
    """Return which pairs a fit of an `OutTreeClassifier` will look at, and what that needs."""
    return matrix_plan(model, n_records, **_memory_options(model))


def _memory_options(model: Any) -> dict[str, Any]:
    return {"can_be_sparse": not _needs_all(model), "edge_arrays": _EDGE_ARRAYS}


def _needs_all(model: Any) -> bool:
    joint = model.joint if isinstance(model.joint, str) else bool(model.joint)  # numpy's too
    return model.method == "hill-climb" or joint is True


class ListedLabels(FoundLabels):
    """A classifier whose `candidates_` may be "knn"; then its edges are listed."""

    candidates: str
    n_candidates: int
    neighbours: str
    method: str
    model_: LabelModel
    dropped_mass_: DroppedMass
    dropped_mass_error_ = former_part("error")
    dropped_mass_bound_ = former_part("bound")

    def _decided(self, n_records: int) -> str:
        """Return "dense" or "knn", before anything large is allocated."""
        if _needs_all(self) and self.candidates == "knn":
            raise ArgumentError(
                Option("candidates", "knn"),
                " is for method='posterior' with joint=False or 'fresh', but got "
                f"method={self.method!r}, joint={self.joint!r}; change them, or use ",
                Option("candidates", "dense"),
            )
        return matrix_way(self, n_records, **_memory_options(self))

    def _listed(
        self, mutations: AttributeMutations, known: Any, marginal: Array, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        """Return the mutations and the label model over listed pairs, its settings chosen."""
        X = self.X_
        listed = matrix_candidates(mutations.kept, X, self.n_candidates, self.neighbours)
        rows = neighbourhoods(listed.edges, known, _CHOICE_RECORDS, seed)
        classes = mutations.classes
        among = mutations._replace(classes=None if classes is None else classes[rows])
        some = self._chosen(among, X[rows], known[rows], marginal, seed)
        if self.choice_ is not None and self.choice_.best.log_fresh is None:
            mutations = mutations._replace(classes=None)
        self.dropped_mass_ = matrix_dropped_mass(
            mutations.kept, X, listed, sharpness=some.sharpness, random_state=0
        )
        model = mutations.candidate_model(
            X, listed.edges, marginal, some.stickiness, some.sharpness
        )
        return mutations, model

    def _as_matrix(self, edge: Array) -> Any:
        """Return values of listed edges (E,) as a sparse matrix; a matrix as it is."""
        if not isinstance(self.model_, CandidateLabelModel):
            return edge
        edges = EdgeList(self.model_.child, self.model_.parent, self.model_.n_records)
        return edges.matrix(edge)
