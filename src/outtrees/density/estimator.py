"""Density estimation with out-trees, as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.candidates.plan import CONSTRAINTS
from outtrees.datasets.generators import make_out_tree
from outtrees.density.candidate_density import OF_CANDIDATES, ListedTrees
from outtrees.density.checkpoints import density_track
from outtrees.density.options import candidates, template
from outtrees.errors import ArgumentError, Message, Option
from outtrees.imputation.imputer_density import fit_incomplete
from outtrees.inference import SOLVERS, fit_mutation, select_mutation
from outtrees.inference.fitting import with_known_values
from outtrees.inference.likelihood import (
    leaf_log_density,
    log_likelihood,
    log_predictive_ratio,
)
from outtrees.inference.objective import FitResult
from outtrees.inference.selection import Selection
from outtrees.inference.stacking import default_candidates, stack_mutations
from outtrees.inference.stages import Track
from outtrees.inference.validation import (
    check_params,
    check_records,
    warn_of_degenerate_records,
)
from outtrees.models import MUTATIONS, Mutation, make_mutation
from outtrees.trees.weights import Ints

_FITTED = ("mutation_", "_tree", "cv_results_", "best_candidate_", "validation_scores_")


class OutTreeDensity(ListedTrees, DensityMixin, BaseEstimator):
    """Density of records each of which descends from one unknown other record.

    Fitting maximises the tdid posterior log Z(θ) − (T − 1) log T + log_prior(θ) over the
    parameters θ of the mutation, where Z sums over all out-trees (paper, section 4). The density
    of a new record is (1/T) Σ_v p(x | x_v): everything between a Gaussian (mixture) and a Parzen
    window whose shape was learned.

    Parameters
    ----------
    mutation : str or Mutation, default="gaussian"
        How a child differs from its parent: "gaussian", "parzen", "parzen-diag", "iid", "kernel",
        "mixture", "columns" (each column by itself), "categorical", "poisson", "bernoulli", or a
        `Mutation` with options of its own; parameters that such an object already has are
        forgotten.
        "auto" fits several mutations and mixes them with the weights that predict held-out
        records best (`outtrees.inference.stack_mutations`): slowest, and the best density.
    solver : {"em", "lbfgs", "gradient"}, default="em"
        Accelerated EM; L-BFGS; the paper's gradient ascent with line search. EM needs the fewest
        evaluations by far and alone does not depend on the units of the data.
    max_iter : int, default=200
    tol : float, default=1e-4
        The fit ends after two steps in a row that raise the log posterior by tol nats or less.
    n_init : int, default=1
        The number of starts where the start is random ("mixture", "kernel" with fewer landmarks
        than records); other starts are not repeated.
    early_stopping : bool, default=False
        Whether to hold out records at random and to keep the parameters that are best on them (the
        paper, section 9). `X_` still holds all records: those held out carry the density too.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=10
        For early stopping: the number of steps without a new best.
    n_components : int, "auto" or None, default=None
        The number of components of a "mixture" that ignore the parent; "auto" chooses it by
        cross-validation. None leaves the mutation's own. Other mutations have one.
    prior_strength : float or "auto", default=1.0
        The number of pseudo-records behind the prior of the mutation; "auto" chooses it by
        cross-validation. 0 is maximum likelihood, which has no maximum on duplicated or discrete
        records, and is refused for a full covariance with fewer rows than columns.
    reg_covar : float, default=1e-6
        The floor of the prior's covariance, as a fraction of each column's variance.
    cv : int, default=5
        The number of folds for "auto".
    n_jobs : int, default=None
        The number of folds fitted at the same time, as in joblib.
    missing : {"error", "integrate"}, default="error"
        What to do with NaN, where the mutation does not take it as a value. "integrate" fits a
        Gaussian or categorical mutation, a product of them or a mixture of these, with hidden
        cells integrated out (max_iter steps), and averages over completions of the records.
    candidates : {"auto", "dense", "knn"}, default="auto"
        Which pairs of records a fit looks at one by one. "dense": all, O(T³). "knn": the
        n_candidates likeliest parents of each record, with a random sample standing for all others
        (`outtrees.inference.candidate_em`); solver "em" only, and an estimate of the dense fit.
        "auto": dense as long as its arrays fit into the free memory; else knn, with a
        `CandidatesWarning`. Nothing is allocated before that is decided.
    n_candidates : int, default=20
        For knn; with T − 1 or more all pairs are listed, and the fit is the dense one.
    neighbours : {"exact", "approximate"}, default="exact"
        For knn, how the likeliest parents are looked up where records have more than 15 columns
        (in units of the noise): all pairs compared, or PyNNDescent (`pip install
        'outtrees[neighbours]'`), faster from some 20,000 records on, which misses some. Then there
        is no dropped_mass_.bound.
    random_state : int, RandomState, Generator or None, default=None
        For random starts, folds, the records held out, hidden cells, and samples of parents.
    verbose : int, default=0
        1 prints a line for each step.

    `n_components`, `prior_strength` and `reg_covar` are for a mutation given by its name; set them
    on a `Mutation` directly ("auto" works for both).

    Attributes
    ----------
    mutation_ : Mutation
        With fitted parameters. The root's density stays that of the start, the iid fit: one
        record is the root, so there is no maximum over its parameters.
    X_ : array of shape (T, D)
        The training records. With hidden cells, `completed_` (M, T, D) has draws of them, and
        marginals, sampled trees and `log_likelihood_` are averages over these.
    tree_ : OutTreeDistribution
        Over the training records, given `mutation_`; made when first asked for, O(T³). For knn
        a `CandidateTrees` over `candidate_edges_`.
    edge_marginals_ : array of shape (T, T) [child, parent]; for knn a SciPy sparse array
    root_marginals_ : array of shape (T,)
    log_likelihood_ : float
        The tdid log-likelihood of `X_` given `mutation_`, without prior. For knn a lower bound:
        only trees of listed edges are summed.
    log_likelihoods_ : array of shape (n_iter_ + 1,)
        Penalised log-likelihoods, log p(X | θ) + log_prior(θ), at the start and after each step;
        they never fall. With early stopping: those of the records not held out. For knn
        estimates, which may fall where candidates are searched anew.
    validation_scores_ : array
        With early stopping: mean log-densities of the records held out.
    n_iter_ : int
        Steps of the best start.
    n_evaluations_ : int
        How often log Z was computed for the final fit, over all starts.
    converged_ : bool
        Whether a stopping rule was met before max_iter steps.
    cv_results_ : dict
        With "auto": `params`, `mean_log_density`, `std_log_density` and `se_log_density` of the
        candidates, of records held out; and the `weight` of each if mutation="auto".
    best_candidate_ : dict
        With "auto": the best entry of `cv_results_["params"]`.
    candidates_ : {"dense", "knn"}
        What the fit did.
    candidate_edges_ : array of shape (2, E)
        For knn: children and their possible parents in `tree_`.
    dropped_mass_ : DroppedMass
        For knn: the mean share of a record's parents (by weight) that is not listed, from all
        parents of 200 records, its standard error, and an upper `bound` of it without sampling,
        where there is one. `tree_` leaves that share out; the fit estimates it.
    n_features_in_ : int
    feature_names_in_ : array of shape (D,)
        If X had names that are all strings.

    Notes
    -----
    The posterior is not concave. The paper starts at the iid solution; there all parents are
    equally likely, the slope of a record on all *others* is slightly negative, and on some data
    the ascent ends at a poor maximum with negative transition. So where the mutation leaves its
    start_correlation open, both its default start and the iid start are fitted, then the better
    of the two with parents and children exchanged (records alone say little about the direction
    of descent, so there is often a second maximum there); the one with the highest log posterior
    (on held-out records: the highest density) is kept.

    A fit costs O(T³) for each evaluation; over candidates see `fit_candidate_em`.

    Examples
    --------
    >>> from outtrees.datasets import make_spiral
    >>> X = make_spiral(150)
    >>> model = OutTreeDensity().fit(X)
    >>> model.converged_, model.score_samples(X[:2]).shape
    (True, (2,))
    >>> records, parents = model.sample(100, random_state=0)
    >>> records.shape, parents.shape
    ((100, 3), (100,))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mutation": [StrOptions({"auto", *MUTATIONS}), Mutation],
        "solver": [StrOptions(set(SOLVERS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "n_components": [
            Interval(Integral, 0, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "prior_strength": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "missing": [StrOptions({"error", "integrate"})],
        **CONSTRAINTS,
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        mutation: str | Mutation = "gaussian",
        *,
        solver: str = "em",
        max_iter: int = 200,
        tol: float = 1e-4,
        n_init: int = 1,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        n_components: int | str | None = None,
        prior_strength: float | str = 1.0,
        reg_covar: float = 1e-6,
        cv: int = 5,
        n_jobs: int | None = None,
        missing: str = "error",
        candidates: str = "auto",
        n_candidates: int = 20,
        neighbours: str = "exact",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.mutation = mutation
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_components = n_components
        self.prior_strength = prior_strength
        self.reg_covar = reg_covar
        self.cv = cv
        self.n_jobs = n_jobs
        self.missing = missing
        self.candidates = candidates
        self.n_candidates = n_candidates
        self.neighbours = neighbours
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        known = isinstance(self.mutation, Mutation) or self.mutation in MUTATIONS
        takes_nan = known and make_mutation(self.mutation).allows_missing
        tags.input_tags.allow_nan = takes_nan or self.missing == "integrate"
        return tags

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None
    ) -> Self:
        """Fit the mutation to the records.

        Parameters
        ----------
        X : array-like of shape (T, D)
            At least two records.
        y : ignored
        checkpoint : path, optional
            A file that keeps what the fit has reached after each step. If it is there already, from
            a fit to the same records with the same settings that was interrupted, the fit goes on
            from it, and ends with the same bits. Delete it when the fit is done. For one mutation
            by solver="em": not where folds are fitted ("auto") or cells integrated out.
        """
        check_params(self)
        stacked = isinstance(self.mutation, str) and self.mutation == "auto"
        mutation = template(
            "gaussian" if stacked else self.mutation,
            n_components=self.n_components,
            prior_strength=self.prior_strength,
            reg_covar=self.reg_covar,
        )
        allows_missing = mutation.allows_missing or self.missing == "integrate"
        records = check_records(self, X, allows_missing=allows_missing, reset=True)
        for name in (*_FITTED, *OF_CANDIDATES, "completed_", "_completions"):
            self.__dict__.pop(name, None)
        hidden = self.missing == "integrate" and bool(np.isnan(records).any())
        self._decide(records, hidden)
        track = None if checkpoint is None else density_track(self, records, hidden, checkpoint)
        if hidden:
            fit, self._completions = fit_incomplete(self, mutation, records)
            self.completed_ = self._completions.records
        else:
            warn_of_degenerate_records(records, mutation, getattr(self, "feature_names_in_", None))
            fit = self._stacked(records) if stacked else self._fitted(mutation, records, track)
        if "completed_" in self.__dict__:
            log_likelihood_ = self._completions.mean_log_likelihood()
        elif self._is_sparse:
            log_likelihood_ = self._listed(fit.mutation, records)
            if len(fit.validation_scores):
                self.validation_scores_ = fit.validation_scores
        elif len(fit.validation_scores):
            log_likelihood_ = log_likelihood(fit.mutation, records)
            self.validation_scores_ = fit.validation_scores
        else:
            log_likelihood_ = float(fit.log_likelihoods[-1]) - fit.mutation.log_prior()
        self.X_ = records
        self.log_likelihood_ = log_likelihood_
        self.log_likelihoods_ = fit.log_likelihoods
        self.n_iter_ = fit.n_iter
        self.n_evaluations_ = fit.n_evaluations
        self.converged_ = fit.converged
        self.mutation_ = fit.mutation  # last: an interrupted fit leaves an estimator not fitted
        if not fit.converged:
            warnings.warn(
                Message(
                    "OutTreeDensity did not converge in ",
                    Option("max_iter", self.max_iter),
                    f" steps (tol={self.tol:g} nats); raise ",
                    Option("max_iter"),
                    " or ",
                    Option("tol"),
                    ", use ",
                    Option("solver", "em"),
                    ", or scale the columns with StandardScaler",
                ),
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    # What can be asked of a fit --------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each record, log (1/T) Σ_v p(x | x_v), shape (n,).

        Normalised exactly, over all training records as parents (also after a fit over
        candidates), and the same whatever other records are in X. O(n T D), with memory for a
        bounded number of pairs.
        """
        records = self._known(X)
        if self.missing == "integrate" and self._incomplete(records):
            return self._completed().log_density(records)
        return leaf_log_density(self.mutation_, self.X_, records)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of the log-densities of the records."""
        return float(self.score_samples(X).sum())

    def log_predictive(self, X: Any) -> float:
        """Return the paper's test log-likelihood of all records in X together (section 4).

        log p(X_ ∪ X) − log p(X_). It is **not** a normalised density: see
        `outtrees.inference.likelihood.log_predictive_ratio`. O((T + n)³); not for a fit over
        candidates, where it would be the difference of two bounds.
        """
        records = self._known(X)
        if self._is_sparse:
            raise ArgumentError(
                "log_predictive needs the sum over all trees, but the fit knows candidates only, "
                "and a difference of two lower bounds says nothing; use score_samples, or fit "
                "with ",
                Option("candidates", "dense"),
            )
        self._refuse_incomplete("log_predictive", records)
        return log_predictive_ratio(self.mutation_, self.X_, records)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, Ints]:
        """Return a new population by the paper's recipe (section 2): records and their parents.

        An out-tree on n_samples nodes, all equally likely; a root from the root's density, and
        each child from the conditional given its parent. Nothing of `X_` is reused.

        Returns
        -------
        X : array of shape (n_samples, D)
        parents : array of shape (n_samples,), −1 at the root
        """
        check_is_fitted(self, "mutation_")
        return make_out_tree(n_samples, self.mutation_, random_state)

    # Inside -----------------------------------------------------------------------------------

    def _known(self, X: Any) -> Array:
        check_is_fitted(self, "mutation_")
        allows_missing = self.mutation_.allows_missing or self.missing == "integrate"
        return check_records(self, X, allows_missing=allows_missing, reset=False)

    def _fit_options(self) -> dict[str, Any]:
        names = ("solver", "max_iter", "tol", "n_init", "n_iter_no_change", "verbose")
        options = {name: getattr(self, name) for name in names}
        if self._is_sparse:
            options |= {"n_candidates": self.n_candidates, "neighbours": self.neighbours}
        return options

    def _fitted(self, mutation: Mutation, X: Array, track: Track | None) -> FitResult:
        """Return the fit of one mutation, its options chosen and records held out if asked for."""
        chosen = self._selected(with_known_values(mutation, X), X)
        seed = self.random_state if track is None or track.seed is None else track.seed
        training, held_out = self._split(X, seed) if self.early_stopping else (X, None)
        return fit_mutation(
            chosen,
            training,
            random_state=seed,
            X_validation=held_out,
            track=track,
            **self._fit_options(),
        )

    def _stacked(self, X: Array) -> FitResult:
        """Return the mixture of the default candidates as one fit of no steps of its own."""
        if self.early_stopping or self.prior_strength == "auto":
            raise ArgumentError(
                Option("mutation", "auto"),
                " weighs several mutations on held-out records already; leave out ",
                Option("early_stopping"),
                " and ",
                Option("prior_strength", "auto"),
                ", or name one mutation",
            )
        offered = default_candidates(len(X), self.prior_strength, self.reg_covar)  # type: ignore[arg-type]
        stack = stack_mutations(
            offered,
            X,
            cv=self.cv,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            **self._fit_options(),
        )
        self._report(list(offered), stack.selection)
        self.cv_results_["weight"] = stack.weights
        self.best_candidate_ = stack.selection.best
        if self._is_sparse:
            value = self._listed(stack.mutation, X)
        else:
            value = log_likelihood(stack.mutation, X)
        return FitResult(
            mutation=stack.mutation,
            log_likelihoods=np.array([value + stack.mutation.log_prior()]),
            n_iter=max(fit.n_iter for fit in stack.fits),
            n_evaluations=sum(fit.n_evaluations for fit in stack.fits),
            stopped_by="tol" if all(fit.converged for fit in stack.fits) else "max_iter",
            validation_scores=np.empty(0),
        )

    def _report(self, params: list[Any], selection: Selection) -> None:
        self.cv_results_ = {
            "params": params,
            "mean_log_density": selection.mean,
            "std_log_density": selection.standard_deviation,
            "se_log_density": selection.standard_error,
        }

    def _selected(self, mutation: Mutation, X: Array) -> Mutation:
        """Return the mutation with the options that are "auto" chosen by cross-validation."""
        offered = candidates(
            mutation, len(X), n_components=self.n_components, prior_strength=self.prior_strength
        )
        if not offered:
            return mutation
        selection = select_mutation(
            {i: candidate for i, (_, candidate) in enumerate(offered)},
            X,
            cv=self.cv,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            **self._fit_options(),
        )
        self._report([params for params, _ in offered], selection)
        best: int = selection.best
        self.best_candidate_, chosen = offered[best]
        return chosen

    def _split(self, X: Array, seed: Any) -> tuple[Array, Array]:
        n_held_out = max(1, round(self.validation_fraction * len(X)))
        if len(X) - n_held_out < 2:
            raise ValueError(
                f"early_stopping with validation_fraction={self.validation_fraction} leaves "
                f"{len(X) - n_held_out} of {len(X)} records to fit; at least 2 are needed"
            )
        order = as_generator(seed).permutation(len(X))
        return X[np.sort(order[n_held_out:])], X[np.sort(order[:n_held_out])]
