"""`outtrees impute`: empty cells filled in."""

from __future__ import annotations

import sys
from typing import Any

import click

from outtrees.cli.cost import Cost, only_checked
from outtrees.cli.design import design, readable, remember_columns
from outtrees.cli.errors import CommandError
from outtrees.cli.inputs import load_records, tell_records
from outtrees.cli.options import (
    SectionedCommand,
    choice,
    fit_options,
    out_folder,
    table_options,
    whole_number,
)
from outtrees.cli.results import check_folder, csv_writer, name_files, where_whole, write_files
from outtrees.cli.screen import running

FILES = ("filled.csv", "cells.csv", "model.safetensors")


@click.command("impute", cls=SectionedCommand)
@table_options
@choice(
    "--mutation",
    ["auto", "gaussian", "parzen", "iid", "mixture", "categorical"],
    "How a child differs from its parent; auto averages several.",
)
@whole_number(
    "--n-draws", "Draws of each chain; more draws reduce the Monte-Carlo error.", 20, least=2
)
@out_folder
@fit_options
def command(**options: Any) -> None:
    """Fill in the empty cells of TABLE from the rest of each record and from its relatives.

    Numbers become posterior means, categories the most probable one. With --out: filled.csv, the
    table without gaps, cells.csv, one row for each cell filled in, with its uncertainty, and the
    model for `outtrees show`.
    """
    from outtrees.records.reading import read_cells

    with running("impute", options) as screen:
        from sklearn.base import clone

        from outtrees.candidates.plan import dense_bytes
        from outtrees.imputation.imputer import OutTreeImputer

        check_folder(options["out"], FILES)
        records = load_records(options)
        tell_records(screen, records)
        found = design(records)
        if not (found.X != found.X).any():
            raise CommandError(f"{options['table']!r} has no empty cell; there is nothing to fill")
        # Two or three mutations, each fitted and then sampled by a few chains.
        cost = Cost(
            f"filling in {len(records):,} records",
            [len(records)],
            dense_bytes([len(records)], 9),  # five of the engine, four beside it
            250,
        )
        model = OutTreeImputer(
            options["mutation"],
            categorical=found.discrete or None,
            n_draws=options["n_draws"],
            random_state=options["seed"],
            verbose=int(not options["quiet"] and sys.stderr.isatty()),
        )
        if only_checked(
            screen, cost, options["check"], lambda rows: clone(model).fit_transform(found.X[rows])
        ):
            return
        filled = model.fit_transform(found.X)
        reading = {name: options[name] for name in ("sheet", "encoding", "quotes", "max_bytes")}
        as_read = read_cells(options["table"], **reading)
        cells = _filled_cells(records, found, filled, model)
        writers = {
            FILES[0]: csv_writer(_whole_table(records, found, filled, as_read)),
            FILES[1]: csv_writer(cells),
        }
        remember_columns(model, found)
        write_files(screen, options["out"], writers, FILES, model)
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in model.weights_.items())
        screen.say(f"\n{len(cells['record'])} cells filled in; weights of the mutations: {weights}")
        screen.table(cells, whole=where_whole(options["out"], FILES[1]))
        screen.say(
            "sd: how uncertain the value is (of a category: P(another one)); standard_error: "
            "Monte-Carlo error"
        )
        screen.summary.update(cells=cells, weights=dict(model.weights_))
        name_files(screen)


def _filled_cells(records: Any, found: Any, filled: Any, model: Any) -> dict[str, list[Any]]:
    """Return a row for each cell that was empty."""
    import numpy as np

    rows = np.argwhere(np.isnan(found.X)).tolist()
    return {
        "record": [records.ids[t] for t, _ in rows],
        "column": [found.names[d] for _, d in rows],
        "value": [readable(found, filled[t, d], d) for t, d in rows],
        "sd": [float(model.std_[t, d]) for t, d in rows],
        "standard_error": [float(model.standard_error_[t, d]) for t, d in rows],
    }


def _whole_table(
    records: Any, found: Any, filled: Any, as_read: dict[str, list[str]]
) -> dict[str, list[Any]]:
    """Return the table without gaps; cells that were there, and columns left aside, as read."""
    named = next((name for name, role, _ in records.roles if role == "id"), "record")
    texts = {column.name: column.text for column in records.columns}
    whole: dict[str, list[Any]] = {}
    for d, name in enumerate(found.names):
        text = texts.get(name, [""] * len(records))
        whole[name] = [text[t] or readable(found, filled[t, d], d) for t in range(len(records))]
    aside = [name for name, role, _ in records.roles if role != "id"]
    aside += [column.name for column in records.columns if column.kind == "label"]
    # In the order of the table; sites and coordinates, which have names of their own, last.
    table: dict[str, list[Any]] = {named: list(records.ids)}
    for name, cells in as_read.items():
        if name in whole:
            table[name if name != named else f"{name}_"] = whole.pop(name)
        elif name in aside:
            table[name] = cells
    for name, values in whole.items():
        table[name if name not in table else f"{name}_"] = values
    return table
