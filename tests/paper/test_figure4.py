"""Any matrix of species and characters: read from files, and put into the figure of its size."""

import numpy as np
import pytest

from outtrees.errors import RecordsError
from paper import experiment
from paper.characters import (
    CharacterMatrix,
    generated,
    matrices_in,
    nearest,
    read_characters,
    zoo,
)
from paper.label_figures import FIGURES, chosen_matrices


def write_csv(path, codes):
    letters = np.where(np.isnan(codes), "?", np.nan_to_num(codes).astype(int).astype(str))
    lines = [f"species{t},{','.join(row)}" for t, row in enumerate(letters)]
    header = ",".join(["taxon", *(f"c{d}" for d in range(codes.shape[1]))])
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_file_of_ones_own(tmp_path):
    """The quick form on a given matrix with gaps; its name and size stand on the page."""
    codes = generated(26, 5, random_state=1).codes.copy()
    codes[3, 2] = codes[7, 0] = np.nan
    data = write_csv(tmp_path / "newts.csv", codes)
    told = []
    page = experiment("figure4")(
        tmp_path / "out", quick=True, data=data, progress=lambda *words: told.append(words)
    )
    assert page.name == "figure4.md"
    text = page.read_text()
    assert "newts (26 × 5)" in text
    assert "crustaceans (56 species × 74 attributes)" in text
    assert "--data newts.csv" in text
    assert str(tmp_path) not in text
    assert told[-1][0] == told[-1][1] > 0


def test_cells_of_a_table(tmp_path):
    file = tmp_path / "frogs.csv"
    file.write_text("taxon,a,b\nx,0,red\ny,-,blue\nz,{01},red\nw,2,?\n")
    matrix = read_characters(file)
    assert matrix.name == "frogs"
    np.testing.assert_array_equal(matrix.codes, [[0, 1], [np.nan, 0], [np.nan, 1], [1, np.nan]])
    assert matrix.digest == read_characters(file).digest
    other = CharacterMatrix("frogs", np.nan_to_num(matrix.codes))
    assert other.digest != matrix.digest


def test_nexus_and_csv_agree(tmp_path):
    pytest.importorskip("dendropy")
    codes = generated(20, 4).codes
    codes[2, 1] = np.nan
    plain = read_characters(write_csv(tmp_path / "plain.csv", codes))
    rows = "\n".join(
        f"s{t} " + "".join("?" if np.isnan(c) else str(int(c)) for c in row)
        for t, row in enumerate(codes)
    )
    nexus = tmp_path / "plain.nex"
    nexus.write_text(
        "#NEXUS\nbegin data;\ndimensions ntax=20 nchar=4;\n"
        f'format datatype=standard symbols="01" missing=?;\nmatrix\n{rows}\n;\nend;\n'
    )
    np.testing.assert_array_equal(read_characters(nexus).codes, plain.codes)


def test_a_folder_of_matrices(tmp_path):
    for name in ("newts", "crabs"):
        (tmp_path / name).mkdir()
        write_csv(tmp_path / name / "matrix.csv", generated(20, 4, random_state=0).codes)
    (tmp_path / "newts" / "characters.csv").write_text("char,label\nc1,tail\nc2,crest\n")
    assert [m.name for m in matrices_in(tmp_path)] == ["crabs", "newts"]
    (tmp_path / "none").mkdir()
    with pytest.raises(RecordsError, match="must have matrices in CSV or TSV files"):
        matrices_in(tmp_path / "none")


def test_refusals(tmp_path):
    file = tmp_path / "matrix.xyz"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(RecordsError, match=r"must be a file of \.csv"):
        read_characters(file)
    names = tmp_path / "names.csv"
    names.write_text("taxon\na\nb\n")
    with pytest.raises(RecordsError, match="no discrete characters"):
        read_characters(names)
    constant = write_csv(tmp_path / "constant.csv", np.zeros((20, 3)))
    with pytest.raises(RecordsError, match="constant: a character that can be a label must have"):
        experiment("figure4")(tmp_path / "out", quick=True, data=constant)
    alone = write_csv(tmp_path / "alone.csv", np.tile([[0.0, 0.0], [1.0, 0.0]], (7, 1)))
    with pytest.raises(RecordsError, match="alone: a character that can be a label must have"):
        matrices_in(alone)  # there is nothing to tell it from


def test_characters_that_can_be_labels():
    codes = np.zeros((20, 4))
    codes[:2, 0] = 1  # too few of one state
    codes[:3, 1] = 1
    codes[:9, 2] = 1
    codes[6:, 2] = np.nan  # too few known cells
    matrix = CharacterMatrix("toy", codes)
    assert matrix.labels == [1]
    assert matrix.without(1).shape == (20, 1)  # of the three others one varies where it is known


def test_each_figure_takes_the_matrices_of_its_size(monkeypatch, tmp_path):
    small, large = (
        CharacterMatrix("s", np.zeros((28, 20))),
        CharacterMatrix("l", np.zeros((40, 80))),
    )
    sizes = FIGURES["figure3"].size, FIGURES["figure4"].size
    assert nearest([small, large], *sizes) == [small]
    assert nearest([small, large], *sizes[::-1]) == [large]
    assert nearest([small], *sizes[::-1]) == [small]  # rather than none
    monkeypatch.chdir(tmp_path)  # nothing beside it
    for paper in FIGURES.values():
        assert [m.name for m in chosen_matrices(paper, None, quick=False)] == ["zoo"]
    assert zoo().codes.shape == (101, 17)
