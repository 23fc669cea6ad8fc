"""What users meet: tables in, tables and files out, and clear refusals."""

import json
import warnings
from io import StringIO

import numpy as np
import pytest

from mixed_tables import KINDS, mixed_table
from outtrees import Ancestry, NoSpanningTreeError, RecordsError
from outtrees.datasets import make_outbreak


@pytest.fixture(scope="module")
def outbreak():
    return make_outbreak(25, random_state=3)


@pytest.fixture(scope="module")
def found(outbreak):
    return Ancestry(id="case", roots="any", random_state=0).fit(
        outbreak.table, sequences=outbreak.sequences
    )


def test_an_outbreak_is_found_as_surely_as_the_supports_say(found, outbreak):
    ids, parents = found.records.ids, found.tree()
    said = {name: ids[p] if p >= 0 else "" for name, p in zip(ids, parents, strict=True)}
    right = sum(said[name] == infector for name, infector in outbreak.infectors.items())
    supports = found.fitted.supports(parents)
    error = np.sqrt((supports * (1 - supports)).sum())
    # Three binomial standard errors, and one record for the fit of the parameters.
    assert abs(right - found.expected_right_) < 3 * error + 1
    roots = {name for name, infector in outbreak.infectors.items() if not infector}
    assert {name for name, parent in said.items() if not parent} == roots


@pytest.mark.slow
def test_calibration_over_many_outbreaks():
    """Given the true waiting time, as many parents are right as promised."""
    right = expected = variance = 0.0
    for seed in range(12):
        truth = make_outbreak(30, random_state=100 + seed)
        found = Ancestry(id="case", roots="any", waiting_mean=5.0, waiting_sd=2.0).fit(
            truth.table, sequences=truth.sequences
        )
        ids, parents = found.records.ids, found.tree()
        for name, p in zip(ids, parents, strict=True):
            right += (ids[p] if p >= 0 else "") == truth.infectors[name]
        supports = found.fitted.supports(parents)
        expected += supports.sum()
        variance += (supports * (1 - supports)).sum()
    # Four standard errors: rates and wards are still fitted to thirty records.
    assert abs(right - expected) < 4 * np.sqrt(variance)


def test_objectives_never_fall_and_the_fit_says_whether_it_converged(found):
    assert (np.diff(found.objectives_) > -1e-9 * abs(found.objectives_[-1])).all()
    assert found.converged_
    assert found.n_iter_ < len(found.objectives_)  # values after each evaluation
    assert found.objectives_[-1] == max(found.objectives_)
    with pytest.warns(UserWarning, match="had not converged after 1 iteration; raise max_iter"):
        short = Ancestry(id="id", kinds=KINDS, max_iter=1, tol=0.0, transmission=False).fit(
            mixed_table(8)
        )
    assert not short.converged_
    assert any("raise max_iter" in warning for warning in short.warnings_)


def test_parents_are_ranked_and_credible_sets_hold_their_level(found):
    every = found.parents(min_support=0.0)
    totals = {}
    for child, _, support, rank in every.rows():
        totals.setdefault(child, []).append(support)
        assert rank == len(totals[child])
    for supports in totals.values():
        assert sum(supports) == pytest.approx(1.0)
        assert supports == sorted(supports, reverse=True)
    sets = {}
    for child, _, support, _ in found.credible_parents(0.9).rows():
        sets.setdefault(child, []).append(support)
    assert set(sets) == set(totals)
    for supports in sets.values():
        assert sum(supports) >= 0.9
        assert sum(supports[:-1]) < 0.9


def test_records_table_and_number_of_roots(found):
    table = found.records_
    assert table["record"] == list(found.records.ids)
    np.testing.assert_allclose(sum(table["root_probability"]), found.n_roots_ @ np.arange(26))
    total = sum(table["expected_children"]) + sum(table["root_probability"])
    assert total == pytest.approx(25.0)
    assert np.isfinite(table["log_density"]).all()


def test_column_evidence_names_what_matters(found):
    table = found.column_evidence(n_shuffles=2, random_state=0)
    assert list(table.columns) == ["column", "gain", "error", "alone", "outliers", "used"]
    rows = {row[0]: row[1:] for row in table.rows()}
    assert set(rows) == {"sequence", "ward", "age"}
    assert rows["sequence"][0] > 100  # a shuffled sequence follows no tree
    assert abs(rows["age"][0]) < 6  # ages say nothing, shuffled or not
    assert not rows["age"][4]
    assert "age" in found.left_out_
    assert found.column_gains_["age"] < 6
    assert list(found.column_evidence(2, random_state=0).rows()) == list(table.rows())


def test_readings_compete_and_supports_are_their_mean(found):
    table = found.readings()
    assert list(table.columns) == ["waiting_mean", "waiting_sd", "gain", "weight", "differ"]
    assert len(table["weight"]) == len(found.readings_) > 1
    assert sum(table["weight"]) == pytest.approx(1.0)
    assert table["weight"] == sorted(table["weight"], reverse=True)
    assert table["differ"][0] == 0
    assert found.log_likelihood_ == table["gain"][0]
    weights = enumerate(table["weight"])
    E = len(found.edges_.child)
    mean = sum(weight * found.fitted.reading_supports(r)[:E] for r, weight in weights)
    np.testing.assert_allclose(found.fitted.trees.edge_marginals, mean, atol=1e-12)
    members = zip(found.fitted.members, found.fitted.trees.parts, strict=True)
    mean = sum(member.weight * part.edge_marginals for member, part in members)
    np.testing.assert_allclose(found.fitted.trees.edge_marginals, mean, atol=1e-12)
    assert found.root_rate_ == pytest.approx(found.fitted.trees.root_marginals.mean())
    given = Ancestry(id="id", kinds={"day": "date"}, waiting_mean=3.0, waiting_sd=1.0)
    one = given.fit({"id": list("abc"), "day": [1, 4, 6], "ward": ["N", "S", "N"]}).readings()
    assert (one["weight"], one["waiting_mean"]) == ([1.0], [pytest.approx(3.0)])
    bare = Ancestry(id="id").fit({"id": list("abc"), "x": [0.1, 0.2, 0.9]})
    assert np.isnan(bare.readings()["waiting_mean"][0])


def test_roots_by_themselves_are_any_number_where_there_are_dates():
    table = {"id": list("abc"), "x": [0.1, 0.2, 0.9]}
    dated = {**table, "day": [1, 4, 6]}
    options = {"id": "id", "kinds": {"day": "date"}, "waiting_mean": 3.0, "waiting_sd": 1.0}
    assert Ancestry(id="id").fit(table).fitted.roots == "single"
    assert Ancestry(**options).fit(dated).fitted.roots == "any"
    assert Ancestry(**options, root="a").fit(dated).fitted.roots == "single"
    assert Ancestry(**options, roots="single").fit(dated).fitted.roots == "single"


def test_columns_that_are_to_be_kept_take_part(outbreak):
    options = {"id": "case", "waiting_mean": 5.0, "waiting_sd": 2.0}
    free = Ancestry(**options).fit(outbreak.table)
    kept = Ancestry(**options, keep=["age"]).fit(outbreak.table)
    assert "age" in free.left_out_
    assert "age" not in kept.left_out_
    assert "age" not in kept.column_gains_
    with pytest.raises(RecordsError, match=r"keep must name columns that take part.*got 'nobody'"):
        Ancestry(**options, keep=["nobody"]).fit(outbreak.table)


def test_an_outlying_cell_costs_a_bounded_amount():
    """A wrong number does not tear a record from its parent, unless the background is off."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(30, 2)), axis=0)
    table = {"id": [f"r{i}" for i in range(30)], "day": list(range(30)), "x": x[:, 0].tolist()}
    # Of two wards that were both there before, one of which holds half of the records, the same
    # one would say too little against an introduction.
    table |= {"y": x[:, 1].tolist(), "ward": [f"w{i // 4}" for i in range(30)]}
    table["x"][22] += 1e4
    kinds = {"day": "date", "ward": "categorical"}
    options = {"id": "id", "kinds": kinds, "waiting_mean": 1.0, "waiting_sd": 0.3, "max_iter": 500}
    robust = Ancestry(**options).fit(table)
    assert robust.tree()[22] in (20, 21)
    place = robust.lineage_.kernels[robust.column_names_.index("place")]
    assert place.cov[0, 0] < 10
    # Without a background only steps with long tails can explain it.
    naive = Ancestry(**options, background=False).fit(table)
    kernel = naive.lineage_.kernels[naive.column_names_.index("place")]
    assert kernel.tail is not None
    assert set(naive.lineage_.outlier_shares[list(naive.lineage_.used)]) == {0.0}


def test_constraints_hold(outbreak):
    base = {"id": "case", "roots": "any"}
    given = Ancestry(**base, known_parents={"case09": "case02", "case05": None}).fit(
        outbreak.table, sequences=outbreak.sequences
    )
    supports = given.fitted.support_of
    assert supports[8, 1] == pytest.approx(1.0)
    assert supports[4, -1] == pytest.approx(1.0)
    without = Ancestry(**base, forbidden=[("case09", "case02")]).fit(
        outbreak.table, sequences=outbreak.sequences
    )
    assert (8, 1) not in without.fitted.support_of
    rooted = Ancestry(id="case", root="case01").fit(outbreak.table, sequences=outbreak.sequences)
    assert rooted.fitted.support_of[0, -1] == pytest.approx(1.0)


def test_a_column_of_known_parents_counts(outbreak):
    table = outbreak.table | {
        "infector": [
            outbreak.infectors[name] if i % 2 else ""
            for i, name in enumerate(outbreak.table["case"])
        ]
    }
    table["infector"] = [name or "" for name in table["infector"]]
    found = Ancestry(id="case", kinds={"infector": "parent"}, roots="any").fit(
        table, sequences=outbreak.sequences
    )
    ids = list(found.records.ids)
    for child, infector in zip(ids, table["infector"], strict=True):
        if infector:
            pair = ids.index(child), ids.index(infector)
            assert found.fitted.support_of[pair] == pytest.approx(1.0)


def test_groups_are_unrelated_and_share_parameters():
    a, b = mixed_table(6, 1), mixed_table(6, 2)
    table = {name: [*a[name], *b[name]] for name in a}
    table["id"] = [f"{g}{i}" for g in "ab" for i in range(6)]
    table["herd"] = ["a"] * 6 + ["b"] * 6
    found = Ancestry(id="id", kinds=KINDS | {"herd": "group"}, roots="single").fit(table)
    for child, parent, _, _ in found.parents(0.0).rows():
        assert not parent or child[0] == parent[0]
    assert (found.tree() < 0).sum() == 2
    np.testing.assert_allclose(found.n_roots_[:3], [0, 0, 1], atol=1e-12)
    # Later records name their group; its position in the new table does not matter.
    later = {"id": ["n1", "n2"], "herd": ["b", "c"], "day": ["2024-01-09", "2024-01-09"]}
    with pytest.warns(UserWarning, match="1 new record can have no parent"):
        placed = found.place(later, min_support=0.0)
    assert {name[0] for name in placed["parent"]} == {"b"}
    with pytest.raises(RecordsError, match="say which group"):
        found.place({"id": ["n1"], "day": ["2024-01-09"]})


def test_strict_dates_forbid_and_loose_dates_only_dislike():
    table = {"id": ["early", "late"], "day": [1, 9], "ward": ["a", "a"]}
    kinds = {"day": "date", "ward": "categorical"}
    strict = Ancestry(kinds=kinds).fit(table)
    assert strict.fitted.support_of[0, -1] == pytest.approx(1.0)
    loose = Ancestry(kinds=kinds, strict_dates=False).fit(table)
    assert 0.5 < loose.fitted.support_of[0, -1] < 1 - 1e-6


def test_children_wait_from_the_end_of_their_parent():
    """Cells divide when they end: with `until` the exact mother is found among four."""
    table = {
        "cell": ["p", "q", "r", "s", "c", "d"],
        "born": [0, 0, 0, 0, 11, 21],
        "gone": [10, 20, 30, 40, 50, 50],
        "x": [0.0, 0.1, 0.2, 0.3, 0.15, 0.15],
        "y": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    }
    options = {"id": "cell", "kinds": {"born": "date"}, "roots": "any", "ties": False}
    found = Ancestry(**options, until="gone", waiting_mean=1.0, waiting_sd=0.3).fit(table)
    assert found.tree()[4:].tolist() == [0, 1]


def test_place_needs_no_refit_and_treats_rows_one_by_one(found, outbreak):
    names = [outbreak.table["case"][-1], outbreak.table["case"][-2]]
    rows = [outbreak.table["case"].index(name) for name in names]
    later = {key: [cells[i] for i in rows] for key, cells in outbreak.table.items()}
    later["case"] = ["new1", "new2"]
    dna = {f"new{i + 1}": outbreak.sequences[name] for i, name in enumerate(names)}
    both = found.place(later, sequences=dna, min_support=0.0)
    one = found.place(
        {key: cells[:1] for key, cells in later.items()},
        sequences={"new1": dna["new1"]},
        min_support=0.0,
    )
    first = {p: s for c, p, s, _ in both.rows() if c == "new1"}
    alone = {p: s for _, p, s, _ in one.rows()}
    assert first == pytest.approx(alone)
    assert sum(first.values()) == pytest.approx(1.0)
    # The record itself is the nearest of all; its own parent comes next.
    assert max(first, key=first.get) in (names[0], outbreak.infectors[names[0]])


def test_what_new_records_lack_is_unknown(found):
    table = found.place({"case": ["new"], "onset": ["2024-03-10"]}, min_support=0.0)
    assert sum(table["support"]) == pytest.approx(1.0)
    assert "ward" in found.column_names_


def test_simulated_records_come_back(found):
    table = found.simulate(30, random_state=1)
    assert table["true_parent"][0] == ""
    again = Ancestry(id="id", kinds={"true_parent": "ignore", "sequence": "sequence"}).fit(
        dict(table)
    )
    ids = list(again.records.ids)
    right = sum(
        table["true_parent"][u] == (ids[p] if p >= 0 else "") for u, p in enumerate(again.tree())
    )
    assert right > 15  # a uniform guess finds about 1 of 30


def test_results_do_not_depend_on_the_order_of_records(outbreak):
    order = np.random.default_rng(0).permutation(25)
    table = {key: [cells[i] for i in order] for key, cells in outbreak.table.items()}
    options = {"id": "case", "roots": "any"}
    a = Ancestry(**options).fit(outbreak.table, sequences=outbreak.sequences)
    b = Ancestry(**options).fit(table, sequences=outbreak.sequences)
    there = {(c, p): s for c, p, s, _ in a.parents(0.0).rows()}
    here = {(c, p): s for c, p, s, _ in b.parents(0.0).rows()}
    assert there == pytest.approx(here, abs=1e-6)


def test_distances_and_ready_weights():
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.exponential(size=8))
    distances = abs(x[:, None] - x[None])
    ids = {"id": [f"r{i}" for i in range(8)]}
    found = Ancestry(id="id", root="r0").fit(ids, distances=distances)
    assert found.tree("mode").tolist() == [-1, 0, 1, 2, 3, 4, 5, 6]
    weights = -distances * 1.5
    given = Ancestry(id="id").fit(ids, log_weights=weights)
    from outtrees import OutTreeDistribution

    exact = OutTreeDistribution(weights)
    # Without dates it is compared with all 8⁷ trees alike.
    assert given.log_likelihood_ == pytest.approx(exact.log_z - 7 * np.log(8))
    for (u, v), support in given.fitted.support_of.items():
        expected = exact.root_marginals[u] if v < 0 else exact.edge_marginals[u, v]
        assert support == pytest.approx(expected, abs=1e-12)


def test_a_given_weight_of_minus_infinity_forbids_as_a_forbidden_pair_does():
    """Also where the number of possible parents counts."""
    rng = np.random.default_rng(3)
    ids = {"id": [f"r{i}" for i in range(7)], "x": rng.normal(size=7).tolist()}
    weights = rng.normal(size=(7, 7))
    pairs = [(1, 0), (1, 2), (1, 3), (1, 5), (4, 2), (6, 0)]
    options = {"id": "id", "roots": "any"}
    named = [(f"r{u}", f"r{v}") for u, v in pairs]
    right = Ancestry(**options, forbidden=named).fit(ids, log_weights=weights)
    weights[tuple(np.transpose(pairs))] = -np.inf
    found = Ancestry(**options).fit(ids, log_weights=weights)
    assert found.log_likelihood_ == pytest.approx(right.log_likelihood_, rel=1e-12)
    assert list(found.parents(0.0).rows()) == list(right.parents(0.0).rows())


def test_files_are_written_and_read_back(found, tmp_path):
    import csv

    found.to_csv(tmp_path / "parents.csv")
    with (tmp_path / "parents.csv").open() as file:
        assert next(iter(csv.reader(file))) == ["child", "parent", "support", "rank"]
    found.to_newick(tmp_path / "tree.newick")
    found.to_nexus(tmp_path / "tree.nexus")
    found.to_graphml(tmp_path / "tree.graphml")
    graph = found.to_networkx()
    assert graph.number_of_nodes() == 25
    assert (tmp_path / "tree.newick").read_text() == found.to_newick()
    page = found.report(tmp_path / "report.html", command="a test")
    text = page.read_text()
    assert "case01" in text
    assert "a test" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "parents.csv",
        "report.html",
        "tree.graphml",
        "tree.newick",
        "tree.nexus",
    ]
    assert json.dumps(found.describe())


def test_pandas_in_and_out(outbreak):
    pd = pytest.importorskip("pandas")
    found = Ancestry(id="case", roots="any").fit(
        pd.DataFrame(outbreak.table), sequences=outbreak.sequences
    )
    frame = found.parents().to_pandas()
    assert list(frame.columns) == ["child", "parent", "support", "rank"]
    csv = pd.read_csv(StringIO(frame.to_csv(index=False)))
    assert len(csv) == len(frame)


# Refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known_parents": {"nobody": "r0"}}, "no record is called 'nobody'"),
        ({"known_parents": {"r1": "r1"}}, "its own parent"),
        ({"known_parents": {"r1": "r2", "r2": "r1"}}, "form a cycle"),
        (
            {"known_parents": {"r0": "r4"}, "transmission": False},
            r"'r4' \(day 2024-01-06\) is given as the parent of 'r0' \(day 2024-01-02\), but",
        ),
        ({"forbidden": ["r1r2"]}, r"\(child, parent\) pairs"),
        ({"until": "ward"}, "column of dates like 'day'"),
        ({"generation_time": [0.0, -1.0]}, "numbers ≥ 0 with a positive sum"),
        ({"kinds": KINDS | {"day": "date", "weight": "date"}}, "'day', 'weight' are dates"),
        ({"roots": "many"}, "The 'roots' parameter of Ancestry must be a str among"),
        ({"links": 0}, "The 'links' parameter of Ancestry must be an int"),
    ],
)
def test_refusals_name_the_place_and_the_remedy(options, message):
    kinds = options.pop("kinds", KINDS)
    if options.get("until") == "ward":
        kinds = kinds | {"ward": "categorical"}
    with pytest.raises(ValueError, match=message):
        Ancestry(id="id", kinds=kinds, **options).fit(mixed_table(5))


def test_no_columns_and_no_tree_are_refused():
    with pytest.raises(RecordsError, match="at least one column besides the identities"):
        Ancestry(id="id").fit({"id": ["a", "b"]})
    weights = np.full((3, 3), -np.inf)
    weights[0, 1] = weights[1, 0] = 0.0
    with pytest.raises(NoSpanningTreeError, match=r"\(records 'a', 'b'; record 'c'\)"):
        Ancestry(id="id").fit({"id": ["a", "b", "c"]}, log_weights=weights)


def test_errors_without_a_tree_carry_identities_and_options():
    """Also within groups, where the sum over trees has numbers of its own, and on candidates."""
    table = {"id": list("abcde"), "herd": ["x", "y", "x", "y", "y"], "w": list("pqpqp")}
    kinds = {"herd": "group", "w": "categorical"}
    apart = [("b", "d"), ("b", "e"), ("d", "b"), ("d", "e"), ("e", "b")]
    for candidates in ("dense", "knn"):
        with pytest.raises(NoSpanningTreeError, match=r"\(record 'b'; record 'd'\)") as caught:
            Ancestry(kinds=kinds, forbidden=apart, candidates=candidates).fit(table)
        assert caught.value.cause == "separate groups"
        assert caught.value.groups == (("b",), ("d",))
        assert [option.name for option in caught.value.options] == ["roots", "strict_dates"]
    known = {"a": "c", "b": None, "d": "b", "e": "b"}
    rootless = Ancestry(kinds=kinds, known_parents=known, forbidden=[("c", "a")], roots="any")
    found = rootless.fit(table)
    with pytest.raises(NoSpanningTreeError, match="'a' is not among the possible parents of 'c'"):
        found.what_if({"c": "a"})
    for options, words in (
        ({"root": "a", "known_parents": {"c": None}}, "'c' is known to be a root, but"),
        ({"known_parents": {"b": "a"}}, "'a' is given as the parent of record 'b', but they are"),
    ):
        with pytest.raises(NoSpanningTreeError, match=words):
            Ancestry(kinds=kinds, **options).fit(table)


def test_questions_before_fit_are_refused():
    with pytest.raises(AttributeError, match="not fitted yet"):
        Ancestry().parents()


def test_labels_need_a_column_of_labels(found):
    with pytest.raises(RecordsError, match="column of labels"):
        found.predict_labels()


def test_too_large_a_table_is_refused_before_allocation(monkeypatch):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"5 records need about .* kB of memory; 1.0 kB are free"):
        Ancestry(id="id", kinds=KINDS).fit(mixed_table(5))


def test_a_place_that_cannot_be_is_said(found):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.place({"case": ["x"], "onset": ["2024-03-10"]})
    single = Ancestry(id="id", kinds={"day": "date"}, roots="single").fit(
        {"id": ["a", "b"], "day": [5, 6], "x": [0.0, 1.0], "y": [0.0, 1.0]}
    )
    with pytest.warns(UserWarning, match="can have no parent among the fitted ones"):
        assert single.place({"id": ["c"], "day": [1]})["child"] == []


@pytest.mark.parametrize("order", [("lat", "lon"), ("lon", "lat")])
def test_later_places_are_measured_from_the_same_centre(order):
    from outtrees.ancestry.columns import DateOptions
    from outtrees.ancestry.placement import values_like
    from outtrees.records import read_records

    rng = np.random.default_rng(0)
    degrees = {"lat": 52 + rng.normal(size=6) / 10, "lon": 13 + rng.normal(size=6) / 10}
    table = {"id": [f"r{i}" for i in range(6)]}
    table |= {name: degrees[name].round(5).tolist() for name in order}
    found = Ancestry(id="id").fit(table)
    later = read_records({name: cells[4:] for name, cells in table.items()}, id="id")
    (cells,) = values_like(found.fitted, later, DateOptions())
    # In km; centred elsewhere, the scale of a degree of longitude differs by 1e-4 at most here.
    np.testing.assert_allclose(cells, found.column_values_[0][4:], atol=0.01)


def test_new_places_are_written_as_the_fitted_ones():
    table = {"id": list("abcd"), "lat": [50.0, 50.1, 50.2, 50.4], "lon": [7.0, 7.3, 7.1, 7.6]}
    found = Ancestry(id="id").fit(table)
    with pytest.raises(RecordsError, match="plane coordinates in the new records but latitudes"):
        found.place({"id": ["n"], "x": [50.1], "y": [7.2]})


def test_waits_between_calendar_dates_are_told_in_days():
    for dates, unit in ((["2024-01-03", "2024-01-05"], "days"), ([3, 5], "units of time")):
        found = Ancestry(kinds={"onset": "date"}).fit({"id": ["a", "b"], "onset": dates})
        assert f" {unit} after its parent" in found.describe()[0]


def test_new_records_far_away_are_placed_as_if_they_came_alone():
    table = {"id": list("abcd"), "lat": [50.0, 50.1, 50.2, 50.4], "lon": [7.0, 7.3, 7.1, 7.6]}
    found = Ancestry(id="id").fit(table)
    new = {"id": ["x", "y"], "lat": [50.1, 69.0], "lon": [7.5, 19.0]}
    both = found.place(new, min_support=0.0)
    alone = found.place({name: cells[:1] for name, cells in new.items()}, min_support=0.0)
    together = [row for row in both.rows() if row[0] == "x"]
    assert together == list(alone.rows())


def test_one_new_sequence_does_not_change_what_another_is_placed_by():
    """Sites at which all agree count in how similar two sequences are, compared or not."""
    table = {"id": list("abcd"), "dna": ["ACGTACGTAA", "ACGTACGTNC", "ACGTACNTAC", "ACGTNCGTCC"]}
    found = Ancestry(id="id", kinds={"dna": "sequence"}).fit(table)
    new = {"id": ["x", "y"], "dna": ["ACGTACGTAC", "TGCATGCATT"]}
    both = found.place(new, min_support=0.0)
    alone = found.place({name: cells[:1] for name, cells in new.items()}, min_support=0.0)
    together = {parent: support for child, parent, support, _ in both.rows() if child == "x"}
    assert together == pytest.approx({p: s for _, p, s, _ in alone.rows()}, abs=1e-12)


def test_new_dates_are_written_as_the_fitted_ones():
    found = Ancestry(id="id").fit(
        {"id": list("abc"), "day": ["2024-01-01", "2024-01-03", "2024-01"]}
    )
    with pytest.raises(RecordsError, match="'day' holds numbers in the new records but calendar"):
        found.place({"id": ["x"], "day": [45]})
    assert found.place({"id": ["x"], "day": [2024]}, min_support=0.0)["support"]  # a year
    assert found.place({"id": ["x"], "day": [""]}, min_support=0.0)["support"]


def test_new_categories_are_the_same_with_and_without_gaps_in_their_column():
    """A data frame turns whole numbers into 1.0, 2.0 as soon as one is missing."""
    table = {"id": list("abcde"), "ward": [1.0, 1.0, 2.0, 2.0, None], "x": [0, 1, 5, 6, 3]}
    kinds = {"ward": "categorical", "x": "continuous"}
    found = Ancestry(id="id", kinds=kinds).fit(table)
    new = {"id": ["n"], "x": [3]}
    same, other, none = (
        list(found.place(new | {"ward": [ward]}, min_support=0.0).rows()) for ward in (2.0, 2, None)
    )
    assert same == other
    assert same != none


def test_one_vague_date_leaves_the_others_in_whole_days():
    """April's middle is half a day off, but nobody's date has hours."""
    table = {"id": list("abcd"), "x": [0.0, 1, 2, 3]}
    days = ["2024-04-01", "2024-04-01", "2024-04-03"]
    march = Ancestry(id="id", waiting_mean=3.0).fit(table | {"day": [*days, "2024-03"]})
    april = Ancestry(id="id", waiting_mean=3.0).fit(table | {"day": [*days, "2024-04"]})
    for found in (march, april):
        kernel = found.lineage_.kernels[found.column_names_.index("day")]
        assert (kernel.unit, kernel.ties) == (1.0, True)
        assert (1, 0) in found.fitted.support_of  # both on the first of April


def test_matrices_are_kept_as_they_were_given():
    table = {"id": list("abcd"), "x": [1.0, 2.5, 3.0, 4.0]}
    distances = np.random.default_rng(0).uniform(1, 3, size=(4, 4))
    expected = Ancestry(id="id").fit(table, distances=distances).log_likelihood_
    found = Ancestry(id="id").fit(table, distances=distances)
    distances *= 5
    assert found.log_likelihood_ == expected
    with pytest.raises(RecordsError, match="finite and ≥ 0"):
        found.fit(table, distances=np.full((4, 4), np.inf))


def test_a_data_frame_of_distances_is_joined_by_its_names():
    pandas = pytest.importorskip("pandas")
    table = {"id": list("abcd"), "x": [1.0, 2.5, 3.0, 4.0]}
    distances = np.random.default_rng(0).uniform(1, 3, size=(4, 4))
    expected = Ancestry(id="id").fit(table, distances=distances).log_likelihood_
    frame = pandas.DataFrame(distances, index=table["id"], columns=table["id"])
    shuffled = frame.loc[list("cadb"), list("bdac")]
    assert Ancestry(id="id").fit(table, distances=shuffled).log_likelihood_ == expected
    with pytest.raises(RecordsError, match="expected to name each record once"):
        Ancestry(id="id").fit(table, distances=frame.rename(columns={"a": "e"}))
    with pytest.raises(RecordsError, match="1 record is not in it: 'a'"):
        Ancestry(id="id").fit(table, distances=frame.rename(columns={"a": "e"}, index={"a": "e"}))


def test_new_records_have_the_uncertainty_of_their_own_dates():
    """A column of half-widths is read of new records as it was of the fitted ones."""
    days = [0, 4, 8, 12, 16, 20, 24, 28]
    table = {"case": list("abcdefgh"), "onset": days, "days_uncertain": [0, 1, 0, 1, 0, 1, 0, 1]}
    found = Ancestry(id="case", kinds={"onset": "date"}, waiting_mean=4.0, waiting_sd=1.0).fit(
        table
    )
    exact, vague = (
        found.place({"case": ["new"], "onset": [30], "days_uncertain": [width]}, min_support=0)
        for width in (0, 9)
    )
    spread = [max(t["support"]) for t in (exact, vague)]
    assert spread[1] < spread[0] - 0.1


@pytest.mark.parametrize(
    "option",
    [
        {"waiting_mean": 3.0},
        {"disease": "measles"},
        {"generation_time": np.array([0.5, 0.5])},
        {"clock": True},
        {"until": "x"},
        {"transmission": True},
        {"date_uncertainty": 1.0},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_of_dates_need_dates(option):
    table = {"id": list("abc"), "ward": list("NNS"), "x": [1.5, 2.5, 3.5]}
    (name,) = option
    with pytest.raises(RecordsError, match=f"^{name} needs a column of dates, but there is none"):
        Ancestry(**option).fit(table)


def test_one_of_several_states_is_neither_unknown_nor_a_state_of_its_own():
    """Weights of a table of readings, pair by pair; sets of new records, as of fitted ones."""
    readings = {
        "id": list("abcdef"),
        "u1": ["x", "x", "y", "y", "{y / z}", "z"],
        "u2": ["p", "{p / q / r}", "q", "{p / r}", "q", "r"],
    }
    kinds = {"u1": "categorical", "u2": "categorical"}
    found = Ancestry(kinds=kinds, parameters="fitted", background=False).fit(readings)
    first, second = found.fitted.lineage.kernels
    assert np.isnan(found.fitted.values[1][1, 0])  # all states: nothing is known
    log_beta = np.full((6, 6), np.nan)
    edges = found.fitted.edges
    log_beta[edges.child, edges.parent] = found.fitted.log_columns.sum(axis=0)
    s, t, m, n = first.stickiness, second.stickiness, first.marginal, second.marginal
    one = s * m[1] / (m[1] + m[2]) + (1 - s) * m[1]  # y from one of y, z
    two = t * 0.0 + (1 - t) * n[1]  # q from one of p, r
    assert log_beta[2, 4] == pytest.approx(np.log(one) + np.log(t + (1 - t) * n[1]))
    assert log_beta[2, 3] == pytest.approx(np.log(s + (1 - s) * m[1]) + np.log(two))
    both = (s + (1 - s) * (m[1] + m[2])) * ((1 - t) * n[1])
    assert log_beta[4, 3] == pytest.approx(np.log(both))

    def parents(u1):
        table = found.place({"id": ["new"], "u1": [u1], "u2": ["q"]}, min_support=0)
        return {row.parent: row.support for row in table}

    unsure = parents("{y / z}")
    assert unsure["c"] > parents("?")["c"] > unsure["a"]
    assert parents("{y / w}") == parents("?")  # nobody had w


def test_sequences_that_change_with_time_are_found_by_a_clock():
    """Waits of 2 and of 20 days, 0.3 substitutions a day."""
    rng = np.random.default_rng(0)
    days, parents, dna = [0.0], [-1], [rng.integers(4, size=2000)]
    for u in range(1, 30):
        v = int(rng.integers(max(0, u - 6), u))
        wait, letters = float(rng.choice([2.0, 20.0])), dna[v].copy()
        sites = rng.integers(2000, size=rng.poisson(0.3 * wait))
        letters[sites] = (letters[sites] + rng.integers(1, 4, len(sites))) % 4
        days.append(days[v] + wait)
        parents.append(v)
        dna.append(letters)
    names = [f"c{u}" for u in range(30)]
    table = {"id": names, "day": days}
    sequences = dict(zip(names, ("".join("ACGT"[c] for c in row) for row in dna), strict=True))
    options = {"waiting_mean": 11.0, "waiting_sd": 9.0, "parameters": "fitted"}
    gains = []
    for clock in (False, True):
        model = Ancestry(
            id="id", kinds={"day": "date"}, transmission=False, clock=clock, **options
        ).fit(table, sequences=sequences)
        gains.append(model.log_likelihood_)
    assert gains[1] > gains[0] + 10
    kernel = model.lineage_.kernels[model.column_names_.index("sequence")]
    a_day = kernel.rate * kernel.per_time * 2000
    assert a_day == pytest.approx(0.3, rel=0.25)
    assert kernel.rate * 2000 < 0.6  # and hardly any with each link
