"""`outtrees density`: how dense the records are around each record, and a model of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from outtrees._common.text import counted
from outtrees.cli.cost import only_checked, planned_cost, tell_dropped_mass
from outtrees.cli.design import by_kinds, columns_of, design, refuse_missing, remember_columns
from outtrees.cli.errors import CommandError, sound_model
from outtrees.cli.inputs import load_records, tell_records
from outtrees.cli.options import (
    SectionedCommand,
    candidate_options,
    check_scheduler,
    checkpoint_option,
    choice,
    file,
    fit_options,
    out_folder,
    scheduler_option,
    spread_over,
    table_options,
    whole_number,
)
from outtrees.cli.results import check_folder, csv_writer, name_files, where_whole, write_files
from outtrees.cli.screen import running

# As named in `outtrees.models.MUTATIONS`, which is not imported for the sake of --help.
MUTATIONS = [
    *("gaussian", "parzen", "parzen-diag", "iid", "kernel", "mixture", "clouds", "columns"),
    *("categorical", "poisson", "bernoulli"),
]
FILES = ("densities.csv", "model.safetensors")
_SPARSE_SECONDS = 3e-3  # for each record of a fit over candidates, roughly


@click.command("density", cls=SectionedCommand)
@table_options
@choice(
    "--mutation",
    ["kinds", "auto", *MUTATIONS],
    "How a child differs from its parent. auto: an average of several, weighted on held-out "
    "records (numbers only). kinds: auto for numbers, categorical for categories, gaussian and "
    "categorical for both; gaussian for numbers with --checkpoint or hidden cells.",
)
@choice(
    "--missing",
    ["error", "integrate"],
    "For empty cells among numbers: stop with an error, or integrate them out (by sampling).",
)
@file("--model", "Use this saved model instead of fitting one.", metavar=None)
@whole_number("--max-iter", "Largest number of steps.", 200)
@candidate_options
@checkpoint_option
@out_folder
@scheduler_option
@fit_options
def command(**options: Any) -> None:
    """Log-density of each record of TABLE, under a model fitted to TABLE or saved before.

    Records with the lowest densities are outliers. With --out: densities.csv, and the model for
    `outtrees show`, `outtrees sample` and --model.
    """
    with running("density", options) as screen:
        check_scheduler(options["scheduler"])
        check_folder(options["out"], FILES)
        records = load_records(options)
        tell_records(screen, records)
        if options["model"] is None:
            fitted = _fitted(screen, records, options)
        else:
            fitted = _saved(screen, records, options)
        if fitted is not None:
            _tell(screen, records, *fitted, options)
            if options["model"] is None and options["checkpoint"] is not None:
                Path(options["checkpoint"]).unlink(missing_ok=True)  # no longer needed


def _fitted(screen: Any, records: Any, options: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the model and the log-densities of its own records, None if only checked."""
    from sklearn.base import clone

    from outtrees.density.estimator import OutTreeDensity, density_plan

    chosen = options["mutation"]
    found = design(records, codes=chosen in ("kinds", "categorical"))
    if options["missing"] == "error":
        refuse_missing(found, records, chosen, "integrate them out with --missing integrate")
    hidden = options["missing"] == "integrate" and bool((found.X != found.X).any())
    mutation = by_kinds(found, "gaussian") if chosen == "kinds" else chosen
    if (chosen, mutation) == ("kinds", "gaussian") and not hidden and not options["checkpoint"]:
        mutation = "auto"
    model = OutTreeDensity(
        mutation,
        max_iter=options["max_iter"],
        missing=options["missing"],
        candidates=options["candidates"],
        n_candidates=options["n_candidates"],
        n_jobs=options["jobs"],
        random_state=options["seed"],
    )
    plan = density_plan(model, len(records), hidden)
    # One mutation takes about 150 evaluations; "auto" fits four on up to four sets of records, of
    # which half need none.
    fits = 5 if mutation == "auto" else 1
    what = f"a density of {len(records):,} records"
    sums, sparse = 150 if fits == 1 else 100 * fits, fits * _SPARSE_SECONDS
    cost = planned_cost(screen, what, len(records), sums, plan, sparse, cubic=True)
    model.candidates = plan.way  # as was said
    if only_checked(screen, cost, options["check"], lambda rows: clone(model).fit(found.X[rows])):
        return None
    if mutation == "auto":
        screen.say(f"weighing four models on {model.cv} folds")
    with screen.busy("fitting"), spread_over(options["scheduler"]):
        model.fit(found.X, checkpoint=options["checkpoint"])
    # A record has a part in its own density, an outlier a large one: none where it was held out.
    held_out = getattr(model, "held_out_log_density_", None)
    scores = model.score_samples(found.X) if held_out is None else held_out
    screen.summary.update(
        log_likelihood=model.log_likelihood_,
        converged=model.converged_,
        iterations=model.n_iter_,
    )
    steps = "" if not model.n_iter_ else f" after {counted(model.n_iter_, 'iteration')}"
    steps += "" if model.converged_ else ", not converged"
    screen.say(f"\nlog-likelihood {model.log_likelihood_:.4f}{steps}")
    if held_out is not None:
        results: Any = model.cv_results_
        weights = dict(zip(results["params"], results["weight"].tolist(), strict=True))
        screen.summary["weights"] = weights
        shares = [f"{name} {weight:.2f}" for name, weight in weights.items() if weight >= 0.005]
        screen.say(f"weights: {'; '.join(shares)}")
    tell_dropped_mass(screen, model)
    remember_columns(model, found)
    return model, scores


def _saved(screen: Any, records: Any, options: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the saved model and the log-densities it gives to the records."""
    from outtrees.io import load

    if options["checkpoint"] is not None:
        raise CommandError("--checkpoint keeps a fit, but with --model there is none; leave it out")
    model = load(options["model"], max_bytes=options["max_bytes"])
    if not hasattr(model, "score_samples"):
        raise CommandError(
            f"{options['model']!r} holds a {type(model).__name__}, which gives no densities; name "
            "a model written by 'outtrees density'"
        )
    with sound_model(options["model"], model):
        X = _columns_in_order(model, records, options["table"])
    if options["check"]:
        screen.say("checked only; nothing was written")
        return None
    model.__dict__.pop("feature_names_in_", None)  # the order was put right above
    with sound_model(options["model"], model):
        return model, model.score_samples(X)


def _columns_in_order(model: Any, records: Any, table: str) -> Any:
    """Return the columns that the model learned from, by name; by position if it knows no names."""
    import numpy as np

    width = model.n_features_in_
    if not hasattr(model, "table_columns_") and not hasattr(model, "feature_names_in_"):
        X = design(records, codes=False).X
        if X.shape[1] != width:
            raise CommandError(
                f"the model learned from {width} columns without names, but {table!r} has "
                f"{X.shape[1]}; leave the others out with --ignore"
            )
        return X
    names, levels = columns_of(model, width)
    found = design(records, codes=any(level is not None for level in levels), only=names)
    missing = [name for name in names if name not in found.names]
    if missing:
        raise CommandError(
            f"{table!r} lacks column {missing[0]!r} of the model (columns: "
            f"{', '.join(names[:10])}); add it, or give it the kind it had with --kind"
        )
    return np.column_stack(
        [
            _recoded(found, found.names.index(name), name, level)
            for name, level in zip(names, levels, strict=True)
        ]
    )


def _recoded(found: Any, position: int, name: str, levels: list[str] | None) -> Any:
    """Return a column with the categories of the model."""
    import numpy as np

    values, own = found.X[:, position], found.levels[position]
    if (own is None) != (levels is None):
        kind = "continuous" if levels is None else "categorical"
        raise CommandError(
            f"column {name!r} is {found.kinds[position]} here, but the model learned from "
            f"{'numbers' if levels is None else 'categories'}; pass --kind {name}={kind}"
        )
    if levels is None:
        return values
    strangers = [level for level in own if level not in levels]
    if strangers:
        raise CommandError(
            f"column {name!r} holds {strangers[0]!r}, which the model has not seen; it knows "
            f"{', '.join(levels[:10])}"
        )
    places = np.array([*map(levels.index, own), np.nan])
    return places[np.where(np.isnan(values), len(own), values).astype(int)]


def _tell(screen: Any, records: Any, model: Any, scores: Any, options: dict[str, Any]) -> None:
    unknown = [name for name, score in zip(records.ids, scores, strict=True) if score != score]
    if unknown:
        raise CommandError(
            f"the model gives no density to record {unknown[0]!r} ({len(unknown)} in all); fill in "
            "its empty cells with 'outtrees impute', or fit again with --missing integrate"
        )
    table = {"record": list(records.ids), "log_density": [float(score) for score in scores]}
    new = model if options["model"] is None else None
    write_files(screen, options["out"], {FILES[0]: csv_writer(table)}, FILES, new)
    order = sorted(range(len(records)), key=lambda row: scores[row])
    given = "conditional on the fitted parameters"
    if options["model"] is None and hasattr(model, "held_out_log_density_"):
        given = "each record held out; clouds are sampled"
    screen.say(f"\nlog-densities, outliers first ({given}):")
    screen.table(
        {name: [column[row] for row in order] for name, column in table.items()},
        whole=where_whole(options["out"], FILES[0]),
        limit=10,
    )
    screen.summary["densities"] = table
    name_files(screen)
