"""Four small tables from the UCI Machine Learning Repository, as the paper uses them."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sklearn.utils import Bunch

_LICENCE = "UCI Machine Learning Repository, licence CC BY 4.0."

_HEART = f"""Heart disease (Cleveland): 303 patients, 13 attributes, target `disease`.

The 139 patients with disease = 1 are the paper's Heart data (13, 139). Six cells of the table are
missing (NaN), two of them in those 139 rows. Eight of the attributes are discrete.

Janosi, A., Steinbrunn, W., Pfisterer, M. and Detrano, R.: Heart Disease.
{_LICENCE} https://doi.org/10.24432/C52P4X
"""

_DIABETES = f"""Pima Indians diabetes: 768 women, 8 attributes, target `diabetes` (pos, neg).

The 268 women with diabetes = pos are the paper's Diabetes data (8, 268). Zeros in glucose,
pressure, triceps, insulin and mass mean "not measured".

Smith, J. W., Everhart, J. E., Dickson, W. C., Knowler, W. C. and Johannes, R. S. (1988): Using
the ADAP learning algorithm to forecast the onset of diabetes mellitus. National Institute of
Diabetes and Digestive and Kidney Diseases.
{_LICENCE}
"""

_LIVER = f"""BUPA liver disorders: 345 men, 6 attributes, target `selector` (1, 2).

The 200 men with selector = 2 are the paper's Liver data (6, 200). The selector was made to split
the data into training and test parts; it says nothing about disease.

Forsyth, R. S. (1990): Liver Disorders.
{_LICENCE} https://doi.org/10.24432/C54G67
"""

_ZOO = f"""Zoo: 101 animals, 16 discrete attributes (15 yes/no as 1/0, and the number of legs).

The target is one of seven types; `names` holds the animals' names.

Forsyth, R. S. (1990): Zoo.
{_LICENCE} https://doi.org/10.24432/C5R59V
"""

_NOT_ZERO = ("glucose", "pressure", "triceps", "insulin", "mass")


def load_heart(*, subset: str = "all") -> Bunch:
    """Return the Cleveland heart disease data: data (303, 13), target, feature_names, DESCR.

    Parameters
    ----------
    subset : {"all", "paper"}
        "paper" selects the 139 patients with disease = 1. Two of them have a missing cell, NaN.

    Returns
    -------
    Bunch
        With data, target, feature_names and DESCR, which names the source.

    Examples
    --------
    >>> load_heart(subset="paper").data.shape
    (139, 13)
    """
    names, data, target = _numbers("heart.csv")
    return _bunch(data, target.astype(int), names, _HEART, _chosen(subset, target == "1"))


def load_diabetes(*, subset: str = "all", zeros: str = "keep") -> Bunch:
    """Return the Pima diabetes data: data (768, 8), target, feature_names, DESCR.

    Parameters
    ----------
    subset : {"all", "paper"}
        "paper" selects the 268 women with diabetes = pos.
    zeros : {"keep", "nan"}
        Zeros in glucose, pressure, triceps, insulin and mass mean "not measured". They are
        returned as they are, or as NaN.

    Returns
    -------
    Bunch
        With data, target, feature_names and DESCR, which names the source.

    Examples
    --------
    >>> load_diabetes(subset="paper").data.shape
    (268, 8)
    """
    names, data, target = _numbers("diabetes.csv")
    if zeros not in ("keep", "nan"):
        raise ValueError(f"zeros must be 'keep' or 'nan'; got {zeros!r}.")
    if zeros == "nan":
        measured = [names.index(name) for name in _NOT_ZERO]
        data[:, measured] = np.where(data[:, measured] == 0, np.nan, data[:, measured])
    return _bunch(data, target, names, _DIABETES, _chosen(subset, target == "pos"))


def load_liver(*, subset: str = "all") -> Bunch:
    """Return the BUPA liver data: data (345, 6), target, feature_names, DESCR.

    Parameters
    ----------
    subset : {"all", "paper"}
        "paper" selects the 200 men with selector = 2.

    Returns
    -------
    Bunch
        With data, target, feature_names and DESCR, which names the source.

    Examples
    --------
    >>> load_liver(subset="paper").data.shape
    (200, 6)
    """
    names, data, target = _numbers("liver.csv")
    return _bunch(data, target.astype(int), names, _LIVER, _chosen(subset, target == "2"))


def load_zoo() -> Bunch:
    """Return the zoo data: data (101, 16), target, names, feature_names, DESCR.

    Returns
    -------
    Bunch
        With data, target, names, feature_names and DESCR, which names the source.

    Examples
    --------
    >>> zoo = load_zoo()
    >>> zoo.data.shape, str(zoo.names[0]), str(zoo.target[0])
    ((101, 16), 'aardvark', 'mammal')
    """
    names, rows = _table("zoo.csv")
    words = {"True": 1.0, "False": 0.0}
    data = np.array([[words.get(c) if c in words else _number(c) for c in r[1:-1]] for r in rows])
    target = np.array([row[-1] for row in rows])
    bunch = _bunch(data, target, names[1:], _ZOO, np.ones(len(rows), dtype=bool))
    bunch.names = np.array([row[0] for row in rows])
    return bunch


def _table(name: str) -> tuple[list[str], list[list[str]]]:
    text = (files("outtrees.datasets") / "data" / name).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return header, rows


def _numbers(name: str) -> tuple[list[str], NDArray[np.float64], NDArray[np.str_]]:
    """Return the names of the columns, all but the last as numbers, and the last."""
    names, rows = _table(name)
    data = np.array([[_number(cell) for cell in row[:-1]] for row in rows])
    return names, data, np.array([row[-1] for row in rows])


def _number(cell: str) -> float:
    return float(cell) if cell else np.nan


def _chosen(subset: str, paper: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if subset not in ("all", "paper"):
        raise ValueError(f"subset must be 'all' or 'paper'; got {subset!r}.")
    return paper if subset == "paper" else np.ones_like(paper)


def _bunch(
    data: NDArray[np.float64],
    target: NDArray[np.generic],
    names: list[str],
    description: str,
    rows: NDArray[np.bool_],
) -> Bunch:
    from sklearn.utils import Bunch  # slow to load, and tables of diseases do without

    return Bunch(
        data=data[rows],
        target=target[rows],
        feature_names=names[: data.shape[1]],
        DESCR=description,
    )
