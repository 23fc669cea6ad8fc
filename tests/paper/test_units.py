"""Units of work: kept, found again, and the same bytes wherever they run."""

import json

import joblib
import numpy as np
import pytest

from paper.table1 import evaluate
from paper.units import Unit, cpu_seconds, run_units, seed_of

UNITS = [Unit("test", "toy", method, fold) for method in ("a", "b") for fold in range(3)]


class Draws:
    """Work that counts its calls and can be interrupted."""

    def __init__(self, interrupt_at=None):
        self.calls = []
        self.interrupt_at = interrupt_at

    def __call__(self, unit, settings):
        if len(self.calls) == self.interrupt_at:
            raise KeyboardInterrupt
        self.calls.append(unit)
        return {"score": float(np.random.default_rng(unit.seed).normal()) * settings["scale"]}


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted((folder / "units").iterdir())}


def test_interrupted_run_goes_on_where_it_stopped(tmp_path):
    settings = {"scale": 2.0}
    whole = Draws()
    expected = run_units(tmp_path / "whole", UNITS, whole, settings=settings)
    assert len(whole.calls) == 6

    stopped = Draws(interrupt_at=4)
    with pytest.raises(KeyboardInterrupt):
        run_units(tmp_path / "parts", UNITS, stopped, settings=settings)
    assert len(contents(tmp_path / "parts")) == 4

    rest = Draws()
    seen = []
    found = run_units(
        tmp_path / "parts", UNITS, rest, settings=settings, progress=lambda *at: seen.append(at)
    )
    assert rest.calls == UNITS[4:]
    assert found == expected
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert seen[0] == (4, 6, "")
    assert seen[-1] == (6, 6, "toy, b, fold 3")

    nothing = Draws(interrupt_at=0)
    assert run_units(tmp_path / "parts", UNITS, nothing, settings=settings) == expected


@pytest.mark.parametrize("damage", ["settings", "version", "seed", "cut", "other"])
def test_what_does_not_fit_is_run_again(tmp_path, damage):
    run_units(tmp_path, UNITS, Draws(), settings={"scale": 1.0})
    file = tmp_path / "units" / UNITS[0].file
    content = json.loads(file.read_text())
    scale = 1.0
    if damage == "settings":
        scale = 3.0
    elif damage in ("version", "seed"):
        file.write_text(json.dumps({**content, damage: "0.0.0"}))
    elif damage == "cut":
        file.write_text(file.read_text()[:50])
    else:
        file.write_text("[1, 2]")
    again = Draws()
    run_units(tmp_path, UNITS, again, settings={"scale": scale})
    assert again.calls == (UNITS if damage == "settings" else UNITS[:1])


def test_seeds_depend_on_names_alone():
    assert len({unit.seed for unit in UNITS}) == len(UNITS)
    assert all(0 <= unit.seed < 2**32 for unit in UNITS)
    assert seed_of("a", "bc") != seed_of("ab", "c")
    # The published pages rest on it: a change would make their numbers impossible to repeat.
    assert Unit("table1", "heart", "Parzen", 0).seed == seed_of("table1", "heart", "Parzen", 0)
    assert seed_of("table1", "heart", "parts") == 797028310


def test_numbers_that_are_none_are_refused(tmp_path):
    def work(unit, settings):
        return {"score": float("nan") if unit == UNITS[0] else 1.0}

    with pytest.raises(RuntimeError, match=r"1 of 2 .*toy\.a\.00\.json.*not JSON compliant"):
        run_units(tmp_path, UNITS[:2], work)
    assert list(contents(tmp_path)) == [UNITS[1].file]  # what did not fail is kept


def test_two_units_of_one_file_are_refused(tmp_path):
    twins = [Unit("test", "toy", "a b", 0), Unit("test", "toy", "a/b", 0)]
    with pytest.raises(ValueError, match=r"got two for 'toy\.a-b\.00\.json'"):
        run_units(tmp_path, twins, Draws(), settings={"scale": 1.0})


def test_costs_stand_apart(tmp_path):
    run_units(tmp_path, UNITS[:2], Draws(), settings={"scale": 1.0})
    assert all(seconds >= 0 for seconds in cpu_seconds(tmp_path, UNITS[:2]))
    assert cpu_seconds(tmp_path, UNITS[2:3]) == [None]
    assert "cpu_seconds" not in (tmp_path / "units" / UNITS[0].file).read_text()


REAL = [
    Unit("table1", "liver", method, fold)
    for method in ("GMM-2", "GMM-∞ Gibbs", "tdid", "BayesianOutTree()")
    for fold in range(1)
]


@pytest.fixture(scope="module")
def sequential(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequential")
    run_units(folder, REAL, evaluate, settings={"quick": True})
    return contents(folder)


@pytest.mark.slow
def test_other_processes_write_the_same_bytes(tmp_path, sequential):
    run_units(tmp_path, REAL, evaluate, settings={"quick": True}, n_jobs=2)
    assert contents(tmp_path) == sequential


def test_dask_writes_the_same_bytes(tmp_path, sequential):
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        run_units(tmp_path, REAL, evaluate, settings={"quick": True}, n_jobs=2)
    assert contents(tmp_path) == sequential
