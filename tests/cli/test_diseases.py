"""`outtrees diseases`."""

import json

from outtrees.datasets import DISEASES


def test_the_table_is_printed_whole(outtrees):
    result = outtrees("diseases")
    assert result.exit_code == 0, result.output
    for disease in DISEASES:
        assert disease.name in result.stdout
        assert disease.doi in result.stdout


def test_as_json(outtrees):
    told = json.loads(outtrees("diseases", "--json").stdout)["diseases"]
    measles = next(row for row in told if row["name"] == "measles")
    assert measles["mean"] == 11.7
    assert measles["sd"] is None
    assert measles["doi"] == "10.1093/aje/kwu209"
