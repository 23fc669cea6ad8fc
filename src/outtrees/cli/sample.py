"""`outtrees sample`: a new population drawn from a saved model."""

from __future__ import annotations

import warnings
from typing import Any

import click

from outtrees._common.text import counted, free_name
from outtrees.cli.design import cells, columns_of
from outtrees.cli.errors import CommandError, sound_model
from outtrees.cli.options import Target, common_options, model_option, seed_option
from outtrees.cli.screen import running

_OTHER_FORMATS = (".xlsx", ".xls", ".parquet", ".json", ".safetensors")


@click.command("sample")
@click.argument("model", type=click.Path())
@click.option(
    "-n", "--records", "n", type=click.IntRange(min=1), default=10, show_default=True,
    help="Number of records.",
)  # fmt: skip
@click.option("--out", type=Target(), metavar="FILE", help="CSV or TSV file; printed if not given.")
@model_option
@seed_option
@common_options
def command(**options: Any) -> None:
    """New records drawn from MODEL: a table of id, true_parent and the columns of MODEL.

    A random tree is drawn, then its root, then each child given its parent.
    """
    from outtrees.io import load, to_csv, write_csv

    with running("sample", options) as screen:
        if str(options["out"]).lower().endswith(_OTHER_FORMATS):
            raise CommandError(
                f"--out {options['out']} would be CSV under another name; write for example "
                "--out sample.csv"
            )
        model = load(options["model"], max_bytes=options["max_bytes"])
        if hasattr(model, "simulate"):
            draw = _simulated
        elif hasattr(model, "sample") and hasattr(model, "n_features_in_"):
            draw = _sampled
        else:
            raise CommandError(
                f"{options['model']!r} holds {type(model).__name__}, from which no population "
                "can be drawn; name a model of 'outtrees density' or 'outtrees ancestry'"
            )
        with sound_model(options["model"], model):
            with warnings.catch_warnings(action="ignore"):  # the draw that counts says them too
                _check_size(draw(model, {**options, "n": 1}), options["n"])
            table = draw(model, options)
        screen.summary["records"] = options["n"]
        if options["out"] is not None:
            write_csv(options["out"], table)
            screen.summary["files"] = {"sample": options["out"]}
            screen.say(f"{counted(options['n'], 'record')} written to {options['out']}")
        elif options["as_json"]:
            screen.summary["sample"] = table
        else:
            screen.say(to_csv(table).removesuffix("\n"))


def _check_size(one: dict[str, list[Any]], n: int) -> None:
    """Refuse more records than fit into memory, by the size of one."""
    from outtrees._common.memory import check_memory

    # A cell is a number in an array, an object in a list, and text with its separator.
    size = sum(len(str(column[0])) + 120 for column in one.values())
    check_memory(
        f"{n:,} new records need",
        n * size,
        "Draw fewer with -n, in several runs.",
    )


def _simulated(model: Any, options: dict[str, Any]) -> dict[str, list[Any]]:
    import inspect

    # The seed goes where the estimator takes it.
    if "random_state" in inspect.signature(model.simulate).parameters:
        return dict(model.simulate(options["n"], random_state=options["seed"]))
    model.random_state = options["seed"]
    return dict(model.simulate(options["n"]))


def _sampled(model: Any, options: dict[str, Any]) -> dict[str, list[Any]]:
    X, parents = model.sample(options["n"], random_state=options["seed"])
    names, levels = columns_of(model, X.shape[1])
    table: dict[str, list[Any]] = {
        "id": [f"r{row + 1}" for row in range(len(X))],
        "true_parent": ["" if parent < 0 else f"r{parent + 1}" for parent in parents.tolist()],
    }
    for position, (name, level) in enumerate(zip(names, levels, strict=True)):
        table[free_name(name, table)] = cells(X[:, position], level)
    return table
