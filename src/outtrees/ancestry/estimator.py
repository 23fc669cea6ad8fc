"""Ancestry: from a table of records to who came from whom, and how sure one may be."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.parameters import Interval, Parameters, StrOptions, check_params
from outtrees._common.progress import note, takes_long
from outtrees._common.random import as_generator
from outtrees.ancestry import (
    calibration,
    exchange,
    figures,
    inputs,
    integration,
    learning,
    limited_children,
    placement,
    shuffles,
    simulation,
    support,
)
from outtrees.ancestry.constraints import (
    named,
    possible_edges,
    refuse_late_parents,
)
from outtrees.ancestry.contacts import met_columns
from outtrees.ancestry.model_choice import (
    check_dated,
    check_samples,
    check_waits,
    date_options,
    model_sentence,
    published_wait,
)
from outtrees.ancestry.nearest import transmission_of
from outtrees.ancestry.outbreak import is_whole
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.sentences import (
    FitFacts,
    fit_warnings,
    not_converged,
    parameter_sentences,
)
from outtrees.ancestry.spread import Spread, spread_of
from outtrees.candidates import Constraints
from outtrees.candidates.dropped_mass import DroppedMass, table_dropped_mass
from outtrees.candidates.plan import table_plan
from outtrees.errors import NoSpanningTreeError, RecordsError
from outtrees.io.tables import Table
from outtrees.models.columns import ColumnKernel, Lineage
from outtrees.records import Records

Array = NDArray[np.float64]

# Options that are numbers above 0, or not given.
_POSITIVE = (
    *("waiting_mean", "waiting_sd", "generation_mean", "generation_sd"),
    *("delay_mean", "delay_sd", "substitution_rate"),
)


class Ancestry(Parameters):
    """Parents of the records in a table with dates, sequences, places, categories and numbers.

    Every record has one unknown parent record (or is a root). Each column changes from parent to
    child in its own way, learned from the table itself. All trees are summed exactly, and so are
    empty cells; parameters of small tables are integrated out by weighted draws.

    Parameters
    ----------
    id : str, optional
        The column of identities; see `outtrees.records.read_records`.
    kinds : mapping of str to str, optional
        From a column to "continuous", "categorical", "count", "date", "sequence", "place", "label"
        (a category to be predicted), "parent" (of known parents), "group" (only records of one
        group can be related) or "ignore". Other columns get a kind by their cells.
    roots : {"auto", "single", "any"}
        One root (in each group), or any number: several introductions. "auto": any number where
        the table has dates, and neither a root nor log-weights, which lack those of roots, are
        given.
    keep : sequence of str, optional
        Columns that take part even if they add nothing to distinguish parents from others.
    links : int
        The largest number of links from a record to its parent record: up to links − 1 people or
        other ancestors between that no record shows. Their weights are learned.
    background : bool
        Whether an outlying cell costs a bounded amount (dates in strict order excepted).
    strict_dates : bool
        Whether a parent must be earlier; if not, this is only likely.
    ties : bool
        Whether parent and child may share a date that is rounded to whole days.
    waiting_mean, waiting_sd : float, optional
        Of the time from parent to child; where not given, many are tried.
    waiting_law : {"gamma", "lognormal", "weibull"}, optional
        The law of that time: "gamma", unless the disease is known for another.
    disease : str, optional
        The name of a disease whose published waiting time, in days, fills in what is not given of
        waiting_mean, waiting_sd and waiting_law: see `outtrees.datasets.DISEASES`.
    generation_time : sequence of float, optional
        Instead of the law: the probabilities of waiting 0, 1, 2, … units of time.
    transmission : {"auto"} or bool
        Whether dates are those of sampling, and sequences change with time along chains of
        infection in which some people are not sampled; see `outtrees.models.columns.Transmission`.
        Parents are then the nearest sampled ancestors: `outtrees.ancestry.nearest`.
        "auto": where one of the seven parameters below is given, and in tables with dates and DNA
        whose dates are not called onsets, unless another option contradicts it; `describe` says
        which model was chosen.
    generation_mean, generation_sd : float, optional
        Of the time from infection to infection, with `transmission`; learned where not given.
    delay_mean, delay_sd : float, optional
        Of the time from infection to sampling.
    substitution_rate : float, optional
        Substitutions a site and unit of time.
    sampled : float, optional
        The share of cases that were sampled, above 0 and at most 1.
    introduction_distance : float, optional
        Substitutions a site that are expected between the sequences of two introductions, from a
        background population with its own diversity. Learned where not given: introductions then
        stem from one origin at a learned date.
    host : str, optional
        A column that says whose sample each row is, where several are of one host, with
        `transmission`. Records are then the hosts: parents, dates of infection and all other
        results are theirs, and other arguments name them. See docs/outbreaks.md.
    date_uncertainty : float
        Dates are known to within ± this.
    until : str, optional
        A column of dates at which records ended, if children come after their parent's *end* (a
        cell's daughters after it divides): waiting times then count from there.
    censored : str, optional
        A yes/no column: yes where a record's own date lies after the last look.
    clock : bool
        Whether numbers, places and sequences change the more the more time passed between parent
        and child, at learned rates: (links + rate · time) times the variance, or the
        substitutions, of one link. Numbers then wander too instead of reverting to a mean. The
        transmission model has a clock of its own for sequences.
    group_spread : bool
        Whether each group has its own spread of places, held near what all have in common. Needs
        columns of groups and of places.
    substitution : {"JC69", "K80"}
    kernels : mapping of str to ColumnKernel, optional
        From a column to how it changes, instead of what its kind says: for kinds of your own. Dates
        and sequences keep theirs.
    root : str, optional
        The identity of the known root.
    known_parents : mapping of str to str, optional
        From a child to its parent, None for a known root; besides a column of kind "parent".
    forbidden : iterable of (child, parent), optional
    contacts_directed : bool
        Whether a contact goes from the one who may have infected to the other; if not, either may
        have. See `fit`.
    candidates : {"auto", "dense", "knn"}
        Which possible parents take part: all of them ("dense"), or each record's best ("knn"), by
        the fitted changes of all columns. "auto" takes all unless a group has more than 4,000
        records; it then says so in `warnings_`.
    n_candidates : int
        How many, at most, with "knn".
    parameters : {"auto", "integrated", "fitted"}
        Whether answers average over the parameters that the table leaves possible, by weighted
        draws from their posterior, or take the fitted ones for granted. "auto" integrates over
        up to 40 parameters of tables of up to 300 records and 50,000 possible edges.
    max_iter : int
    tol : float
        The fit ends when an iteration gains less than this for each record.
    random_state : int, Generator or None
        For draws of parameters, sampled trees, predicted labels and simulations. With None, draws
        of parameters are the same in every fit.
    progress : callable, optional
        Called as progress(iteration, log_posterior). If it has a method `say`, that is
        called with a sentence on each step.
    generations : int, optional
        The former name of `links`; goes with version 0.3.

    Attributes
    ----------
    table_ : Records
    lineage_ : Lineage
        The fitted changes of all columns.
    root_rate_ : float
        The share of records without a parent, where roots="any".
    objectives_ : list of float
        The best log-likelihood + log-prior after each evaluation; they never fall.
    converged_ : bool
    n_iter_ : int
    dropped_mass_ : DroppedMass, or None
        With "knn": the share of probability on possible parents outside the candidates. `kind`
        says whether the mean is exact, or estimated from a sample with its standard error and,
        where there is one, a `bound`. None if all took part.
    limited_exponents_ : dict of int to array
        What `calibrate` learned for each limit on children.
    warnings_ : list of str
        What a careful reader should know.

    Notes
    -----
    With integrated parameters (small tables by default) supports include what is not known of the
    parameters, and have Monte-Carlo errors of about 0.01 (`parents(errors=True)`); with fitted ones
    they do not. `lineage_`, `log_likelihood_`, `limited_parents`, `calibrate` and `spread` go by
    the fitted parameters of the best reading.

    Columns are taken as independent given the parent; columns that repeat each other make supports
    too sure. Parents that are no record at all are covered by `links` only as far as links
    add; a missing common parent of two records makes one of them the parent of the other.

    All pairs take O(T²) memory and up to O(T³) time in the largest group; candidates take
    O(T · n_candidates) memory.

    Examples
    --------
    >>> table = {
    ...     "case": ["a", "b", "c", "d"],
    ...     "onset": ["2020-03-01", "2020-03-04", "2020-03-05", "2020-03-08"],
    ...     "ward": ["N", "N", "S", "S"],
    ... }
    >>> found = Ancestry(waiting_mean=3.5, waiting_sd=1.0).fit(table)
    >>> print(found.parents(min_support=0.3))
    child  parent  support  rank
    a                1.000     1
    b      a         0.849     1
    c      a         0.807     1
    d      c         0.501     1
    d      b         0.400     2
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "id": [str, None],
        "kinds": [dict, None],
        "roots": [StrOptions({"auto", "single", "any"})],
        "keep": ["array-like", list, None],
        "links": [Interval(Integral, 1, 50, closed="both")],
        "generations": [Interval(Integral, 1, 50, closed="both"), None],
        "background": ["boolean"],
        "strict_dates": ["boolean"],
        "ties": ["boolean"],
        "waiting_law": [StrOptions({"gamma", "lognormal", "weibull"}), None],
        "disease": [str, None],
        "generation_time": ["array-like", None],
        "transmission": ["boolean", StrOptions({"auto"})],
        **{name: [Interval(Real, 0, None, closed="neither"), None] for name in _POSITIVE},
        "sampled": [Interval(Real, 0, 1, closed="right"), None],
        "introduction_distance": [Interval(Real, 0, None, closed="neither"), None],
        "host": [str, None],
        "date_uncertainty": [Interval(Real, 0, None, closed="left")],
        "until": [str, None],
        "censored": [str, None],
        "clock": ["boolean"],
        "group_spread": ["boolean"],
        "substitution": [StrOptions({"JC69", "K80"})],
        "kernels": [dict, None],
        "root": [str, Integral, None],
        "known_parents": [dict, None],
        "forbidden": ["array-like", list, None],
        "contacts_directed": ["boolean"],
        "candidates": [StrOptions({"auto", "dense", "knn"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "parameters": [StrOptions({"auto", "integrated", "fitted"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
        "progress": [callable, None],
    }

    def __init__(
        self,
        *,
        id: str | None = None,
        kinds: Mapping[str, str] | None = None,
        roots: Literal["auto", "single", "any"] = "auto",
        keep: Sequence[str] | None = None,
        links: int = 1,
        background: bool = True,
        strict_dates: bool = True,
        ties: bool = True,
        waiting_mean: float | None = None,
        waiting_sd: float | None = None,
        waiting_law: Literal["gamma", "lognormal", "weibull"] | None = None,
        disease: str | None = None,
        generation_time: Sequence[float] | None = None,
        transmission: bool | str = "auto",
        generation_mean: float | None = None,
        generation_sd: float | None = None,
        delay_mean: float | None = None,
        delay_sd: float | None = None,
        substitution_rate: float | None = None,
        sampled: float | None = None,
        introduction_distance: float | None = None,
        host: str | None = None,
        date_uncertainty: float = 0.0,
        until: str | None = None,
        censored: str | None = None,
        clock: bool = False,
        group_spread: bool = False,
        substitution: str = "JC69",
        kernels: Mapping[str, ColumnKernel] | None = None,
        root: str | None = None,
        known_parents: Mapping[str, str | None] | None = None,
        forbidden: Iterable[tuple[str, str]] | None = None,
        contacts_directed: bool = False,
        candidates: str = "auto",
        n_candidates: int = 20,
        parameters: Literal["auto", "integrated", "fitted"] = "auto",
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
        progress: Callable[[int, float], None] | None = None,
        generations: int | None = None,
    ) -> None:
        self.id = id
        self.kinds = kinds
        self.roots = roots
        self.keep = keep
        self.links = links
        self.background = background
        self.strict_dates = strict_dates
        self.ties = ties
        self.waiting_mean = waiting_mean
        self.waiting_sd = waiting_sd
        self.waiting_law = waiting_law
        self.disease = disease
        self.generation_time = generation_time
        self.transmission = transmission
        self.generation_mean = generation_mean
        self.generation_sd = generation_sd
        self.delay_mean = delay_mean
        self.delay_sd = delay_sd
        self.substitution_rate = substitution_rate
        self.sampled = sampled
        self.introduction_distance = introduction_distance
        self.host = host
        self.date_uncertainty = date_uncertainty
        self.until = until
        self.censored = censored
        self.clock = clock
        self.group_spread = group_spread
        self.substitution = substitution
        self.kernels = kernels
        self.root = root
        self.known_parents = known_parents
        self.forbidden = forbidden
        self.contacts_directed = contacts_directed
        self.candidates = candidates
        self.n_candidates = n_candidates
        self.parameters = parameters
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.progress = progress
        self.generations = generations

    # Fit -----------------------------------------------------------------------------------

    @takes_long
    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        sequences: Any = None,
        unsequenced: str = "error",
        distances: ArrayLike | str | os.PathLike[str] | None = None,
        log_weights: ArrayLike | str | os.PathLike[str] | None = None,
        contacts: Any = None,
        stays: Any = None,
        variants: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn how columns change and sum over all trees.

        Parameters
        ----------
        table : path, data frame, mapping of columns, or Records
            See `outtrees.records.read_records`.
        y : None
            Not used.
        sequences : path or mapping, optional
            Aligned FASTA or NEXUS, or identity → text, joined by identity.
        unsequenced : {"error", "missing"}
            Whether records that `sequences` do not name are refused, or all their sites unread.
        distances, log_weights : path, array or data frame of shape (T, T), optional
            Between the records, [child, parent]; a file has identities in its first row and
            column, a data frame in its index and columns, in any order. Distances count as one
            more column; log-weights, log p(child | parent), are added to the others.
        contacts : path, data frame or mapping, optional
            Pairs of records that met: columns from and to, and perhaps date and type. A contact
            counts for v → u unless its date is after u's. How often true pairs and others have a
            contact is learned, for each type: `outtrees.models.columns.Contacts`.
        stays : path, data frame or mapping, optional
            Where records were: columns record, place, from and until. Pairs that were at one place
            together before the child's date, and those where the child came after the parent had
            left, count as two types of contact.
        variants : path, data frame or mapping, optional
            How frequent bases are within samples, with `transmission`: a VCF with AF or AD of each
            sample, or columns sample, position (from 1), base and frequency.
        checkpoint : path, optional
            A file that keeps the end of each climb of the fit. If it is there
            already, from a fit of the same table with the same settings that was interrupted, the
            fit goes on from it, and ends with the same bits. Delete it when the fit is done.

        Returns
        -------
        Ancestry
            Itself.

        Raises
        ------
        RecordsError
            If the table cannot be read, or no column is left; the message names the place.
        NoSpanningTreeError
            If what is known leaves no tree; the message names the records.
        MemoryError
            If all pairs are asked for and do not fit, before anything is allocated.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> model.fit(table).named_tree()
        {'a': None, 'b': 'a', 'c': 'b'}
        """
        check_params(self)
        if self.generations is not None:
            warnings.warn(
                "Ancestry(generations=…) goes with version 0.3; write links=….",
                FutureWarning,
                stacklevel=3,
            )
        check_waits(self)
        self.table_ = self._read(table, sequences, unsequenced, variants)
        check_dated(self.table_, vars(self))
        check_samples(self)
        plan = table_plan(self.table_, self.candidates, self.n_candidates)
        plan.check()
        columns = self._columns(distances, log_weights)
        dates = date_options(self)
        taken = {column.name for column in columns}
        met = met_columns(contacts, stays, self.table_, dates, self.contacts_directed, taken)
        columns += met.columns
        if not columns:
            raise RecordsError(
                "at least one column besides the identities is expected, but there is none; give "
                "dates, sequences, places, categories, numbers, contacts, distances or log-weights"
            )
        self.column_names_ = [column.name for column in columns]
        try:
            given = self._constraints()
            refuse_late_parents(self.table_, columns, given, dates.until)
            fit = self._learned(columns, given, checkpoint)
            n_candidates = None
            if plan.way == "knn":
                self._say(f"candidate parents of {len(self.table_):,} records")
                n_candidates = self.n_candidates
            self.edges_ = possible_edges(fit, given, self._roots, n_candidates)
            if self._integrates(fit):
                fit = integration.integrated(fit, given, self._roots, self._seed(), self._say)
            self.readings_ = list(fit.readings)
            self.column_values_ = [column.values for column in columns]
            self.column_gains_ = {columns[c].name: gain for c, gain in fit.gains.items()}
            self.left_out_ = [columns[c].name for c in fit.left_out]
            self.limited_exponents_: dict[int, Array] = {}
            self._posterior: Posterior | None = None
            _ = self.fitted.best_trees.log_z
            if self.fitted.whole:
                self._say("transmission trees")
                _ = self.fitted.trees.edge_marginals
        except NoSpanningTreeError as error:
            raise named(error, self.table_.ids) from error
        main = fit.readings[0]
        self.objectives_ = list(main.objectives)
        self.n_iter_ = main.n_iter
        self.converged_ = main.converged
        self.dropped_mass_ = None
        if plan.way == "knn":
            self._say("probability of parents outside the candidates")
            self.dropped_mass_ = self._dropped_mass(given)
        facts = FitFacts(
            main.converged,
            main.n_iter,
            self.dropped_mass_,
            self.root is not None,
            dates,
            bool((given.known >= 0).any()),
            {name: self.column_gains_[name] for name in self.left_out_},
        )
        self.warnings_ = [plan.why] * bool(plan.why) + fit_warnings(self.fitted, facts)
        self.warnings_ += [*integration.draw_warnings(self.fitted), *met.notes]
        if not main.converged:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(not_converged(main.n_iter), ConvergenceWarning, stacklevel=3)
        return self

    def _integrates(self, fit: learning.TableFit) -> bool:
        """Return whether parameters are integrated out."""
        if self._is_whole(fit.readings[0].lineage):  # by the same chains as trees and dates
            return False
        if self.parameters != "auto":
            return self.parameters == "integrated"
        return integration.is_small(
            len(self.table_), len(self.edges_.child), fit.readings[0].lineage
        )

    def _is_whole(self, lineage: Lineage) -> bool:
        """Return whether trees, dates and parameters of an outbreak are drawn together."""
        groups = self.edges_.groups
        return self.parameters != "fitted" and is_whole(lineage, len(self.table_), groups)

    def _seed(self) -> int:
        """Return the seed of draws of parameters."""
        if self.random_state is None:
            return 0
        return int(as_generator(self.random_state).integers(2**32))

    def _dropped_mass(self, given: Constraints) -> DroppedMass:
        main = self.readings_[0]
        return table_dropped_mass(
            main.lineage,
            self.column_values_,
            given,
            self.edges_,
            roots=self._roots,
            log_introduction=main.log_introduction,
        )

    def _say(self, text: str) -> None:
        """Tell the display of progress, if it takes words, what is under way."""
        note(text)
        say = getattr(self.progress, "say", None)
        if say is not None:
            say(text)

    # What a fit takes
    _read = inputs.read_table
    _columns = inputs.table_columns
    _constraints = inputs.table_constraints
    _learned = inputs.learned
    _roots = property(inputs.kind_of_roots)

    # The posterior -------------------------------------------------------------------------

    @property
    def records(self) -> Records:
        """The records as they were read."""
        self._check_fitted("table_")
        return self.table_

    @property
    def fitted(self) -> Posterior:
        """The distribution over trees, and all that follows from the fit.

        `fit` keeps the trees that it computed; a model that was loaded or copied computes them when
        first asked.
        """
        self._check_fitted("readings_")
        kept: Posterior | None = getattr(self, "_posterior", None)
        if kept is None:
            kept = self._posterior = Posterior(
                self.table_,
                tuple(self.column_names_),
                tuple(self.column_values_),
                tuple(self.readings_),
                self.edges_,
                self._roots,
                self._is_whole(self.readings_[0].lineage),
                inputs.sample_dates(self),
            )
        return kept

    @property
    def lineage_(self) -> Lineage:
        """The fitted changes of all columns, in the best reading."""
        return self.fitted.lineage

    @property
    def root_rate_(self) -> float:
        """The expected share of records without a parent."""
        return float(self.fitted.trees.root_marginals.mean())

    @property
    def _limited_exponents(self) -> dict[int, Array]:
        return getattr(self, "limited_exponents_", {})  # models saved by earlier versions lack it

    def _generator(self, random_state: Any) -> np.random.Generator:
        return as_generator(self.random_state if random_state is None else random_state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readings_")

    def _check_fitted(self, attribute: str) -> None:
        if not hasattr(self, attribute):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, attribute)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_posterior": None}

    # Questions -----------------------------------------------------------------------------

    def tree(self, kind: str = "consensus", random_state: Any = None) -> NDArray[np.intp]:
        """Return the parent of each record as its row, (T,), −1 at roots.

        Parameters
        ----------
        kind : {"consensus", "mode", "sample"}
            The consensus has the most expected right parents, the mode is the most probable tree,
            a sample is drawn from all trees by their probability.
        random_state : int, Generator or None
            For a sample; by default that of the model.

        Returns
        -------
        array of shape (T,)
            Rows of the parents.

        Raises
        ------
        ValueError
            If the kind is none of these.

        See Also
        --------
        named_tree : The same by identities.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> model.fit(table).tree().tolist()
        [-1, 0, 1]
        """
        if kind == "consensus":
            return self.fitted.consensus.parents
        if kind == "mode":
            return self.fitted.mode.parents
        if kind == "sample":
            drawn: NDArray[np.intp] = self.fitted.trees.sample(1, self._generator(random_state))[0]
            return drawn
        raise ValueError(f"kind must be 'consensus', 'mode' or 'sample'; got {kind!r}")

    def named_tree(
        self, kind: str = "consensus", random_state: Any = None
    ) -> dict[str, str | None]:
        """Return the parent of each record by identities, None at roots.

        Parameters
        ----------
        kind : {"consensus", "mode", "sample"}
            As in `tree`.
        random_state : int, Generator or None
            As in `tree`.

        Returns
        -------
        dict of str to str or None
            From each record to its parent; `known_parents` and `what_if` take the same form.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "x": [0.0, 0.1, 0.3]}
        >>> Ancestry(kinds={"day": "date"}, roots="single").fit(table).named_tree()
        {'a': None, 'b': 'a', 'c': 'b'}
        """
        ids, parents = self.records.ids, self.tree(kind, random_state).tolist()
        return {i: ids[p] if p >= 0 else None for i, p in zip(ids, parents, strict=True)}

    @property
    def expected_right_(self) -> float:
        """The expected number of right parents (and roots) of the consensus. Exact."""
        return float(self.fitted.consensus.expected_right)

    @property
    def n_roots_(self) -> Array:
        """The probabilities of 0, 1, 2, … roots. Exact; of over 2,000 records by drawn trees."""
        return self.fitted.n_roots.copy()

    @property
    def log_likelihood_(self) -> float:
        """Log p(cells | dates) of the best reading, against cells that do not follow any tree.

        log Z(all columns) − log Z(dates): 0 where no column distinguishes parents from others.
        """
        return self.readings_[0].gain

    @property
    def log_evidence_(self) -> integration.Evidence | None:
        """Log p(cells | dates) with the parameters integrated out, and its standard error, nats.

        Of the best reading, with waiting times near its own. None with fitted parameters.
        """
        draws = self.readings_[0].draws
        if draws is None:
            return None
        return integration.Evidence(draws.log_evidence, draws.standard_error)

    @property
    def records_(self) -> Table:
        """Each record's parent, support, root probability, expected children and log-density."""
        return support.records_table(self.fitted)

    def spread(
        self, min_support: float = 0.1, n_trees: int = 200, random_state: Any = None
    ) -> Spread:
        """Return what the transmission model reports beside the parents, as four tables.

        `parameters` with standard errors; `infections`, each record's date of infection; `links`,
        the expected number of unsampled people between child and parent; `reproduction`, the mean
        number of sampled children by the week of the parent's date (a tenth of the time without
        calendar dates), with intervals from n_trees drawn trees. All intervals hold 95 %. Dates of
        infection follow from the record's own date and its parents, not from its children.

        Parameters
        ----------
        min_support : float
            Links with less support are left out.
        n_trees : int
            Trees that are drawn for the intervals of children by week.
        random_state : int, Generator or None
            By default that of the model.

        Returns
        -------
        Spread
            A named tuple of four tables: parameters, infections, links and reproduction.

        Raises
        ------
        RecordsError
            If the fit did not use the transmission model.
        """
        return spread_of(self.fitted, min_support, n_trees, self._generator(random_state))

    def readings(self) -> Table:
        """Return the competing explanations: waiting time, gain, weight, and how they differ.

        `gain` is log p(cells | dates); `weight` is what the reading counts for in all supports;
        `differ` is the number of records whose best parent differs from that of the first reading.

        Returns
        -------
        Table
            Columns waiting_mean, waiting_sd, gain, weight and differ; the best reading first.
        """
        return support.readings_table(self.fitted)

    def describe(self) -> list[str]:
        """Return the fitted parameters in words, one sentence each.

        Returns
        -------
        list of str
            One sentence for each column, and one on roots.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> model.fit(table).describe()[0]
        'day: a child comes 4 ± 2 units of time after its parent.'
        """
        return self._sentences() + integration.interval_sentences(self.fitted)

    def _sentences(self) -> list[str]:
        """Return the fitted parameters in words, without their intervals."""
        dropped = getattr(self, "dropped_mass_", None)  # models saved by earlier versions lack it
        sentences = parameter_sentences(self.fitted, self._limited_exponents, dropped)
        sentences += integration.posterior_sentences(self.fitted)
        published = published_wait(self)
        sentences = sentences if published is None else [f"{published.sentence}.", *sentences]
        return model_sentence(self) + sentences

    @property
    def _is_transmission(self) -> bool:
        return transmission_of(self.lineage_) is not None

    # Questions beside the code that answers them
    parents = support.parents
    credible_parents = support.credible_parents
    what_if = support.what_if
    predict_labels = support.predict_labels
    column_evidence = shuffles.column_evidence
    posterior = integration.posterior
    intervals = integration.intervals
    calibrate = calibration.calibrate
    limited_parents = limited_children.limited_parents
    place = placement.place
    simulate = simulation.simulate

    # Figures
    plot = figures.plot
    plot_support = figures.plot_support
    plot_epicurve = figures.plot_epicurve
    plot_map = figures.plot_map

    # Files
    report_data = exchange.report_data
    report = exchange.report
    write = exchange.write
    to_newick = exchange.to_newick
    to_nexus = exchange.to_nexus
    to_graphml = exchange.to_graphml
    to_networkx = exchange.to_networkx
    to_csv = exchange.to_csv
    to_arviz = exchange.to_arviz
