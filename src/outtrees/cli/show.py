"""`outtrees show`: a saved model in words."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from outtrees._common.text import counted
from outtrees.cli.errors import CommandError, flat, sound_model, told
from outtrees.cli.options import common_options, model_option
from outtrees.cli.results import MODEL
from outtrees.cli.screen import Screen, running


@click.command("show")
@click.argument("model", type=click.Path(), metavar="MODEL|FOLDER")
@model_option
@common_options
def command(**options: Any) -> None:
    """Describe a saved MODEL: its settings, the data it was fitted to, and its parameters.

    Of a FOLDER of results it first checks that all files are there, as one run wrote them.
    """
    with running("show", options) as screen:
        path = Path(options["model"])
        sentences: list[str] = []
        if path.is_dir():
            sentences += _checked(screen, path)
            path = path / MODEL
        if path.exists() or not sentences:
            sentences += _of_model(screen, path, options["max_bytes"])
        for sentence in sentences:
            screen.say(sentence)
        screen.summary["sentences"] = sentences


def _checked(screen: Screen, folder: Path) -> list[str]:
    """Return what a folder of results holds; refuse one that does not hold one run's."""
    from outtrees._common.folders import MANIFEST, finish, problems, read_manifest

    with suppress(OSError):  # a folder that may only be read
        finish(folder)  # what a killed run had decided
    found, wrong = read_manifest(folder), problems(folder)
    if wrong:
        raise CommandError(
            f"{str(folder)!r} is not as one run left it: {'; '.join(wrong)}. Run the command again"
        )
    if found is None:
        raise CommandError(
            f"{str(folder)!r} is not a regular file but a folder without {MANIFEST}, the list of "
            "results; name a model, or a folder that a command wrote with --out"
        )
    files = list(found["files"])
    screen.summary["files"] = {name: str(folder / name) for name in files}
    command = str(found.get("command"))[:40]
    return [flat(f"results of 'outtrees {command}', all as it wrote them: {', '.join(files)}")]


def _of_model(screen: Screen, path: Path, max_bytes: int) -> list[str]:
    from outtrees.io import load

    model = load(path, max_bytes=max_bytes)
    screen.summary["model"] = type(model).__name__
    with sound_model(path, model):
        return sentences(model)


def sentences(model: Any) -> list[str]:
    """Return sentences about a model, one a line."""
    lines = [f"{type(model).__name__}, {_settings(model)}"]
    lines += _columns(model)
    if hasattr(model, "describe"):
        described = model.describe()
        lines += [described] if isinstance(described, str) else list(map(told, described))
    else:
        lines += _fit(model)
    for warning in getattr(model, "warnings_", ()):
        lines.append(f"warning: {told(warning)}")
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
