"""The transmission model: sums over infection dates against slow twins."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import gamma

from outtrees import Ancestry
from outtrees.ancestry.learning import problem_of
from outtrees.datasets.diseases import waiting_time
from outtrees.models.columns import Lineage, Transmission, TransmittedSequence
from outtrees.models.columns.transmission import _growth, sequence_cells
from outtrees.models.columns.transmission_kernels import draw_letters
from outtrees.models.columns.unknown_sites import UnknownSites

GIVEN = {"generation_mean": 5.0, "generation_sd": 2.0, "delay_mean": 4.0, "delay_sd": 1.5}


def outbreak(T=12, L=300, seed=0):
    """Return dates (T, 4) and letters (T, L) of a tree in which half of the dates are shifted."""
    rng = np.random.default_rng(seed)
    infected, letters = np.zeros(T), np.zeros((T, L))
    for u in range(1, T):
        v = int(rng.integers(max(0, u - 4), u))
        infected[u] = infected[v] + rng.gamma(6, 5 / 6)
        letters[u] = letters[v]
        sites = rng.integers(L, size=rng.poisson(1.0))
        letters[u, sites] = (letters[u, sites] + rng.integers(1, 4, size=len(sites))) % 4
    date = np.floor(infected + rng.gamma(7, 4 / 7, size=T))
    return np.column_stack([date, date, np.zeros((T, 2))]), letters


def started(options, T=12, seed=0):
    dates, letters = outbreak(T, seed=seed)
    values = [dates, sequence_cells(dates, letters)]
    kernels = (Transmission(**options), TransmittedSequence())
    return Lineage(kernels).start(values), values


def density(mean, sd):
    return gamma((mean / sd) ** 2, scale=sd**2 / mean).pdf


def slow_weight(kernel, delta, shared, lacking, gained, read, age, rate, beside, fine=0.02):
    """Return the dates' and the joint weight, by a Riemann sum over all times of one edge.

    `beside`: how far descent from unsampled people above the parent counts.
    """
    generation, delay = density(5.0, 2.0), density(4.0, 1.5)
    times = (np.arange(int(40 / fine)) + 0.5) * fine
    g, d = generation(times) * fine, delay(times) * fine
    laws, law = [], d
    for _ in range(kernel.n_links):
        laws.append(law)
        law = np.convolve(law, g)[: len(times) * 2]
    left = np.zeros(max(map(len, laws)) + kernel.n_links + 1)
    for k, (one, weight) in enumerate(zip(laws, kernel._link_weights(kernel.theta), strict=True)):
        place = np.round(np.arange(len(one)) + (k + 1) / 2).astype(int)
        np.add.at(left, place, weight * one / fine)
    leaving = np.convolve(g, d[::-1])
    tau = (np.arange(len(leaving)) - len(d) + 1) * fine
    before, share = d, 1.0
    for j in range(1, kernel.n_links):
        before, share = np.convolve(before, g), share * (1 - 0.6)
        more = np.convolve(g, before[::-1])
        earlier = (np.arange(len(more)) - len(before) + 1 - j / 2) * fine
        leaving = np.concatenate([leaving, beside * share * more])
        tau = np.concatenate([tau, earlier])
    at = np.floor((delta - tau) / fine + 1e-6).astype(int)  # rounding would only meet even cells
    ok = (at >= 0) & (at < len(left))
    base = leaving[ok] * left[at[ok]]
    x = np.maximum(-tau[ok], 0)
    ell = np.maximum(delta + x, 1e-9)
    change = rate * ell / 3
    p = (1 - np.minimum(x / age, 1)) ** shared * (x / age + change) ** lacking
    p = p * change**gained * np.exp(-rate * read * ell) * (x < age)
    return base.sum(), (base * p).sum()


@pytest.mark.parametrize("beside", [0, 1, 2])
@pytest.mark.parametrize(
    ("delta", "shared", "lacking", "gained"),
    [(6.0, 0, 0, 0), (-3.0, 2, 0, 0), (4.0, 1, 1, 2), (17.0, 0, 2, 1), (0.0, 3, 0, 1)],
)
def test_the_weight_is_the_integral_over_infection_dates(delta, shared, lacking, gained, beside):
    lineage, values = started({**GIVEN, "sampled": 0.6, "substitution_rate": 1e-3, "links": 3})
    process, sequence = lineage.kernels
    process = replace(process, step=0.1)
    edge = sequence.pairs(values[1], values[1], np.array([1]), np.array([0]))
    number = [np.array([float(n)]) for n in (shared, lacking, gained)]
    edge = edge._replace(
        delta=np.array([delta]),
        parent_date=np.array([process.first_date + 3.0]),
        beside=np.array([beside], dtype=np.int8),
        **dict(zip(("shared", "lacking", "gained"), number, strict=True)),
    )
    clock = process.clock
    age = process.first_date + 3.0 - clock.origin
    parts, _ = process.weighed(edge, clock)
    slow = slow_weight(process, delta, shared, lacking, gained, 300.0, age, 1e-3, beside / 2)
    # Both are sums on grids, of 0.1 and 0.02 days: half a cell is a percent of such a law.
    np.testing.assert_allclose(np.exp(parts[0]), slow, rtol=0.02)


@pytest.mark.parametrize("options", [{}, GIVEN, {"generation_sd": 2.0, "sampled": 0.5}])
def test_slopes_are_those_of_differences(options):
    from outtrees.candidates import constraints

    lineage, values = started(options)
    rng = np.random.default_rng(1)
    lineage = lineage.with_params(lineage.params + 0.1 * rng.normal(size=len(lineage.params)))
    problem = problem_of(lineage, values, constraints(12), "any")
    point, slopes = problem.at(lineage, -3.0, -3.0)
    assert np.isfinite(point.value)
    for i in range(len(lineage.params)):
        ends = []
        for step in (1e-4, -1e-4):
            moved = lineage.params.copy()
            moved[i] += step
            ends.append(problem.at(lineage.with_params(moved), -3.0, -3.0)[0].value)
        assert slopes[i] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-4, abs=1e-4)


def test_dates_alone_teach_nothing_and_a_child_may_be_sampled_first():
    days = {"id": list("abcdef"), "day": [3, 1, 9, 12, 8, 15]}
    found = Ancestry(id="id", kinds={"day": "date"}, **GIVEN, sampled=1.0).fit(days)
    assert len(found.lineage_.kernels[0].params) == 0
    assert found.fitted.support_of[1, 0] > 0.03  # b, two days before a, may descend from it
    assert found.log_likelihood_ == pytest.approx(0.0, abs=1e-9)


def table(T=12, seed=0, read=1.0):
    dates, letters = outbreak(T, seed=seed)
    rng = np.random.default_rng(seed)
    text = np.array(list("ACGT"))[letters.astype(int)]
    text[rng.random(text.shape) > read] = "N"
    names = [f"p{i}" for i in range(T)]
    columns = {"id": names, "day": dates[:, 0].tolist()}
    return columns, {name: "".join(row) for name, row in zip(names, text, strict=True)}


def test_rows_in_another_order_have_the_same_supports():
    columns, sequences = table(read=0.9)
    turned = {name: cells[::-1] for name, cells in columns.items()}
    options = {"id": "id", "kinds": {"day": "date"}, **GIVEN, "random_state": 0}
    one = Ancestry(**options).fit(columns, sequences=sequences)
    other = Ancestry(**options).fit(turned, sequences=sequences)
    for (u, v), support in one.fitted.support_of.items():
        twin = (11 - u, 11 - v if v >= 0 else -1)
        assert other.fitted.support_of.get(twin, 0.0) == pytest.approx(support, abs=1e-6)
    assert any("5 ± 2" in sentence for sentence in one.describe())


def test_an_unread_site_counts_as_its_relatives_show_it():
    columns, sequences = table()
    options = {"id": "id", "kinds": {"day": "date"}, **GIVEN}
    whole = Ancestry(**options).fit(columns, sequences=sequences)
    letters = np.array([list(text) for text in sequences.values()])
    # Where one other record differs from all.
    lonely = [s for s in range(300) if (letters[:, s] != "A").sum() == 1 and letters[5, s] == "A"]
    assert lonely
    letters[5, lonely] = "N"
    unread = dict(zip(sequences, map("".join, letters), strict=True))
    other = Ancestry(**options).fit(columns, sequences=unread)
    # In the fit; then the unread letters are drawn, which may be otherwise.
    fits = [found.fitted.best_trees.edge_marginals for found in (whole, other)]
    np.testing.assert_allclose(*fits, atol=1e-12)


def test_new_records_are_placed_and_records_are_simulated():
    columns, sequences = table()
    found = Ancestry(id="id", kinds={"day": "date"}, **GIVEN).fit(columns, sequences=sequences)
    new = {"id": ["new"], "day": [columns["day"][3] + 5]}
    placed = found.place(new, sequences={"new": sequences["p3"]})
    assert sum(placed["support"]) > 0.5
    drawn = found.simulate(5, random_state=0)
    assert len(drawn["sequence"]) == 5
    assert len(drawn["sequence"][0]) == 300


def test_the_model_is_chosen_by_what_the_table_holds_and_said():
    columns, sequences = table()

    def chosen(date="day", letters=sequences, **options):
        dated = {"id": columns["id"], date: columns["day"]}
        options |= {"id": "id", "kinds": {date: "date"}, "parameters": "fitted"}
        found = Ancestry(**options).fit(dated, sequences=letters)
        kernel = found.lineage_.kernels[0]
        return type(kernel).__name__, " ".join(found.describe()), kernel

    name, said, _ = chosen()
    assert name == "Transmission"
    assert "model: transmission" in said
    assert "transmission=False" in said
    name, said, _ = chosen("onset")
    assert name == "Waiting"
    assert "transmission=True" in said
    assert chosen("onset", delay_mean=3.0)[0] == "Transmission"
    assert chosen(transmission=False)[0] == "Waiting"
    assert chosen(waiting_mean=5.0)[0] == "Waiting"
    kernel = chosen(disease="measles")[2]
    assert kernel.generation_mean == pytest.approx(waiting_time("measles").mean)
    # Manuscripts: other letters than those of DNA.
    read = {name: text.translate(str.maketrans("ACGT", "1234")) for name, text in sequences.items()}
    name, said, _ = chosen(letters=read)
    assert name == "Waiting"
    assert "model:" not in said


def test_options_that_contradict_are_refused():
    columns, sequences = table()
    options = {"id": "id", "kinds": {"day": "date"}}
    with pytest.raises(ValueError, match="contradict each other"):
        Ancestry(**options, sampled=0.5, waiting_mean=3.0).fit(columns, sequences=sequences)
    with pytest.raises(ValueError, match="excludes"):
        Ancestry(**options, sampled=0.5, transmission=False).fit(columns, sequences=sequences)
    with pytest.raises(ValueError, match="needs a column of dates"):
        Ancestry(id="id", sampled=0.5).fit({"id": ["a", "b"], "x": [1.5, 2.5]})
    with pytest.raises(ValueError, match="must be positive"):
        Transmission(delay_mean=-1.0)


def test_the_former_name_of_links_warns():
    with pytest.warns(FutureWarning, match="write links"):
        found = Ancestry(id="id", generations=2).fit({"id": list("abc"), "x": [0.1, 0.2, 0.9]})
    assert found.lineage_.generations == 2


@pytest.mark.parametrize(("generation", "delay"), [(5.0, 4.0), (1000.0, 500.0), (3000.0, 1500.0)])
def test_laws_of_slow_diseases_are_not_cut_short(generation, delay):
    """Dates in days, generations of years: the mean times are those that were given."""
    kernel = Transmission(
        generation_mean=generation,
        generation_sd=0.4 * generation,
        delay_mean=delay,
        delay_sd=0.4 * delay,
        sampled=1.0,
        unit=1.0,
    )
    days = np.arange(0.0, 6 * generation, generation / 10).round()
    laws = kernel.start(np.column_stack([days, days, 0 * days, 0 * days])).laws
    leaving = np.exp(laws.log_leaving[0])
    times = (laws.first + np.arange(len(leaving))) * laws.step
    assert leaving @ times / leaving.sum() == pytest.approx(generation - delay, rel=0.01)
    left = np.exp(laws.log_left)
    times = np.arange(len(left)) * laws.step
    assert left @ times / left.sum() == pytest.approx(delay, rel=0.01)


def test_few_dates_and_equal_dates_show_no_growth():
    rising = np.array([0.0, 4.0, 6.0, 7.0, 7.5, 8.0])
    assert _growth(rising, 0.0, 8.0) > 0.1
    assert _growth(rising[:4], 0.0, 7.0) == 0.0
    assert _growth(np.full(6, 3.0), 3.0, 0.0) == 0.0


def test_every_unread_site_gets_a_letter():
    codes = np.array([[255, 1], [2, 1], [2, 255], [2, 3]], dtype=np.uint8)
    rows, sites, letters = UnknownSites(codes, 4, 10).most_voted()
    assert list(zip(rows, sites, letters, strict=True)) == [(0, 0, 2), (2, 1, 1)]


def test_unread_letters_are_drawn_as_often_as_all_letterings_say():
    """Root, child and grandchild; the root and the child were not read."""
    parents, change = np.array([-1, 0, 1]), np.array([0.0, 0.3, 0.1])
    n = 20_000
    letters = np.tile(np.array([[255], [255], [2]], np.uint8), n)
    uniform = np.random.default_rng(0).random((3, n))
    drawn = draw_letters(letters, parents, np.arange(3), change, 4, uniform)
    step = [np.where(np.eye(4, dtype=bool), 1 - c, c / 3) for c in change]
    chances = step[1] * step[2][:, 2]  # (root, child), a uniform root
    expected = chances / chances.sum()
    found = np.zeros((4, 4))
    np.add.at(found, (drawn[0], drawn[1]), 1 / n)
    assert (drawn[2] == 2).all()
    assert abs(found - expected).max() < 5 * 0.5 / np.sqrt(n)
