"""What a notebook shows of estimators and records."""

import pytest

import outtrees
from outtrees import Ancestry

ESTIMATORS = (
    *("Ancestry", "BayesianOutTree", "OutTreeClassifier", "OutTreeDensity", "OutTreeImputer"),
)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_an_html_form(name):
    estimator = getattr(outtrees, name)()
    assert name in estimator._repr_html_()
    assert repr(estimator) == f"{name}()"


def test_records_show_their_columns_and_not_their_arrays():
    table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    found = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0).fit(table)
    assert repr(found.records) == found.records.describe()
    assert "array(" not in repr(found.records)
