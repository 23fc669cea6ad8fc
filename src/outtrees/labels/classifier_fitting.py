"""How labels are found once the mutation is fitted: settings, chains, climbs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outtrees._common.types import Array
from outtrees.errors import Message, Option
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.labels import (
    Choice,
    LabelAverage,
    LabelModel,
    average_labels,
    choose_settings,
    climb_labels,
    label_posterior,
    weigh_trees,
)
from outtrees.labels.averaging import FEWEST_DRAWS
from outtrees.labels.choice import STICKINESS, sharpness_grid, usual_sharpness
from outtrees.labels.refitting import AttributeMutations, one_hot, refitted
from outtrees.trees import OutTreeDistribution

# Rounds of refits of label-dependent mutations, and trees drawn for each.
_JOINT_ROUNDS = 3
_WEIGHED_TREES = 200
_TRIED_TREES = 48  # for each setting and fold; half of them if there are twice as many settings
_HIGH_R_HAT, _LARGE_ERROR = 1.2, 0.05


class FoundLabels:
    """The part of a classifier that chooses settings and finds labels."""

    stickiness: float | str
    sharpness: float | str
    joint: bool | str
    joint_: bool | str
    method: str
    n_components: int | None
    n_chains: int
    n_draws: int
    burn_in: int
    n_init: int
    max_iter: int
    refit: bool
    n_features_in_: int
    candidates_: str
    X_: Array
    choice_: Choice | None

    def _decided_joint(self) -> bool | str:
        """Return `joint` as given, or what "auto" takes."""
        if self.joint != "auto":
            return self.joint if isinstance(self.joint, str) else bool(self.joint)
        left_open = "auto" in (self.stickiness, self.sharpness)
        return "either" if left_open and self.method == "posterior" else False

    def _all_pairs(
        self, mutations: AttributeMutations, known: Any, marginal: Array, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        """Return the mutations and the label model over all pairs, its settings chosen."""
        model = self._chosen(mutations, self.X_, known, marginal, seed)
        if self.joint_ is True and len(marginal) > 1:
            mutations, model = self._joint(mutations, model, known, seed)
        return mutations, model

    def _chosen(
        self, mutations: AttributeMutations, X: Array, known: Any, marginal: Array, seed: int
    ) -> LabelModel:
        """Return the model of these records with stickiness and sharpness as given, or chosen.

        Where attributes may be drawn afresh or not, the model is one in which they are; the choice
        says which was better.
        """
        self.choice_ = None
        model = mutations.model(X, marginal, 0.9, 1.0)
        D = int(self.n_components or self.n_features_in_)
        given = {
            name: float(value)
            for name, value in (("stickiness", self.stickiness), ("sharpness", self.sharpness))
            if not isinstance(value, str)
        }
        model = model.with_options(**{"sharpness": usual_sharpness(D), **given})
        # One label has no others to be predicted from; one class needs no choice.
        if len(given) == 2 or model.n_classes == 1 or (known >= 0).sum() < 2:
            return model

        def knowing(labels: Any) -> LabelModel:
            classes = mutations.knowing(labels, model.n_classes)
            return model.with_options(log_fresh=classes.fresh(X, X))

        self.choice_ = choose_settings(
            model,
            known,
            stickiness=[given["stickiness"]] if "stickiness" in given else STICKINESS,
            sharpness=[given["sharpness"]] if "sharpness" in given else sharpness_grid(D),
            n_features=D,
            random_state=seed,
            given=None if mutations.classes is None else knowing,
            also_plain=self.joint_ == "either",
            n_trees=_TRIED_TREES // (2 if self.joint_ == "either" else 1),
        )
        best = self.choice_.best
        return model.with_options(stickiness=best.stickiness, sharpness=best.sharpness)

    def _joint(
        self, mutations: AttributeMutations, model: LabelModel, known: Any, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        """Return the mutations of edges that keep and that change the label, and their model."""
        distributions = weigh_trees(model, known, _WEIGHED_TREES, seed).marginals
        for _ in range(_JOINT_ROUNDS):
            trees = model.trees(np.where(known >= 0, known, distributions.argmax(axis=1)))
            mutations = refitted(mutations, self.X_, trees, distributions, joint=True)
            model = mutations.model(self.X_, model.marginal, model.stickiness, model.sharpness)
            distributions = label_posterior(model, known, 1, 20, 5, seed).distributions
        return mutations, model

    def _sample_labels(self, model: LabelModel, known: Any, seed: int) -> None:
        fresh = model.log_fresh is not None
        settings = np.array([[1.0, model.stickiness, model.sharpness, fresh]])
        if self.choice_ is not None and self.joint_ is not True and self.candidates_ == "dense":
            settings = self.choice_.settings(max(1, self.n_draws // FEWEST_DRAWS))
        draws = (self.n_chains, self.n_draws, self.burn_in)
        average = average_labels(model, settings, known, *draws, random_state=seed)
        self._remember(average, len(average.label_draws))
        self._warn_of_noise(average)

    def _warn_of_noise(self, average: LabelAverage) -> None:
        error = float(average.standard_error.max())
        if len(average.weights) > 1:  # whose chains are too short for R-hat
            noisy, told = error > 2 * _LARGE_ERROR, ""
        else:
            noisy = error > _LARGE_ERROR and average.r_hat > _HIGH_R_HAT
            told = f"split R-hat {average.r_hat:.2f}, "
        if noisy:
            warnings.warn(
                Message(
                    f"OutTreeClassifier: the chains disagree ({told}error of a label probability "
                    f"up to {error:.2f}); raise ",
                    Option("n_draws", self.n_draws),
                    " or ",
                    Option("burn_in", self.burn_in),
                ),
                ConvergenceWarning,
                stacklevel=4,
            )

    def _climb(
        self, mutations: AttributeMutations, model: LabelModel, known: Any, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        fitted = {id(model): mutations}
        joint = mutations.changed is not None

        def refit(current: LabelModel, trees: OutTreeDistribution, labels: Any) -> LabelModel:
            distributions = one_hot(labels, current.n_classes)
            new = refitted(fitted[id(current)], self.X_, trees, distributions, joint, current)
            moved = new.model(self.X_, current.marginal, current.stickiness, current.sharpness)
            fitted[id(moved)] = new
            models.append(moved)  # kept alive, so that its id stays its own
            return moved

        models: list[LabelModel] = []
        climb = climb_labels(
            model,
            known,
            n_init=self.n_init,
            max_sweeps=self.max_iter,
            random_state=seed,
            refit=refit if self.refit else None,
        )
        found = one_hot(climb.labels, model.n_classes)
        alone = LabelAverage(
            np.ones(1),
            np.array([climb.model.stickiness]),
            np.array([climb.model.sharpness]),
            np.array([climb.model.log_fresh is not None], dtype=np.float64),
            found[None],
            np.zeros_like(found),
            1.0,
            climb.log_z,
            climb.labels[None],
            np.zeros(1, dtype=np.intp),
        )
        self._remember(alone, len(climb.log_zs) - 1)
        if not climb.converged:
            warnings.warn(
                Message(
                    "OutTreeClassifier: the hill-climb did not end in ",
                    Option("max_iter", self.max_iter),
                    " sweeps; raise ",
                    Option("max_iter"),
                ),
                ConvergenceWarning,
                stacklevel=3,
            )
        return fitted[id(climb.model)], climb.model

    def _remember(self, average: LabelAverage, n_iter: int) -> None:
        self.average_ = average
        self.label_distributions_ = average.mean
        self.label_errors_ = average.standard_error
        self.r_hat_ = average.r_hat
        self.n_iter_ = n_iter
        self.log_likelihood_ = average.log_z - log_number_of_trees(len(self.X_))
