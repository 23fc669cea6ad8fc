"""`outtrees label`: the labels of records that have none."""

from __future__ import annotations

from typing import Any

import click

from outtrees.cli.cost import only_checked, planned_cost, tell_dropped_mass
from outtrees.cli.density import MUTATIONS
from outtrees.cli.design import by_kinds, design, refuse_missing, remember_columns
from outtrees.cli.errors import CommandError
from outtrees.cli.inputs import load_records, tell_records
from outtrees.cli.options import (
    Decorator,
    SectionedCommand,
    candidate_options,
    choice,
    column,
    fit_options,
    out_folder,
    table_options,
)
from outtrees.cli.results import check_folder, csv_writer, name_files, where_whole, write_files
from outtrees.cli.screen import running

FILES = ("labels.csv", "model.safetensors")
_JOINT: dict[str, bool | str] = {"auto": "auto", "no": False, "fresh": "fresh"}
_JOINT |= {"common": "common", "yes": True}
_SPARSE_SECONDS = 3e-2  # for each record of a fit over candidates, roughly


class Share(click.ParamType):  # type: ignore[type-arg]  # older clicks take no type here
    """A number, or the word auto."""

    name = "number|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """Return the number or "auto"; the estimator knows which numbers it takes."""
        if value == "auto":
            return "auto"
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor auto", param, ctx)


def _share(name: str, help: str) -> Decorator:
    return click.option(name, type=Share(), default="auto", show_default=True, help=help)


@click.command("label", cls=SectionedCommand)
@table_options
@column("--label", "Column of labels; empty where unknown.", required=True)
@choice(
    "--mutation",
    ["kinds", *MUTATIONS],
    "How a child differs from its parent. kinds: for numbers a Gaussian around the parent, as wide "
    "in each column as its deviation asks for; categorical for categories.",
)
@choice(
    "--method",
    ["posterior", "hill-climb"],
    "Average over trees and labels, or search for one good labelling.",
)
@_share("--stickiness", "Probability that a child keeps its parent's label.")
@_share("--sharpness", "Power to which the density of the attributes is raised.")
@choice(
    "--joint",
    list(_JOINT),
    "Whether attributes depend on labels. fresh: a child that draws a new label also draws new "
    "attributes, from the records of that label. common: from all records. yes: attributes change "
    "differently where the label changes. auto: an average of no, fresh and common, unless "
    "stickiness and sharpness are given.",
)
@candidate_options
@out_folder
@fit_options
def command(**options: Any) -> None:
    """Probable labels of the records of TABLE whose cell in --label is empty.

    All records take part, those without a label too. With --out: labels.csv, with the probability
    of every label for every record, and the model for `outtrees show`.
    """
    with running("label", options) as screen:
        from sklearn.base import clone

        from outtrees.labels.classifier import OutTreeClassifier, labels_plan

        check_folder(options["out"], FILES)
        records = load_records(options, label=options["label"])
        tell_records(screen, records)
        known = _known(records.column(options["label"]))
        chosen = options["mutation"]
        found = design(records, codes=chosen in ("kinds", "categorical"))
        refuse_missing(found, records, chosen)
        suited = "auto" if not any(found.levels) else by_kinds(found, "parzen-diag")
        model = OutTreeClassifier(
            suited if chosen == "kinds" else chosen,
            method=options["method"],
            stickiness=options["stickiness"],
            sharpness=options["sharpness"],
            joint=_JOINT[options["joint"]],
            unlabeled="",
            candidates=options["candidates"],
            n_candidates=options["n_candidates"],
            random_state=options["seed"],
        )
        plan = labels_plan(model, len(records))
        # 4 chains of 55 draws, the fit and the choice of settings.
        what = f"labels of {len(records):,} records"
        cost = planned_cost(screen, what, len(records), 450, plan, _SPARSE_SECONDS)
        model.candidates = plan.way  # as was said
        if only_checked(
            screen,
            cost,
            options["check"],
            lambda rows: clone(model).fit(found.X[rows], known[rows]),
        ):
            return
        with screen.busy("finding labels"):
            model.fit(found.X, known)
        tell_dropped_mass(screen, model)
        table = _table(records.ids, known, model)
        remember_columns(model, found)
        write_files(screen, options["out"], {FILES[0]: csv_writer(table)}, FILES, model)
        _tell(screen, table, model, where_whole(options["out"], FILES[0]))
        name_files(screen)


def _known(column: Any) -> Any:
    """Return the labels as text, empty where unknown."""
    import numpy as np

    levels = column.levels or ()
    known = np.array(
        ["" if code != code else levels[int(code)] for code in column.values[:, 0].tolist()]
    )
    if (known != "").all():
        raise CommandError(
            f"every record has its {column.name!r}; leave the cell empty where it is to be found"
        )
    return known


def _table(ids: Any, known: Any, model: Any) -> dict[str, list[Any]]:
    """Return record, given label, label, its probability and Monte-Carlo error, and all others."""
    chances, errors = model.label_distributions_, model.label_errors_
    best = chances.argmax(axis=1)
    rows = range(len(best))
    table: dict[str, list[Any]] = {
        "record": list(ids),
        "given": [str(label) for label in known],
        "label": [str(label) for label in model.transduction_],
        "probability": [float(chances[row, best[row]]) for row in rows],
        "standard_error": [float(errors[row, best[row]]) for row in rows],
    }
    for position, label in enumerate(model.classes_):
        table[f"p({label})"] = [float(chance) for chance in chances[:, position]]
    return table


def _tell(screen: Any, table: dict[str, list[Any]], model: Any, whole: str) -> None:
    rows = [row for row, given in enumerate(table["given"]) if given == ""]
    n = len(model.average_.weights)
    others = f" have the largest weight of {n} settings that were averaged" if n > 1 else ""
    screen.say(
        f"\n{len(rows)} labels found, {len(table['given']) - len(rows)} were given; stickiness "
        f"{model.stickiness_:.3g}, sharpness {model.sharpness_:.3g}{others}"
    )
    shown = {
        name: [table[name][row] for row in rows]
        for name in ("record", "label", "probability", "standard_error")
    }
    screen.table(shown, bar="probability", whole=whole)
    screen.say("probabilities are sampled; standard_error is their Monte-Carlo error")
    screen.summary.update(
        labels=shown,
        stickiness=model.stickiness_,
        sharpness=model.sharpness_,
        r_hat=model.r_hat_,
        log_likelihood=model.log_likelihood_,
    )
