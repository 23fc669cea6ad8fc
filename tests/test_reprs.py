"""What a notebook shows of estimators and records."""

import numpy as np
import pytest

import outtrees
from outtrees import Ancestry, OutTreeDistribution
from outtrees.records import read_records

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


def test_records_are_a_table_in_a_notebook():
    table = {"id": ["a", "b", "c"], "day": ["1", "4", "8"], "<b>ward</b>": ["N", "N", "<i>"]}
    html = read_records(table, kinds={"day": "date"})._repr_html_()
    assert html.startswith("<p>3 records</p><table>")
    assert html.count("<tr>") == 4  # the head, the identities and two columns
    assert "&lt;b&gt;ward" in html
    assert "<b>" not in html
    assert "<i>" not in html


def test_a_distribution_shows_its_best_parents_in_a_notebook():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(12, 12))
    trees = OutTreeDistribution(weights)
    html = trees._repr_html_()
    assert "12 records" in html
    assert f"log Z = {trees.log_z:.6g}" in html
    assert html.count("<tr>") == 11
    assert "… 2 more records" in html
    parents = trees.consensus().parents
    u = int(np.flatnonzero(parents[:10] >= 0)[0])
    assert f">{trees.edge_marginals[u, parents[u]]:.3f}</td>" in html
    # The same from a list of all edges; and of many records nothing that takes long.
    child, parent = np.nonzero(~np.eye(12, dtype=bool))
    listed = OutTreeDistribution.from_candidates(
        child, parent, weights[child, parent], np.zeros(12)
    )
    assert html.split("<table>")[1] == listed._repr_html_().split("<table>")[1]
    many = OutTreeDistribution(np.zeros((400, 400)))
    assert "<table>" not in many._repr_html_()
