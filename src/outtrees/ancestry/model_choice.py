"""Which model of dates a table gets, by its columns and options: waiting times or transmission.

The functions take the estimator, whose options they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from outtrees.ancestry.columns import DateOptions, date_columns
from outtrees.ancestry.nearest import transmission_of
from outtrees.ancestry.outbreak import MOST_RECORDS
from outtrees.datasets.diseases import GENERATION, WaitingTime, waiting_time
from outtrees.errors import ArgumentError, Message, Option, RecordsError
from outtrees.records import Records

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

_DNA = ("A", "C", "G", "T")
_ONSETS = ("onset", "symptom", "illness")  # in names of columns of dates
_KNOWN = (  # options of the transmission model
    *("generation_mean", "generation_sd", "delay_mean", "delay_sd"),
    *("substitution_rate", "sampled", "introduction_distance"),
)
_OF_DATES = (
    *("generation_time", "waiting_mean", "waiting_sd", "waiting_law", "disease", "clock"),
    *(*_KNOWN, "transmission", "date_uncertainty", "until", "censored"),
)


def check_dated(records: Records, options: Mapping[str, Any]) -> None:
    """Refuse options that say how dates are read where no column holds dates.

    `options` maps names of arguments of `Ancestry`, and maybe others, to what was given.

    Raises
    ------
    RecordsError
        If there is such an option; the message names it.
    """
    if date_columns(records, (options.get("until"), options.get("censored"))):
        return
    unread = [(name, why) for name, _, why in records.roles if "called a date" in why][:1]
    for name in _OF_DATES:
        value: Any = options.get(name)
        given = np.ndim(value) > 0 or bool(value)
        if given and (name, value) != ("transmission", "auto"):
            columns = ", ".join(repr(column.name) for column in records.columns[:10])
            raise RecordsError(
                Option(name),
                " needs a column of dates, but there is none; ",
                *(f"{column!r} is {why}; " for column, why in unread),
                "name it, for example ",
                Option("kinds", {unread[0][0] if unread else "onset": "date"}),
                f" (columns: {columns})" if columns else "",
            )


def check_samples(model: Ancestry) -> None:
    """Refuse what only outbreaks that are drawn as a whole make use of, where they are not.

    Several samples of a host, variants, a distance between introductions.
    """
    records, distance = model.table_, getattr(model, "introduction_distance", None)
    if distance is not None and (model.roots == "single" or model.root is not None):
        raise RecordsError(
            Option("introduction_distance"),
            " is between several introductions, but ",
            Option("root" if model.root is not None else "roots", model.root or "single"),
            " allows one. Leave one of them out.",
        )
    if records.samples is None and distance is None:
        return
    option, why = Option("introduction_distance"), ""
    if records.samples is not None:
        option = Option("host" if records.samples.several else "variants")
    if transmission_options(model) is None or _dates_and_dna(records) is None:
        why = "DNA, one column of dates, and no option of the model of waiting times"
    elif len(records) > MOST_RECORDS:
        why = f"at most {MOST_RECORDS} hosts; this table has {len(records)}"
    elif records.groups is not None and len(np.unique(records.groups)) > 1:
        why = "a table without groups"
    elif model.parameters == "fitted":
        why = "parameters that are not 'fitted'"
    if why:
        raise RecordsError(
            option,
            f" needs the transmission model, in which whole outbreaks are drawn, and so {why}. "
            "Change that, or leave it out (with one sample of each host).",
        )


def published_wait(model: Ancestry) -> WaitingTime | None:
    """Return the published waiting time of the disease, if one is named."""
    if model.disease is None:
        return None
    if model.generation_time is not None:
        raise ArgumentError(
            Option("disease"),
            " and ",
            Option("generation_time"),
            " contradict each other: both say how long children wait. Leave one out.",
        )
    return waiting_time(model.disease)


def check_waits(model: Ancestry) -> None:
    """Refuse a disease or a table of waiting times that cannot be used."""
    published_wait(model)
    if model.generation_time is None:
        return
    table = np.asarray(model.generation_time, dtype=np.float64)
    if table.ndim != 1 or not len(table) or not (table >= 0).all() or not table.sum() > 0:
        raise ArgumentError(
            Option("generation_time"),
            " must hold the probabilities of waiting 0, 1, 2, … units, numbers ≥ 0 with a positive "
            f"sum; got {model.generation_time!r}",
        )


def most_links(model: Ancestry) -> int:
    """Return the largest number of links from a record to its parent."""
    return model.links if model.generations is None else model.generations


def date_options(model: Ancestry) -> DateOptions:
    """Return how dates are read, with what is published of the disease."""
    table = None
    if model.generation_time is not None:
        chances = np.asarray(model.generation_time, dtype=np.float64)
        table = chances / chances.sum()
    mean, sd = model.waiting_mean, model.waiting_sd
    law: str | None = model.waiting_law
    published = published_wait(model)
    if published is not None:
        mean = published.mean if mean is None else mean
        sd = published.sd if sd is None else sd
        law = law or published.law
    return DateOptions(
        model.until or model.table_.until,
        model.censored,
        model.date_uncertainty,
        mean,
        sd,
        table,
        model.strict_dates,
        model.ties,
        law or "gamma",
    )


def transmission_options(model: Ancestry) -> dict[str, Any] | None:
    """Return what is known of how the infection spreads; None without the transmission model."""
    # Models of earlier versions lack the last ones.
    given: dict[str, Any] = {name: getattr(model, name, None) for name in _KNOWN}
    wanted, dates = model.transmission, date_options(model)
    some = [name for name, value in given.items() if value is not None]
    against = {
        "until": dates.until,
        "censored": dates.censored,
        "generation_time": model.generation_time,
        "waiting_mean": model.waiting_mean,
        "waiting_sd": model.waiting_sd,
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
    if wanted == "auto" and not some and (other or not _has_sampled_people(model)):
        return None
    if other:
        raise ArgumentError(
            Option(some[0] if some else "transmission"),
            " and ",
            Option(other[0]),
            " contradict each other: with the first, dates are those of sampling and depend on "
            "infections; with the second, waiting times count from the date of the parent. Leave "
            "one out.",
        )
    published = published_wait(model)
    if published is not None:
        # From onset to onset it takes as long on average as from infection to infection.
        given["generation_mean"] = given["generation_mean"] or published.mean
        if published.kind == GENERATION:
            given["generation_sd"] = given["generation_sd"] or published.sd
    links = most_links(model)
    return given | {"links": links if links > 1 else None}


def _dates_and_dna(records: Records) -> tuple[str, str] | None:
    """Return the names of the columns of dates and of DNA, if there is one of each."""
    dates = [c.name for c in records.columns if c.kind == "date"]
    dna = [c.name for c in records.columns if c.kind == "sequence" and c.levels == _DNA]
    return (dates[0], dna[0]) if len(dates) == len(dna) == 1 else None


def _has_sampled_people(model: Ancestry) -> bool:
    """Return whether the table looks like one of infected people with dates of sampling.

    It has DNA and dates, the dates are not called onsets, unless the time from infection to
    infection is known, and no option belongs to the other model only.
    """
    names = _dates_and_dna(model.table_)
    if names is None:
        return False
    published = published_wait(model)
    if published is not None and published.kind == GENERATION:
        return True
    other = (
        model.waiting_law is not None
        or model.substitution != "JC69"
        or not (model.strict_dates and model.ties)
        or model.clock
    )
    return not other and not any(word in names[0].lower() for word in _ONSETS)


def model_sentence(model: Ancestry) -> list[Message]:
    """Return which model was chosen where no option says it, why, and how to choose the other."""
    names = _dates_and_dna(model.table_)
    if model.transmission != "auto" or names is None:
        return []
    if any(getattr(model, name, None) is not None for name in _KNOWN):
        return []
    date, dna = names
    if transmission_of(model.lineage_) is not None:
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
            f"model: waiting times between the dates ({date}), with all cases in the table. "
            "If dates are those of sampling, or cases are missing, pass ",
            Option("transmission", True),
            ".",
        )
    ]
