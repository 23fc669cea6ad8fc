"""Figures 3 and 4: the paper's protocol of section 9 on any matrix of species and characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from paper.characters import (
    CharacterMatrix,
    generated,
    matrices_in,
    nearest,
    zoo,
)
from paper.label_errors import (
    RULES,
    Error,
    Protocol,
    by_task,
    mean_and_error,
    our_methods,
    paired,
    run_tasks,
    shared_counts,
)
from paper.label_methods import BASELINE, OTHERS
from paper.label_picture import draw_matrices, draw_means
from paper.label_protocol import tell_protocol
from paper.label_tasks import INPUTS
from paper.page import Page
from paper.units import Progress

# Beside the project, where there are matrices that may not be part of it.
NEARBY = Path("../shared/data/taxonomy")
QUICK = Protocol(counts=(8, 16), labels=2, folds=1)
SURE = 0.05


class PaperFigure(NamedTuple):
    """What the paper shows, and the size of its matrix."""

    name: str
    species: str
    size: tuple[int, int]


FIGURES = {
    "figure3": PaperFigure("figure3", "salamanders", (30, 19)),
    "figure4": PaperFigure("figure4", "crustaceans", (56, 74)),
}


def run_figure(
    name: str,
    out: Path,
    *,
    folds: int | None,
    n_jobs: int,
    quick: bool,
    data: Path | None,
    progress: Progress | None,
) -> Path:
    """Return the path of the page of figure 3 or 4, after running what is not there yet."""
    paper = FIGURES[name]
    matrices = chosen_matrices(paper, data, quick)
    protocol = QUICK if quick else Protocol()
    protocol = protocol if folds is None else protocol._replace(folds=folds)
    errors = run_tasks(out / name, name, matrices, protocol, n_jobs=n_jobs, progress=progress)
    page = Page(out, name, f"Figure {name[-1]}: errors on hidden labels ({paper.species})")
    _findings(page, paper, matrices, errors)
    tell_protocol(page, protocol)
    options = [f"--folds {protocol.folds}", "--quick" * quick]
    options += [f"--data {data.name}"] if data is not None else []
    return page.write(" ".join(["python -m paper", name, *filter(None, options)]))


def chosen_matrices(paper: PaperFigure, data: Path | None, quick: bool) -> list[CharacterMatrix]:
    """Return the matrices of a figure: those given, or the zoo and what lies beside the project.

    Of several, those whose size is nearer to this figure's than to the other's.

    Examples
    --------
    >>> [m.name for m in chosen_matrices(FIGURES["figure4"], None, quick=True)]
    ['generated']
    """
    if data is not None:
        found = matrices_in(data)
    elif quick:
        found = [generated()]
    else:
        found = [zoo(), *(matrices_in(NEARBY) if NEARBY.is_dir() else [])]
    other = next(figure for figure in FIGURES.values() if figure is not paper)
    return nearest(found, paper.size, other.size)


# The page ----------------------------------------------------------------------------------------


def _findings(
    page: Page, paper: PaperFigure, matrices: Sequence[CharacterMatrix], errors: list[Error]
) -> None:
    T, D = paper.size
    page.text(
        f"**The paper** shows error against the number of labels on {paper.species} ({T} species × "
        f"{D} attributes), for out-trees and SVMs, and says: \"The out-tree has a statistically "
        'significant advantage over both linear and RBF SVMs when classifying data that obeys a '
        'directed tree structure." It prints no numbers, and the matrix is not public.'
    )  # fmt: skip
    common = [error for error in errors if error.n in shared_counts(errors)]
    page.text(f"**Here**, on {_sizes(matrices)}. {verdict(common)}")
    page.table(_claim_table(common))
    page.picture(draw_means(errors), "Error against the number of labels, means over matrices")
    for inputs, title in INPUTS.items():
        page.heading(f"Errors with {title}")
        page.text(
            "Mean over folds, labels and matrices ± standard error (labels of a matrix taken as "
            "independent); tied settings vote. The last two columns are means over all numbers of "
            f"labels, with the vote and without: {RULES['single']}."
        )
        page.table(_errors_table(common, inputs))
    page.heading("Differences, paired")
    page.text(
        "Out-tree minus the other method on the same labels and splits, mean over tasks (one "
        "label of one matrix, all folds and numbers of labels) ± standard error, with the "
        "two-sided p of a paired t-test and, after a semicolon, of Wilcoxon's signed ranks; not "
        "corrected for their number. Labels of one matrix share its records, so these p are "
        "smaller than they should be."
    )
    for inputs, title in INPUTS.items():
        for rule, meaning in RULES.items():
            n_tasks = len(next(iter(by_task(common, inputs, rule).values())))
            page.text(f"{title.capitalize()}; {meaning} ({n_tasks} tasks):")
            page.table(_paired_table(common, inputs, rule))
    page.heading("Matrix by matrix")
    page.picture(
        draw_matrices(errors), "Three principal components, matrix by matrix", "-matrices"
    )  # fmt: skip
    for inputs, title in INPUTS.items():
        page.text(f"{title.capitalize()}, all numbers of labels, tied settings vote:")
        page.table(_matrix_table(errors, inputs))
    rows = [asdict(e) | {rule: round(getattr(e, rule), 6) for rule in RULES} for e in errors]
    page.numbers({name: [row[name] for row in rows] for name in rows[0]})


def below_both_svms(errors: Sequence[Error], inputs: str, ours: str, rule: str) -> bool:
    """Return whether the paper's claim holds: below both SVMs, at 5 % in the paired t-test."""
    tasks = by_task(errors, inputs, rule)
    results = [paired(tasks[ours], tasks[theirs]) for theirs in OTHERS[:2]]
    return all(result.mean < 0 and result.p_t < SURE for result in results)


def verdict(errors: Sequence[Error]) -> str:
    """Return in a sentence which forms of the out-tree bear the paper's claim out, and how."""
    held = {
        rule: [
            f"{ours} ({title})"
            for inputs, title in INPUTS.items()
            for ours in our_methods(inputs)
            if below_both_svms(errors, inputs, ours, rule)
        ]
        for rule in RULES
    }
    parts = {
        "with ties broken either way": [f for f in held["vote"] if f in held["single"]],
        "with the vote only": [f for f in held["vote"] if f not in held["single"]],
        "without the vote only": [f for f in held["single"] if f not in held["vote"]],
    }
    told = [f"{how}: {', '.join(forms)}" for how, forms in parts.items() if forms]
    return (
        "Significantly below both SVMs (paired t-test over tasks, 5 %): "
        f"{'; '.join(told) or 'no form of the out-tree'}."
    )


def _claim_table(errors: Sequence[Error]) -> dict[str, list[str]]:
    """Return the differences to both SVMs, all forms and inputs, with the vote and without."""
    table: dict[str, list[str]] = {"input": [], "out-tree": []}
    for inputs, title in INPUTS.items():
        for ours in our_methods(inputs):
            table["input"].append(title)
            table["out-tree"].append(ours)
            for theirs in OTHERS[:2]:
                for rule, name in (("vote", theirs), ("single", f"{theirs}, no vote")):
                    tasks = by_task(errors, inputs, rule)
                    r = paired(tasks[ours], tasks[theirs])
                    table.setdefault(f"minus {name}", []).append(
                        f"{_with_error(r.mean, r.standard_error)} (p {_p(r.p_t)})"
                    )
    return table


def _errors_table(errors: Sequence[Error], inputs: str) -> dict[str, list[str]]:
    whole = {rule: by_task(errors, inputs, rule) for rule in RULES}
    order = sorted(whole["vote"], key=lambda method: mean_and_error(whole["vote"][method])[0])
    table = {"labels": [_title(method) for method in order]}
    for n in shared_counts(errors):
        tasks = by_task(errors, inputs, "vote", n)
        heading = f"{n} ({len(tasks[order[0]])} tasks)"
        table[heading] = [_with_error(*mean_and_error(tasks[method])) for method in order]
    for rule, name in (("vote", "mean"), ("single", "mean, no vote")):
        table[name] = [f"{mean_and_error(whole[rule][method])[0]:.3f}" for method in order]
    return table


def _paired_table(errors: Sequence[Error], inputs: str, rule: str) -> dict[str, list[str]]:
    tasks = by_task(errors, inputs, rule)
    table: dict[str, list[str]] = {"out-tree minus": [*OTHERS, BASELINE]}
    for ours in our_methods(inputs):
        cells = []
        for theirs in table["out-tree minus"]:
            r = paired(tasks[ours], tasks[theirs])
            p = f"p {_p(r.p_t)}; {_p(r.p_wilcoxon)}"
            cells.append(f"{_with_error(r.mean, r.standard_error)}, {p}")
        table[ours] = cells
    return table


def _matrix_table(errors: Sequence[Error], inputs: str) -> dict[str, list[str]]:
    tasks = by_task(errors, inputs, "vote")
    table: dict[str, list[str]] = {"method": [_title(method) for method in tasks]}
    for name in sorted({error.matrix for error in errors}):
        table[name] = [
            _with_error(*mean_and_error({k: v for k, v in found.items() if k[0] == name}))
            for found in tasks.values()
        ]
    return table


def _sizes(matrices: Sequence[CharacterMatrix]) -> str:
    return ", ".join(f"{m.name} ({m.codes.shape[0]} × {m.codes.shape[1]})" for m in matrices)


def _title(method: str) -> str:
    return f"**out-tree, {method}**" if method in our_methods("3d") else method


def _with_error(mean: float, error: float) -> str:
    rounded = round(mean, 3) + 0.0  # no minus before a zero
    return f"{rounded:.3f} ± {error:.3f}".replace("-", "−")


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 0.001 else "< 0.001"
