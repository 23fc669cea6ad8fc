"""What the name of a column says about it: words, and what they usually stand for."""

from __future__ import annotations

import re


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Units in which records live: numbers in such columns are names, and one unit lies in another.
_AREAS = word_set(
    "family fam household hh house home dwelling building apartment street ward room bed bay tract "
    "zip zipcode postcode postal fips county district region province state village town city "
    "parish municipality commune country zone sector neighbourhood neighborhood school classroom "
    "class clinic hospital facility department team farm herd flock barn pen cage litter pack site "
    "station plot"
)
# What else is named by numbers.
_NAMED = word_set(
    "id ids identifier code field well plate batch colony cluster group block type genotype "
    "serotype strain clade lineage species breed sex gender occupation"
)
# With one of these words a number is a quantity after all: household_size, n_ward, class_mean.
_QUANTITIES = word_set(
    "size count counts total sum mean median average avg sd var min max length width height area "
    "volume weight distance dist duration days weeks months years hours minutes time age rate "
    "ratio share percent pct density score index income price temperature population"
)
_NUMBERS_OF = ("n", "num", "number", "no", "nr")  # in front: n_ward; behind: ward_no is a name
_IDENTITIES = word_set(
    "id ids identifier case patient sample record subject individual person animal key mrn"
)
_WHEN = word_set(
    "onset symptom symptoms rash illness infection infected exposure sample sampling sampled "
    "collection collected report reported reporting notification diagnosis diagnosed confirmation "
    "admission admitted birth born death died recovery recovered discharge discharged outcome "
    "event start end first last isolation case"
)
# Numbers of these names alone are dates: when records began.
_DATES_BY_THEMSELVES = (["onset"], ["symptoms"], ["dates"], ["birth"], ["born"])
_MOMENTS = ("day", "time", "week", "month", "year", "frame", "timepoint")
_AGES = ("age", "ages")
# Columns that files for other tools have of what was found: no observation when they come back.
RESULTS = ("likely_parent", "parent_support", "root_probability")
_BROUGHT = ("import", "introduc")


def words(name: str) -> list[str]:
    """Return the words of a name, in small letters.

    Examples
    --------
    >>> words("family_ID"), words("xPixel"), words("Date of onset")
    (['family', 'id'], ['x', 'pixel'], ['date', 'of', 'onset'])
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall(r"[a-z0-9]+", spaced.lower())


def names_units(name: str) -> bool:
    """Return whether whole numbers of this name are likely to be names of units, not quantities.

    Examples
    --------
    >>> [names_units(name) for name in ("family_ID", "ward_no", "household_size", "n_ward", "dose")]
    [True, True, False, False, False]
    """
    found = words(name)
    if not found or found[0] in _NUMBERS_OF:
        return False
    return not (_AREAS | _NAMED).isdisjoint(found) and _QUANTITIES.isdisjoint(found)


def names_area(name: str) -> bool:
    """Return whether a column of this name says where records live, at some scale."""
    return names_units(name) and not _AREAS.isdisjoint(words(name))


def names_records(name: str) -> bool:
    """Return whether numbers of this name that all differ are likely to name the records."""
    found = words(name)
    numbered = len(found) > 1 and found[-1] in _NUMBERS_OF[2:]  # Pat-Nr, Lot no, Entry number
    return (numbered or not _IDENTITIES.isdisjoint(found)) and _QUANTITIES.isdisjoint(found)


def names_introductions(name: str) -> bool:
    """Return whether yes in a column of this name is likely to mean: brought in from elsewhere.

    Examples
    --------
    >>> [names_introductions(name) for name in ("import", "Imported case", "introduced", "port")]
    [True, True, True, False]
    """
    return any(word.startswith(_BROUGHT) for word in words(name))


def names_age(name: str) -> bool:
    """Return whether a column of this name holds ages."""
    return not set(_AGES).isdisjoint(words(name))


def names_date(name: str) -> bool:
    """Return whether numbers of this name are likely to say when.

    Examples
    --------
    >>> [names_date(name) for name in ("onset_date", "onset", "day", "first_frame", "sample_size")]
    [True, True, True, True, False]
    """
    found = words(name)
    if "date" in found or found in _DATES_BY_THEMSELVES:
        return True
    if len(found) == 1:
        return found[0] in _MOMENTS
    return found[-1:] != [] and bool(
        (found[-1] in _MOMENTS and not _WHEN.isdisjoint(found[:-1]))
        or (found[0] in _MOMENTS and not _WHEN.isdisjoint(found[1:]))
    )


def names_year(name: str) -> bool:
    """Return whether numbers of this name are years if they are of the size of years.

    Examples
    --------
    >>> [names_year(name) for name in ("phd_year", "Year of copy", "age in years")]
    [True, True, False]
    """
    return "year" in words(name)


def date_rank(name: str) -> int:
    """Return which of several columns of dates says when a record came to be: the smallest.

    0 for onsets and infections, 1 for samples, 2 for reports, 3 for others, 4 for ends.

    Examples
    --------
    >>> [date_rank(name) for name in ("Date of onset", "collection_date", "date", "date_died")]
    [0, 1, 3, 4]
    """
    found = words(name)
    for rank, meant in ((4, _ENDS), (0, _BEGINS), (1, _SAMPLES), (2, _REPORTS)):
        if any(word.startswith(meant) for word in found):
            return rank
    return 3


_BEGINS = ("onset", "symptom", "rash", "illness", "infect", "exposure")
_SAMPLES = ("sampl", "collect", "specimen", "swab", "isolate", "positiv", "culture", "test")
_REPORTS = ("report", "diagnos", "notif", "confirm", "registr", "admi")
_ENDS = ("end", "recover", "death", "dead", "died", "discharg", "outcome", "remov", "until", "last",
         "stop", "final")  # fmt: skip
