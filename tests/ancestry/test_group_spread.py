"""Groups with a spread of places of their own, from the table to every answer."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from outtrees import Ancestry, RecordsError
from outtrees.candidates import table_search
from outtrees.io import load, save
from outtrees.models.columns import EdgeWeights

KINDS = {"site": "group", "day": "date"}
SPREADS = {"calm": 0.3, "wild": 3.0}
N = 60  # records of each site


def table(seed=0, spreads=SPREADS):
    """Return sites whose places wander differently, and the true parents."""
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("id", "site", "day", "x", "y")}
    truth = {}
    for site, spread in spreads.items():
        day, place = np.zeros(N), np.zeros((N, 2))
        for u in range(N):
            if u:
                v = int(rng.integers(max(0, u - 8), u))
                truth[f"{site}{u}"] = f"{site}{v}"
                day[u] = day[v] + 1 + rng.poisson(3.0)
                place[u] = place[v] + rng.normal(scale=spread, size=2)
            row = (f"{site}{u}", site, day[u], *place[u])
            for cells, value in zip(columns.values(), row, strict=True):
                cells.append(value)
    return columns, truth


@pytest.fixture(scope="module")
def both():
    columns, truth = table()
    options = {"roots": "single", "waiting_mean": 4.0, "waiting_sd": 1.7, "parameters": "fitted"}
    models = [
        Ancestry(id="id", kinds=KINDS, group_spread=own, background=False, **options).fit(columns)
        for own in (False, True)
    ]
    return *models, truth


def log_score(found, truth):
    place = {name: i for i, name in enumerate(found.records.ids)}
    supports = found.fitted.support_of
    return sum(np.log(supports[place[u], place[v]]) for u, v in truth.items())


def test_own_spreads_are_learned_and_tell_parents_better(both):
    shared, own, truth = both
    assert (np.diff(own.objectives_) > -1e-8 * abs(np.array(own.objectives_[1:]))).all()
    assert own.log_likelihood_ > shared.log_likelihood_ + 20
    assert log_score(own, truth) > log_score(shared, truth) + 5
    walk = next(kernel for kernel in own.lineage_.kernels if hasattr(kernel, "scales"))
    # Variances of some 60 steps in the plane have a relative error of 1/8 each; the prior, worth
    # 6 of them, draws both to 1.
    found = np.sqrt(np.diag(walk.cov).mean() * walk.scales)
    np.testing.assert_allclose(found, list(SPREADS.values()), rtol=0.4)
    assert any("groups have" in sentence for sentence in own.describe())


def by_hand(own, site):
    """Return the support of each parent of a record of day 40 at (0.4, 0.1)."""
    ids, groups = own.records.ids, [name[:4] for name in own.records.ids]
    (waiting, dates), (walk, places) = zip(own.lineage_.kernels, own.column_values_, strict=True)
    rows = np.array([i for i, group in enumerate(groups) if group == site and dates[i, 0] <= 40])
    scale = walk.scales[int(places[rows[0], 2])]
    late = np.array([[40.0, 40.0, 0.0, 0.0]])
    wait = waiting.log_steps(waiting.pairs(late, dates, 0 * rows, rows), 1)
    law = stats.multivariate_normal
    if walk.tail is not None:
        law = partial(stats.multivariate_t, df=walk.tail)
    near = [law(places[v, :2], scale * walk.cov) for v in rows]
    logs = wait + np.array([law.logpdf([0.4, 0.1]) for law in near])
    chances = np.exp(logs - logs.max())
    return dict(zip([ids[v] for v in rows], chances / chances.sum(), strict=True))


def test_later_records_take_the_spread_of_their_group(both, tmp_path):
    _, own, _ = both
    back = load(save(own, tmp_path / "model"))
    assert list(back.parents().rows()) == list(own.parents().rows())
    late = {"id": ["a", "b"], "site": ["calm", "wild"], "day": [40.0, 40.0]}
    late |= {"x": [0.4, 0.4], "y": [0.1, 0.1]}
    placed = own.place(late, min_support=0.0)
    for row in placed.rows():
        name, parent, support, _ = row
        site = late["site"]["ab".index(name)]
        assert support == pytest.approx(by_hand(own, site)[parent], rel=1e-9, abs=1e-12)
    assert list(back.place(late).rows()) == list(own.place(late).rows())
    alone = own.place({name: cells[:1] for name, cells in late.items()}, min_support=0.0)
    first = [row for row in placed.rows() if row[0] == "a"]
    assert list(alone.rows()) == first
    unplaced = own.place({"id": ["c"], "site": ["calm"], "day": [40.0]}, min_support=0.0)
    assert len(unplaced["child"])
    with pytest.warns(UserWarning, match="can have no parent"):
        own.place({**late, "site": ["elsewhere", "elsewhere"]})


def test_simulations_candidates_and_evidence(both):
    _, own, _ = both
    drawn = own.simulate(30, random_state=1)
    assert list(dict(drawn)) == ["id", "true_parent", "day", "site", "place_x", "place_y"]
    assert len(set(drawn["site"])) == 1
    assert set(drawn["site"]) <= set(SPREADS)
    assert own.column_evidence(1)["column"] == ["place"]
    columns, _ = table()
    options = own.get_params() | {"candidates": "knn", "n_candidates": N}
    knn = Ancestry(**options).fit(columns)
    right, found = ({row[:2]: row[2] for row in m.parents(0.0).rows()} for m in (own, knn))
    # Both fits stop where an iteration gains less than 1e-6 for each record.
    assert max(abs(found.get(edge, 0.0) - support) for edge, support in right.items()) < 0.01


def test_a_wild_group_is_not_taken_for_outliers():
    """A fifth of the records are wild: from equal spreads a fit would call them outliers."""
    spreads = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "wild": 30.0}
    columns, _ = table(spreads=spreads)
    found = Ancestry(id="id", kinds=KINDS, group_spread=True).fit(columns)
    walk = found.lineage_.kernels[1]
    assert walk.scales[-1] > 100 * walk.scales[0]
    assert found.lineage_.outlier_shares[1] < 0.05  # half a pseudo-link in 30 or so, not a fifth


def test_candidates_are_the_best_where_places_are_missing(monkeypatch):
    """The compiled search weighs a place against parents without one, in each group's own unit."""
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    columns, _ = table(spreads={"calm": 1.0, "wild": 30.0})
    gone = np.random.default_rng(1).random(2 * N) < 0.3
    for axis in "xy":
        columns[axis] = np.where(gone, np.nan, columns[axis]).tolist()
    options = {"id": "id", "kinds": KINDS, "group_spread": True, "background": False}
    options |= {"waiting_mean": 3.0, "waiting_sd": 1.0, "keep": ["place"]}
    every = Ancestry(**options).fit(columns)
    found = Ancestry(**options, candidates="knn", n_candidates=6).fit(columns)
    lineage, edges = found.lineage_, every.edges_
    cells = found.column_values_
    weights = EdgeWeights(lineage, cells, edges.groups)
    weight = np.exp(weights.log_beta(edges.child, edges.parent))
    chosen = set(zip(found.edges_.child.tolist(), found.edges_.parent.tolist(), strict=True))
    listed = np.array([edge in chosen for edge in zip(edges.child.tolist(), edges.parent.tolist(),
                                                      strict=True)])  # fmt: skip
    lost, least = [], []
    for u in range(2 * N):
        own = edges.child == u
        if own.sum() > 6:
            share = weight[own] / weight[own].sum()
            lost.append(share[~listed[own]].sum())
            least.append(1 - np.sort(share)[-6:].sum())
    assert np.mean(lost) < np.mean(least) + 0.005


@pytest.mark.parametrize("lacking", ["groups", "places"])
def test_groups_and_places_are_needed(lacking):
    columns, _ = table()
    gone = {"groups": {"site": "ignore"}, "places": {"x": "continuous", "y": "continuous"}}
    with pytest.raises(RecordsError, match=f"group_spread=True needs .* there are no {lacking}; "):
        Ancestry(id="id", kinds=KINDS | gone[lacking], group_spread=True).fit(columns)
