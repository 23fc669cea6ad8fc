"""The protocol of figures 3 and 4 in words, with its caveats."""

from __future__ import annotations

from paper.label_errors import Protocol
from paper.label_methods import N_TREES, STICKINESS
from paper.page import Page


def tell_protocol(page: Page, protocol: Protocol) -> None:
    """Write on the page what was done, what to mind, where the paper was left, and the seeds."""
    splits = "1 random split" if protocol.folds == 1 else f"{protocol.folds} random splits"
    page.heading("Protocol")
    page.text(
        f"Each attribute in turn is the label (up to {protocol.labels} of a matrix, at random; two "
        "classes of three records and 14 known cells at least), the others are the input. "
        f"n records are labelled (n = {', '.join(map(str, protocol.counts))}, as far as six others "
        "remain; two classes at least), half of the other known ones choose the settings of every "
        "method by their number of errors, and the other half are the test: "
        f"{splits} of each. All methods see the same splits and the same "
        "three principal components (of indicator columns, missing cells at their mean). With all "
        "attributes out-trees take the characters themselves, with missing cells, and the others "
        "the indicator columns. Means are over numbers of labels at which all matrices take part."
    )
    settings = ", ".join(f"{s:g}" for s in STICKINESS)
    page.points(
        [
            "**hill-climb, as printed**: N(Σx, σI) fitted without labels by tdid likelihood, the "
            f"better of two climbs from random labels, stickiness among {settings}. Three "
            "components only.",
            "**hill-climb**: Σ = I (all attributes: categorical mutation), climbs from the most "
            "frequent label and from the most probable ones; same choice of stickiness.",
            "**posterior**: the same model and choice, labels averaged over "
            f"{N_TREES['posterior']} weighed trees instead of climbed.",
            "**posterior, wide choice**: also five sharpnesses, two label priors, and attributes "
            "always inherited, or drawn afresh with the label: 40 settings.",
            "**Others**: SVM linear 6 settings, RBF 20, SelfTraining(SVC) 4, LabelSpreading 15, "
            "LabelPropagation 5, k-NN up to 10.",
        ]
    )
    page.heading("Read it with care")
    page.points(
        [
            "Settings that tie on the validation half vote. A vote favours methods with many "
            "settings, and the wide choice has most; so both ways are reported.",
            "The 40 settings of the wide choice were settled earlier on other random splits of the "
            "zoo and of five character matrices (docs/labels.md); the other forms' five were not "
            "tuned on anything.",
            "Weighed trees estimate the posterior; with many labels and a high stickiness few "
            "trees carry the weight. `OutTreeClassifier` samples chains instead.",
            "At larger n some labels drop out (the tables say how many tasks are left), so that a "
            "line may rise.",
            "Validation uses more labels than most tasks have: half of all unlabelled records. It "
            "is the paper's, and the same for all.",
        ]
    )
    page.heading("Where we differ from the paper")
    page.points(
        [
            "Other matrices, as said above; up to a number of labels of each instead of all.",
            "The label mutation keeps a label with α = s + (1 − s) / C; the paper's form sums to "
            "one for two classes only. The Gaussian has an offset.",
            "Changes of a label are judged exactly, not as a change of rank one "
            "(docs/paper-errata.md).",
        ]
    )
    page.heading("Seeds")
    page.text(
        "Labels and splits depend on the name of the matrix, the label, n and the fold alone; "
        "draws of trees and starts on the unit's names (paper.units.seed_of)."
    )
