"""Claim: a table of 190 cases is answered within seconds.

190 cases with date, place, two categories, a count and two numbers, one of which says nothing. Each
run is a process of its own, after one that compiles; printed is its processor time, which hardly
depends on what else the machine does: of the command with the waiting time given and parameters
fitted once, with the waiting times learned, with the columns shuffled too (in Python, since no
command does it), and with defaults, which average over draws of the parameters.
Run: python benchmarks/ancestry_cost.py
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CASES = 190
GIVEN = ("--waiting-mean", "9", "--waiting-sd", "3")
FITTED = ("--parameters", "fitted")
SHUFFLED = """
import sys
from outtrees import Ancestry
found = Ancestry(id="case", parameters="fitted").fit(sys.argv[1])
found.report(sys.argv[2])
found.column_evidence()
"""


def write_table(path: Path) -> None:
    """Write the cases."""
    rng = np.random.default_rng(5)
    rows: list[list[float]] = []
    for i in range(CASES):
        if not i:
            rows.append([0.0, 0.0, 0.0, 0, 0, 10, 5.0])
            continue
        t, x, y, ward, strain, repeats, titre = rows[int(rng.integers(max(0, i - 25), i))]
        rows.append(
            [
                t + rng.gamma(9, 1.0),
                x + rng.normal(),
                y + rng.normal(),
                ward if rng.random() < 0.8 else int(rng.integers(8)),
                strain if rng.random() < 0.9 else int(rng.integers(5)),
                max(0, repeats + int(rng.integers(-2, 3))),
                titre + rng.normal(0, 0.5),
            ]
        )
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["case", "date", "x", "y", "ward", "strain", "repeats", "titre", "age"])
        for i, (t, x, y, ward, strain, repeats, titre) in enumerate(rows):
            day = np.datetime64("2024-01-01") + round(t)
            age = max(0, round(rng.normal(40, 15)))
            cells = [f"{x:.3f}", f"{y:.3f}", f"w{ward}", f"s{strain}", repeats, f"{titre:.2f}", age]
            table.writerow([f"c{i:03d}", day, *cells])


def seconds(*command: str) -> float:
    """Return the processor time of a command that must succeed."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    before = used()
    # Python's own compiled files are part of an installation.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return used() - before


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.csv"
        write_table(cases)
        outtrees = (sys.executable, "-m", "outtrees", "ancestry", str(cases), "--id", "case")

        def command(name: str, *options: str) -> tuple[str, ...]:
            return (*outtrees, "--out", str(Path(folder) / name), *options)

        runs = {
            "waiting time given, parameters fitted": command("given", *FITTED, *GIVEN),
            "waiting times learned, parameters fitted": command("learned", *FITTED),
            "the same, every column shuffled three times": (
                *(sys.executable, "-c", SHUFFLED),
                *(str(cases), str(Path(folder) / "report.html")),
            ),
            "defaults": command("defaults"),
        }
        seconds(*command("first", *FITTED, *GIVEN))  # compiles
        print("| run | processor s |\n|---|---|")
        for name, run in runs.items():
            print(f"| {name} | {seconds(*run):.1f} |", flush=True)


if __name__ == "__main__":
    main()
