"""What `outtrees ancestry` prints and writes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import click

from outtrees.cli.outputs import MODEL, Writer, csv_writer, model_writer, where_whole
from outtrees.cli.running import shortened
from outtrees.cli.screen import Screen

PARENTS, RECORDS, LABELS = "parents.csv", "records.csv", "labels.csv"
LIMITED = "parents_limited.csv"
TREES = ("tree.newick", "tree.nexus", "tree.graphml")
REPORT = "report.html"
FILES = (PARENTS, RECORDS, LABELS, LIMITED, *TREES, MODEL, REPORT)


class Found(NamedTuple):
    """Tables that are both printed and written: some are sampled, so they are made once."""

    parents: dict[str, list[Any]]
    labels: dict[str, list[Any]] | None
    limited: dict[str, list[Any]] | None


def find(model: Any, options: Mapping[str, Any]) -> Found:
    """Return the tables of parents, of labels, and of parents under a limit on children."""
    labels = dict(model.predict_labels()) if options["label"] else None
    limited = None
    if options["max_children"] is not None:
        limited = dict(model.limited_parents(options["max_children"], options["min_support"]))
    return Found(dict(model.parents(options["min_support"])), labels, limited)


def writers(
    screen: Screen, model: Any, found: Found, options: Mapping[str, Any]
) -> dict[str, Writer]:
    """Return file name → what writes it."""
    if options["out"] is None:
        return {}
    newick, nexus, graphml = TREES
    files: dict[str, Writer] = {
        PARENTS: csv_writer(found.parents),
        RECORDS: csv_writer(model.records_),
        newick: model.to_newick,
        nexus: model.to_nexus,
        graphml: model.to_graphml,
    }
    if found.limited is not None:
        files[LIMITED] = csv_writer(found.limited)
    if found.labels is not None:
        files[LABELS] = csv_writer(found.labels)
    files |= model_writer(screen, model)
    files[REPORT] = lambda path: model.report(path, command=_command_line())
    return files


def _command_line() -> str:
    """Return the command as it was typed, for the report's provenance."""
    context = click.get_current_context(silent=True)
    arguments = [] if context is None else context.find_root().obj or []
    return shlex.join(["outtrees", *arguments])


def tell(screen: Screen, model: Any, found: Found, options: Mapping[str, Any]) -> None:
    """Print what was learned, the parents, and how many are expected to be right."""
    screen.say()
    screen.say(shortened(model.describe(), "sentences; outtrees show prints all"))
    state = "converged" if model.converged_ else "not converged: raise --max-iter"
    screen.say(
        f"log-likelihood {model.log_likelihood_:.4f} after {model.n_iter_} iterations, {state}"
    )
    table = found.parents
    screen.say("\nprobable parents (supports are exact, given the fitted parameters):")
    whole = where_whole(options["out"], PARENTS)
    screen.table(_with_roots(table), bar="support", whole=whole)
    total = len(model.records)
    right = float(model.expected_right_)
    screen.say(
        f"\nexpected number of right parents: {right:.1f} of {total} ({right / total:.0%}), in the "
        "consensus tree"
    )
    if options["roots"] == "any":
        _tell_roots(screen, model)
    screen.summary.update(
        log_likelihood=float(model.log_likelihood_),
        converged=bool(model.converged_),
        iterations=int(model.n_iter_),
        expected_right=right,
        n_roots=model.n_roots_,
        dropped_mass=None if model.dropped_mass_ is None else asdict(model.dropped_mass_),
        parameters=list(model.describe()),
        parents=[
            {"child": child, "parent": parent or None, "support": support, "rank": rank}
            for child, parent, support, rank in zip(
                *(table[name] for name in ("child", "parent", "support", "rank")), strict=True
            )
        ],
    )
    if found.limited is not None:
        screen.say(
            f"\nprobable parents if no record has more than {options['max_children']} children "
            "(sampled, with their Monte-Carlo errors):"
        )
        whole = where_whole(options["out"], LIMITED)
        screen.table(_with_roots(found.limited), bar="support", whole=whole)
        screen.summary["parents_limited"] = found.limited
    if found.labels is not None:
        screen.say("\nlabels (sampled, with their Monte-Carlo errors):")
        screen.table(found.labels, whole=where_whole(options["out"], LABELS))
        screen.summary["labels"] = found.labels


def _with_roots(table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the table with a word where a record has no parent."""
    return {**table, "parent": [parent or "(root)" for parent in table["parent"]]}


def _tell_roots(screen: Screen, model: Any) -> None:
    """Print the probable numbers of introductions; entry k of `n_roots_` belongs to k roots."""
    likely = [(k, float(chance)) for k, chance in enumerate(model.n_roots_) if chance >= 0.01]
    listed = ", ".join(f"{k}: {chance:.2f}" for k, chance in likely[:10])
    screen.say(f"number of roots and its probability: {listed}")
