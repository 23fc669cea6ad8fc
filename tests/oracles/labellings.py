"""The slow twin of everything about labels: all trees times all labels, one by one."""

from itertools import product

import numpy as np
from scipy.special import logsumexp

from oracles.enumeration import all_trees
from outtrees.labels import LabelModel

FORMS = {"one": 1, "two": 2, "fresh": 1}  # of attributes and labels; layers of each


def random_model(seed, T, C, *, form="one", stickiness=0.7, sharpness=0.8, scale=2.0):
    """One mutation of the attributes, two that depend on labels, or attributes drawn afresh."""
    rng = np.random.default_rng(seed)
    return LabelModel(
        log_attributes=scale * rng.normal(size=(FORMS[form], T, T)),
        log_root=scale * rng.normal(size=T),
        marginal=rng.dirichlet(np.full(C, 3.0)),
        stickiness=stickiness,
        sharpness=sharpness,
        log_fresh=scale * rng.normal(size=(T, C)) if form == "fresh" else None,
    )


def log_weights(model, trees, labels):
    """Log-weight of each tree (n, T) with these labels, edge by edge, by the class's formula."""
    s, total = model.stickiness, np.zeros(len(trees))
    T = len(labels)
    for u in range(T):
        for v in range(-1, T):
            if v == u:
                continue
            if v < 0:
                weight = model.sharpness * model.log_root[u] + np.log(model.marginal[labels[u]])
            else:
                same, drawn = labels[u] == labels[v], (1 - s) * model.marginal[labels[u]]
                layer = 0 if same or len(model.log_attributes) == 1 else 1
                weight = model.sharpness * model.log_attributes[layer, u, v]
                if model.log_fresh is None:
                    weight += np.log(s * same + drawn)
                elif weight > -np.inf:
                    begun = np.exp(model.sharpness * model.log_fresh[u, labels[u]])
                    with np.errstate(divide="ignore"):  # impossible with these labels
                        weight = np.log(s * same * np.exp(weight) + drawn * begun)
            total[trees[:, u] == v] += weight
    return total


def enumerate_labels(model, known):
    """Label marginals (T, C), edge marginals (T, T), log Σ weights, best labels and their log Z."""
    T, C = model.n_records, model.n_classes
    settings = [
        np.array(labels)
        for labels in product(range(C), repeat=T)
        if all(k in (-1, y) for k, y in zip(known, labels, strict=True))
    ]
    trees = all_trees(T)
    table = np.array([log_weights(model, trees, labels) for labels in settings])
    log_z = logsumexp(table)
    p = np.exp(table - log_z)
    marginals, edges = np.zeros((T, C)), np.zeros((T, T))
    for i, labels in enumerate(settings):
        marginals[np.arange(T), labels] += p[i].sum()
    for j, tree in enumerate(trees):
        child = np.flatnonzero(tree >= 0)
        edges[child, tree[child]] += p[:, j].sum()
    log_z_of = logsumexp(table, axis=1)
    return marginals, edges, log_z, settings[int(log_z_of.argmax())], float(log_z_of.max())
