"""`outtrees show`: a saved model in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from outtrees.cli.errors import flat
from outtrees.cli.options import Size, common_options
from outtrees.cli.screen import running


@click.command("show")
@click.argument("model", type=click.Path())
@click.option(
    "--max-bytes", type=Size(), default="4294967296", help="Refuse larger models.  [default: 4G]"
)
@common_options
def command(**options: Any) -> None:
    """Describe a saved MODEL: its settings, the data it was fitted to, and its parameters."""
    from outtrees.io import load

    with running("show", options) as screen:
        model = load(options["model"], max_bytes=options["max_bytes"])
        sentences = told(model)
        for sentence in sentences:
            screen.say(sentence)
        screen.summary.update(model=type(model).__name__, sentences=sentences)
        screen.finish()


def told(model: Any) -> list[str]:
    """Return sentences about a model, one a line."""
    lines = [f"{type(model).__name__}, {_settings(model)}"]
    lines += _columns(model)
    if hasattr(model, "describe"):
        described = model.describe()
        lines += [described] if isinstance(described, str) else list(described)
    else:
        lines += _fit(model)
    for warning in getattr(model, "warnings_", ()):
        lines.append(f"warning: {warning}")
    return [flat(part) for line in lines for part in line.splitlines()]


def _settings(model: Any) -> str:
    """Return the parameters that are not the defaults."""
    if not hasattr(model, "get_params"):
        return f"made of {model!r}" if repr(model)[:1] != "<" else repr(model)[1:-1]
    usual = type(model)().get_params(deep=False)
    given = [
        f"{name}={value!r}"
        for name, value in model.get_params(deep=False).items()
        if repr(value) != repr(usual[name])
    ]
    return f"with {', '.join(given)}" if given else "with the usual settings"


def _columns(model: Any) -> list[str]:
    columns = getattr(model, "table_columns_", None)
    if not isinstance(columns, Mapping):
        return []
    named = [f"{name} ({column['kind']})" for name, column in list(columns.items())[:20]]
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    return [f"columns: {', '.join(named)}{more}"]


def _fit(model: Any) -> list[str]:
    """Return what the usual attributes of a fitted estimator say."""
    from outtrees.records.column import counted

    lines = []
    if hasattr(model, "X_"):
        rows, width = model.X_.shape
        lines.append(f"learned from {counted(rows, 'record')} with {counted(width, 'column')}")
    if hasattr(model, "mutation_"):
        lines.append(f"mutation: {model.mutation_!r}")
    if hasattr(model, "classes_"):
        lines.append(f"labels: {', '.join(str(label) for label in model.classes_[:20])}")
    for name, words in (
        ("log_likelihood_", "log-likelihood"),
        ("stickiness_", "stickiness"),
        ("sharpness_", "sharpness"),
        ("n_iter_", "iterations"),
    ):
        if hasattr(model, name):
            lines.append(f"{words}: {getattr(model, name):.6g}")
    if hasattr(model, "converged_"):
        lines.append("converged" if model.converged_ else "not converged: raise --max-iter")
    return lines
