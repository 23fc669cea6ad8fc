"""Ancestry against a plain sum over all trees, written out with loops."""

from itertools import product

import numpy as np
import pytest

from mixed_tables import KINDS, mixed_table
from oracles.edge_weights import slow_table
from outtrees import Ancestry


def fitted(**options):
    """Return the estimator with one set of parameters, for which all trees are written out."""
    return Ancestry(parameters="fitted", **options)


def all_parents(T):
    """Every assignment of parents (−1: none) that has no circle."""
    for parents in product(range(-1, T), repeat=T):
        if any(u == p for u, p in enumerate(parents)):
            continue
        if all(_ends(parents, u) for u in range(T)):
            yield parents


def _ends(parents, u):
    for _ in range(len(parents)):
        if u < 0:
            return True
        u = parents[u]
    return u < 0


def by_enumeration(found):
    """Return log p(cells | dates) of the best reading, and supports by the sum over all trees."""
    slow = [
        slow_table(
            r.lineage, found.column_values_, found.edges_, found.fitted.roots, r.log_introduction
        )
        for r in found.readings_
    ]
    weights = [r.weight for r in found.readings_]
    edges, roots = (
        sum(w * getattr(s, name) for w, s in zip(weights, slow, strict=True))
        for name in ("edge_marginals", "root_marginals")
    )
    return slow[0].gain, edges, roots


@pytest.mark.parametrize(
    ("seed", "generations", "roots", "wait"),
    [
        (0, 1, "single", 2.0),
        (0, 2, "any", 2.0),
        (1, 1, "any", None),  # several readings
        *(
            pytest.param(*case, 2.0, marks=pytest.mark.slow)
            for case in product((0, 1, 2), (1, 2), ("single", "any"))
            if case not in ((0, 1, "single"), (0, 2, "any"))
        ),
    ],
)
def test_supports_are_the_sum_over_all_trees(roots, generations, seed, wait):
    options = {"waiting_mean": wait, "waiting_sd": wait and wait / 2, "keep": ["ward", "place"]}
    options |= {"links": generations, "transmission": False}
    found = Ancestry(parameters="fitted", id="id", kinds=KINDS, roots=roots, **options)
    found.fit(mixed_table(5, seed))
    assert (len(found.readings_) > 1) == (wait is None)
    gain, edges, is_root = by_enumeration(found)
    assert found.log_likelihood_ == pytest.approx(gain, abs=1e-9)
    table = found.parents(min_support=0.0)
    place = {name: i for i, name in enumerate(found.records.ids)}
    seen = np.zeros_like(edges)
    for child, parent, support, _ in table.rows():
        if parent:
            seen[place[child], place[parent]] = support
        else:
            assert support == pytest.approx(is_root[place[child]], abs=1e-10)
    np.testing.assert_allclose(seen, edges, atol=1e-10)
    expected = found.records_["expected_children"]
    np.testing.assert_allclose(expected, edges.sum(axis=0), atol=1e-10)


def test_what_if_is_the_sum_over_the_trees_that_have_the_edge():
    found = Ancestry(
        parameters="fitted", id="id", kinds=KINDS, roots="any", waiting_mean=2.0, waiting_sd=1.0
    )
    found.fit(mixed_table(5, 1))
    last, first = found.records.ids[-1], found.records.ids[0]
    changed = found.what_if({last: first}, min_change=0.0)
    joint = {}
    T = 5
    total, sums = 0.0, np.zeros((T, T + 1))
    listed = np.zeros((T, T), dtype=bool)
    listed[found.edges_.child, found.edges_.parent] = True
    weights = dict(
        zip(
            zip(found.edges_.child.tolist(), found.edges_.parent.tolist(), strict=True),
            found.fitted.trees.log_weight.tolist(),
            strict=True,
        )
    )
    for parents in all_parents(T):
        if parents[T - 1] != 0:
            continue
        if any(p >= 0 and not listed[u, p] for u, p in enumerate(parents)):
            continue
        log_weight = sum(
            found.fitted.trees.log_root[u] if p < 0 else weights[u, p]
            for u, p in enumerate(parents)
        )
        weight = np.exp(log_weight)
        total += weight
        for u, p in enumerate(parents):
            sums[u, p] += weight
    place = {name: i for i, name in enumerate(found.records.ids)} | {"": -1}
    for child, parent, _, after in changed.rows():
        joint[child, parent] = after
        assert after == pytest.approx(sums[place[child], place[parent]] / total, abs=1e-12)
    assert joint[last, first] == pytest.approx(1.0, abs=1e-12)


def test_what_if_weighs_readings_by_what_they_foresaw():
    """Knowing a parent changes how much each reading counts, too."""
    found = fitted(id="id", kinds={**KINDS, "dna": "ignore"}).fit(mixed_table(6, 1))
    trees, ids = found.fitted.trees, found.records.ids
    assert len(trees.parts) > 1
    last, first = ids[-1], ids[0]
    given = [part.given({5: 0}) for part in trees.parts]
    chances = [g.log_z - p.log_z for g, p in zip(given, trees.parts, strict=True)]
    weights = trees.weights * np.exp(chances)
    weights /= weights.sum()
    right = sum(w * g.root_marginals for w, g in zip(weights, given, strict=True))
    changed = {row[:2]: row[3] for row in found.what_if({last: first}, min_change=0.0).rows()}
    for name, support in zip(ids, right, strict=True):
        assert changed[name, ""] == pytest.approx(support, abs=1e-10)


def test_labels_are_the_sum_over_trees_and_labels():
    table = mixed_table(5, 2)
    table["kind"] = ["a", "b", "", "a", ""]
    kinds = KINDS | {"kind": "label", "ward": "ignore"}
    found = fitted(id="id", kinds=kinds, keep=["kind"], random_state=0).fit(table)
    n = 4000
    predicted = found.predict_labels(n_trees=n)
    trees = found.fitted.trees.sample(20_000, 1)
    # The slow twin: for each distinct tree, all labellings of the two unknown records.
    c = found.column_names_.index("kind")
    kernel, share = found.lineage_.kernels[c], found.lineage_.outlier_shares[c]
    s, m = kernel.stickiness, kernel.marginal
    move = (1 - share) * (s * np.eye(2) + (1 - s) * m[:, None]) + share * m[:, None]
    distinct, counts = np.unique(trees, axis=0, return_counts=True)
    mean = np.zeros((5, 2))
    for parents, count in zip(distinct, counts, strict=True):
        weight, total = np.zeros((5, 2)), 0.0
        for third, fifth in product(range(2), repeat=2):
            labels = [0, 1, third, 0, fifth]
            p = np.prod(
                [
                    m[labels[u]] if v < 0 else move[labels[u], labels[v]]
                    for u, v in enumerate(parents)
                ]
            )
            total += p
            for u in range(5):
                weight[u, labels[u]] += p
        mean += count / len(trees) * weight / total
    for record, _, label, support, error in predicted.rows():
        row = found.records.ids.index(record)
        # Both sides are sampled, with 4,000 and 20,000 trees: five joint standard errors.
        slack = 5 * error * np.sqrt(1 + n / 20_000) + 1e-9
        assert abs(support - mean[row, ["a", "b"].index(label)]) < slack
