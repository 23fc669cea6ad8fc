"""What a fit tells of itself: links that lack, dates at which looking ended, ends of records."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees import Ancestry
from outtrees.ancestry import sentences
from outtrees.ancestry.report import report_sites
from outtrees.ancestry.sentences import missing_links
from outtrees.models.columns import EdgeWeights
from outtrees.records import Column
from outtrees.trees import OutTreeDistribution


def copies(rng, links, T=25, C=40):
    """Return words (T, C) of texts that were copied from the one before, so many links apart."""
    words = np.zeros((T, C))
    for u in range(1, T):
        words[u] = words[u - 1]
        for _ in range(links[u % len(links)]):
            changed = rng.random(C) < 0.05
            words[u, changed] = rng.integers(4, size=changed.sum())
    return words


@pytest.mark.parametrize("links", [(1,), (1, 1, 1, 1, 8)])
def test_a_missing_link_adds_at_least_what_is_said(links):
    words = copies(np.random.default_rng(0), links)
    table = {"id": [f"r{i}" for i in range(len(words))]}
    table |= {f"w{c}": ["abcd"[int(w)] for w in cells] for c, cells in enumerate(words.T)}
    found = Ancestry(id="id", root="r0", background=False).fit(table).fitted
    gain = missing_links(found)
    log_z = []
    for w in np.linspace(0, 0.999, 200):
        longer = replace(found.lineage, generations=2, step_weights=np.array([1 - w, w]))
        weights = EdgeWeights(longer, found.values, found.edges.groups)
        log_weight = weights.log_beta_pairs(found.pairs)
        log_z.append(found.trees_for(log_weight, weights.log_root).log_z)
    assert max(log_z) - log_z[0] >= gain - 1e-3  # no weight of the grid may be the best
    assert (gain > 5) == (len(links) > 1)


def test_unobserved_ancestors_are_told_until_they_are_allowed():
    options = {"id": "id", "root": "r0"}
    for links, said in (((1,), False), ((1, 1, 1, 1, 8), True)):
        words = copies(np.random.default_rng(1), links)
        table = {"id": [f"r{i}" for i in range(len(words))]}
        table |= {f"w{c}": ["abcd"[int(w)] for w in cells] for c, cells in enumerate(words.T)}
        found = Ancestry(**options).fit(table)
        words = "with links=2 the log-likelihood would be higher"
        assert any(words in warning for warning in found.warnings_) == said
    allowed = Ancestry(**options, links=2).fit(table)
    assert allowed.log_likelihood_ > found.log_likelihood_ + 5


def cells(n=60, seed=0):
    """Return cells that live for a while, divide, and are last seen on day 30."""
    rng = np.random.default_rng(seed)
    birth = np.sort(rng.integers(1, 25, size=n))
    table = {"cell": [f"c{i}" for i in range(n)], "birth": birth.tolist()}
    return table | {"end": (birth + rng.integers(1, 8, size=n)).tolist()}, rng


def test_a_column_of_ends_is_pointed_at():
    table, rng = cells()
    fit = {"id": "cell", "kinds": {"birth": "date", "end": "continuous"}, "roots": "any"}
    found = Ancestry(**fit).fit(table)
    assert any("'end' is never before 'birth'" in w and "until='end'" in w for w in found.warnings_)
    told = Ancestry(id="cell", kinds={"birth": "date"}, roots="any", until="end").fit(table)
    assert not any("until" in w for w in told.warnings_)
    # Ages are larger than days, too, but do not go with them; and one end before its birth decides.
    ages = rng.integers(40, 90, size=60).tolist()
    for other in (ages, [0, *table["end"][1:]]):
        silent = Ancestry(**fit).fit(table | {"end": other})
        assert not any("until" in w for w in silent.warnings_)


def test_a_last_date_that_many_share_is_pointed_at():
    table, _ = cells()
    del table["end"]
    table["birth"] = np.minimum(table["birth"], 15).tolist()
    assert table["birth"].count(15) >= 15
    fit = {"id": "cell", "kinds": {"birth": "date"}, "roots": "any"}
    both = [Ancestry(**fit, ties=ties).fit(table).warnings_ for ties in (True, False)]
    assert all(any("have the last date, 15" in w for w in words) for words in both)
    assert [any("ties=False" in w for w in words) for words in both] == [True, False]
    table["open"] = ["yes" if day == 15 else "no" for day in table["birth"]]
    told = Ancestry(**fit, censored="open", ties=False).fit(table)
    assert not any("last date" in w for w in told.warnings_)
    del table["open"]
    alike = Ancestry(**fit).fit(table | {"birth": [3] * 60})  # one date for all says nothing
    assert not any("last date" in w for w in alike.warnings_)


def test_many_empty_columns_are_told_in_one_line():
    table = {"id": list("abcdef"), "x": [1.5, 2.0, 2.5, 3.0, 3.5, 4.0]}
    table |= {f"w{i}": ["a", "b", "", "", "", ""] for i in range(5)}
    kinds = {name: "categorical" for name in table if name.startswith("w")}
    found = Ancestry(id="id", kinds=kinds).fit(table)
    assert "5 columns are empty for more than half of the records: 'w0', 'w1', 'w2', …" in (
        found.warnings_
    )


def test_dates_that_are_empty_or_fractions_get_no_false_advice():
    table, _ = cells()
    del table["end"]
    fit = {"id": "cell", "kinds": {"birth": "date"}, "roots": "any"}
    halves = np.minimum(table["birth"], 15) + 0.25
    words = Ancestry(**fit).fit(table | {"birth": halves.tolist()}).warnings_
    assert any("have the last date, 15.25" in w and "ties" not in w for w in words)  # none possible
    empty = table | {"birth": [""] * 60, "x": list(np.random.default_rng(0).normal(size=60))}
    assert not any("last date" in w for w in Ancestry(**fit).fit(empty).warnings_)


# What the report holds -----------------------------------------------------------------------


def _with_readings():
    table = {
        "id": [f"r{i}" for i in range(9)],
        "day": [f"2024-01-{1 + i:02d}" for i in range(9)],
        "ward": list("NNSSNNSSN"),
    }
    return Ancestry(random_state=0, parameters="fitted").fit(table)


def test_weights_of_the_report_give_the_supports():
    model = _with_readings()
    data = model.report_data()
    weights, trees = data.weights, model.fitted.trees
    assert len(weights.weights) > 1
    assert weights.share == pytest.approx(1)
    both = np.zeros(len(weights.child)), np.zeros(9)
    for chance, log_weight, log_root in zip(
        weights.weights, weights.log_weight, weights.log_root, strict=True
    ):
        part = OutTreeDistribution.from_candidates(
            weights.child, weights.parent, log_weight, log_root, roots=weights.roots
        )
        both[0][:] += chance * part.edge_marginals
        both[1][:] += chance * part.root_marginals
    np.testing.assert_allclose(both[1], trees.root_marginals, atol=1e-12)
    own = dict(zip(zip(trees.parts[0].child, trees.parts[0].parent, strict=True),
                   trees.edge_marginals, strict=True))  # fmt: skip
    listed = zip(weights.child, weights.parent, strict=True)
    np.testing.assert_allclose(both[0], [own[pair] for pair in listed], atol=1e-12)


def test_weights_that_need_too_much_room_are_those_of_the_heaviest(monkeypatch):
    model = _with_readings()
    edges = len(model.report_data().weights.child)
    monkeypatch.setattr("outtrees.ancestry.report._ROOM", 8 * edges * 2)
    weights = model.report_data().weights
    heaviest = np.sort(model.fitted.trees.weights)[::-1][:2]
    assert weights.share == pytest.approx(heaviest.sum())
    np.testing.assert_allclose(weights.weights, heaviest / heaviest.sum())
    monkeypatch.setattr("outtrees.ancestry.report._ROOM", 8)
    assert model.report_data().weights is None
    monkeypatch.setattr("outtrees.ancestry.report.MAX_WHAT_IF", 8)
    assert model.report_data().weights is None


def test_sequences_are_runs_of_differences(monkeypatch):
    dna = ["ACGTACGT", "ACTTACNN", "", "ACGTTCGT"]
    values = [[np.nan if c in "N" else "ACGT".index(c) for c in (text or "N" * 8)] for text in dna]
    column = Column("dna", "sequence", values, tuple("ACGT"), ("a", "b", "", "c"))
    sites = report_sites(column)
    assert sites.reference == "ACGTACGT"
    assert sites.differences == [[], [(2, "T"), (6, "??")], None, [(4, "T")]]
    monkeypatch.setattr("outtrees.ancestry.report.MAX_SITE_LETTERS", 10)
    assert report_sites(column) is None


def test_children_by_week_are_drawn_where_there_are_calendar_dates():
    table = {
        "id": [f"r{i}" for i in range(12)],
        "day": [str(np.datetime64("2024-01-01") + 3 * i) for i in range(12)],
    }
    model = Ancestry(waiting_mean=3, waiting_sd=1, random_state=0).fit(table)
    (series,) = model.report_data().series
    points = np.array(series.points)
    assert (np.diff(points[:, 0]) == 7).all()
    assert (points[:, 2] <= points[:, 1] + 1e-9).all()
    assert (points[:, 1] <= points[:, 3] + 1e-9).all()
    # Twelve records in weeks of 3, 2, 2, 3 and 2: their expected children are all there are.
    total = points[:, 1] @ [3, 2, 2, 3, 2]
    assert total == pytest.approx(12 - model.fitted.trees.root_marginals.sum())
    assert Ancestry(root="r0", waiting_mean=3, waiting_sd=1).fit(table).report_data().series == []


# Waiting times ---------------------------------------------------------------------------------


def wandering(seed=1, T=70):
    """Return cases whose places follow their infectors', ten days later each."""
    rng = np.random.default_rng(seed)
    day, place, parent = [0.0, 2.0], list(rng.uniform(0, 40, (2, 2))), 0
    while len(day) < T:
        for _ in range(int(rng.poisson(1.8)) + (parent == 0)):
            day.append(day[parent] + round(rng.normal(10, 1.5)))
            place.append(place[parent] + rng.normal(size=2))
        parent = parent + 1 if parent + 1 < len(day) else 0
    order = np.argsort(day, kind="stable")[:T]
    day, place = np.array(day)[order], np.array(place)[order]
    return {"case": [f"c{i}" for i in range(T)], "day": day, "x": place[:, 0], "y": place[:, 1]}


def test_a_given_waiting_time_that_does_not_fit_is_named():
    """Columns fall out with it; the message says that they need not be to blame."""
    fit = {"id": "case", "kinds": {"day": "date"}, "parameters": "fitted"}
    wrong = Ancestry(**fit, waiting_mean=3.0, waiting_sd=0.4).fit(wandering())
    assert wrong.left_out_ == ["place"]
    assert "With a waiting time of 3 units of time no column distinguishes" in wrong.warnings_[0]
    right = Ancestry(**fit, waiting_mean=10.0, waiting_sd=1.5).fit(wandering())
    assert right.left_out_ == []
    assert not any("no column distinguishes" in words for words in right.warnings_)


def test_rival_readings_are_counted_by_their_mean(monkeypatch):
    """Three spreads of one waiting time are one reading, against another waiting time."""
    found = Ancestry(id="case", kinds={"day": "date"}, parameters="fitted").fit(wandering())
    posterior = found.fitted
    kernel = posterior.lineage.kernels[posterior.lineage.dates]
    dates = posterior.lineage.dates

    def reading(mean, sd, weight):
        kernels = list(posterior.lineage.kernels)
        kernels[dates] = kernel.at(mean, sd)
        lineage = replace(posterior.lineage, kernels=tuple(kernels))
        return replace(posterior.readings[0], lineage=lineage, weight=weight)

    parts = [(10.0, 2.0, 0.3), (4.0, 1.0, 0.25), (10.0, 4.0, 0.24), (4.0, 2.0, 0.21)]
    rivals = replace(posterior, readings=tuple(reading(*part) for part in parts))
    (sentence,) = sentences._rival_readings(rivals, "days", ("state ", "it"))
    assert "10 days (weight 54%) and 4 days (weight 46%)" in str(sentence)
    alone = replace(posterior, readings=tuple(reading(*p) for p in (parts[0], parts[2])))
    assert list(sentences._rival_readings(alone, "days", ("state ", "it"))) == []
