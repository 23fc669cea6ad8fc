"""Density estimation with out-trees, as a scikit-learn estimator."""

from __future__ import annotations

import os
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from outtrees._common.edges import EdgeList
from outtrees._common.parameters import Interval, StrOptions, check_params
from outtrees._common.progress import takes_long
from outtrees._common.types import Array
from outtrees.candidates.dropped_mass import DroppedMass, former_part, matrix_dropped_mass
from outtrees.candidates.matrix_search import matrix_candidates
from outtrees.candidates.parent_sample import n_sampled
from outtrees.candidates.plan import (
    CONSTRAINTS,
    Plan,
    matrix_plan,
    matrix_way,
    warn_of_dropped_mass,
)
from outtrees.datasets.generators import make_out_tree
from outtrees.density.incomplete import Completions, fit_incomplete
from outtrees.density.learning import auto_settings, checkpoint_of, learned, template
from outtrees.density.posterior import ParameterPosterior, parameter_posterior
from outtrees.errors import ArgumentError, Option
from outtrees.inference import SOLVERS
from outtrees.inference.ascent import FitResult
from outtrees.inference.em import N_OTHERS
from outtrees.inference.frames import (
    coded_frame,
    decoded,
    refuse_missing_numbers,
    suited_mutation,
)
from outtrees.inference.likelihood import (
    candidate_trees,
    leaf_log_density,
    leave_one_out_log_density,
    log_number_of_trees,
    log_predictive_ratio,
    tree_distribution,
)
from outtrees.inference.tree_density import TreeDensity
from outtrees.inference.validation import (
    check_records,
    warn_of_degenerate_records,
)
from outtrees.io.tables import Table
from outtrees.models import MUTATIONS, Mutation, make_mutation
from outtrees.trees import OutTreeDistribution
from outtrees.trees.weights import Ints

# What one fit leaves and the next may not set.
_LEFT_BY_A_FIT = (
    "mutation_",
    "cv_results_",
    "best_candidate_",
    "held_out_log_density_",
    "validation_scores_",
    "candidate_edges_",
    "dropped_mass_",
    "completed_",
    "_completions",
    "_tree",
)


class OutTreeDensity(TreeDensity):
    """Density of records each of which descends from one unknown other record.

    Fitting maximises the tdid posterior log Z(θ) − (T − 1) log T + log_prior(θ) over the
    parameters θ of the mutation, where Z sums over all out-trees (paper, section 4). The density
    of a new record is (1/T) Σ_v p(x | x_v): everything between a Gaussian (mixture) and a Parzen
    window whose shape was learned.

    Parameters
    ----------
    mutation : str or Mutation, default="auto"
        How a child differs from its parent. "auto" fits several mutations and mixes them with the
        weights that predict held-out records best (`outtrees.density.learning`). One by its name:
        "gaussian", "parzen", "parzen-diag", "iid", "kernel", "mixture", "clouds", "columns" (each
        column by itself), "categorical", "poisson", "bernoulli", or a `Mutation` with options of
        its own; parameters that such an object already has are forgotten. Name one that follows
        the parent, such as "gaussian", where the trees are what you ask for: "auto" may find that
        parents say nothing. With hidden cells integrated out, "auto" is "gaussian".
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
    cv : int, default=3
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
        (`outtrees.inference.em.fit_candidate_em`); solver "em" only, and an estimate of the dense
        fit. "auto": dense up to 1,500 records; else knn, with a `CandidatesWarning`. Nothing is
        allocated before it is known to fit into the free memory.
    n_candidates : int, default=20
        For knn; with T − 1 or more all pairs are listed, and the fit is the dense one.
    neighbours : {"exact", "approximate"}, default="exact"
        For knn, how the likeliest parents are looked up where records have more than 15 columns
        (in units of the noise): all pairs compared, or PyNNDescent (`pip install
        'outtrees[neighbours]'`), faster from some 20,000 records on, which misses some. Then there
        is no `dropped_mass_.bound`.
    contamination : float, default=0.1
        The share of the training records that `predict` and `fit_predict` call outliers; above 0,
        at most 0.5. The fit does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        For random starts, folds, the records held out, hidden cells, and samples of parents.
    verbose : int, default=0
        1 prints a line for each step.

    Attributes
    ----------
    mutation_ : Mutation
        With fitted parameters. The root's density stays that of the start, the iid fit: one
        record is the root, so there is no maximum over its parameters.
    X_ : array of shape (T, D)
        The training records. With hidden cells, `completed_` (M, T, D) has draws of them, and
        marginals, sampled trees and `log_likelihood_` are averages over these.
    tree_ : OutTreeDistribution
        Over the training records, given `mutation_`, as the fit summed them. For knn a
        `OutTreeDistribution` over `candidate_edges_`.
    edge_marginals_ : array of shape (T, T) [child, parent]; for knn a SciPy sparse array
    root_marginals_ : array of shape (T,)
    log_likelihood_ : float
        The tdid log-likelihood of `X_` given `mutation_`, without prior. For knn a lower bound:
        only trees of listed edges are summed.
    log_likelihoods_ : array of shape (1 + number of steps,)
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
    held_out_log_density_ : array of shape (T,)
        With mutation="auto": each training record's log-density given the records of other folds.
        An outlier among the training records has its own small cloud in `score_samples`; here it
        has none.
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
    `n_components`, `prior_strength` and `reg_covar` are for a mutation given by its name; set them
    on a `Mutation` directly ("auto" works for both).

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

    candidate_edges_: Ints
    dropped_mass_: DroppedMass
    dropped_mass_error_ = former_part("error")
    dropped_mass_bound_ = former_part("bound")
    _tree: OutTreeDistribution
    _completions: Completions

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
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
        "missing": [StrOptions({"error", "integrate"})],
        **CONSTRAINTS,
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        mutation: str | Mutation = "auto",
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
        cv: int = 3,
        n_jobs: int | None = None,
        missing: str = "error",
        candidates: str = "auto",
        n_candidates: int = 20,
        neighbours: str = "exact",
        contamination: float = 0.1,
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
        self.contamination = contamination
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        known = isinstance(self.mutation, Mutation) or self.mutation in MUTATIONS
        takes_nan = known and make_mutation(self.mutation).allows_missing
        tags.input_tags.allow_nan = takes_nan or self.missing == "integrate"
        return tags

    # Fit -------------------------------------------------------------------------------------

    @takes_long
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None
    ) -> Self:
        """Fit the mutation to the records.

        Parameters
        ----------
        X : array-like or data frame of shape (T, D)
            At least two records. Booleans, categories and text that recurs of a data frame change
            by tables of their own, beside the numbers; dates become days. `table_columns_` says
            what each column was taken for.
        y : ignored
        checkpoint : path, optional
            A file that keeps what the fit has reached after each step. If it exists already, from
            an interrupted fit to the same records with the same settings, the fit resumes from it,
            and ends with the same bits. Delete it when the fit is done. For one mutation and
            solver="em": not where folds are fitted ("auto") or cells integrated out.

        Returns
        -------
        OutTreeDensity
            Itself.

        Raises
        ------
        ValueError
            If records or settings cannot be used; the message names the column or the setting.
        MemoryError
            If all pairs are asked for and do not fit, before anything is allocated.
        """
        check_params(self)
        X = coded_frame(self, X, reset=True)
        chosen = suited_mutation(
            self, self.mutation, "gaussian" if self.mutation == "auto" else None
        )
        stacked = isinstance(chosen, str) and chosen == "auto"
        mutation = template(self, "gaussian" if stacked else chosen)
        allows_missing = mutation.allows_missing or self.missing == "integrate"
        records = check_records(self, X, allows_missing=allows_missing, reset=True)
        for name in _LEFT_BY_A_FIT:
            self.__dict__.pop(name, None)
        if self.missing == "error":
            refuse_missing_numbers(
                self, records, "fit with missing='integrate', or fill it in with OutTreeImputer"
            )
        hidden = self.missing == "integrate" and bool(np.isnan(records).any())
        stacked = stacked and not hidden
        self.candidates_ = self._decided(len(records), hidden)
        kept = checkpoint_of(self, records, self.candidates_, checkpoint, hidden)
        if hidden:
            fit, self._completions = fit_incomplete(self, mutation, records)
            self.completed_ = self._completions.records
            self.log_likelihood_ = self._completions.mean_log_likelihood()
        else:
            warn_of_degenerate_records(records, mutation, getattr(self, "feature_names_in_", None))
            fit, report = learned(
                self, None if stacked else mutation, records, self._is_sparse, kept
            )
            for name, value in report.items():
                setattr(self, name, value)
            self._tree = self._trees(fit, records)
            self.log_likelihood_ = self._tree.log_z - log_number_of_trees(len(records))
            if stacked:
                penalised = self.log_likelihood_ + fit.mutation.log_prior()
                fit = replace(fit, log_likelihoods=np.array([penalised]))
        self.X_ = records
        self.log_likelihoods_ = fit.log_likelihoods
        self.n_iter_ = fit.n_iter
        self.n_evaluations_ = fit.n_evaluations
        self.converged_ = fit.converged
        warn_of_dropped_mass(self)
        self.mutation_ = fit.mutation  # last: an interrupted fit leaves an estimator not fitted
        self._warn_unless_converged(
            fit.converged,
            ", use ",
            Option("solver", "em"),
            ", or scale the columns with StandardScaler",
        )
        return self

    def _trees(self, fit: FitResult, X: Array) -> OutTreeDistribution:
        """Return the trees of the records, those of the fit if it kept them.

        For knn, also keep the edges of these trees and report what they leave out.
        """
        if not self._is_sparse:
            return tree_distribution(fit.mutation, X) if fit.tree is None else fit.tree
        listed = matrix_candidates(fit.mutation, X, self.n_candidates, self.neighbours)
        self.candidate_edges_ = np.stack([listed.edges.child, listed.edges.parent])
        # The records looked at need no seed of the user's: the same for the same records.
        self.dropped_mass_ = matrix_dropped_mass(fit.mutation, X, listed, random_state=0)
        return candidate_trees(fit.mutation, X, *self.candidate_edges_)

    # Densities -------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each record, log (1/T) Σ_v p(x | x_v), shape (n,).

        Normalised exactly, over all training records as parents (also after a fit over
        candidates), and the same whatever other records are in X. O(n T D), with memory for a
        bounded number of pairs.

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records.

        Returns
        -------
        array of shape (n,)
            Log-densities.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> OutTreeDensity("gaussian").fit(X).score_samples(X[:3]).shape
        (3,)
        """
        records = self._known(X)
        if self._has_hidden:
            return self._completions.log_density(records)
        if self.missing == "integrate" and np.isnan(records).any():
            return Completions.of_complete(self.mutation_, self.X_).log_density(records)
        return leaf_log_density(self.mutation_, self.X_, records)

    def log_predictive(self, X: Any) -> float:
        """Return the paper's test log-likelihood of all records in X together (section 4).

        `log p(X_ ∪ X) − log p(X_)`. It is **not** a normalised density: see
        `outtrees.inference.likelihood.log_predictive_ratio`. O((T + n)³); not for a fit over
        candidates, where it would be the difference of two bounds.

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records.

        Returns
        -------
        float
            The difference, in nats.

        Raises
        ------
        ArgumentError
            After a fit over candidates, or with hidden cells.
        """
        records = self._known(X)
        if self._is_sparse:
            raise ArgumentError(
                "log_predictive needs the sum over all trees, but the fit knows candidates only, "
                "and a difference of two lower bounds says nothing; use score_samples, or fit "
                "with ",
                Option("candidates", "dense"),
            )
        incomplete = np.isnan(records).any() and not self.mutation_.allows_missing
        if self._has_hidden or incomplete:
            raise ArgumentError(
                "log_predictive needs complete records, but some cells are missing; use "
                "score_samples, which integrates them out, or fill them in with OutTreeImputer"
            )
        return log_predictive_ratio(self.mutation_, self.X_, records)

    # Outliers --------------------------------------------------------------------------------

    @property
    def training_log_density_(self) -> Array:
        """Log-density of each training record given the others, (T,).

        With mutation="auto" that of the fold in which it was held out; otherwise
        log 1/(T − 1) Σ_{v ≠ u} p(x_u | x_v), with parameters fitted to all.
        """
        check_is_fitted(self, "mutation_")
        held_out = self.__dict__.get("held_out_log_density_")
        if held_out is not None:
            return np.asarray(held_out)
        if self._has_hidden:
            return self._completions.log_density(self.X_)
        return leave_one_out_log_density(self.mutation_, self.X_)

    @property
    def offset_(self) -> float:
        """The log-density below which a record is an outlier.

        The `contamination` quantile of `training_log_density_`.
        """
        share = getattr(self, "contamination", 0.1)  # models of earlier versions lack it
        return float(np.quantile(self.training_log_density_, share))

    def decision_function(self, X: Any) -> Array:
        """Return `score_samples(X)` − `offset_`: negative for outliers.

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records.

        Returns
        -------
        array of shape (n,)
            Log-densities above the offset.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Ints:
        """Return −1 for new records that are outliers, 1 for others.

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records. To judge the training records, use `fit_predict`: each of them has a part
            in its own density here.

        Returns
        -------
        array of shape (n,)
            1 or −1.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X: Any, y: Any = None) -> Ints:
        """Fit, and return −1 for the records that are outliers among the others, 1 for others.

        Parameters
        ----------
        X : array-like or data frame of shape (T, D)
            Records to fit and judge.
        y : None
            Not used.

        Returns
        -------
        array of shape (T,)
            1 or −1.

        Examples
        --------
        >>> X = np.append(np.random.default_rng(0).normal(size=(39, 2)), [[9.0, 9.0]], axis=0)
        >>> model = OutTreeDensity("gaussian", contamination=0.02)
        >>> np.flatnonzero(model.fit_predict(X) == -1)
        array([39])
        """
        self.fit(X)
        return np.where(self.training_log_density_ < self.offset_, -1, 1)

    # Trees and draws -------------------------------------------------------------------------

    @property
    def tree_(self) -> OutTreeDistribution:
        """The distribution over out-trees of the training records."""
        check_is_fitted(self, "mutation_")
        if self._has_hidden:
            raise ArgumentError(
                "with hidden cells there is no single distribution over trees, but one for each "
                "completion; use edge_marginals_, root_marginals_ or sample_trees, which average "
                "over them, or tree_distribution(mutation_, completed_[m])"
            )
        if "_tree" not in self.__dict__:  # of a model that was saved or pickled
            if self._is_sparse:
                self._tree = candidate_trees(self.mutation_, self.X_, *self.candidate_edges_)
            else:
                self._tree = tree_distribution(self.mutation_, self.X_)
        return self._tree

    @property
    def edge_marginals_(self) -> Any:
        """P(training record u descends directly from v), (T, T) [child, parent]; sparse for knn."""
        check_is_fitted(self, "mutation_")
        if self._has_hidden:
            return self._completions.marginals[0]
        marginals = self.tree_.edge_marginals
        if self._is_sparse:
            child, parent = self.candidate_edges_
            return EdgeList(child, parent, len(self.X_)).matrix(marginals)
        return marginals

    @property
    def root_marginals_(self) -> Array:
        """P(training record r is the root), (T,)."""
        check_is_fitted(self, "mutation_")
        if self._has_hidden:
            return self._completions.marginals[1]
        return self.tree_.root_marginals

    @property
    def _sampled(self) -> Any:
        check_is_fitted(self, "mutation_")
        return self._completions if self._has_hidden else self.tree_

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, Ints]:
        """Return a new population by the paper's recipe (section 2): records and their parents.

        An out-tree on n_samples nodes, all equally likely; a root from the root's density, and
        each child from the conditional given its parent. Nothing of `X_` is reused.

        Parameters
        ----------
        n_samples : int
            The number of records.
        random_state : int, Generator or None
            For the draws.

        Returns
        -------
        X : array of shape (n_samples, D)
            The records.
        parents : array of shape (n_samples,)
            Their parents, −1 at the root.
        """
        check_is_fitted(self, "mutation_")
        return make_out_tree(n_samples, self.mutation_, random_state)

    def sample_table(self, n_samples: int = 1, random_state: Any = None) -> Table:
        """Return what `sample` returns as a table with the columns of the data frame fitted to.

        Categories and dates are those of the data frame again; `parent` is the row of the parent,
        −1 at the root.

        Parameters
        ----------
        n_samples : int
            The number of records.
        random_state : int, Generator or None
            For the draws.

        Returns
        -------
        Table
            The column parent, and those of the data frame.
        """
        X, parents = self.sample(n_samples, random_state)
        names = getattr(self, "feature_names_in_", [f"x{d + 1}" for d in range(X.shape[1])])
        plain = {str(name): {"kind": "continuous", "levels": None} for name in names}
        return Table(
            {
                "parent": parents.tolist(),
                **decoded(getattr(self, "table_columns_", plain), X),
            }
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the density of one, two or three columns with the training records and their tree.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default pyplot's current axes if they are empty, else those of a new figure.
        **options
            See `outtrees.views.plot_density` and, for three columns, `plot_density_3d`.

        Returns
        -------
        matplotlib Axes
            Those drawn on.

        Raises
        ------
        ValueError
            If the model has more than three columns.
        """
        from outtrees.views import plot_density, plot_density_3d

        check_is_fitted(self, "mutation_")
        draw = plot_density_3d if self.n_features_in_ == 3 else plot_density
        return draw(self, ax, **options)

    @takes_long
    def posterior(self, n_draws: int = 256, random_state: int = 0) -> ParameterPosterior:
        """Return weighted draws from the posterior of the parameters, trees summed out.

        By importance sampling from proposals about the fit; `trusted` and `pareto_k` say how far
        the weights can be relied on. O(n_draws T³).

        Parameters
        ----------
        n_draws : int
            Draws of the first two rounds; more follow while weights cannot be trusted.
        random_state : int
            For the draws.

        Returns
        -------
        ParameterPosterior
            Draws, weights, and `intervals` of each parameter.

        Raises
        ------
        ArgumentError
            After a fit over candidates or with hidden cells, and for a mutation without parameters
            or with more than 40, as that of mutation="auto".

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(30, 1))
        >>> found = OutTreeDensity("parzen").fit(X).posterior()
        >>> found.trusted, found.intervals(0.9)["mutation_cov"].shape
        (True, (3, 1, 1))
        """
        check_is_fitted(self, "mutation_")
        if self._is_sparse or self._has_hidden:
            raise ArgumentError(
                "posterior needs the sum over all trees of complete records; fit with ",
                Option("candidates", "dense"),
                ", to records without missing cells",
            )
        return parameter_posterior(self.mutation_, self.X_, n_draws, random_state)

    # Settings --------------------------------------------------------------------------------

    @property
    def _is_sparse(self) -> bool:
        return self.__dict__.get("candidates_") == "knn"  # models saved by 0.1 do not say

    @property
    def _has_hidden(self) -> bool:
        return "_completions" in self.__dict__

    def _known(self, X: Any) -> Array:
        check_is_fitted(self, "mutation_")
        allows_missing = self.mutation_.allows_missing or self.missing == "integrate"
        records = check_records(
            self, coded_frame(self, X, reset=False), allows_missing=allows_missing, reset=False
        )
        if self.missing == "error":
            refuse_missing_numbers(self, records, "fill it in with OutTreeImputer")
        return records

    def _memory_options(self, n_records: int, hidden: bool) -> dict[str, Any]:
        return {
            "can_be_sparse": not hidden and self.solver == "em",
            "n_jobs": self.n_jobs if auto_settings(self) else 1,
            "n_sampled": n_sampled(n_records, self.n_candidates, N_OTHERS),
        }

    def _decided(self, n_records: int, hidden: bool) -> str:
        """Decide between all pairs and candidates, before anything large is allocated."""
        if hidden and self.candidates == "knn":
            raise ArgumentError(
                Option("missing", "integrate"),
                " needs all pairs of records, but ",
                Option("candidates", "knn"),
                "; use ",
                Option("candidates", "dense"),
                ", or fill the cells in with OutTreeImputer first",
            )
        return matrix_way(self, n_records, **self._memory_options(n_records, hidden))


def density_plan(model: OutTreeDensity, n_records: int, hidden: bool) -> Plan:
    """Return which pairs of records a fit will look at, and what memory that needs.

    `hidden`: some cells are missing, and will be integrated out.
    """
    return matrix_plan(model, n_records, **model._memory_options(n_records, hidden))
