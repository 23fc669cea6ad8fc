"""Semi-supervised classification with out-trees, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from outtrees._common.edges import EdgeList
from outtrees._common.order import record_order
from outtrees._common.parameters import Interval, StrOptions, check_params
from outtrees._common.progress import note, takes_long
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.candidates.dropped_mass import DroppedMass, former_part, matrix_dropped_mass
from outtrees.candidates.matrix_search import matrix_candidates
from outtrees.candidates.plan import (
    CONSTRAINTS,
    Plan,
    matrix_plan,
    matrix_way,
    warn_of_dropped_mass,
)
from outtrees.errors import ArgumentError, Message, Option
from outtrees.inference import fit_mutation
from outtrees.inference.frames import (
    coded_frame,
    missing_numbers,
    refuse_missing_numbers,
    suited_mutation,
)
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.inference.restarts import with_known_values
from outtrees.inference.validation import (
    check_records,
    warn_of_degenerate_records,
)
from outtrees.labels.choice import neighbourhoods, settled_model
from outtrees.labels.model import (
    FOUNDERS,
    OF_ALL,
    OF_CLASS,
    PLAIN,
    CandidateLabelModel,
    LabelModel,
    Labels,
    leaf_label_distributions,
    smoothed_marginal,
)
from outtrees.labels.posterior import FEWEST_DRAWS, LabelAverage, average_labels
from outtrees.labels.refitting import (
    AttributeMutations,
    climb_and_refit,
    fit_window,
    refit_by_labels,
)
from outtrees.labels.targets import read_targets
from outtrees.models import MUTATIONS, Mutation, make_mutation

# Pairs of new and old records whose weights are held at once: 32 MB.
_PAIRS_AT_ONCE = 2**22
_WINDOW = "parzen-diag"  # what "auto" is, but for how its widths are fitted
_EDGE_DRAWS = 100
_CHOICE_RECORDS = 1000  # among which settings are chosen where edges are listed
_EDGE_ARRAYS = 150  # measured peak: an elimination that keeps what drawing trees needs
_HIGH_R_HAT, _LARGE_ERROR = 1.2, 0.05


class OutTreeClassifier(ClassifierMixin, BaseEstimator):
    """Labels that mutate along the same unknown tree as the attributes.

    Every record descends from one unknown other record, and both its attributes and its label
    mutate on the way (paper, section 5):

        β_uv = p(x_u | x_v)^sharpness · p(y_u | y_v),   p(a | b) = s·[a = b] + (1 − s)·marginal_a

    Attributes tell which trees are likely, and trees which labels are; no other link between them
    is assumed in the paper's model (`joint` adds one). Records without a label take part in fitting
    (semi-supervised).

    Parameters
    ----------
    mutation : str or Mutation, default="auto"
        How the attributes of a child differ from its parent's: see `OutTreeDensity`. "auto" is a
        Gaussian around the parent whose width is the same share of each column's deviation
        (`fit_window`); beside categories, and where numbers are missing, "parzen-diag", which has a
        variance for each column. "parzen" has a covariance, which many correlated columns fill
        with what says nothing of labels.
        "categorical" is for discrete characters; there NaN is a missing cell, integrated out.
        Fitted to all records without labels (tdid likelihood).
    stickiness : float in [0, 1] or "auto", default="auto"
        The probability s that a child keeps its parent's label rather than drawing one afresh.
        "auto" hides a quarter of the known labels at a time and predicts them from the others,
        for several settings, together with sharpness (`choose_settings`), and averages the
        posterior over the settings, weighed by that. "hill-climb", joint=True and knn take the
        best one.
    sharpness : float or "auto", default="auto"
        The power on the attributes' weights. 1 is the model as it stands; many columns that are
        taken as independent make that overconfident.
    method : {"posterior", "hill-climb"}, default="posterior"
        "posterior" averages over all trees and all unknown labels by sampling; "hill-climb"
        is the paper's: the labels that maximise Z as far as single changes lead.
    unlabeled : number, str or None, default=-1
        What marks an unknown label in y; None: all labels are known.
    joint : bool, "fresh", "common" or "auto", default="auto"
        Whether attributes depend on labels (eq. 4). True fits two mutations, one where a child
        keeps its parent's label and one where the label changes. With "fresh" a child that draws
        its label afresh draws its attributes afresh too, as records with that label have them:

            β_uv = s·[y_u = y_v]·p(x_u | x_v)^sharpness + (1 − s)·marginal·p(x_u | y_u)^sharpness

        With "common" it draws them as all records have them, p(x_u) for p(x_u | y_u): then labels
        change where records are far apart, whatever the shape of the classes.
        "auto": where stickiness or sharpness is "auto" and method="posterior", False, "fresh" and
        "common" are all among the settings that are averaged (or the best is taken), and over all
        pairs a fourth form, in which every record descends from one of known label and keeps its
        label (`LabelModel.founded`); with both given, and for "hill-climb", False, the model as
        the paper has it.
    label_prior : {"uniform", "frequency"}, default="uniform"
        The marginal of labels drawn afresh: all classes alike (as in the paper), or the
        frequencies of the known labels, each class counted once more.
    n_components : int or None, default=None
        Reduce the columns to this many principal components first, as the paper does.
    n_chains, n_draws, burn_in : int, default=4, 24, 5
        For "posterior": chains, steps of each that are averaged, steps that are not.
    n_init : int, default=5
        For "hill-climb": starts, the first from the most frequent label, the others random.
    refit : bool, default=False
        For "hill-climb": whether to refit the mutation between climbs.
    max_iter : int, default=200
        Steps for fitting the mutation; sweeps of a hill-climb.
    max_classes : int, default=1000
    candidates : {"auto", "dense", "knn"}, default="auto"
        "dense": every record may descend from every other, O(T³) a step. "knn": from its
        n_candidates likeliest parents only (`OutTreeDensity` says more); then stickiness and
        sharpness are chosen among 1,000 records in four neighbourhoods, and only "posterior" with
        joint=False, "fresh" or "common" is possible. "auto": dense up to 1,500 records; else
        knn, with a `CandidatesWarning`.
    n_candidates : int, default=20
        For knn; with T − 1 or more all pairs are listed.
    neighbours : {"exact", "approximate"}, default="exact"
        For knn, how the likeliest parents are looked up where records have more than 15 columns
        (in units of the noise): all pairs compared, or PyNNDescent (`pip install
        'outtrees[neighbours]'`), faster from some 20,000 records on, which misses some. Then there
        is no `dropped_mass_.bound`.
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    classes_ : array of shape (C,)
    transduction_ : array of shape (T,)
        The label of every training record: known, or most probable.
    label_distributions_ : array of shape (T, C)
        P(label | all attributes, known labels). "hill-climb": one at the label found.
    label_errors_ : array of shape (T, C)
        Monte-Carlo standard errors of `label_distributions_`, those of the weights of settings
        included; 0 for "hill-climb".
    r_hat_ : float
        The largest split R-hat over label probabilities, the median over settings (which have few
        steps each, so that it is often far above 1.2 by chance); 1 for "hill-climb".
    stickiness_, sharpness_ : float
        As given, or those that weigh most.
    joint_ : bool, "fresh", "common" or "either"
        As given, or what "auto" took; then `average_.fresh` tells the settings apart (0: False,
        1: "fresh", 2: "common", 3: records of known label are the founders; their stickiness
        says nothing).
    choice_ : Choice or None
        The settings that "auto" tried, with their scores.
    average_ : LabelAverage
        The settings that were averaged, with their weights and what each says.
    log_likelihood_ : float
        Log of Σ over unknown labels of Z(y) / T^(T−1) ("posterior", sampled, at `stickiness_` and
        `sharpness_`), or of its largest term found ("hill-climb", exact). At sharpness 1 the
        former is log p(X, known labels). For knn over trees of listed edges only, and so an
        estimate of a lower bound.
    mutation_ : Mutation
    changed_mutation_ : Mutation or None
        With joint=True: the mutation where the label changes.
    classes_of_ : array of shape (T, C) or None
        With joint="fresh" or "common": the classes of the records whose attributes are like those
        of a label drawn afresh; with "fresh" rows of unknown labels are 0.
    edge_marginals_, root_marginals_ : arrays of shape (T, T) [child, parent] and (T,)
        Averaged over draws of the labels; made when first asked for.
        For knn the first is a SciPy sparse array.
    candidates_ : {"dense", "knn"}
        What the fit did.
    dropped_mass_ : DroppedMass
        For knn: the mean share of a record's parents (by weight, at `sharpness_`) that is not
        listed, from all parents of 200 records, its standard error, and an upper `bound`
        of it where there is one (else None).
    n_iter_ : int
        Steps averaged in all, or sweeps of the best climb.
    X_ : array of shape (T, D)
        The training records, after `n_components`.

    Notes
    -----
    `predict` takes a record as new, a leaf below one of the training records, even if it is one
    of them; `transduction_` takes the training records as what they are. The two may differ.

    Cost: O(T³) for each step; for knn a sparse elimination, O(E) memory. `predict_proba` looks at
    all training records either way.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> model = OutTreeClassifier(random_state=0).fit(X, [0, -1, 0, 1, 1, -1])
    >>> model.transduction_
    array([0, 0, 0, 1, 1, 1])
    >>> model.predict([[0.3], [4.9]])
    array([0, 1])
    """

    dropped_mass_: DroppedMass
    dropped_mass_error_ = former_part("error")
    dropped_mass_bound_ = former_part("bound")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mutation": [StrOptions({"auto", *MUTATIONS}), Mutation],
        "stickiness": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "sharpness": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "method": [StrOptions({"posterior", "hill-climb"})],
        "unlabeled": [Real, str, None],
        "joint": ["boolean", StrOptions({"fresh", "common", "auto"})],
        "label_prior": [StrOptions({"uniform", "frequency"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "n_draws": [Interval(Integral, 4, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_classes": [Interval(Integral, 1, None, closed="left")],
        **CONSTRAINTS,
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        mutation: str | Mutation = "auto",
        *,
        stickiness: float | str = "auto",
        sharpness: float | str = "auto",
        method: str = "posterior",
        unlabeled: Any = -1,
        joint: bool | str = "auto",
        label_prior: str = "uniform",
        n_components: int | None = None,
        n_chains: int = 4,
        n_draws: int = 24,
        burn_in: int = 5,
        n_init: int = 5,
        refit: bool = False,
        max_iter: int = 200,
        max_classes: int = 1000,
        candidates: str = "auto",
        n_candidates: int = 20,
        neighbours: str = "exact",
        random_state: Any = None,
    ) -> None:
        self.mutation = mutation
        self.stickiness = stickiness
        self.sharpness = sharpness
        self.method = method
        self.unlabeled = unlabeled
        self.joint = joint
        self.label_prior = label_prior
        self.n_components = n_components
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.n_init = n_init
        self.refit = refit
        self.max_iter = max_iter
        self.max_classes = max_classes
        self.candidates = candidates
        self.n_candidates = n_candidates
        self.neighbours = neighbours
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_missing()
        return tags

    @takes_long
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the mutation to all records, and find the labels of those that have none.

        Parameters
        ----------
        X : array-like or data frame of shape (T, D)
            Booleans, categories and text that recurs of a data frame change by tables of their
            own, beside the numbers; dates become days. If numbers are missing beside them, each
            column of numbers changes by itself, and what is missing is integrated out.
        y : array-like of shape (T,)
            Numbers or strings; `unlabeled` where unknown.

        Returns
        -------
        OutTreeClassifier
            Itself.

        Raises
        ------
        ValueError
            If no label is known, or records cannot be used.
        """
        check_params(self)
        for name in ("model_", "_edges", "dropped_mass_"):
            self.__dict__.pop(name, None)
        X = coded_frame(self, X, reset=True)
        records = check_records(self, X, allows_missing=self._allows_missing(), reset=True)
        gaps = self._integrates and missing_numbers(self, records)
        if not gaps:
            refuse_missing_numbers(self, records, "fill it in with OutTreeImputer")
        targets = read_targets(self, records, y, self.unlabeled, self.max_classes)
        self.candidates_ = self._decided_pairs(len(records))
        rng = as_generator(self.random_state)
        # Chains and folds draw among records: in an order that does not depend on the table's.
        order = record_order(records, targets.labels)
        records = self._reduced(records[order], reset=True)
        suited = suited_mutation(self, self._named, gaps=gaps)
        mutation = make_mutation(suited)
        warn_of_degenerate_records(
            records,
            mutation,
            None if self.n_components else getattr(self, "feature_names_in_", None),
        )
        # Drawn here, so that the rest does not depend on how many numbers a fit takes.
        fit_seed, choice_seed, label_seed = (int(seed) for seed in rng.integers(2**31, size=3))
        options: dict[str, Any] = {
            "max_iter": self.max_iter,
            "random_state": fit_seed,
            "n_candidates": self.n_candidates if self.candidates_ == "knn" else None,
            "neighbours": self.neighbours,
        }
        if self.mutation == "auto" and suited == _WINDOW:
            fitted: Mutation = fit_window(records, **options)
        else:
            start = with_known_values(mutation, records)
            fitted = fit_mutation(start, records, **options).mutation
        self.X_, self.classes_ = records, targets.classes
        known, C = targets.labels[order], len(targets.classes)
        marginal = np.full(C, 1 / C)
        if self.label_prior == "frequency":
            marginal = smoothed_marginal(known, C)
        mutations = AttributeMutations(fitted)
        self.joint_ = self._decided_joint()
        if self.joint_ in ("fresh", "either"):
            mutations = mutations.knowing(known, C)
        elif self.joint_ == "common":
            mutations = mutations.common(len(known), C)
        make_model = self._candidate_model if self.candidates_ == "knn" else self._dense_model
        mutations, model = make_model(mutations, known, marginal, choice_seed)
        if self.method == "posterior":
            self._sample(model, known, label_seed)
        else:
            mutations, model = self._climb(mutations, model, known, label_seed)
        self.stickiness_, self.sharpness_ = model.stickiness, model.sharpness
        self.mutation_, self.changed_mutation_ = mutations.kept, mutations.changed
        back = np.argsort(order)
        self.X_ = self.X_[back]
        self.classes_of_ = None if mutations.classes is None else mutations.classes[back]
        self._remember(self.average_.reordered(back), self.n_iter_)
        # The known labels are exact in the distributions, so this keeps them.
        self.transduction_ = targets.classes[self.label_distributions_.argmax(axis=1)]
        warn_of_dropped_mass(self)
        # Last: an interrupted fit leaves an estimator not fitted.
        self.model_: LabelModel = model.reordered(back)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return P(class) of each record as a new leaf below a training record, (n, C).

        Every row by itself, whatever other rows are there. O(n T (D + C)).

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records.

        Returns
        -------
        array of shape (n, C)
            Probabilities of `classes_`.
        """
        check_is_fitted(self, "model_")
        X = coded_frame(self, X, reset=False)
        records = check_records(self, X, allows_missing=self._allows_missing(), reset=False)
        if not all(
            part.allows_missing for part in getattr(self.mutation_, "parts", [self.mutation_])
        ):
            refuse_missing_numbers(
                self, records, "fit to a table with such gaps, or fill it in with OutTreeImputer"
            )
        records = self._reduced(records, reset=False)
        mutations = AttributeMutations(self.mutation_, self.changed_mutation_, self.classes_of_)
        step = max(1, _PAIRS_AT_ONCE // (2 * len(self.X_)))
        average, parts = self.average_, []
        for low in range(0, len(records), step):
            some = records[low : low + step]
            layers = mutations.layers(some, self.X_)
            nothing = np.full((len(some), len(self.classes_)), -np.inf)
            fresh: dict[int, Array | None] = {PLAIN: None, FOUNDERS: nothing}
            if OF_CLASS in average.fresh:
                fresh[OF_CLASS] = mutations.fresh(self.X_, some)
            if OF_ALL in average.fresh:
                everybody = mutations.common(len(self.X_), len(self.classes_))
                fresh[OF_ALL] = everybody.fresh(self.X_, some)
            of_settings = [
                leaf_label_distributions(model, layers, distributions, fresh[int(form)])
                for model, distributions, form in zip(
                    average.models(self.model_), average.distributions, average.fresh, strict=True
                )
            ]
            parts.append(np.tensordot(average.weights, of_settings, axes=1))
        return np.concatenate(parts)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each record as a new one, (n,).

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records.

        Returns
        -------
        array of shape (n,)
            Classes.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    @property
    def edge_marginals_(self) -> Array:
        """P(training record u descends directly from v), (T, T) [child, parent]."""
        return self._averaged_edges()[0]

    @property
    def root_marginals_(self) -> Array:
        """P(training record r is the root), (T,)."""
        return self._averaged_edges()[1]

    # Inside -----------------------------------------------------------------------------------

    @property
    def _named(self) -> str | Mutation:
        """The mutation, or its name, that columns of numbers beside categories have."""
        return _WINDOW if self.mutation == "auto" else self.mutation

    @property
    def _integrates(self) -> bool:
        """Whether numbers that are missing beside categories can be integrated out."""
        return isinstance(self.mutation, str) and self.n_components is None

    def _allows_missing(self) -> bool:
        known = isinstance(self._named, Mutation) or self._named in MUTATIONS
        mutation = suited_mutation(self, self._named)
        return known and make_mutation(mutation).allows_missing and not self.n_components

    def _reduced(self, X: Array, *, reset: bool) -> Array:
        if self.n_components is None:
            return X
        if reset:
            most = min(X.shape)
            if self.n_components > most:
                raise ValueError(
                    f"n_components={self.n_components} is more than {X.shape[0]} records of "
                    f"{X.shape[1]} columns span; use at most {most}"
                )
            from sklearn.decomposition import PCA  # slow to load

            self.pca_ = PCA(self.n_components, svd_solver="full").fit(X)
        return np.asarray(self.pca_.transform(X))

    def _decided_pairs(self, n_records: int) -> str:
        """Return "dense" or "knn", before anything large is allocated."""
        if _needs_all_pairs(self) and self.candidates == "knn":
            raise ArgumentError(
                Option("candidates", "knn"),
                " is for method='posterior' with joint=False, 'fresh' or 'common'; got "
                f"method={self.method!r}, joint={self.joint!r}; change them, or use ",
                Option("candidates", "dense"),
            )
        return matrix_way(self, n_records, **_memory_options(self))

    def _decided_joint(self) -> bool | str:
        """Return `joint` as given, or what "auto" takes."""
        if self.joint != "auto":
            return self.joint if isinstance(self.joint, str) else bool(self.joint)
        left_open = "auto" in (self.stickiness, self.sharpness)
        return "either" if left_open and self.method == "posterior" else False

    def _settled(
        self, mutations: AttributeMutations, X: Array, known: Labels, marginal: Array, seed: int
    ) -> LabelModel:
        """Return the dense model of these records, stickiness and sharpness given or chosen."""
        model, self.choice_ = settled_model(
            mutations,
            X,
            known,
            marginal,
            stickiness=self.stickiness,
            sharpness=self.sharpness,
            n_features=int(self.n_components or self.n_features_in_),
            joint=self.joint_,
            founders=self.candidates_ == "dense",
            random_state=seed,
        )
        return model

    def _dense_model(
        self, mutations: AttributeMutations, known: Labels, marginal: Array, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        """Return the mutations and the label model over all pairs, its settings chosen."""
        model = self._settled(mutations, self.X_, known, marginal, seed)
        if self.joint_ is True and len(marginal) > 1:
            mutations, model = refit_by_labels(mutations, model, self.X_, known, seed)
        return mutations, model

    def _candidate_model(
        self, mutations: AttributeMutations, known: Labels, marginal: Array, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        """Return the mutations and the label model over listed pairs, its settings chosen."""
        X, classes = self.X_, mutations.classes
        listed = matrix_candidates(mutations.kept, X, self.n_candidates, self.neighbours)
        rows = neighbourhoods(listed.edges, known, _CHOICE_RECORDS, seed)
        among = mutations._replace(classes=None if classes is None else classes[rows])
        some = self._settled(among, X[rows], known[rows], marginal, seed)
        form = self._form()
        if form == PLAIN:
            mutations = mutations._replace(classes=None)
        elif form == OF_ALL:
            mutations = mutations.common(len(X), len(marginal))
        self.dropped_mass_ = matrix_dropped_mass(
            mutations.kept, X, listed, sharpness=some.sharpness, random_state=0
        )
        settings = some.stickiness, some.sharpness
        model = mutations.model(X, marginal, *settings, listed.edges)
        return mutations, model.with_options(log_common=model.log_fresh)

    def _form(self) -> int:
        """Return what a label drawn afresh says of attributes in the setting that weighs most."""
        if self.joint_ == "either" and self.choice_ is not None:
            return int(self.choice_.fresh[self.choice_.scores.argmax()])
        return {"fresh": OF_CLASS, "either": OF_CLASS, "common": OF_ALL}.get(
            str(self.joint_), PLAIN
        )

    def _sample(self, model: LabelModel, known: Labels, seed: int) -> None:
        """Find the posterior of the labels, averaged over the settings that weigh most."""
        note("drawing trees and labels")
        setting = [1.0, model.stickiness, model.sharpness, self._form()]
        settings, without = np.array([setting]), None
        if self.choice_ is not None and self.joint_ is not True and self.candidates_ == "dense":
            most = max(1, self.n_draws // FEWEST_DRAWS)
            settings, without = self.choice_.settings(most), self.choice_.weights_without(most)
        draws = (self.n_chains, self.n_draws, self.burn_in)
        average = average_labels(
            model, settings, known, *draws, random_state=seed, weights_without=without
        )
        self._remember(average, len(average.label_draws))
        error = float(average.standard_error.max())
        if len(average.weights) > 1:  # whose chains are too short for R-hat
            # Settings differ most on a record or two, which more draws do not change.
            usual = float(np.quantile(average.standard_error.max(axis=1), 0.95))
            noisy, told = usual > 3 * _LARGE_ERROR, ""
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
        self, mutations: AttributeMutations, model: LabelModel, known: Labels, seed: int
    ) -> tuple[AttributeMutations, LabelModel]:
        """Find the labels that maximise Z; return the mutations and the model of the end."""
        mutations, climb = climb_and_refit(
            mutations,
            model,
            self.X_,
            known,
            n_init=self.n_init,
            max_sweeps=self.max_iter,
            refit=self.refit,
            seed=seed,
        )
        found = LabelAverage.of_labels(climb.model, climb.labels, climb.log_z)
        self._remember(found, len(climb.log_zs) - 1)
        if not climb.converged:
            warnings.warn(
                Message(
                    "OutTreeClassifier: the hill-climb did not end in ",
                    Option("max_iter", self.max_iter),
                    " sweeps; raise ",
                    Option("max_iter"),
                ),
                ConvergenceWarning,
                stacklevel=4,
            )
        return mutations, climb.model

    def _remember(self, average: LabelAverage, n_iter: int) -> None:
        self.average_ = average
        self.label_distributions_ = average.mean
        self.label_errors_ = average.standard_error
        self.r_hat_ = average.r_hat
        self.n_iter_ = n_iter
        self.log_likelihood_ = average.log_z - log_number_of_trees(len(self.X_))

    def _averaged_edges(self) -> tuple[Array, Array]:
        check_is_fitted(self, "model_")
        if "_edges" not in self.__dict__:
            edge, root = self.average_.edges(self.model_, _EDGE_DRAWS)
            if isinstance(self.model_, CandidateLabelModel):
                listed = self.model_.child, self.model_.parent
                edge = EdgeList(*listed, self.model_.n_records).matrix(edge)
            self._edges: tuple[Any, Array] = edge, root
        return self._edges


def labels_plan(model: OutTreeClassifier, n_records: int) -> Plan:
    """Return which pairs of records a fit will look at, and the memory that it needs."""
    return matrix_plan(model, n_records, **_memory_options(model))


def _memory_options(model: OutTreeClassifier) -> dict[str, Any]:
    return {"can_be_sparse": not _needs_all_pairs(model), "edge_arrays": _EDGE_ARRAYS}


def _needs_all_pairs(model: OutTreeClassifier) -> bool:
    joint = model.joint if isinstance(model.joint, str) else bool(model.joint)  # numpy's too
    return model.method == "hill-climb" or joint is True
