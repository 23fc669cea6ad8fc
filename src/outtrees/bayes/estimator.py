"""Variational Bayes over trees and parameters, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from outtrees._common.parameters import Interval, StrOptions, check_params
from outtrees._common.progress import takes_long
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.bayes.evidence import (
    EvidenceTable,
    compare_evidence,
    following_the_tree,
)
from outtrees.bayes.importance import (
    ImportanceSample,
    importance_sample,
    parameter_quantiles,
    supports_of,
    trees_given,
)
from outtrees.bayes.stacking import default_families, stack_posteriors
from outtrees.datasets.generators import make_out_tree
from outtrees.errors import ArgumentError, Option
from outtrees.inference.importance import TRUSTED
from outtrees.inference.likelihood import mean_over_parents
from outtrees.inference.tree_density import TreeDensity
from outtrees.inference.validation import (
    check_records,
    warn_of_degenerate_records,
)
from outtrees.inference.variational import (
    VariationalFit,
    fit_posterior,
    lower_bound,
    variational_trees,
)
from outtrees.models.base import Mutation
from outtrees.models.conjugate import (
    POSTERIORS,
    GaussianPosterior,
    MixturePosterior,
    Posterior,
    make_posterior,
)
from outtrees.trees import OutTreeDistribution
from outtrees.trees.weights import Ints

_MOST_CORRECTED, _DRAWS = 200, 400  # records whose supports average over draws; how many draws
_PRIORS = (
    "weight_concentration_prior",
    "mean_precision_prior",
    "mean_prior",
    "degrees_of_freedom_prior",
    "covariance_prior",
)


class PosteriorDraw(NamedTuple):
    """One draw of parameters, and of a tree given them."""

    mutation: Mutation
    parents: Ints  # (T,), −1 at the root


class BayesianOutTree(TreeDensity):
    """Posterior over trees and parameters of records that each descend from another.

    Fitting raises a lower bound of the evidence p(X), with the tree summed and the parameters
    integrated out (paper, section 6). The density of a new record is
    (1/T) Σ_v ∫ q(θ) p(x | x_v, θ) dθ, an average of Student-t kernels for a Gaussian mutation.

    Parameters
    ----------
    mutation : str, Posterior or Mutation, default="auto"
        How a child differs from its parent: "gaussian", "parzen", "iid", "kernel" (a smooth
        function of the parent), "mixture", "columns" (each column by itself), "categorical",
        "poisson", or a posterior from `outtrees.models.conjugate` with priors of its own. Any
        mutation with few parameters can be given too; it gets a `PointPosterior`.
        "auto" mixes six families with the weights that predict held-out records best
        (`outtrees.bayes.stacking`). Name one, such as "gaussian", for its parameters and their
        intervals, or where you ask for trees: "auto" may find that parents say nothing.
    n_components : int or None, default=None
        The number of clouds of a "mixture"; those not needed empty out. None: 1.
    weight_concentration_prior : float or None, default=None
    mean_precision_prior : float or None, default=None
    mean_prior : array of shape (D,) or None, default=None
    degrees_of_freedom_prior : float or None, default=None
    covariance_prior : array of shape (D, D) or None, default=None
        As in scikit-learn's BayesianGaussianMixture, for a mutation given by its name that has
        them; None scales them by the data. All others are options of the posteriors.
    max_iter : int, default=200
    tol : float, default=1e-4
        The fit ends after two steps in a row that raise the bound by tol nats or less.
    n_init : int, default=1
        The number of starts where the start is random ("mixture", "columns", "kernel" with fewer
        landmarks than records).
    n_jobs : int, default=None
        The number of families fitted at the same time for "auto".
    random_state : int, RandomState, Generator or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    posterior_ : Posterior
        q over the parameters of the conditional, with its prior.
    X_ : array of shape (T, D)
        The training records.
    lower_bound_ : float
        Bound of log p(X), nats.
    lower_bounds_ : array of shape (1 + number of steps,)
        At the start and after each step; they never fall. One entry for "auto".
    n_iter_, n_evaluations_ : int
    converged_ : bool
    weights_ : array
        Expected weights of the components, for mixtures and "auto".
    candidates_ : dict
        For "auto": `names`, `weight`, `lower_bound` (NaN for those not mixed) and `log_density` (of
        records held out, summed; NaN for those that were soon far behind) of the families.
    tree_ : OutTreeDistribution
        q over the out-trees of the training records.
    edge_marginals_, root_marginals_ : arrays of shape (T, T) [child, parent] and (T,)
        Of up to 200 records averaged over θ by 400 weighted draws, which are made when they are
        first asked for; under q for more.
    n_features_in_ : int
    feature_names_in_ : array of shape (D,)

    Notes
    -----
    q(tree) q(θ) leaves out how trees and parameters depend on each other, so intervals of
    parameters tend to be too narrow: `importance` corrects them and says by how much.

    Records alone hardly tell parents from children or a walk from siblings, and q (`tree_`)
    settles for one reading of several. `edge_marginals_` of few records average over readings, and
    promise far less (docs/benchmarks/trust.md). A warning says if their draws cannot be trusted:
    Pareto k above 0.7, as `importance` has it.

    Examples
    --------
    >>> from outtrees.datasets import make_spiral
    >>> X = make_spiral(100)
    >>> model = BayesianOutTree("parzen").fit(X)
    >>> model.converged_, model.score_samples(X[:2]).shape
    (True, (2,))
    """

    _MADE_AGAIN = ("_tree", "_corrected")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mutation": [StrOptions({"auto", *POSTERIORS}), Posterior, Mutation],
        "n_components": [Interval(Integral, 0, None, closed="left"), None],
        "weight_concentration_prior": [Interval(Real, 0, None, closed="neither"), None],
        "mean_precision_prior": [Interval(Real, 0, None, closed="neither"), None],
        "mean_prior": ["array-like", None],
        "degrees_of_freedom_prior": [Interval(Real, 0, None, closed="neither"), None],
        "covariance_prior": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        mutation: str | Posterior | Mutation = "auto",
        *,
        n_components: int | None = None,
        weight_concentration_prior: float | None = None,
        mean_precision_prior: float | None = None,
        mean_prior: Any = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: Any = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_init: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.mutation = mutation
        self.n_components = n_components
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        known = isinstance(self.mutation, (Posterior, Mutation)) or self.mutation in POSTERIORS
        tags.input_tags.allow_nan = known and make_posterior(self.mutation).allows_missing
        return tags

    @takes_long
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit q over trees and parameters to the records.

        Parameters
        ----------
        X : array-like of shape (T, D)
            At least two records.
        y : None
            Not used.

        Returns
        -------
        BayesianOutTree
            Itself.
        """
        check_params(self)
        template = self._template()
        allows_missing = template is not None and template.allows_missing
        records = check_records(self, X, allows_missing=allows_missing, reset=True)
        if template is None or hasattr(template, "reg_covar"):
            watched = GaussianPosterior() if template is None else template
            warn_of_degenerate_records(records, watched, getattr(self, "feature_names_in_", None))  # type: ignore[arg-type]
        for name in ("posterior_", "_tree", "_corrected", "candidates_", "weights_"):
            self.__dict__.pop(name, None)
        if template is None:
            fit = self._stacked(records)
        else:
            fit = fit_posterior(
                template,
                records,
                n_init=self.n_init,
                random_state=self.random_state,
                **self._fit_options(),
            )
        self.X_ = records
        self.lower_bounds_ = fit.lower_bounds
        self.lower_bound_ = fit.lower_bound
        self.n_iter_ = fit.n_iter
        self.n_evaluations_ = fit.n_evaluations
        self.converged_ = fit.converged
        if isinstance(fit.posterior, MixturePosterior):
            self.weights_ = fit.posterior.weights
        if fit.tree is not None:
            self._tree = fit.tree
        self.posterior_ = fit.posterior  # last: an interrupted fit leaves an estimator not fitted
        self._warn_unless_converged(fit.converged)
        return self

    # Densities ---------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each record with parameters integrated out, shape (n,).

        log (1/T) Σ_v ∫ q(θ) p(x | x_v, θ) dθ: normalised exactly, and the same whatever other
        records are in X. O(n T D).

        Parameters
        ----------
        X : array-like of shape (n, D)
            New records.

        Returns
        -------
        array of shape (n,)
            Log-densities.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> BayesianOutTree("gaussian").fit(X).score_samples(X[:3]).shape
        (3,)
        """
        records = self._known(X)
        return mean_over_parents(self.posterior_.log_predictive, self.X_, records)

    def log_predictive(self, X: Any) -> float:
        """Return the difference of the bounds of `X_` with and without X, q(θ) held as it is.

        The paper's ratio `p(X_ ∪ X) / p(X_)` (section 4) under q. It is **not** a normalised
        density. O((T + n)³).

        Parameters
        ----------
        X : array-like of shape (n, D)
            New records.

        Returns
        -------
        float
            The difference, in nats.
        """
        records = self._known(X)
        together = np.vstack([self.X_, records])
        return lower_bound(self.posterior_, together) - lower_bound(self.posterior_, self.X_)

    # Trees and draws ---------------------------------------------------------------------------

    @property
    def tree_(self) -> OutTreeDistribution:
        """q over the out-trees of the training records."""
        check_is_fitted(self, "posterior_")
        if "_tree" not in self.__dict__:  # of a model that was saved or pickled
            self._tree = variational_trees(self.posterior_, self.X_)
        return self._tree

    @property
    def edge_marginals_(self) -> Array:
        """P(training record u descends directly from v), (T, T) [child, parent].

        Of up to 200 records averaged over θ by weighted draws (`importance`), else under q.
        """
        return self._supports[0]

    @property
    def root_marginals_(self) -> Array:
        """P(training record r is the root), (T,), as `edge_marginals_`."""
        return self._supports[1]

    @property
    def _supports(self) -> tuple[Array, Array]:
        """Edge and root probabilities, made when first asked for."""
        check_is_fitted(self, "posterior_")
        if len(self.X_) > _MOST_CORRECTED:
            return self.tree_.edge_marginals, self.tree_.root_marginals
        if "_corrected" not in self.__dict__:
            sample = importance_sample(self.posterior_, self.X_, _DRAWS, 0)
            if sample.pareto_k > TRUSTED:
                warnings.warn(
                    f"edge_marginals_ and root_marginals_ may be off: the weights of their draws "
                    f"have a Pareto k of {sample.pareto_k:.2f} (at most {TRUSTED} is expected). "
                    "Give priors that say more, or a family with fewer parameters.",
                    UserWarning,
                    stacklevel=3,
                )
            self._corrected = supports_of(
                self.posterior_, sample.mutations, sample.weights, self.X_
            )
        found: tuple[Array, Array] = self._corrected
        return found

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, Ints]:
        """Return a new population and its parents, its parameters drawn from q.

        The root's parameters are drawn given a root drawn from q(r). Nothing of `X_` is reused
        (paper, section 2).

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
        check_is_fitted(self, "posterior_")
        rng = as_generator(random_state)
        roots = self.root_marginals_ / self.root_marginals_.sum()
        root = self.X_[rng.choice(len(self.X_), p=roots)]
        return make_out_tree(n_samples, self.posterior_.draw(rng, root), rng)

    def sample_posterior(
        self, n_draws: int = 1, random_state: Any = None, *, corrected: bool = False
    ) -> list[PosteriorDraw]:
        """Return draws of (parameters, tree): θ from q, then a tree given θ exactly.

        With `corrected` θ is chosen among 10 · n_draws (at least 200) draws with their importance
        weights, so that the pairs follow the exact posterior as far as `importance` says they can.
        O(n_draws T³).

        Parameters
        ----------
        n_draws : int
            The number of draws.
        random_state : int, Generator or None
            For the draws.
        corrected : bool
            Whether draws of θ are reweighted to the exact posterior.

        Returns
        -------
        list of PosteriorDraw
            Parameters and parents of each draw.
        """
        check_is_fitted(self, "posterior_")
        rng = as_generator(random_state)
        if corrected:
            sample = importance_sample(self.posterior_, self.X_, max(200, 10 * n_draws), rng)
            chosen = rng.choice(len(sample.weights), size=n_draws, p=sample.weights)
            mutations = [sample.mutations[i] for i in chosen]
        else:
            mutations = [self.posterior_.draw(rng) for _ in range(n_draws)]
        return [
            PosteriorDraw(m, trees_given(self.posterior_, m, self.X_).sample(1, rng)[0])
            for m in mutations
        ]

    def importance(self, n_draws: int = 200, random_state: Any = None) -> ImportanceSample:
        """Return draws of θ reweighted to the exact posterior, with their effective number.

        See `outtrees.bayes.importance.importance_sample`. O(n_draws T³).

        Parameters
        ----------
        n_draws : int
            The number of draws of θ.
        random_state : int, Generator or None
            For the draws.

        Returns
        -------
        ImportanceSample
            Draws, weights, their effective number, and an estimate of the evidence.
        """
        check_is_fitted(self, "posterior_")
        return importance_sample(self.posterior_, self.X_, n_draws, random_state)

    def credible_intervals(
        self,
        level: float = 0.9,
        n_draws: int = 1000,
        random_state: Any = None,
        *,
        sample: ImportanceSample | None = None,
    ) -> dict[str, Array]:
        """Return for each parameter an array with low, median and high in the first axis.

        Equal tails, from draws of q; from the weighted draws of `importance` if `sample` is
        given. Sampled. Of components of a mixture that are alike, labels mean nothing.

        Parameters
        ----------
        level : float
            The probability that an interval holds.
        n_draws : int
            Draws from q.
        random_state : int, Generator or None
            For the draws.
        sample : ImportanceSample, optional
            Weighted draws to use instead.

        Returns
        -------
        dict of str to array
            Low, median and high of each parameter in the first axis.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> BayesianOutTree("gaussian").fit(X).credible_intervals(random_state=0)["offset"].shape
        (3, 2)
        """
        check_is_fitted(self, "posterior_")
        if not 0 < level < 1:
            raise ArgumentError(
                Option("level"), f" must lie between 0 and 1; got {level!r}. Use 0.9, say."
            )
        if sample is None:
            rng = as_generator(random_state)
            mutations = [self.posterior_.draw(rng) for _ in range(n_draws)]
            weights = np.full(n_draws, 1.0 / n_draws)
        else:
            mutations, weights = sample.mutations, sample.weights
        return parameter_quantiles(mutations, weights, [(1 - level) / 2, 0.5, (1 + level) / 2])

    def evidence(
        self,
        candidates: Mapping[str, str | Posterior] | Iterable[str] | None = None,
        *,
        columns: Mapping[str, Sequence[int]] | None = None,
    ) -> EvidenceTable:
        """Return a table of bounds of the evidence of the training records, best first.

        Parameters
        ----------
        candidates : mapping of names to mutations, or names of mutations
            Families to compare; by default "gaussian", "parzen" and "iid".
        columns : mapping of names to positions of columns
            Instead of families: which columns are inherited. In each model those columns follow
            this estimator's mutation given the parent, and the others are drawn afresh for each
            record; "none" (all columns drawn afresh) is added.

        Returns
        -------
        EvidenceTable
            Models by their bounds, the best first.
        """
        check_is_fitted(self, "posterior_")
        D = self.X_.shape[1]
        if columns is not None:
            family = self._template()
            models: dict[str, Posterior] = {
                name: following_the_tree(chosen, D, family) for name, chosen in columns.items()
            }
            models["none"] = following_the_tree([], D)
        else:
            offered = ("gaussian", "parzen", "iid") if candidates is None else candidates
            pairs = offered if isinstance(offered, Mapping) else {name: name for name in offered}
            models = {str(name): make_posterior(value) for name, value in pairs.items()}
        return compare_evidence(
            models,
            self.X_,
            n_init=self.n_init,
            random_state=self.random_state,
            **self._fit_options(),
        )

    # Inside ------------------------------------------------------------------------------------

    def _known(self, X: Any) -> Array:
        check_is_fitted(self, "posterior_")
        allows_missing = self.posterior_.allows_missing
        return check_records(self, X, allows_missing=allows_missing, reset=False)

    def _fit_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("max_iter", "tol", "verbose")}

    def _template(self) -> Posterior | None:
        """Return the posterior to be fitted with the priors given here; None for "auto"."""
        given = {name: getattr(self, name) for name in _PRIORS if getattr(self, name) is not None}
        if self.n_components is not None:
            given["n_components"] = self.n_components
        auto = isinstance(self.mutation, str) and self.mutation == "auto"
        made = None if auto else make_posterior(self.mutation)
        named = isinstance(self.mutation, str) and not auto
        has = {field.name for field in fields(made)} if named else set()  # type: ignore[arg-type]
        options = {}
        for name, value in given.items():
            key = "n_iid" if name == "n_components" else name
            if key == "n_iid" and key not in has and value == 1:
                continue  # all others have one component
            if key not in has:
                raise ArgumentError(
                    Option(name, value),
                    " is no prior of ",
                    Option("mutation", self.mutation),
                    " that can be given here; make a posterior from outtrees.models.conjugate with "
                    "it, or leave it out",
                )
            options[key] = value
        return None if made is None else replace(made, **options)  # type: ignore[type-var]

    def _stacked(self, X: Array) -> VariationalFit:
        """Return the mixture of the default families as one fit of no steps of its own."""
        stack = stack_posteriors(
            default_families(),
            X,
            n_jobs=self.n_jobs,
            n_init=self.n_init,
            random_state=self.random_state,
            **self._fit_options(),
        )
        self.candidates_ = {
            "names": stack.names,
            "weight": stack.weights,
            "lower_bound": np.array(
                [stack.fits[n].lower_bound if n in stack.fits else np.nan for n in stack.names]
            ),
            "log_density": stack.log_densities.sum(axis=1),
        }
        tree = variational_trees(stack.posterior, X)
        return VariationalFit(
            stack.posterior,
            np.array([lower_bound(stack.posterior, X, tree)]),
            max(fit.n_iter for fit in stack.fits.values()),
            sum(fit.n_evaluations for fit in stack.fits.values()),
            all(fit.converged for fit in stack.fits.values()),
            tree,
        )
