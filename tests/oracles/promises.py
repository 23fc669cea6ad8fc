"""Simulation-based calibration: tables from the model, what is said of them, and what is true.

Trees are uniform among all out-trees and records descend along them as the estimators assume, so
that what is promised must come true, but for parameters that are learned from one table. A
statistic is added up within each table, since its records depend on each other; over tables it
must be 0 within its error.
"""

from collections.abc import Callable, Iterator

import numpy as np

from outtrees import Ancestry, OutTreeClassifier, OutTreeImputer
from outtrees.datasets import make_out_tree, random_out_tree
from outtrees.models import GaussianMutation

WAIT = {"waiting_mean": 5.0, "waiting_sd": 3.5}


def downwards(parents):
    """Return the records, each after its parent."""
    order = np.flatnonzero(parents < 0).tolist()
    for u in order:
        order += np.flatnonzero(parents == u).tolist()
    return order


def walk(n_columns):
    """Return a Gaussian step from parent to child."""
    zero, one = np.zeros(n_columns), np.eye(n_columns)
    return GaussianMutation(
        transition="identity",
        fit_offset=False,
        root_mean=zero,
        root_cov=25.0 * one,
        transition_matrix=one,
        offset=zero,
        mutation_cov=one,
    )


def sticky(parents, n_classes, stickiness, rng):
    """Return classes that a child keeps, or draws afresh."""
    classes = np.zeros(len(parents), dtype=int)
    for u in downwards(parents):
        fresh = parents[u] < 0 or rng.random() >= stickiness
        classes[u] = rng.integers(n_classes) if fresh else classes[parents[u]]
    return classes


def parents_of_dates(n_tables, n=20, columns=False) -> Iterator[tuple]:
    """Yield supports (n, n + 1) of `Ancestry`, "no parent" last, and the true positions.

    Dates with a waiting time that is given, one introduction; with ``columns`` also a place and a
    ward, whose changes are learned.
    """
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        parents = random_out_tree(n, rng)
        day, place = np.zeros(n), np.zeros((n, 2))
        shape = (WAIT["waiting_mean"] / WAIT["waiting_sd"]) ** 2
        for u in downwards(parents)[1:]:
            day[u] = day[parents[u]] + rng.gamma(shape, WAIT["waiting_mean"] / shape)
            place[u] = place[parents[u]] + 0.5 * rng.normal(size=2)
        table = {"id": [f"r{i}" for i in range(n)], "day": day.tolist()}
        if columns:
            table |= {"x": place[:, 0].tolist(), "y": place[:, 1].tolist()}
            table["ward"] = [f"w{ward}" for ward in sticky(parents, 4, 0.7, rng)]
        model = Ancestry(id="id", kinds={"day": "date"}, roots="single", **WAIT).fit(table)
        supports = np.zeros((n, n + 1))
        found = model.parents(min_support=0.0)
        for child, parent, support in zip(
            found["child"], found["parent"], found["support"], strict=True
        ):
            supports[int(child[1:]), int(parent[1:]) if parent else n] = support
        yield supports, np.where(parents < 0, n, parents)


def hidden_labels(n_tables, n=40, n_classes=3, stickiness=0.85) -> Iterator[tuple]:
    """Yield probabilities of labels (hidden, n_classes) of `OutTreeClassifier`, and the true."""
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        X, parents = make_out_tree(n, walk(2), seed)
        labels = sticky(parents, n_classes, stickiness, rng)
        hidden = rng.random(n) < 0.5
        known = np.where(hidden, -1, labels)
        if len(set(known)) <= n_classes:  # a class that nobody knows has no probability
            continue
        model = OutTreeClassifier(
            stickiness=stickiness, sharpness=1.0, n_chains=2, n_draws=25, random_state=0
        ).fit(X, known)
        yield model.label_distributions_[hidden], labels[hidden]


def hidden_cells(n_tables, n=40, n_draws=59) -> Iterator[tuple]:
    """Yield draws (n_draws, hidden) of hidden cells by `OutTreeImputer`, and the true cells."""
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        X, _ = make_out_tree(n, walk(3), seed)
        hidden = rng.random(X.shape) < 0.12
        hidden[hidden.all(axis=1)] = False
        model = OutTreeImputer("gaussian", max_iter=10, random_state=0)
        model.fit(np.where(hidden, np.nan, X))
        yield model.sample(n_draws, random_state=1)[:, hidden], X[hidden]


# Statistics ---------------------------------------------------------------------------------------


def of_choices(probabilities, true):
    """Return (right, promised) of the best choices, and of the log-score."""
    best = probabilities.argmax(axis=1)
    logs = np.log(np.maximum(probabilities, 1e-300))
    return {
        "best choice": ((best == true).sum(), probabilities.max(axis=1).sum()),
        "log-score": (
            logs[np.arange(len(true)), true].sum(),
            (probabilities * logs).sum(),
        ),
    }


def of_draws(draws, true):
    """Return (covered, promised) of intervals between draws: exact for draws like the truth."""
    n = len(draws)
    rank = (draws < true).sum(axis=0)
    result = {}
    for share in (0.5, 0.9):
        outside = round((1 - share) / 2 * (n + 1))
        inside = (rank >= outside) & (rank <= n - outside)
        result[f"{share:.0%} interval"] = inside.sum(), share * len(true)
    return result


def sharpened(probabilities, power=1.5):
    """Return over-sure probabilities (of a power below 1, too modest ones)."""
    powers = probabilities**power
    return powers / powers.sum(axis=1, keepdims=True)


def narrowed(draws, by=1.5):
    """Return draws nearer to their median."""
    middle = np.median(draws, axis=0)
    return middle + (draws - middle) / by


def drifts(tables, statistic: Callable, change=lambda said: said):
    """Return, for each statistic, (reached, promised, their difference in standard errors)."""
    found: dict[str, list[tuple[float, float]]] = {}
    for said, true in tables:
        for name, pair in statistic(change(said), true).items():
            found.setdefault(name, []).append(pair)
    result = {}
    for name, pairs in found.items():
        reached, promised = np.array(pairs, dtype=float).T
        apart = reached - promised
        error = apart.std(ddof=1) * np.sqrt(len(apart))
        result[name] = reached.sum(), promised.sum(), apart.sum() / error
    return result
