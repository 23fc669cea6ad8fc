"""Published times from case to case of infectious diseases, each with its source.

Two kinds: a *serial interval* lasts from a case's onset to the onset of the case that it infects, a
*generation time* from infection to infection. Tables of cases mostly hold onsets.

Of Vink et al. the means are those of the abstract, which gives no standard deviations. Rabies is by
the parameters that later work quotes from Mancy et al. Left out for want of one published mean:
tuberculosis, whose four estimates range from 0.57 to 1.65 years (Ma et al. 2018,
doi:10.1017/S0950268818001760).
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from outtrees.errors import ArgumentError, Option

SERIAL, GENERATION = "serial interval", "generation time"


class WaitingTime(NamedTuple):
    """The published waiting time of one disease, in days."""

    name: str
    aliases: tuple[str, ...]
    kind: str  # "serial interval" or "generation time"
    law: str | None  # None: the source states no law that waits follow
    mean: float
    sd: float | None  # None: not known
    source: str
    doi: str

    @property
    def sentence(self) -> str:
        """What is known, and from where."""
        sd = "learned" if self.sd is None else f"{self.sd:g}"
        law = "" if self.law is None else f", {self.law}"
        return (
            f"published {self.kind} of {self.name}: mean {self.mean:g} days, standard deviation "
            f"{sd}{law} ({self.source}, doi:{self.doi})"
        )


_VINK = ("Vink, Bootsma & Wallinga 2014", "10.1093/aje/kwu209")
_MARZIANO = ("Marziano et al. 2024", "10.3201/eid3010.240665")
DISEASES = (
    WaitingTime("chikungunya", (), GENERATION, None, 14.0, 6.2,
                "Salje et al. 2015", "10.1093/infdis/jiv470"),
    WaitingTime("COVID-19", ("covid", "sars-cov-2", "coronavirus"), SERIAL, "lognormal", 4.7, 2.9,
                "Nishiura, Linton & Akhmetzhanov 2020", "10.1016/j.ijid.2020.02.060"),
    WaitingTime("Ebola", ("ebola virus disease", "evd"), SERIAL, "gamma", 14.2, 9.6,
                "WHO Ebola Response Team 2015", "10.1056/NEJMc1414992"),
    WaitingTime("influenza A(H1N1)pdm09", ("h1n1", "pandemic influenza", "swine flu"), SERIAL,
                "gamma", 2.51, 1.55, "Ghani et al. 2009", "10.1371/currents.RRN1130"),
    WaitingTime("influenza A(H1N1)pdm09, infections", ("h1n1 infections",), GENERATION,
                "weibull", 2.8, 1.3, "Lessler et al. 2009", "10.1056/NEJMoa0906089"),
    WaitingTime("influenza A(H3N2)", ("h3n2", "influenza", "influenza a", "flu"), SERIAL,
                None, 2.2, None, *_VINK),
    WaitingTime("Marburg", ("marburg virus disease",), SERIAL, "gamma", 9.0, 5.4,
                "Ajelli & Merler 2012", "10.1371/journal.pone.0050948"),
    WaitingTime("measles", ("rubeola",), SERIAL, None, 11.7, None, *_VINK),
    WaitingTime("MERS", ("mers-cov", "middle east respiratory syndrome"), SERIAL, "gamma", 12.6,
                2.8, "Cowling et al. 2015", "10.2807/1560-7917.es2015.20.25.21163"),
    WaitingTime("mpox", ("monkeypox", "mpox clade ii"), SERIAL, "gamma", 8.5, 5.0,
                "Madewell et al. 2022", "10.1101/2022.10.26.22281516"),
    WaitingTime("mpox clade I", (), SERIAL, "weibull", 17.5, 10.5, *_MARZIANO),
    WaitingTime("mpox clade I, infections", (), GENERATION, "gamma", 17.2, 9.0, *_MARZIANO),
    WaitingTime("mumps", (), SERIAL, None, 18.0, None, *_VINK),
    WaitingTime("pertussis", ("whooping cough",), SERIAL, None, 22.8, None, *_VINK),
    # A log-normal with log-mean 2.85 and log-sd 0.966, as quoted; the paper was not consulted.
    WaitingTime("rabies", ("dog rabies", "canine rabies"), SERIAL, "lognormal", 27.6, 34.2,
                "Mancy et al. 2022", "10.1126/science.abn0713"),
    WaitingTime("respiratory syncytial virus", ("rsv",), SERIAL, None, 7.5, None, *_VINK),
    WaitingTime("rubella", ("german measles",), SERIAL, None, 18.3, None, *_VINK),
    WaitingTime("smallpox", ("variola",), SERIAL, None, 17.7, None, *_VINK),
    WaitingTime("varicella", ("chickenpox", "chicken pox"), SERIAL, None, 14.0, None, *_VINK),
)  # fmt: skip
_NAMED = {
    name.lower(): disease for disease in DISEASES for name in (disease.name, *disease.aliases)
}


def waiting_time(disease: str) -> WaitingTime:
    """Return the published waiting time of a disease, by its name or an alias.

    Parameters
    ----------
    disease : str
        A name or alias, in any case.

    Returns
    -------
    WaitingTime
        Mean, standard deviation, law, and source.

    Raises
    ------
    ArgumentError
        If no disease has this name; the message lists those that do.

    Examples
    --------
    >>> waiting_time("Chickenpox").mean
    14.0
    """
    found = _NAMED.get(" ".join(disease.lower().split()))
    if found is not None:
        return found
    near = get_close_matches(disease.lower(), _NAMED, n=3, cutoff=0.5)
    names = list(dict.fromkeys(_NAMED[name].name for name in near)) or [d.name for d in DISEASES]
    raise ArgumentError(
        Option("disease"),
        f" must be a disease with a published waiting time, such as {', '.join(names)}; got "
        f"{disease!r}. Correct the name, or state ",
        Option("waiting_mean"),
        " and ",
        Option("waiting_sd"),
        ".",
    )
