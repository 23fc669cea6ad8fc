"""One table, one answer: every way to ask for the parents of the same records shows the same."""

import copy
import csv
import html
import json
import re
from datetime import date, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from outtrees import Ancestry, fit_populations, load, save
from outtrees.ancestry.integration import interval_sentences
from outtrees.cli import main
from outtrees.cli.errors import told
from outtrees.datasets import make_outbreak
from outtrees.io.tables import to_csv

# Both models of dates: options in Python, and the same on the command line.
WAITING = {"id": "case", "roots": "any", "ties": False, "waiting_mean": 5.0, "waiting_sd": 2.5}
SPREADING = {"id": "case", "roots": "any", "generation_mean": 5.0, "delay_mean": 4.0}
TYPED = {
    "waiting": "--roots any --no-ties --waiting-mean 5 --waiting-sd 2.5",
    "transmission": "--roots any --generation-mean 5 --delay-mean 4",
}


def supports(rows):
    return {(row["child"], row["parent"]): float(row["support"]) for row in rows}


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def asked(table):
    return supports(row._asdict() for row in table)


@pytest.fixture(scope="module", params=["waiting", "transmission"])
def model(request):
    return request.param


@pytest.fixture(scope="module")
def options(model):
    return WAITING if model == "waiting" else SPREADING


@pytest.fixture(scope="module")
def outbreak():
    # All sites are read: among the fitted records, a child has no vote on the unread sites of its
    # parent, so that a fitted record and a copy of it, placed as a new one, would differ there.
    found = make_outbreak(10, missing=0.0, n_sites=500, substitutions=0.5, random_state=8)
    # The last record is the latest of all by days, so that it has no children.
    latest = max(date.fromisoformat(day) for day in found.table["onset"])
    found.table["onset"][-1] = (latest + timedelta(days=2)).isoformat()
    return found


@pytest.fixture(scope="module")
def found(outbreak, options):
    return Ancestry(**options).fit(outbreak.table, sequences=outbreak.sequences)


@pytest.fixture(scope="module")
def answer(found):
    return asked(found.parents(0.001))


@pytest.fixture(scope="module")
def printed(outbreak, model, tmp_path_factory):
    """The folder and the JSON of `outtrees ancestry` on the same records, read from files."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "cases.csv").write_text(to_csv(outbreak.table), encoding="utf-8")
    text = "".join(f">{name}\n{dna}\n" for name, dna in outbreak.sequences.items())
    (folder / "dna.fasta").write_text(text, encoding="utf-8")
    arguments = ["ancestry", folder / "cases.csv", "--sequences", folder / "dna.fasta"]
    arguments += ["--id", "case", "--date", "onset", *TYPED[model].split()]
    arguments += ["--min-support", 0.001, "--json", "--out", folder / "out"]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return folder / "out", json.loads(result.stdout)


def test_command_line(printed, found, answer):
    folder, said = printed
    assert supports(read(folder / "parents.csv")) == pytest.approx(answer, rel=1e-12)
    rows = [{**row, "parent": row["parent"] or ""} for row in said["parents"]]
    assert supports(rows) == pytest.approx(answer, rel=1e-12)
    assert said["log_likelihood"] == pytest.approx(found.log_likelihood_, rel=1e-12)
    assert said["expected_right"] == pytest.approx(found.expected_right_, rel=1e-12)


def test_saved_and_loaded_models(printed, found, answer, tmp_path):
    """A loaded model computes its trees again: to the same bits."""
    for path in (save(found, tmp_path / "model.safetensors"), printed[0] / "model.safetensors"):
        again = load(path)
        assert asked(again.parents(0.001)) == answer
        assert again.log_likelihood_ == found.log_likelihood_
        assert again.describe() == found.describe()
        assert again.warnings_ == found.warnings_
        assert list(map(told, again.warnings_)) == list(map(told, found.warnings_))


def test_the_trees_of_the_fit_are_kept(found):
    trees = found.fitted.trees
    assert found.fitted.trees is trees
    again = copy.deepcopy(found)  # computes its trees when first asked
    np.testing.assert_array_equal(trees.edge_marginals, again.fitted.trees.edge_marginals)
    # The prior of introductions is a normal, 0 at its best.
    assert found.objectives_[-1] <= found.log_likelihood_ + found.lineage_.log_prior() + 1e-9


def test_placement_of_a_record_without_children(model, found, answer, outbreak):
    """It chooses its parent independently of all others, as a new leaf does."""
    if model == "transmission":
        return  # a copy of a record there is its sibling; tests/ancestry/test_nearest.py has twins
    last = outbreak.table["case"][-1]
    new = {name: [cells[-1]] for name, cells in outbreak.table.items()} | {"case": ["new"]}
    placed = found.place(new, sequences={"new": outbreak.sequences[last]}, min_support=0.001)
    own = {("new", parent): share for (child, parent), share in answer.items() if child == last}
    assert len(own) > 1
    assert asked(placed) == pytest.approx(own, rel=1e-9)


def test_populations(found, answer, outbreak, options, tmp_path):
    """Two populations, one of which holds these records: each is fitted on its own."""
    both = {name: [*cells, *cells[:5]] for name, cells in outbreak.table.items()}
    both["site"] = ["A"] * 10 + ["B"] * 5
    dna = outbreak.sequences | {f"other{i}": "" for i in range(5)}
    both["case"][10:] = [f"other{i}" for i in range(5)]
    for number, name in enumerate(outbreak.table["case"][:5]):
        dna[f"other{number}"] = outbreak.sequences[name]
    each = fit_populations(
        Ancestry(**options), both, by="site", out=tmp_path, sequences=dna, min_support=0.001
    )
    rows = [row for row in read(tmp_path / "parents.csv") if row["population"] == "A"]
    assert supports(rows) == pytest.approx(answer, rel=1e-12)
    assert each.table["log_likelihood"][0] == pytest.approx(found.log_likelihood_, rel=1e-12)


def test_report(printed, found, answer):
    data = found.report_data()
    names = [*data.ids, ""]
    shown = {(names[edge.child], names[edge.parent]): edge.support for edge in data.edges}
    assert {pair: shown[pair] for pair in answer} == answer
    assert [*data.parameters, *interval_sentences(found.fitted)] == found.describe()
    assert len(data.intervals) >= len(interval_sentences(found.fitted))  # these in a table
    assert data.warnings == found.warnings_
    page = (printed[0] / "report.html").read_text(encoding="utf-8")
    blocks = re.findall(r"<script[^>]*application/json[^>]*>(.*?)</script>", page, re.DOTALL)
    read_by_page = next(block for block in map(json.loads, blocks) if "edges" in block)
    names = [*read_by_page["ids"], ""]
    drawn = {(names[u], names[v]): support for u, v, support, *_ in read_by_page["edges"]}
    # The page is written with five digits.
    assert {pair: drawn[pair] for pair in answer} == pytest.approx(answer, rel=1e-4)


def test_words(printed, found):
    """A command spells options as they are typed: on screen, in the report, and of its model."""
    folder, said = printed
    sentences, warnings = (list(map(told, texts)) for texts in (found.describe(), found.warnings_))
    assert said["parameters"] == sentences
    assert set(warnings) <= set(said["warnings"])
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    page = re.sub("</?code>", "", page)  # around options
    shown = CliRunner().invoke(main, ["show", str(folder / "model.safetensors")]).stdout
    in_a_table = interval_sentences(found.fitted)
    for text in (*sentences, *warnings):
        assert (text in page) != (text in in_a_table)
        assert text in shown
    spelled = [text for text in found.warnings_ if told(text) != text]
    assert spelled  # some name an option
    assert not any(text in page or text in shown for text in spelled)


def test_slightly_different_options_would_be_noticed(outbreak, answer, model, options):
    """The tolerances above are not so wide that any answer would pass."""
    changed = "waiting_mean" if model == "waiting" else "generation_mean"
    other = Ancestry(**options | {changed: 5.05})
    theirs = asked(other.fit(outbreak.table, sequences=outbreak.sequences).parents(0.001))
    assert theirs != pytest.approx(answer, rel=1e-4)
