"""Many populations in one table: each as if it were alone, the same bytes however it was run."""

import csv
import json

import numpy as np
import pytest

from outtrees import Ancestry, RecordsError, read_records
from outtrees._common.threads import one_thread
from outtrees.ancestry.populations import digest_of, fit_populations
from outtrees.errors import RunFolderError
from outtrees.records.samples import by_host, read_variants, with_variants
from population_tables import population_table


@pytest.fixture(scope="module")
def table():
    return population_table(3, 8)


@pytest.fixture(scope="module")
def done(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("here")
    return fit_populations(Ancestry(id="id", random_state=1), table, by="site", out=out)


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_each_population_is_fitted_as_if_it_were_alone(table, done):
    """The slow twin: cut each population out of the records by hand and fit it."""
    records = read_records(table, id="id", kinds={"site": "ignore"})
    expected = []
    for place, name in enumerate(sorted(set(table["site"]))):
        own = records.take(np.array([site == name for site in table["site"]]))
        with one_thread():
            alone = Ancestry(id="id").fit(own)
            parents = alone.parents(0.1)
        expected += [[name, *map(str, row)] for row in parents.rows()]
        assert done.table["log_likelihood"][place] == alone.log_likelihood_
        assert done.table["iterations"][place] == alone.n_iter_
        assert done.table["expected_right"][place] == alone.expected_right_
    assert [list(row.values()) for row in rows(done.folder / "parents.csv")] == expected
    assert list(rows(done.folder / "parents.csv")[0]) == [
        "population", "child", "parent", "support", "rank",
    ]  # fmt: skip
    assert done.table["records"] == [8, 8, 8]
    assert not done.failures


def test_labels_are_drawn_from_the_seed(tmp_path):
    table = population_table(3, 8, seed=2)
    model = Ancestry(id="id", kinds={"ward": "label"}, random_state=1)
    fit_populations(model, table, by="site", out=tmp_path / "one")
    labels = rows(tmp_path / "one" / "labels.csv")
    unknown = [i for i, ward in zip(table["id"], table["ward"], strict=True) if not ward]
    assert {row["record"] for row in labels} == set(unknown)
    # The last population alone draws as it did in company.
    last = {name: cells[16:] for name, cells in table.items()}
    fit_populations(model, last, by="site", out=tmp_path / "last")
    alone = rows(tmp_path / "last" / "labels.csv")
    assert alone == [row for row in labels if row["population"] == "site 2"]
    fit_populations(model.set_params(random_state=2), table, by="site", out=tmp_path / "other")
    assert rows(tmp_path / "other" / "labels.csv") != labels


@pytest.mark.slow
def test_labels_are_drawn_alike_in_other_processes(tmp_path):
    table = population_table(3, 8, seed=2)
    model = Ancestry(id="id", kinds={"ward": "label"}, random_state=1)
    fit_populations(model, table, by="site", out=tmp_path / "one")
    fit_populations(model, table, by="site", out=tmp_path / "two", n_jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_an_interrupted_run_goes_on(table, done, tmp_path):
    model = Ancestry(id="id", random_state=1)

    def stop(finished, total):
        if finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_populations(model, table, by="site", out=tmp_path, progress=stop)
    assert len(list((tmp_path / "units").iterdir())) == 2
    assert not (tmp_path / "parents.csv").exists()
    moves = []
    fit_populations(model, table, by="site", out=tmp_path, progress=lambda *at: moves.append(at))
    assert moves == [(2, 3), (3, 3)]
    assert files(tmp_path) == files(done.folder)


def test_a_folder_of_another_run_is_refused(table, done):
    before = files(done.folder)
    model = Ancestry(id="id", random_state=1)
    changed = {**table, "x": [*table["x"][:-1], 99.0]}
    with pytest.raises(RunFolderError, match=r"another run \(the data differ\)"):
        fit_populations(model, changed, by="site", out=done.folder)
    with pytest.raises(RunFolderError, match=r"another run \(max_iter was 100 and is 7\)"):
        fit_populations(
            Ancestry(id="id", max_iter=7, random_state=1), table, by="site", out=done.folder
        )
    with pytest.raises(RunFolderError, match=r"another run \(min_support was 0.1 and is 0.5\)"):
        fit_populations(model, table, by="site", out=done.folder, min_support=0.5)
    with pytest.raises(RunFolderError, match=r"another run \(seed was"):
        fit_populations(Ancestry(id="id", random_state=2), table, by="site", out=done.folder)
    assert files(done.folder) == before


def test_a_population_that_cannot_be_fitted_does_not_lose_the_others(table, done, tmp_path):
    """Two records without any possible parent: no tree reaches both."""
    forbidden = [(f"p1r{i}", f"p1r{j}") for i in (0, 1) for j in range(8) if i != j]
    model = Ancestry(id="id", forbidden=forbidden, random_state=1)
    found = fit_populations(model, table, by="site", out=tmp_path)
    assert list(found.failures) == ["site 1"]
    assert "(record 'p1r0'; record 'p1r1')" in found.failures["site 1"]
    assert "\n" not in found.failures["site 1"]
    assert found.table["log_likelihood"][1] is None
    fitted = [row for row in rows(done.folder / "parents.csv") if row["population"] != "site 1"]
    assert rows(tmp_path / "parents.csv") == fitted
    assert rows(tmp_path / "populations.csv")[1]["failure"] == found.failures["site 1"]


def test_knowledge_goes_to_the_population_it_is_about(table, tmp_path):
    model = Ancestry(
        id="id",
        known_parents={"p0r3": "p0r1", "p2r0": None},
        forbidden=[("p1r2", "p1r1"), ("p1r2", "p2r1")],
    )
    fit_populations(model, table, by="site", out=tmp_path, min_support=0.0)
    supports = {
        (r["child"], r["parent"]): float(r["support"]) for r in rows(tmp_path / "parents.csv")
    }
    assert supports["p0r3", "p0r1"] == pytest.approx(1.0)
    assert supports["p2r0", ""] == pytest.approx(1.0)
    assert ("p1r2", "p1r1") not in supports
    assert ("p1r2", "p1r3") in supports


def test_refusals(table, tmp_path):
    def fit(model, table=table, **options):
        fit_populations(model, table, out=tmp_path / "out", **options)

    with pytest.raises(ValueError, match=r"every population has a root of its own; say known_par"):
        fit(Ancestry(id="id", root="p0r0"), by="site")
    with pytest.raises(RecordsError, match="'p1r0' of 'p0r1' belongs to another population"):
        fit(Ancestry(id="id", known_parents={"p0r1": "p1r0"}), by="site")
    with pytest.raises(RecordsError, match="no record is called 'nobody'"):
        fit(Ancestry(id="id", forbidden=[("nobody", "p1r0")]), by="site")
    with pytest.raises(RecordsError, match=r"got none with groups\. Read them with"):
        fit(Ancestry(id="id"))
    with pytest.raises(RecordsError, match="no column 'nowhere'"):
        fit(Ancestry(id="id"), by="nowhere")
    with pytest.raises(RecordsError, match="by='site' names the populations, but kinds make"):
        fit(Ancestry(id="id", kinds={"ward": "group"}), by="site")
    read = read_records(table, id="id", kinds={"site": "group"})
    with pytest.raises(RecordsError, match="these records are read already"):
        fit(Ancestry(id="id"), read, by="site")
    assert not (tmp_path / "out").exists()


def test_records_read_before_and_names_from_outside(table, done, tmp_path):
    read = read_records(table, id="id", kinds={"site": "group"})
    found = fit_populations(Ancestry(id="id", random_state=1), read, out=tmp_path / "read")
    assert files(found.folder) == files(done.folder)
    strange = {**table, "site": [f"=../{site}" for site in table["site"]]}
    out = tmp_path / "strange"
    found = fit_populations(Ancestry(id="id"), strange, by="site", out=out)
    assert rows(out / "parents.csv")[0]["population"] == "'=../site 0"
    assert sorted(p.name for p in out.iterdir()) == [
        "parents.csv", "populations.csv", "results.json", "run.json", "units",
    ]  # fmt: skip
    assert json.loads((out / "run.json").read_text())["settings"]["max_iter"] == 100


def test_a_population_of_one_record(tmp_path):
    table = population_table(2, 6)
    table = {name: cells[:7] for name, cells in table.items()}
    found = fit_populations(Ancestry(id="id"), table, by="site", out=tmp_path)
    assert not found.failures
    assert rows(tmp_path / "parents.csv")[-1]["parent"] == ""


def test_what_takes_part_does_not_depend_on_the_machine(table, tmp_path, monkeypatch):
    """With candidates="auto", by size alone; and the size is the one that `Ancestry` has."""
    from outtrees.ancestry import populations
    from outtrees.candidates import plan

    assert plan.MOST_DENSE == populations.MOST_DENSE
    monkeypatch.setattr(populations, "MOST_DENSE", 7)
    model = Ancestry(id="id", n_candidates=3)
    found = fit_populations(model, table, by="site", out=tmp_path)
    assert all(mass > 0 for mass in found.table["dropped_mass"])


def test_names_may_be_used_again_in_another_population(table, done, tmp_path):
    """The same parents as with names that differ everywhere."""
    short = {**table, "id": [name[2:] for name in table["id"]]}
    again = fit_populations(Ancestry(id="id"), short, by="site", out=tmp_path / "short")
    expected = [
        {**row, "child": row["child"][2:], "parent": row["parent"][2:]}
        for row in rows(done.folder / "parents.csv")
    ]
    assert rows(again.folder / "parents.csv") == expected
    # Parents named in the table are those of the child's population.
    told = {**short, "parent": ["r7" if name == "r1" else "" for name in short["id"]]}
    records = read_records(told, id="id", kinds={"site": "group"}, unique_within="group")
    assert records.known_parents == {1: 7, 9: 15, 17: 23}
    with pytest.raises(RecordsError, match="3 populations have a record called 'r1'; say parents"):
        fit_populations(
            Ancestry(id="id", known_parents={"r1": "r2"}), short, by="site", out=tmp_path / "x"
        )
    with pytest.raises(RecordsError, match="differ only within groups; fit each group on its own"):
        Ancestry().fit(records)
    with pytest.raises(RecordsError, match=r"groups of 'site' they differ: give .*populations"):
        Ancestry(id="id", kinds={"site": "group"}).fit(short)
    twice = {**short, "id": ["r1", *short["id"][1:]]}
    with pytest.raises(RecordsError, match=r"'r1 of site 0 \(rows 0, 1\)'; rename or remove"):
        fit_populations(Ancestry(id="id"), twice, by="site", out=tmp_path / "x")
    with pytest.raises(RecordsError, match="several records share one; give the records names"):
        fit_populations(
            Ancestry(id="id"), short, by="site", out=tmp_path / "x", sequences={"r1": "ACGT"}
        )


def test_a_spread_of_groups_is_none_of_single_populations(tmp_path):
    table = {"id": list("abcd"), "site": ["A", "A", "B", "B"], "x": [0.0, 1, 2, 3], "y": [0.0] * 4}
    with pytest.raises(ValueError, match="every population is fitted on its own"):
        fit_populations(Ancestry(id="id", group_spread=True), table, by="site", out=tmp_path / "o")


def test_samples_and_variants_of_hosts_are_part_of_what_a_folder_is_of():
    names = ["a1", "a2", "b1"]
    table = {"sample": names, "who": ["a", "a", "b"], "day": [1, 9, 4], "site": ["N"] * 3}
    kinds = {"who": "categorical", "day": "date", "site": "group"}

    def digest(last, share):
        dna = dict(zip(names, ["ACGTACGT", last, "ACGTACGT"], strict=True))
        hosts = by_host(read_records(table, id="sample", kinds=kinds, sequences=dna), "who")
        rows = {"sample": ["b1"], "position": [2], "base": ["T"], "frequency": [share]}
        return digest_of(with_variants(hosts, read_variants(rows)))

    assert digest("ACGTACGA", 0.1) == digest("ACGTACGA", 0.1)
    assert len({digest("ACGTACGA", 0.1), digest("ACGTACGC", 0.1), digest("ACGTACGA", 0.4)}) == 3
