"""Ancestry: from a table of records to who came from whom, and how sure one may be."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from outtrees._common.arguments import as_count
from outtrees._common.progress import note, shows_progress
from outtrees._common.random import as_generator
from outtrees.ancestry import figures, learning, limited_children, report, support
from outtrees.ancestry.calibration import calibrated
from outtrees.ancestry.columns import (
    DateOptions,
    ModelColumn,
    TransmissionOptions,
    matrix_column,
    model_columns,
)
from outtrees.ancestry.constraints import (
    forbidden_pairs,
    known_parents,
    named,
    refuse_late_parents,
    row_of,
)
from outtrees.ancestry.contacts import Found, contact_columns, stay_columns
from outtrees.ancestry.exchange import findings
from outtrees.ancestry.integration import (
    Evidence,
    draw_warnings,
    draws_table,
    integrated,
    intervals_table,
    is_small,
    posterior_sentences,
)
from outtrees.ancestry.learning import Roots
from outtrees.ancestry.nearest import transmission_of
from outtrees.ancestry.placement import place_table, read_like
from outtrees.ancestry.posterior import MOST_PAIRED, Posterior
from outtrees.ancestry.simulation import simulated
from outtrees.ancestry.spread import Spread, spread_of
from outtrees.candidates import Constraints, all_edges, constraints, table_candidates
from outtrees.candidates.dropped_mass import DroppedMass, table_dropped_mass
from outtrees.candidates.edges import PossibleEdges
from outtrees.candidates.plan import table_plan
from outtrees.candidates.windows import in_order, possible_pairs, windows_of
from outtrees.datasets.diseases import GENERATION, WaitingTime, waiting_time
from outtrees.errors import ArgumentError, Message, NoSpanningTreeError, Option, RecordsError
from outtrees.inference.validation import check_params
from outtrees.io import FORMATS, to_graphml, to_networkx, to_newick, to_nexus, write_csv, write_text
from outtrees.io.tables import Table
from outtrees.models.columns import ColumnKernel, Lineage, Transmission
from outtrees.records import Records, read_records
from outtrees.records.contacts import ContactList, StayList, read_contacts, read_stays
from outtrees.records.evidence import as_evidence
from outtrees.views.report import write_report
from outtrees.views.report_data import ReportData

Array = NDArray[np.float64]

_DNA = ("A", "C", "G", "T")
_ONSETS = ("onset", "symptom", "illness")  # in names of columns of dates


class Ancestry(BaseEstimator):
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
        Columns that take part even if they add nothing that tells parents from others.
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
        "auto": where one of the six parameters below is given, and in tables with dates and DNA
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
    date_uncertainty : float
        Dates are known to within ± this.
    until : str, optional
        A column of dates at which records ended, if children come after their parent's *end* (a
        cell's daughters after it divides): waiting times then count from there.
    censored : str, optional
        A yes/no column: yes where a record's own date lies after the last look.
    clock : bool
        Whether places wander the further the more time passed.
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
        Called as progress(iteration, log_posterior). If it has a method `say`, that is told in
        words what is under way.
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
        With "knn": the share of probability on possible parents that are no candidates. `kind`
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
    b      a         0.952     1
    c      a         0.925     1
    d      c         0.536     1
    d      b         0.428     2
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
        "waiting_mean": [Interval(Real, 0, None, closed="neither"), None],
        "waiting_sd": [Interval(Real, 0, None, closed="neither"), None],
        "waiting_law": [StrOptions({"gamma", "lognormal", "weibull"}), None],
        "disease": [str, None],
        "generation_time": ["array-like", None],
        "transmission": ["boolean", StrOptions({"auto"})],
        "generation_mean": [Interval(Real, 0, None, closed="neither"), None],
        "generation_sd": [Interval(Real, 0, None, closed="neither"), None],
        "delay_mean": [Interval(Real, 0, None, closed="neither"), None],
        "delay_sd": [Interval(Real, 0, None, closed="neither"), None],
        "substitution_rate": [Interval(Real, 0, None, closed="neither"), None],
        "sampled": [Interval(Real, 0, 1, closed="right"), None],
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

    @shows_progress
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
        self._check_generation_time()
        _ = self._published
        self.table_ = self._read(table, sequences, unsequenced)
        plan = table_plan(self.table_, self.candidates, self.n_candidates)
        plan.check()
        columns = self._columns(distances, log_weights)
        met = self._met(contacts, stays)
        taken = {column.name for column in columns}
        columns += [c._replace(name=_other_than(taken, c.name)) for c in met.columns]
        if not columns:
            raise RecordsError(
                "at least one column besides the identities is expected, but there is none; give "
                "dates, sequences, places, categories, numbers, contacts, distances or log-weights"
            )
        self.column_names_ = [column.name for column in columns]
        try:
            given = self._constraints()
            refuse_late_parents(self.table_, columns, given, self._dates.until)
            fit = self._learned(columns, given, checkpoint)
            self.edges_ = self._edges(fit, given, plan.way)
            if self._integrates(fit):
                fit = integrated(fit, given, self._roots, self._seed(), self._say)
            self.readings_ = list(fit.readings)
            self.column_values_ = [column.values for column in columns]
            self.column_gains_ = {columns[c].name: gain for c, gain in fit.gains.items()}
            self.left_out_ = [columns[c].name for c in fit.left_out]
            self.limited_exponents_: dict[int, Array] = {}
            self._posterior: Posterior | None = None
            _ = self.fitted.best_trees.log_z
        except NoSpanningTreeError as error:
            raise named(error, self.table_.ids) from error
        main = fit.readings[0]
        self.objectives_ = list(main.objectives)
        self.n_iter_ = main.n_iter
        self.converged_ = main.converged
        self.dropped_mass_ = None
        if plan.way == "knn":
            self._say("probability of parents that are no candidates")
            self.dropped_mass_ = self._dropped_mass(given)
        facts = report.FitFacts(
            main.converged,
            main.n_iter,
            self.dropped_mass_,
            self.root is not None,
            self._dates,
            bool((given.known >= 0).any()),
            {name: self.column_gains_[name] for name in self.left_out_},
        )
        self.warnings_ = [plan.why] * bool(plan.why) + report.fit_warnings(self.fitted, facts)
        self.warnings_ += [*draw_warnings(self.fitted), *met.notes]
        if not main.converged:
            warnings.warn(
                f"the fit had not converged after {self.max_iter} iterations; raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _learned(
        self,
        columns: Sequence[ModelColumn],
        given: Constraints,
        checkpoint: str | os.PathLike[str] | None,
    ) -> learning.TableFit:
        """Return the readings of the table."""
        kernels = tuple(column.kernel for column in columns)
        # People who were not sampled are part of the transmission model.
        links = self._most_links if self._transmission is None else 1
        lineage = Lineage(kernels, links, self.background)
        names = [column.name for column in columns]
        kept = None
        if checkpoint is not None:
            settings = {
                "roots": self._roots,
                "keep": list(self._kept(names)),
                "max_iter": self.max_iter,
                "tol": self.tol,
                # All other settings are in the columns and the constraints already.
                "columns": list(map(tuple, columns)),
                "given": tuple(given),
            }
            kept = learning.lineage_checkpoint(checkpoint, settings, lineage)
        return learning.learn(
            lineage,
            [column.values for column in columns],
            given,
            self._roots,
            keep=[names.index(name) for name in self._kept(names)],
            max_iter=self.max_iter,
            tol=self.tol,
            progress=self.progress,
            say=self._say,
            checkpoint=kept,
        )

    def _integrates(self, fit: learning.TableFit) -> bool:
        """Return whether parameters are integrated out."""
        if self.parameters != "auto":
            return self.parameters == "integrated"
        return is_small(len(self.table_), len(self.edges_.child), fit.readings[0].lineage)

    def _seed(self) -> int:
        """Return the seed of draws of parameters."""
        if self.random_state is None:
            return 0
        return int(as_generator(self.random_state).integers(2**32))

    def _kept(self, names: Sequence[str]) -> Sequence[str]:
        """Return the columns that are not to be left out."""
        for name in self.keep or ():
            if name not in names:
                raise RecordsError(
                    Option("keep"),
                    f" must name columns that take part, such as {names[0]!r}; got {name!r}. "
                    "Correct the name.",
                    column=name,
                )
        return tuple(self.keep or ())

    @property
    def _roots(self) -> Roots:
        """How many roots there are: any number where dates tell parents from children."""
        if self.roots != "auto":
            return self.roots
        aside = (self.until, self.censored)
        dated = any(c.kind == "date" and c.name not in aside for c in self.table_.columns)
        weighed = "log_weights" in self.column_names_
        roots = sum(v == -1 for v in known_parents(self.table_, self.known_parents).values())
        if roots > 1 and self.table_.groups is None:
            return "any"
        return "any" if dated and self.root is None and not weighed else "single"

    def _edges(self, fit: learning.TableFit, given: Constraints, way: str) -> PossibleEdges:
        """Return all possible edges ("dense"), or the candidates of all readings ("knn")."""
        values = [np.asarray(v) for v in fit.values]
        lineage, T = fit.readings[0].lineage, len(given.groups)
        if way == "dense" and T > MOST_PAIRED and lineage.dates is not None:
            plausible = [_plausible_edges(r.lineage, values, given) for r in fit.readings]
            coded = np.unique(np.concatenate(plausible))
            return PossibleEdges(coded // T, coded % T, given.root_allowed, given.groups)
        if way == "dense":
            edges = all_edges(given)
            possible = [
                in_order(r.lineage, values, edges.child, edges.parent) for r in fit.readings
            ]
            kept = np.any(possible, axis=0)
            return edges._replace(child=edges.child[kept], parent=edges.parent[kept])
        self._say(f"candidate parents of {len(given.groups):,} records")
        found = [
            table_candidates(r.lineage, values, given, self.n_candidates, self._roots)
            for r in fit.readings
        ]
        coded = np.unique(np.concatenate([e.child * T + e.parent for e in found]))
        return found[0]._replace(child=coded // T, parent=coded % T)

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

    def _check_generation_time(self) -> None:
        if self.generation_time is None:
            return
        table = np.asarray(self.generation_time, dtype=np.float64)
        if table.ndim != 1 or not len(table) or not (table >= 0).all() or not table.sum() > 0:
            raise ArgumentError(
                Option("generation_time"),
                " is expected to hold the probabilities of waiting 0, 1, 2, … "
                f"units, numbers ≥ 0 with a positive sum; got {self.generation_time!r}",
            )

    def _read(self, table: Any, sequences: Any, unsequenced: str) -> Records:
        if isinstance(table, Records):
            if sequences is not None:
                raise RecordsError("these records are read already; join sequences when reading")
            if len(set(table.ids)) != len(table):
                raise RecordsError(
                    "identities of these records differ only within groups; fit each group on its "
                    "own with fit_populations"
                )
            return as_evidence(table, (self.until, self.censored))
        kinds = dict(self.kinds or {})
        if self.until is not None:
            kinds.setdefault(self.until, "date")
        if self.censored is not None:
            kinds.setdefault(self.censored, "categorical")
        records = read_records(
            table, id=self.id, kinds=kinds, sequences=sequences, unsequenced=unsequenced
        )
        return as_evidence(records, (self.until, self.censored))

    @property
    def _dates(self) -> DateOptions:
        table: Array | None = None
        if self.generation_time is not None:
            chances = np.asarray(self.generation_time, dtype=np.float64)
            table = chances / chances.sum()
        mean, sd = self.waiting_mean, self.waiting_sd
        law: str | None = getattr(self, "waiting_law", None)  # models of earlier versions lack it
        published = self._published
        if published is not None:
            mean = published.mean if mean is None else mean
            sd = published.sd if sd is None else sd
            law = law or published.law
        return DateOptions(
            self.until or self.table_.until,
            self.censored,
            self.date_uncertainty,
            mean,
            sd,
            table,
            self.strict_dates,
            self.ties,
            law or "gamma",
        )

    @property
    def _most_links(self) -> int:
        former: int | None = getattr(self, "generations", None)
        return int(getattr(self, "links", 1) if former is None else former)

    @property
    def _transmission(self) -> TransmissionOptions | None:
        """What is known of how the infection spreads; None without the transmission model."""
        names = TransmissionOptions._fields[:-1]
        # Models of earlier versions lack all of these.
        given = {name: getattr(self, name, None) for name in names}
        wanted, dates = getattr(self, "transmission", False), self._dates
        some = [name for name, value in given.items() if value is not None]
        against = {
            "until": dates.until,
            "censored": dates.censored,
            "generation_time": self.generation_time,
            "waiting_mean": self.waiting_mean,
            "waiting_sd": self.waiting_sd,
        }
        other = [name for name, value in against.items() if value is not None]
        if wanted is False:
            if some:
                raise ArgumentError(
                    Option(some[0]),
                    " is a parameter of the transmission model, which ",
                    Option("transmission", False),
                    " excludes. Leave one of them out.",
                )
            return None
        if wanted == "auto" and not some and (other or not self._of_sampled_people):
            return None
        if other:
            raise ArgumentError(
                Option(some[0] if some else "transmission"),
                " and ",
                Option(other[0]),
                " contradict each other: with the first, dates are those of sampling and depend on "
                "infections; with the second, a child waits from its parent's date. Leave one out.",
            )
        if not any(column.kind == "date" for column in self.table_.columns):
            raise RecordsError(
                Option(some[0] if some else "transmission"),
                " needs a column of dates, but there is none; name it, for example ",
                Option("kinds", {"sampled_on": "date"}),
            )
        published = self._published
        if published is not None:
            # From onset to onset it takes as long on average as from infection to infection.
            given["generation_mean"] = given["generation_mean"] or published.mean
            if published.kind == GENERATION:
                given["generation_sd"] = given["generation_sd"] or published.sd
        return TransmissionOptions(
            **given, links=self._most_links if self._most_links > 1 else None
        )

    @property
    def _dna_and_dates(self) -> tuple[str, str] | None:
        """The names of the columns of dates and of DNA, if there are both, one of either."""
        columns = self.table_.columns
        dates = [c.name for c in columns if c.kind == "date"]
        dna = [c.name for c in columns if c.kind == "sequence" and c.levels == _DNA]
        return (dates[0], dna[0]) if len(dates) == len(dna) == 1 else None

    @property
    def _of_sampled_people(self) -> bool:
        """Whether the table looks like one of infected people with dates of sampling.

        It has DNA and dates, the dates are not called onsets, unless the time from infection to
        infection is known, and no option belongs to the other model only.
        """
        if self._dna_and_dates is None:
            return False
        published = self._published
        if published is not None and published.kind == GENERATION:
            return True
        other = (
            getattr(self, "waiting_law", None) is not None
            or self.substitution != "JC69"
            or not (self.strict_dates and self.ties)
            or self.clock
        )
        name = self._dna_and_dates[0].lower()
        return not other and not any(word in name for word in _ONSETS)

    @property
    def _model_sentence(self) -> list[Message]:
        """Which model was chosen where no option says it, why, and how to choose the other."""
        if getattr(self, "transmission", False) != "auto" or self._dna_and_dates is None:
            return []
        date, dna = self._dna_and_dates
        names = TransmissionOptions._fields[:-1]
        if any(getattr(self, name, None) is not None for name in names):
            return []
        if transmission_of(self.lineage_) is not None:
            return [
                Message(
                    f"model: transmission, since the table has DNA ({dna}) and dates ({date}) that "
                    "are not called onsets: dates are those of sampling, and people may be "
                    "unsampled. If records are not infected people, or dates are onsets and all "
                    "cases are known, pass ",
                    Option("transmission", False),
                    ".",
                )
            ]
        return [
            Message(
                f"model: waiting times between the dates ({date}), all cases being in the table. "
                "If dates are those of sampling, or cases are missing, pass ",
                Option("transmission", True),
                ".",
            )
        ]

    @property
    def _published(self) -> WaitingTime | None:
        """The published waiting time of the disease, if one is named."""
        name: str | None = getattr(self, "disease", None)  # models of earlier versions lack it
        if name is None:
            return None
        if self.generation_time is not None:
            raise ArgumentError(
                Option("disease"),
                " and ",
                Option("generation_time"),
                " contradict each other: both say how long children wait. Leave one out.",
            )
        return waiting_time(name)

    def _columns(self, distances: Any, log_weights: Any) -> list[ModelColumn]:
        columns = model_columns(
            self.table_,
            self._dates,
            clock=self.clock,
            group_spread=self.group_spread,
            substitution=self.substitution,
            kernels=getattr(self, "kernels", None),  # models of earlier versions lack it
            transmission=self._transmission,
        )
        for name, given in (("distances", distances), ("log_weights", log_weights)):
            if given is not None:
                columns.append(matrix_column(name, given, self.table_))
        return columns

    def _met(self, contacts: Any, stays: Any) -> Found:
        """Return the columns of pairs that met."""
        found = Found([], [])
        if contacts is not None:
            listed = contacts if isinstance(contacts, ContactList) else read_contacts(contacts)
            directed = self.contacts_directed
            found = contact_columns(listed, self.table_, self._dates, directed=directed)
        if stays is not None:
            there = stays if isinstance(stays, StayList) else read_stays(stays)
            more = stay_columns(there, self.table_, self._dates, found.columns)
            found = Found(found.columns + more.columns, found.notes + more.notes)
        return found

    def _constraints(self) -> Constraints:
        records = self.table_
        return constraints(
            len(records),
            records.groups,
            known_parents(records, self.known_parents),
            forbidden_pairs(records, self.forbidden),
            None if self.root is None else row_of(records, self.root),
            records.ids,
        )

    # The posterior -------------------------------------------------------------------------

    @property
    def records(self) -> Records:
        """The records as they were read."""
        check_is_fitted(self, "table_")
        return self.table_

    @property
    def fitted(self) -> Posterior:
        """The distribution over trees, and all that follows from the fit.

        `fit` keeps the trees that it computed; a model that was loaded or copied computes them when
        first asked.
        """
        check_is_fitted(self, "readings_")
        kept: Posterior | None = getattr(self, "_posterior", None)
        if kept is None:
            kept = self._posterior = Posterior(
                self.table_,
                tuple(self.column_names_),
                tuple(self.column_values_),
                tuple(self.readings_),
                self.edges_,
                self._roots,
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

    @shows_progress
    def calibrate(
        self,
        parents: Mapping[str, str | None],
        *,
        max_children: int | None = None,
        n_sweeps: int = 500,
        random_state: Any = None,
    ) -> Self:
        """Learn from known parents how much each column should count, and count it so from now on.

        Supports rest on what the model takes for granted, above all that records change
        independently of each other given their parents. Where that is not so (cells that push each
        other, columns that tell the same) they are too modest or too sure, which the parents of
        some records show. Each kind of column gets the exponent λ of its probabilities that makes
        these parents most probable, held near 1 by a prior: `lineage_.exponents`, in words in
        `describe`. All later answers use it; `log_likelihood_` remains that of the fit.

        The parents given here are not imposed on the trees, so that their own supports can be
        compared with the truth; but the honest test are other records than these.

        Parameters
        ----------
        parents : mapping of str to str
            From a child to its parent, None for a root; at least 20 that the fit was not told.
        max_children : int, optional
            If given, the exponents are those of trees in which no record has more children than
            that, and only `limited_parents(max_children)` uses them: `limited_exponents_`. They
            are sampled; a warning says if that leaves more than a quarter of the standard error
            that the known parents leave.
        n_sweeps : int
            Rounds of the chains that sample them, at least 20; only used with max_children.
        random_state : int, Generator or None
            For these samples; by default that of the model.

        Returns
        -------
        Ancestry
            Itself, with changed supports.

        Raises
        ------
        RecordsError
            If a record is not known, or too few parents are.
        """
        rng = self._generator(random_state)
        lineage = calibrated(self.fitted, parents, max_children, n_sweeps, rng)
        if max_children is not None:
            self.limited_exponents_ = {
                **self._limited_exponents,
                int(max_children): lineage.exponents,
            }
            return self
        changed = self.fitted.with_exponents(lineage.exponents)
        self._posterior, self.readings_ = changed, list(changed.readings)
        if getattr(self, "dropped_mass_", None) is not None:
            self.dropped_mass_ = self._dropped_mass(self._constraints())
        return self

    @property
    def _limited_exponents(self) -> dict[int, Array]:
        return getattr(self, "limited_exponents_", {})  # models saved by earlier versions lack it

    def _generator(self, random_state: Any) -> np.random.Generator:
        return as_generator(self.random_state if random_state is None else random_state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readings_")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_posterior": None}

    # Questions -----------------------------------------------------------------------------

    def parents(self, min_support: float = 0.1, *, errors: bool = False) -> Table:
        """Return the table child, parent, support, rank; a root has an empty parent.

        Sums over trees are exact.

        Parameters
        ----------
        min_support : float
            Parents with less support are left out.
        errors : bool
            Whether a column tells the Monte-Carlo error that draws of parameters leave, 0 with
            parameters="fitted".

        Returns
        -------
        Table
            Columns child, parent (empty: the child is a root), support and rank; the records in
            their order, each one's parents best first.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> found = model.fit(table).parents(min_support=0.3)
        >>> [(row.child, row.parent, round(row.support, 1)) for row in found]
        [('a', '', 1.0), ('b', 'a', 1.0), ('c', 'b', 0.8)]
        """
        return support.parents_table(
            self.fitted, lambda ranked: ranked.support >= min_support, errors
        )

    def credible_parents(self, level: float = 0.95) -> Table:
        """Return, for each record, the fewest parents that hold this much of the probability.

        Parameters
        ----------
        level : float
            The probability that the parents of each record hold together, at least.

        Returns
        -------
        Table
            Columns child, parent, support and rank.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> [(row.child, row.parent) for row in model.fit(table).credible_parents(0.9)]
        [('a', ''), ('b', 'a'), ('c', 'b'), ('c', 'a')]
        """
        return support.parents_table(self.fitted, lambda ranked: ranked.before < level)

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
        return self.fitted.trees.number_of_roots()

    @property
    def log_likelihood_(self) -> float:
        """Log p(cells | dates) of the best reading, against cells that do not follow any tree.

        log Z(all columns) − log Z(dates): 0 where no column tells parents from others.
        """
        return self.readings_[0].gain

    @property
    def log_evidence_(self) -> Evidence | None:
        """Log p(cells | dates) with the parameters integrated out, and its standard error, nats.

        Of the best reading, with waiting times near its own. None with fitted parameters.
        """
        draws = self.readings_[0].draws
        return None if draws is None else Evidence(draws.log_evidence, draws.standard_error)

    @property
    def records_(self) -> Table:
        """Each record's parent, support, root probability, expected children and log-density."""
        return support.records_table(self.fitted)

    @shows_progress
    def limited_parents(
        self,
        max_children: int,
        min_support: float = 0.1,
        *,
        n_sweeps: int = 8000,
        n_chains: int = 4,
        random_state: Any = None,
    ) -> Table:
        """Return child, parent, support, error, rank if no record has more children than that.

        For cells, which divide into two, or other records known to have few children. No exact
        formula is known for such trees, so supports are sampled (`outtrees.trees.limited`); `error`
        is their Monte-Carlo error, 0 in groups where the limit cannot bind. The fitted parameters
        are those without the limit, and so is every other answer of this class. Known parents can
        calibrate these supports too: `calibrate(parents, max_children=max_children)`.

        Parameters
        ----------
        max_children : int
            The most children that a record has.
        min_support : float
            Parents with less support are left out.
        n_sweeps : int
            Rounds of each chain.
        n_chains : int
            Chains, which a warning compares.
        random_state : int, Generator or None
            By default that of the model.

        Returns
        -------
        Table
            Columns child, parent, support, error (Monte-Carlo) and rank.
        """
        most = as_count("max_children", max_children, 1)
        posterior, exponents = self.fitted, self._limited_exponents.get(most)
        if exponents is not None:
            posterior = posterior.with_exponents(exponents)
        rng = self._generator(random_state)
        found = limited_children.limited_supports(posterior, most, n_sweeps, n_chains, rng)
        return limited_children.limited_table(found, posterior, min_support)

    def predict_labels(self, n_trees: int = 500, random_state: Any = None) -> Table:
        """Return the distribution of each unknown label, with its Monte-Carlo error.

        Parameters
        ----------
        n_trees : int
            Trees that are drawn.
        random_state : int, Generator or None
            By default that of the model.

        Returns
        -------
        Table
            Columns record, column, label, support and error.

        Raises
        ------
        RecordsError
            If no column has the kind "label".
        """
        if not any(column.kind == "label" for column in self.records.columns):
            raise RecordsError(
                "a column of labels is expected; name it, for example ",
                Option("kinds", {"species": "label"}),
            )
        return support.labels_table(self.fitted, n_trees, self._generator(random_state))

    def what_if(
        self,
        parent: Mapping[str, str | None] | None = None,
        min_change: float = 0.01,
        *,
        not_parent: Iterable[tuple[str, str | None]] = (),
    ) -> Table:
        """Return how supports change if these records had these parents (None: were roots).

        `not_parent` lists pairs (child, parent) that are ruled out instead; a parent None rules out
        that the child is a root. Nothing is fitted again; readings that foresaw what is supposed
        gain weight.

        Parameters
        ----------
        parent : mapping of str to str, optional
            From a child to its supposed parent, None for a root.
        min_change : float
            Supports that change by less are left out.
        not_parent : iterable of (str, str)
            Pairs of child and parent that are ruled out; a parent None: the child is no root.

        Returns
        -------
        Table
            Columns child, parent, support and support_if; the largest changes first.

        Raises
        ------
        RecordsError
            If a name is not that of a record.
        NoSpanningTreeError
            If no tree agrees with it.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> row = model.fit(table).what_if({"c": "a"})[0]
        >>> row.child, row.parent, round(row.support, 1), round(row.support_if, 1)
        ('c', 'a', 0.2, 1.0)
        """
        known = known_parents(self.records, parent, with_table=False)
        excluded = [
            (row_of(self.records, u), -1 if v is None or v == "" else row_of(self.records, v))
            for u, v in not_parent
        ]
        try:
            return support.what_if_table(self.fitted, known, excluded, min_change)
        except NoSpanningTreeError as error:
            raise named(error, self.records.ids) from error

    @shows_progress
    def column_evidence(self, n_shuffles: int = 3, random_state: Any = None) -> Table:
        """Return what each column says about parents: column, gain, error, alone, outliers, used.

        `gain`: nats that the table gains over one in which this column is shuffled among the
        records, everything fitted again; `error` is its standard error over n_shuffles shuffles.
        `alone`: nats that the column gains when it is the only one beside the dates. `outliers`:
        the share of cells that do not follow their parent. `used`: whether the column takes part.

        Parameters
        ----------
        n_shuffles : int
            How often each column is shuffled.
        random_state : int, Generator or None
            By default that of the model.

        Returns
        -------
        Table
            Columns column, gain, error, alone, outliers and used.
        """
        as_count("n_shuffles", n_shuffles, 1)
        posterior, rng = self.fitted, self._generator(random_state)
        found = learning.column_evidence(
            posterior.readings[0],
            posterior.values,
            self._constraints(),
            posterior.roots,
            n_shuffles,
            rng,
        )
        rows: dict[str, list[Any]] = {
            key: [] for key in ("column", "gain", "error", "alone", "outliers", "used")
        }
        for c, evidence in found.items():
            share = float(posterior.lineage.outlier_shares[c])
            cells = [posterior.names[c], *evidence, share, share < 1]
            for key, cell in zip(rows, cells, strict=True):
                rows[key].append(cell)
        return Table(rows)

    def spread(
        self, min_support: float = 0.1, n_trees: int = 200, random_state: Any = None
    ) -> Spread:
        """Return what the transmission model tells beside the parents, as four tables.

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

    def posterior(self, n_draws: int | None = None) -> Table:
        """Return draws of the parameters: reading, weight, and a column for each parameter.

        With parameters="fitted", the fitted parameters of each reading. `to_arviz` has the same
        for arviz.

        Parameters
        ----------
        n_draws : int, optional
            So many draws of equal weight, chosen among the weighted ones; by default all of these.

        Returns
        -------
        Table
            Columns reading (from 1), weight, and each parameter: "column: name (unit)".

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0, keep=["ward"])
        >>> model.fit(table).posterior().columns[:3]
        ('reading', 'weight', 'ward: stickiness')
        """
        table = draws_table(self.fitted)
        if n_draws is None:
            return table
        n = as_count("n_draws", n_draws, 1)
        weights = np.array(table["weight"])
        # Systematic resampling: a draw comes up its expected number of times, but for rounding.
        marks = (np.arange(n) + self._generator(self._seed()).uniform()) / n
        chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), marks)
        chosen = np.minimum(chosen, len(weights) - 1)
        drawn = {name: [cells[i] for i in chosen] for name, cells in table.items()}
        return Table(drawn | {"weight": [1 / n] * n})

    def intervals(self, level: float = 0.95) -> Table:
        """Return how well each parameter is known.

        Parameters
        ----------
        level : float
            The share of the posterior that an interval holds.

        Returns
        -------
        Table
            Columns parameter, median, lower and upper.

        Raises
        ------
        ArgumentError
            If level is not between 0 and 1.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0, keep=["ward"])
        >>> model.fit(table).intervals().columns
        ('parameter', 'median', 'lower', 'upper')
        """
        if not 0 < level < 1:
            raise ArgumentError(
                Option("level"), f" must be between 0 and 1; got {level}. Write 0.95 for 95 %."
            )
        return intervals_table(self.fitted, level)

    def to_arviz(self, n_draws: int = 400) -> Any:
        """Return draws of equal weight for arviz; needs the extra `arviz`.

        Parameters
        ----------
        n_draws : int
            How many.

        Returns
        -------
        arviz.InferenceData
            With the group posterior.

        Raises
        ------
        ImportError
            If arviz is not installed.
        """
        try:
            from arviz import from_dict
        except ImportError as error:
            raise ImportError(
                "to_arviz needs arviz, which is not installed. Run pip install 'outtrees[arviz]'."
            ) from error
        table = self.posterior(n_draws)
        return from_dict(posterior={n: np.array([table[n]]) for n in table.columns[2:]})

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

    def place(
        self,
        table: Any,
        *,
        sequences: Any = None,
        unsequenced: str = "error",
        min_support: float = 0.1,
    ) -> Table:
        """Return the parents of new records, without a refit.

        Each is taken as a new leaf, below a fitted record or, with roots="any", a root. Columns
        that the new records lack are unknown of them.

        Parameters
        ----------
        table : path, data frame, mapping of columns, or Records
            The new records, with columns as at the fit.
        sequences : path or mapping, optional
            As in `fit`.
        unsequenced : {"error", "missing"}
            As in `fit`.
        min_support : float
            Parents with less support are left out.

        Returns
        -------
        Table
            Columns child, parent, support and rank.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0).fit(table)
        >>> row = model.place({"id": ["new"], "day": [12], "ward": ["S"]})[0]
        >>> row.child, row.parent, round(row.support, 1)
        ('new', 'c', 0.8)
        """
        new = table
        if not isinstance(table, Records):
            new = read_like(
                self.records, table, id=self.id, sequences=sequences, unsequenced=unsequenced
            )
        return place_table(self.fitted, new, self._dates, min_support)

    def simulate(self, n: int, random_state: Any = None) -> Table:
        """Return n records drawn from the fitted model, with their true parents.

        One family, so with `group_spread` all of one group, drawn at random and named.

        Parameters
        ----------
        n : int
            The number of records.
        random_state : int, Generator or None
            By default that of the model.

        Returns
        -------
        Table
            Columns id and true_parent, and those of the fitted table.
        """
        return simulated(self.fitted, n, self._generator(random_state))

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
        dropped = getattr(self, "dropped_mass_", None)  # models saved by earlier versions lack it
        sentences = report.parameter_sentences(self.fitted, self._limited_exponents, dropped)
        sentences += posterior_sentences(self.fitted)
        published = self._published
        sentences = sentences if published is None else [f"{published.sentence}.", *sentences]
        return self._model_sentence + sentences

    # Figures -------------------------------------------------------------------------------

    def plot(self, kind: str = "consensus", *, color: str | None = None, ax: Any = None) -> Any:
        """Draw the tree, by dates if there are any, lines as wide as the supports.

        Parameters
        ----------
        kind : {"consensus", "mode", "sample"}
            As in `tree`.
        color : str, optional
            A column by which the records are coloured, or "introduction": the root that each
            descends from.
        ax : matplotlib Axes, optional
            By default pyplot's current axes if they are empty, else those of a new figure.

        Returns
        -------
        matplotlib Axes
            Those drawn on.
        """
        return figures.draw_tree(self.fitted, self.tree(kind), color, ax)

    def plot_support(self, *, ax: Any = None) -> Any:
        """Draw the support of every parent (across) of every child (down).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            As in `plot`.

        Returns
        -------
        matplotlib Axes
            Those drawn on.

        Raises
        ------
        RecordsError
            If there are more than 2,000 records.
        """
        return figures.draw_support(self.fitted, ax)

    def plot_epicurve(
        self, color: str | None = None, *, step: float | None = None, ax: Any = None
    ) -> Any:
        """Draw the number of records by date.

        Parameters
        ----------
        color : str, optional
            As in `plot`; bars are stacked by it.
        step : float, optional
            The width of a bar, in days; by default a day, a week, …, whichever fits.
        ax : matplotlib Axes, optional
            As in `plot`.

        Returns
        -------
        matplotlib Axes
            Those drawn on.

        Raises
        ------
        RecordsError
            If the table has no dates.
        """
        return figures.draw_epicurve(self.fitted, color, step, ax)

    def plot_map(self, kind: str = "consensus", *, color: str | None = None, ax: Any = None) -> Any:
        """Draw the records at their places, with an arrow from each parent to its child.

        Parameters
        ----------
        kind : {"consensus", "mode", "sample"}
            As in `tree`.
        color : str, optional
            As in `plot`.
        ax : matplotlib Axes, optional
            As in `plot`.

        Returns
        -------
        matplotlib Axes
            Those drawn on.

        Raises
        ------
        RecordsError
            If the table has no column of places with two coordinates.
        """
        return figures.draw_map(self.fitted, self.tree(kind), color, ax)

    # Files ---------------------------------------------------------------------------------

    def report_data(self, command: str | None = None, spread: Spread | None = None) -> ReportData:
        """Return what the report shows; `spread`, if it was computed already, is used.

        Parameters
        ----------
        command : str, optional
            What was typed, for the provenance.
        spread : Spread, optional
            What `spread` returned, if it was computed already.

        Returns
        -------
        ReportData
            Records, edges with their evidence, trees, parameters and provenance.
        """
        if spread is None and self._is_transmission:
            spread = self.spread()
        return report.report_data(
            self.fitted,
            parameters=self.describe(),
            warnings=self.warnings_,
            trace=self.objectives_,
            seed=self.random_state,
            command=command,
            spread=spread,
        )

    @property
    def _is_transmission(self) -> bool:
        dates = self.lineage_.dates
        return dates is not None and isinstance(self.lineage_.kernels[dates], Transmission)

    def report(
        self,
        path: str | os.PathLike[str],
        command: str | None = None,
        spread: Spread | None = None,
    ) -> Path:
        """Write the report, one HTML file that needs nothing else; return its path.

        Parameters
        ----------
        path : path
            Where the file is written.
        command : str, optional
            What was typed, for the provenance.
        spread : Spread, optional
            What `spread` returned, if it was computed already.

        Returns
        -------
        Path
            The file.
        """
        return write_report(self.report_data(command, spread), path)

    def write(
        self,
        to: str,
        path: str | os.PathLike[str],
        kind: str = "consensus",
        *,
        min_support: float = 0.01,
        n_draws: int = 1000,
        random_state: Any = None,
    ) -> Path:
        """Write the results in another tool's format and return the path.

        Parameters
        ----------
        to : str
            One of `outtrees.io.FORMATS`: "auspice", "microreact", "microbetrace", "epicontacts",
            "dot", "geff", "ctc", "treedata" or "arviz".
        path : path
            A folder, which must not be there yet, for formats of several files.
        kind : {"consensus", "mode", "sample"}
            The tree.
        min_support : float
            Of candidate parents besides those of the tree, where a format lists them.
        n_draws : int
            Parameters and trees that are drawn for "arviz".
        random_state : int, Generator or None
            For drawn trees; by default that of the model.

        Returns
        -------
        Path
            The path.

        Raises
        ------
        ValueError
            If there is no such format, or it needs what the table lacks.
        MissingExtraError
            If the library that writes it is not installed.
        """
        if to not in FORMATS:
            raise ValueError(f"to must be one of {', '.join(FORMATS)}; got {to!r}")
        rng = self._generator(random_state)
        parents = self.tree(kind, random_state)
        found = findings(self.fitted, parents, min_support, self._dates.until)
        if to == "arviz":
            table = self.posterior(n_draws)
            parameters = {name: table[name] for name in table.columns[2:]}
            drawn = self.fitted.trees.sample(len(table), rng)
            found = replace(found, draws=drawn, parameters=parameters)
        return FORMATS[to].write(found, path)

    def to_newick(self, path: Any = None, kind: str = "consensus", *, leaves: bool = False) -> str:
        """Return (and write) the tree as Newick, a line for each root.

        Parameters
        ----------
        path : path, optional
            A file that is written too.
        kind : {"consensus", "mode", "sample"}
            As in `tree`.
        leaves : bool
            Whether each record that is a parent is also a leaf, for tools that know names at
            leaves only.

        Returns
        -------
        str
            The text.

        Examples
        --------
        >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
        >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
        >>> print(model.fit(table).to_newick())
        ((c[&support=0...]:4)b[&support=0.9...]:3)a[&support=1];
        """
        return _written(path, to_newick(*self._named_tree(kind), leaves=leaves))

    def to_nexus(self, path: Any = None, kind: str = "consensus", *, leaves: bool = False) -> str:
        """Return (and write) the tree as NEXUS.

        Parameters
        ----------
        path : path, optional
            A file that is written too.
        kind : {"consensus", "mode", "sample"}
            As in `tree`.
        leaves : bool
            As in `to_newick`.

        Returns
        -------
        str
            The text.
        """
        return _written(path, to_nexus(*self._named_tree(kind), leaves=leaves))

    def to_graphml(self, path: Any = None, kind: str = "consensus") -> str:
        """Return (and write) the tree as GraphML.

        Parameters
        ----------
        path : path, optional
            A file that is written too.
        kind : {"consensus", "mode", "sample"}
            As in `tree`.

        Returns
        -------
        str
            The text.
        """
        return _written(path, to_graphml(*self._named_tree(kind)))

    def to_networkx(self, kind: str = "consensus") -> Any:
        """Return the tree as a networkx graph, from parents to children.

        Parameters
        ----------
        kind : {"consensus", "mode", "sample"}
            As in `tree`.

        Returns
        -------
        networkx.DiGraph
            With `support` and `length` of edges.

        Raises
        ------
        MissingExtraError
            If networkx is not installed.
        """
        return to_networkx(*self._named_tree(kind))

    def to_csv(self, path: str | os.PathLike[str], min_support: float = 0.01) -> Path:
        """Write the parents' table; return its path.

        Parameters
        ----------
        path : path
            The file; TSV if it ends so.
        min_support : float
            Parents with less support are left out.

        Returns
        -------
        Path
            The file.
        """
        return write_csv(path, self.parents(min_support))

    def _named_tree(self, kind: str) -> tuple[Any, ...]:
        """Return identities, parents, supports and dates, as the exchange formats take them."""
        posterior, parents = self.fitted, self.tree(kind)
        dates = None if posterior.dates is None else posterior.dates.values[:, 0]
        return posterior.records.ids, parents, posterior.supports(parents), dates


def _other_than(taken: set[str], name: str) -> str:
    """Return the name, marked where a column of the table has it already."""
    return _other_than(taken, f"{name}_") if name in taken else name


def _plausible_edges(
    lineage: Lineage, values: Sequence[Array], given: Constraints
) -> NDArray[np.intp]:
    """Return child · T + parent of all edges whose waits are plausible, and of known ones."""
    T = len(given.groups)
    child, parent = possible_pairs(
        lineage, values, given, np.arange(T), windows_of(lineage, values, given)
    )
    known_child, known_parent = given.known_edges()
    return np.concatenate([child * T + parent, known_child * T + known_parent])


def _written(path: Any, text: str) -> str:
    if path is not None:
        write_text(path, text)
    return text
