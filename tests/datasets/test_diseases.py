"""Published waiting times, and what `Ancestry` makes of them."""

import pytest

from outtrees import Ancestry
from outtrees.datasets import DISEASES, waiting_time
from outtrees.errors import ArgumentError
from outtrees.models.columns.waiting import LAWS


def test_every_row_can_be_used_and_has_a_source():
    names = [name.lower() for row in DISEASES for name in (row.name, *row.aliases)]
    assert len(set(names)) == len(names)
    for row in DISEASES:
        assert row.mean > 0
        assert row.sd is None or row.sd > 0
        assert row.law is None or row.law in LAWS
        assert row.kind in ("serial interval", "generation time")
        assert row.doi.startswith("10.")
        assert waiting_time(row.name.upper()) is row


def test_unknown_names_get_the_nearest():
    with pytest.raises(ArgumentError, match=r"such as measles, .*got 'measels'"):
        waiting_time("measels")
    with pytest.raises(ArgumentError, match=r"chikungunya.*varicella"):
        waiting_time("qqqqqq")


TABLE = {"case": list("abcd"), "onset": [0, 4, 5, 9], "ward": ["N", "N", "S", "S"]}


def test_a_disease_fills_in_what_is_not_given():
    kinds = {"onset": "date"}
    found = Ancestry(disease="ebola", kinds=kinds).fit(TABLE)
    kernel = found.lineage_.kernels[found.lineage_.dates]
    assert kernel.law == "gamma"
    assert kernel.moments == pytest.approx((14.2, 9.6))
    assert "WHO Ebola Response Team 2015, doi:10.1056/NEJMc1414992" in found.describe()[0]
    given = Ancestry(disease="ebola", waiting_sd=3.0, waiting_law="weibull", kinds=kinds).fit(TABLE)
    kernel = given.lineage_.kernels[given.lineage_.dates]
    assert kernel.law == "weibull"
    assert kernel.moments == pytest.approx((14.2, 3.0))
    learned = Ancestry(disease="measles", kinds=kinds).fit(TABLE)
    means = learned.readings()["waiting_mean"]
    assert means == pytest.approx([11.7] * len(means))
    assert "standard deviation learned" in learned.describe()[0]


def test_what_contradicts_a_disease():
    with pytest.raises(ArgumentError, match="disease and generation_time contradict"):
        Ancestry(disease="measles", generation_time=[0, 1]).fit(TABLE)
