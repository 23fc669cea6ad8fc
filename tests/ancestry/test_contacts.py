"""Contacts and stays: an exact likelihood, and what they tell about who infected whom."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from lineages import random_table
from outtrees import Ancestry, RecordsError, load, save
from outtrees.ancestry.columns import DateOptions
from outtrees.ancestry.contacts import contact_columns, stay_columns
from outtrees.ancestry.learning import Problem
from outtrees.models.columns import Contacts, Lineage, Waiting
from outtrees.records import read_records
from outtrees.records.contacts import read_contacts, read_stays

from .test_exact import all_parents
from .test_learning import agrees_with_enumeration, begun, moved, possible

WAIT = {"waiting_mean": 8.0, "waiting_sd": 2.5}


def dates_of(days):
    days = np.asarray(days, dtype=float)
    return np.column_stack([days, days, 0 * days, 0 * days])


def listed(pairs, **more):
    return {"from": [a for a, _ in pairs], "to": [b for _, b in pairs], **more}


# The likelihood ------------------------------------------------------------------------------


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("directed", [True, False])
def test_the_likelihood_of_the_whole_list_by_enumeration(dated, roots, directed):
    """p(list) = Σ_trees p(tree | dates) Π over all pairs η or λ, against the list by chance."""
    T, ids = 4, list("abcd")
    table = {"id": ids, **({"onset": [0, 3, 5, 9]} if dated else {"x": [0.5, 1.5, 2.5, 4.0]})}
    records = read_records(table, id="id", kinds={"onset": "date"} if dated else {"x": "ignore"})
    pairs = [("a", "b"), ("b", "d"), ("c", "b")] + [("d", "a")] * (not dated)
    contacts = read_contacts(listed(pairs))
    (column,) = contact_columns(contacts, records, DateOptions(), directed=directed).columns
    kernels = [column.kernel] + [Waiting(mean=3.0, sd=1.5)] * dated
    values = [column.values] + [dates_of([0, 3, 5, 9])] * dated
    lineage = moved(begun(Lineage(kernels), values), 3)
    edges = possible(lineage, values)
    log_root = 0.0 if roots == "single" else -1.1
    found = Problem(lineage, values, edges, roots).at(lineage, log_root, log_root)[0].gain

    kernel, place = lineage.kernels[0], {name: row for row, name in enumerate(ids)}
    eta, lam = kernel.reported, kernel.rate
    met = {(place[b], place[a]) for a, b in pairs}
    if not directed:
        met |= {(v, u) for u, v in met}
    possible_pairs = set(zip(edges.child.tolist(), edges.parent.tolist(), strict=True))
    trials = [(u, v) for u, v in product(range(T), repeat=2) if u != v]
    if dated or not directed:  # one trial for two records: the later one is the child
        trials = [(u, v) for u, v in trials if u > v]
    waits = np.zeros((T, T))
    if dated:
        ends = np.indices((T, T)).reshape(2, -1)
        wait = lineage.kernels[1]
        waits = wait.log_steps(wait.pairs(values[1], values[1], *ends), 1).reshape(T, T)

    def of_list(parents, eta, lam):
        total = 0.0
        for u, v in trials:
            descent = parents[u] == v or (not directed and parents[v] == u)
            p = eta if descent else lam
            total += np.log(p if (u, v) in met else 1 - p)
        return total

    logs, bare = [], []
    for parents in all_parents(T):
        if roots == "single" and sum(p < 0 for p in parents) > 1:
            continue
        if any(p >= 0 and (u, p) not in possible_pairs for u, p in enumerate(parents)):
            continue
        weight = sum(log_root if p < 0 else waits[u, p] for u, p in enumerate(parents))
        logs.append(weight + of_list(parents, eta, lam))
        bare.append(weight)
    n = sum(trial in met for trial in trials)
    by_chance = of_list([-1] * T, 0.0, n / len(trials))
    assert found == pytest.approx(logsumexp(logs) - logsumexp(bare) - by_chance, abs=1e-9)


def with_contacts(T, dated=True, seed=0):
    """Return all kinds of columns, contacts of two types, and dates."""
    rng = np.random.default_rng(seed)
    kernels, values = random_table(9, T=T, missing=0.1)
    key = np.flatnonzero(rng.random(T * T) < 0.4)
    key = key[key // T != key % T]
    numbers = np.arange(T, dtype=float)[:, None]
    made = [Contacts(T, key[::2], 4.0, 30.0), Contacts(T, key[1::2], 5.0, 26.0, key[::2])]
    kernels = [*kernels[:-1], *made, kernels[-1]]
    values = [*values[:-1], numbers, numbers, values[-1]]
    return (kernels, values) if dated else (kernels[:-1], values[:-1])


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("dated", [True, False])
def test_the_objective_beside_other_columns_by_enumeration(dated, generations, roots):
    kernels, values = with_contacts(5, dated)
    lineage = moved(begun(Lineage(kernels, generations), values), 1)
    edges = possible(lineage, values)
    agrees_with_enumeration(lineage, values, edges, roots, 0.0 if roots == "single" else -1.3)


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("generations", [1, 2])
def test_slopes_beside_other_columns_are_differences(dated, generations):
    kernels, values = with_contacts(10, dated)
    lineage = moved(begun(Lineage(kernels, generations), values), 7, 0.1)
    problem = Problem(lineage, values, possible(lineage, values), "any")
    centre = problem.first_log_root(lineage)

    def at(theta):
        return problem.at(lineage.with_params(theta[:-1]), float(theta[-1]), centre)

    theta = np.append(lineage.params, centre + 0.3)
    slopes = at(theta)[1]
    for i, slope in enumerate(slopes):
        step = 1e-4 * np.eye(len(theta))[i]
        difference = (at(theta + step)[0].value - at(theta - step)[0].value) / 2e-4
        # Differences over 2e-4 of a function of curvature ≲ 100 are right to about 1e-6.
        assert slope == pytest.approx(difference, rel=1e-5, abs=2e-5)


# Which contacts count --------------------------------------------------------------------------


def coded(found):
    """Return (child, parent) → name of the column that has the pair; no pair is in two of them."""
    result = {}
    for column in found.columns:
        child, parent = column.kernel.known_pairs
        for pair in zip(child.tolist(), parent.tolist(), strict=True):
            assert pair not in result
            result[pair] = column.name
    return result


def records_on(days, **more):
    ids = [f"r{i}" for i in range(len(days))]
    return read_records({"id": ids, "onset": days, **more}, id="id", kinds={"onset": "date"})


def test_a_contact_after_the_childs_date_does_not_count():
    records = records_on([0, 5, 10])
    pairs = [("r0", "r1"), ("r0", "r2"), ("r1", "r2"), ("r2", "r1")]
    contacts = read_contacts(listed(pairs, date=[5, 12, -3, ""], type=["x", "x", "x", "y"]))
    found = contact_columns(contacts, records, DateOptions(), directed=False)
    # r1 and r2 met twice: the rarer type counts. Later records are not parents of earlier ones.
    assert coded(found) == {(1, 0): "contacts x", (2, 1): "contacts y"}
    assert any("1 contact" in note and "after the child's date" in note for note in found.notes)
    directed = contact_columns(contacts, records, DateOptions(), directed=True)
    # The last goes from r2 to r1, who is earlier.
    assert coded(directed) == {(1, 0): "contacts x", (2, 1): "contacts x"}


def test_uncertain_dates_leave_contacts_possible():
    table = {"id": ["r0", "r1"], "onset": ["2020-03-01", "2020-03-05 ± 4"]}
    records = read_records(table, id="id")
    for day, counts in (("2020-03-09", True), ("2020-03-10", False), ("2020-03", True)):
        contacts = read_contacts(listed([("r0", "r1")], date=[day]))
        found = contact_columns(contacts, records, DateOptions(), directed=False)
        assert ((1, 0) in coded(found)) == counts


def test_contacts_of_unknown_records():
    records = records_on([0, 5, 10])
    found = contact_columns(
        read_contacts(listed([("r0", "r1"), ("r1", "r2"), ("r1", "stranger")])),
        records,
        DateOptions(),
        directed=False,
    )
    assert (
        "1 of 3 contacts in the table name records that are not in the table ('stranger')"
        in (found.notes[0])
    )
    with pytest.raises(RecordsError, match="2 of 3 contacts name records that are not"):
        contact_columns(
            read_contacts(listed([("r0", "r1"), ("R1", "r2"), ("r1", "R2")])),
            records,
            DateOptions(),
            directed=False,
        )


def test_contacts_between_groups_and_with_oneself_are_left_out():
    records = read_records(
        {"id": list("abcd"), "onset": [0, 1, 2, 3], "site": list("xxyy")},
        id="id",
        kinds={"onset": "date", "site": "group"},
    )
    contacts = read_contacts(listed([("a", "b"), ("a", "c"), ("d", "d"), ("c", "d")]))
    found = contact_columns(contacts, records, DateOptions(), directed=False)
    assert set(coded(found)) == {(1, 0), (3, 2)}
    assert found.columns[0].kernel.n_pairs == 2  # within groups
    assert ["join two groups" in n or "name one record twice" in n for n in found.notes] == [
        True
    ] * 2


@pytest.mark.parametrize("seed", range(5))
def test_stays_by_looking_at_all_pairs_of_them(seed):
    rng = np.random.default_rng(seed)
    T, S = 12, 40
    days = np.sort(rng.integers(0, 20, T)).tolist()
    records = records_on(days)
    who, where = rng.integers(T, size=S), rng.integers(3, size=S)
    begin = rng.integers(0, 20, S)
    end = begin + rng.integers(0, 4, S)
    table = {
        "patient": [f"r{i}" for i in who],
        "ward": [f"w{p}" for p in where],
        "admission": ["" if i % 11 == 0 else str(b) for i, b in enumerate(begin)],
        "discharge": ["" if i % 7 == 0 else str(e) for i, e in enumerate(end)],
    }
    begin = [-np.inf if i % 11 == 0 else b for i, b in enumerate(begin)]
    end = [np.inf if i % 7 == 0 else e for i, e in enumerate(end)]
    right = {}
    for i, j in product(range(S), repeat=2):  # u's stay and v's
        u, v = int(who[i]), int(who[j])
        if u == v or where[i] != where[j] or days[v] > days[u]:
            continue
        both = max(begin[i], begin[j])
        if both <= min(end[i], end[j]) and both <= days[u]:
            right[u, v] = "stays together"
        elif end[j] < begin[i] <= days[u]:
            right.setdefault((u, v), "stays after")
    found = stay_columns(read_stays(table), records, DateOptions())
    assert coded(found) == right
    assert {"stays together", "stays after"} == set(right.values())
    contacts = contact_columns(
        read_contacts(listed([("r0", "r11"), ("r3", "r9")])), records, DateOptions(), directed=False
    )
    found = stay_columns(read_stays(table), records, DateOptions(), contacts.columns)
    met = {pair for pair in [(11, 0), (9, 3), (0, 11), (3, 9)] if pair in coded(contacts)}
    assert coded(found) == {pair: name for pair, name in right.items() if pair not in met}


# What they tell ------------------------------------------------------------------------------


def outbreak(seed, T=60, introductions=2):
    """Return identities, days of onset and parents (−1: none); waits are gamma, 8 ± 2.5 days."""
    rng = np.random.default_rng(seed)
    while True:
        days = [float(rng.integers(0, 5)) for _ in range(introductions)]
        parents = [-1] * introductions
        for v in range(10 * T):
            if v >= len(parents) or len(parents) >= T:
                break
            for _ in range(min(rng.poisson(1.8), T - len(parents))):
                days.append(days[v] + max(1, round(rng.gamma(8 / 0.78, 0.78))))
                parents.append(v)
        if len(parents) == T:
            return [f"c{i}" for i in range(T)], days, np.array(parents), rng


def met(ids, parents, rng, eta=0.6, lam=0.02):
    pairs = [(u, v) for u in range(len(ids)) for v in range(u)]
    rng.shuffle(pairs)
    return [
        (ids[u], ids[v])
        for u, v in pairs
        if rng.random() < (eta if v in (parents[u],) or u == parents[v] else lam)
    ]


def right_and_promised(found, ids, parents):
    place = {name: row for row, name in enumerate(ids)}
    best = [row for row in found.parents(0.0).rows() if row[3] == 1 and parents[place[row[0]]] >= 0]
    right = sum(parent != "" and place[parent] == parents[place[u]] for u, parent, *_ in best)
    return right, sum(row[2] for row in best)


def fitted(ids, days, more=None, **given):
    model = Ancestry(id="case", kinds={"onset": "date"}, **WAIT)
    return model.fit({"case": ids, "onset": days, **(more or {})}, **given)


def within_two_errors(right, promised, n):
    return abs(right - promised) <= 2 * np.sqrt(n / 4) + 0.05 * n


def test_contacts_find_parents_and_keep_their_promise():
    total, without, n = np.zeros(2), 0, 0
    for seed in range(4):
        ids, days, parents, rng = outbreak(seed)
        pairs = met(ids, parents, rng)
        found = fitted(ids, days, contacts=listed(pairs))
        total += right_and_promised(found, ids, parents)
        without += right_and_promised(fitted(ids, days), ids, parents)[0]
        n += int((parents >= 0).sum())
        assert found.left_out_ == []
        assert found.column_gains_["contacts"] > 5
        kernel = found.lineage_.kernels[found.column_names_.index("contacts")]
        assert 0.35 < kernel.reported < 0.85
        assert 0.01 < kernel.rate < 0.035
        assert any("contacts:" in line and "of true pairs" in line for line in found.describe())
    assert total[0] > 2 * without
    assert within_two_errors(*total, n)


def test_shuffled_contacts_are_left_out_and_promise_nothing():
    for seed in range(3):
        ids, days, parents, rng = outbreak(seed)
        other = dict(zip(ids, rng.permutation(ids).tolist(), strict=True))
        pairs = [(other[a], other[b]) for a, b in met(ids, parents, rng)]
        bare, found = fitted(ids, days), fitted(ids, days, contacts=listed(pairs))
        assert found.left_out_ == ["contacts"]
        assert right_and_promised(found, ids, parents)[1] == pytest.approx(
            right_and_promised(bare, ids, parents)[1], abs=0.5
        )
        assert any("contacts adds" in warning for warning in found.warnings_)


def test_column_evidence_compares_with_shuffled_contacts():
    ids, days, parents, rng = outbreak(1, T=40)
    found = fitted(ids, days, contacts=listed(met(ids, parents, rng)))
    rows = {row[0]: row for row in found.column_evidence(2, random_state=0).rows()}
    assert rows["contacts"][1] > 5  # gain over shuffled ones
    assert rows["contacts"][3] > 5  # alone
    assert rows["contacts"][5]


def test_types_of_contact_count_by_themselves():
    """Two types that tell something have rates of their own; one by chance is left out."""
    ids, days, parents, rng = outbreak(5)
    home, work, bus = (
        met(ids, parents, rng, *rates) for rates in ((0.6, 0.005), (0.6, 0.04), (0.1, 0.1))
    )
    types = ["home"] * len(home) + ["work"] * len(work) + ["bus"] * len(bus)
    found = fitted(ids, days, contacts=listed(home + work + bus, type=types))
    assert found.column_names_[1:] == ["contacts home", "contacts work", "contacts bus"]
    assert found.left_out_ == ["contacts bus"]
    at_home, at_work = (found.lineage_.kernels[c] for c in (1, 2))
    assert at_home.reported / at_home.rate > 3 * at_work.reported / at_work.rate


def test_a_type_that_repeats_another_counts_once():
    ids, days, parents, rng = outbreak(1)
    pairs = met(ids, parents, rng)
    once = fitted(ids, days, contacts=listed(pairs))
    types = ["told by one"] * len(pairs) + ["told by the other"] * len(pairs)
    twice = fitted(ids, days, contacts=listed(pairs + pairs[::-1], type=types))
    assert right_and_promised(twice, ids, parents) == pytest.approx(
        right_and_promised(once, ids, parents)
    )


def test_a_column_of_the_table_may_be_called_contacts():
    ids, days, parents, rng = outbreak(1, T=30)
    wards = [f"w{i % 4}" for i in range(30)]
    found = fitted(ids, days, {"contacts": wards}, contacts=listed(met(ids, parents, rng, 0.9)))
    assert found.column_names_ == ["onset", "contacts", "contacts_"]
    assert set(found.column_gains_) == {"contacts", "contacts_"}


def test_households_that_meet_count_once():
    """A column of households beside a list of who lives together: each tells the other's story."""
    total, n = np.zeros(2), 0
    for seed in range(3):
        ids, days, parents, rng = outbreak(100 + seed, T=80)
        homes = []
        for v in parents:
            stays = v >= 0 and rng.random() < 0.6
            homes.append(homes[v] if stays else f"h{rng.integers(25)}")
        pairs = [
            (ids[u], ids[v])
            for u in range(80)
            for v in range(u)
            if rng.random() < (0.8 if homes[u] == homes[v] else 0.5 if parents[u] == v else 0.01)
        ]
        found = fitted(ids, days, {"household": homes}, contacts=listed(pairs))
        total += right_and_promised(found, ids, parents)
        n += int((parents >= 0).sum())
    assert within_two_errors(*total, n)  # 102 right and 158 promised if both counted in full


def wards(ids, days, parents, rng, shuffled=False):
    """Return stays: everybody on one of 15 wards for a week, children where their parent was."""
    rows = []
    homes = [f"w{rng.integers(15)}" for _ in ids]
    for u, name in enumerate(ids):
        rows.append((name, homes[u], days[u] - 4, days[u] + 10))
        if parents[u] >= 0 and rng.random() < 0.6:
            infected = days[u] - rng.integers(1, 3)
            rows.append((name, homes[parents[u]], infected - 1, infected + 1))
    names = rng.permutation(ids) if shuffled else ids
    other = dict(zip(ids, names, strict=True))
    return {
        "record": [other[row[0]] for row in rows],
        **{key: [row[i] for row in rows] for i, key in ((1, "place"), (2, "from"), (3, "until"))},
    }


def test_stays_find_parents_and_shuffled_ones_do_not():
    total, without, n = np.zeros(2), 0, 0
    for seed in range(4):
        ids, days, parents, rng = outbreak(seed)
        found = fitted(ids, days, stays=wards(ids, days, parents, rng))
        total += right_and_promised(found, ids, parents)
        without += right_and_promised(fitted(ids, days), ids, parents)[0]
        n += int((parents >= 0).sum())
        assert found.column_gains_["stays together"] > 3
        assert any(line.startswith("stays together: ") for line in found.describe())
        shuffled = fitted(ids, days, stays=wards(ids, days, parents, rng, shuffled=True))
        assert "stays together" in shuffled.left_out_
        assert right_and_promised(shuffled, ids, parents)[1] < 0.35 * len(ids)
    assert total[0] > 1.5 * without
    assert within_two_errors(*total, n)


# Everything else a fit can do ------------------------------------------------------------------


@pytest.mark.parametrize("worth_compiling", [0, 10**6])
def test_pairs_that_met_are_candidates(worth_compiling, monkeypatch):
    """Also where compiled loops look for candidates, which do not know of contacts."""
    monkeypatch.setattr("outtrees.candidates.table_search._WORTH_COMPILING", worth_compiling)
    ids, days, parents, rng = outbreak(3)
    pairs = met(ids, parents, rng)
    table, place = {"case": ids, "onset": days}, {name: row for row, name in enumerate(ids)}
    few, more = (
        Ancestry(id="case", kinds={"onset": "date"}, **WAIT, candidates="knn", n_candidates=n).fit(
            table, contacts=listed(pairs)
        )
        for n in (2, 15)
    )
    edges = set(zip(few.edges_.child.tolist(), few.edges_.parent.tolist(), strict=True))
    for a, b in pairs:
        u, v = sorted((place[a], place[b]), key=lambda row: -days[row])
        assert days[u] == days[v] or (u, v) in edges
    dense = fitted(ids, days, contacts=listed(pairs))
    for found, exact in zip(
        right_and_promised(more, ids, parents), right_and_promised(dense, ids, parents), strict=True
    ):
        assert found == pytest.approx(exact, abs=1.5)


def test_a_saved_model_is_the_same(tmp_path):
    ids, days, parents, rng = outbreak(4, T=30)
    pairs = met(ids, parents, rng, 0.9)
    found = fitted(ids, days, contacts=listed(pairs), stays=wards(ids, days, parents, rng))
    again = load(save(found, tmp_path / "model.safetensors"))
    assert list(again.parents(0.05).rows()) == list(found.parents(0.05).rows())
    assert again.describe() == found.describe()


def test_new_records_are_placed_by_what_is_known_of_them():
    ids, days, parents, rng = outbreak(4, T=30)
    bare = fitted(ids, days)
    found = fitted(ids, days, contacts=listed(met(ids, parents, rng, 0.9)))
    new = {"case": ["new"], "onset": [days[-1] + 8]}
    tables = [model.place(new, min_support=0) for model in (bare, found)]
    supports = [dict(zip(t["parent"], t["support"], strict=True)) for t in tables]
    parents_only = [{k: v for k, v in s.items() if k} for s in supports]
    shares = [{k: v / sum(s.values()) for k, v in s.items()} for s in parents_only]
    assert shares[0] == pytest.approx(shares[1])  # nobody said whom it met


def test_simulations_say_that_they_lack_contacts():
    ids, days, parents, rng = outbreak(4, T=30)
    found = fitted(ids, days, contacts=listed(met(ids, parents, rng, 0.9)))
    with pytest.warns(UserWarning, match="contacts are not simulated"):
        drawn = found.simulate(5, random_state=0)
    assert list(dict(drawn)) == ["id", "true_parent", "onset"]


def test_a_checkpoint_knows_the_contacts(tmp_path):
    ids, days, parents, rng = outbreak(4, T=30)
    pairs, path = met(ids, parents, rng, 0.9), tmp_path / "fit.checkpoint"
    found = fitted(ids, days, contacts=listed(pairs), checkpoint=path)
    resumed = fitted(ids, days, contacts=listed(pairs), checkpoint=path)
    assert resumed.objectives_ == found.objectives_
    with pytest.raises(ValueError, match="another"):
        fitted(ids, days, contacts=listed(pairs[1:]), checkpoint=path)


def test_calibration_gives_contacts_an_exponent():
    ids, days, parents, rng = outbreak(2)
    found = fitted(ids, days, contacts=listed(met(ids, parents, rng)))
    found.calibrate({ids[u]: ids[v] if v >= 0 else None for u, v in enumerate(parents.tolist())})
    assert len(found.lineage_.exponents) == 2


def test_the_report_shows_what_contacts_say(tmp_path):
    ids, days, parents, rng = outbreak(2, T=30)
    found = fitted(ids, days, contacts=listed(met(ids, parents, rng, 0.9)))
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "contacts" in page
    assert "of true pairs" in page
