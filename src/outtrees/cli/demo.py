"""`outtrees demo`: example files, and what to type next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from outtrees.cli.errors import CommandError
from outtrees.cli.options import common_options
from outtrees.cli.screen import running

_SITES = ("north", "south")


@click.command("demo")
@click.argument("folder", type=click.Path(file_okay=False), default="outtrees-demo")
@click.option(
    "--run", is_flag=True, help="Also find out who infected whom, and compare with the truth."
)
@common_options
def command(**options: Any) -> None:
    """Write example files into FOLDER (outtrees-demo), and print what to type next.

    A simulated outbreak with contacts, stays and its truth, two outbreaks at two sites, animals of
    which some have a type, patients with empty cells, and points along a spiral.
    """
    with running("demo", options) as screen:
        folder = Path(options["folder"])
        outbreak, names = _write(folder)
        commands = next_commands(folder)
        screen.summary.update(folder=str(folder), next=commands)
        screen.say(f"{folder} has {', '.join(names)}")
        if options["run"]:
            _run(screen, folder, outbreak)
        screen.say("\nTry:")
        for line in commands:
            screen.say(f"  {line}")


def next_commands(folder: Path) -> list[str]:
    """Return one command for each job."""
    import shlex

    def path(name: str) -> str:
        return shlex.quote(str(folder / name))

    return [
        f"outtrees ancestry {path('cases.csv')} --id case --date onset "
        f"--sequences {path('dna.fasta')} --out {path('results')}",
        f"outtrees label {path('animals.csv')} --id animal --label type",
        f"outtrees impute {path('patients.csv')} --id patient",
        f"outtrees density {path('points.csv')}",
    ]


def _write(folder: Path) -> tuple[Any, list[str]]:
    """Write the files, none over another one of that name; return the outbreak and their names."""
    from outtrees._common.files import write_atomically

    outbreak, files = _example_files()
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != text.encode():
            raise CommandError(
                f"{str(path)!r} exists already, with other contents; nothing was written. Name "
                "another folder: outtrees demo FOLDER"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomically(folder / name, text)
    return outbreak, list(files)


def _example_files() -> tuple[Any, dict[str, str]]:
    """Return the outbreak, and the text of each file."""
    import numpy as np

    from outtrees.datasets import load_diabetes, load_zoo, make_outbreak, make_spiral
    from outtrees.io import to_csv

    outbreak = make_outbreak(40, random_state=7)
    sites = [make_outbreak(20, random_state=seed).table for seed in (1, 2)]
    both = {name: [*sites[0][name], *sites[1][name]] for name in sites[0]}
    truth = {"case": list(outbreak.infectors), "infector": list(outbreak.infectors.values())}
    zoo = load_zoo()
    known = np.where(np.arange(len(zoo.target)) % 3 == 1, zoo.target, "")
    attributes = {str(name): zoo.data[:, d] for d, name in enumerate(zoo.feature_names)}
    women = load_diabetes(subset="paper", zeros="nan")
    measured = {str(name): women.data[:60, d] for d, name in enumerate(women.feature_names)}
    return outbreak, {
        "cases.csv": to_csv(outbreak.table),
        "dna.fasta": "".join(f">{name}\n{dna}\n" for name, dna in outbreak.sequences.items()),
        "infectors.csv": to_csv(truth),
        "contacts.csv": to_csv(_contacts(outbreak)),
        "stays.csv": to_csv(_stays(outbreak)),
        "sites.csv": to_csv({**both, "site": [site for site in _SITES for _ in range(20)]}),
        "animals.csv": to_csv({"animal": list(zoo.names), **attributes, "type": list(known)}),
        "patients.csv": to_csv({"patient": [f"p{i + 1:02}" for i in range(60)], **measured}),
        "points.csv": to_csv(dict(zip("xyz", make_spiral(120).T, strict=True))),
    }


def _contacts(outbreak: Any) -> dict[str, list[str]]:
    """Return who met whom: most infectors and those they infected, and as many others."""
    import numpy as np

    rng, names = np.random.default_rng(0), list(outbreak.infectors)
    pairs = [(v, u) for u, v in outbreak.infectors.items() if v and rng.random() < 0.7]
    pairs += [tuple(rng.choice(names, 2, replace=False).tolist()) for _ in pairs]
    return {"from": [v for v, _ in pairs], "to": [u for _, u in pairs]}


def _stays(outbreak: Any) -> dict[str, list[str]]:
    """Return the ward of each case from five days before its onset to five days after."""
    import numpy as np

    table = outbreak.table
    rows = [row for row, ward in enumerate(table["ward"]) if ward]
    days = [np.datetime64(table["onset"][row]) for row in rows]
    return {
        "record": [table["case"][row] for row in rows],
        "place": [table["ward"][row] for row in rows],
        "from": [str(day - 5) for day in days],
        "until": [str(day + 5) for day in days],
    }


def _run(screen: Any, folder: Path, outbreak: Any) -> None:
    """Fit the outbreak as a user would, and say how many parents are right."""
    from outtrees.ancestry import Ancestry

    with screen.busy("who infected whom"):
        found = Ancestry(id="case", random_state=0).fit(
            folder / "cases.csv", sequences=folder / "dna.fasta"
        )
    screen.say(f"\n{found.records.describe()}\n")
    for sentence in found.describe():
        screen.say(f"- {sentence}")
    screen.say()
    screen.table(dict(found.parents(min_support=0.1)), bar="support", limit=12)
    tree = found.named_tree()
    right = sum((tree[case] or "") == infector for case, infector in outbreak.infectors.items())
    screen.say(
        f"\n{right} of {len(tree)} parents are right (infectors.csv has the truth); the supports "
        f"lead one to expect {found.expected_right_:.1f}"
    )
    report = found.report(folder / "report.html", command="outtrees demo --run")
    screen.say(f"report: {report}")
    screen.summary.update(right=right, records=len(tree), expected_right=found.expected_right_)
