"""The memory plan: dense or candidates, for matrices and tables."""

from types import SimpleNamespace

import pytest

from outtrees.candidates.plan import dense_bytes, matrix_plan, table_bytes, table_plan
from outtrees.records import read_records

MODEL = SimpleNamespace(candidates="auto", n_candidates=10, neighbours="exact")


@pytest.fixture
def free(monkeypatch):
    return lambda n: monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: n)


def records(n, groups=1):
    return read_records(
        {"id": [f"r{i}" for i in range(n)], "x": [0.5 * i for i in range(n)],
         "family": [f"f{i % groups}" for i in range(n)]},
        id="id", kinds={"family": "group"},
    )  # fmt: skip


@pytest.mark.parametrize("memory", [1000, 10**12, None])
def test_auto_goes_by_the_number_of_records_on_every_machine(free, memory):
    free(memory)
    plan = matrix_plan(MODEL, 1500)
    assert (plan.way, plan.why, plan.needed) == ("dense", "", dense_bytes([1500], 16))
    larger = matrix_plan(MODEL, 1501)
    assert larger.way == "knn"
    assert larger.needed < plan.needed
    assert "only the 10 best candidate parents" in larger.why
    assert larger.why.options[0].value == "dense"
    assert matrix_plan(MODEL, 1501, can_be_sparse=False).way == "dense"
    if memory == 1000:
        with pytest.raises(MemoryError, match="Use candidates='knn'"):
            plan.check()


def test_groups_need_less_than_one_family(free):
    free(None)
    assert table_bytes(records(40, 4), "dense", 5) == table_bytes(records(40), "dense", 5) / 4
    assert table_plan(records(40), "dense", 5).fits  # nobody knows


@pytest.mark.parametrize("way", ["dense", "knn"])
def test_what_does_not_fit_is_refused_with_its_remedy(free, way):
    free(1000)
    model = SimpleNamespace(**{**vars(MODEL), "candidates": way})
    words = {"dense": "Use candidates='knn'", "knn": "Use a smaller n_candidates"}[way]
    for plan in (matrix_plan(model, 100), table_plan(records(30), way, 5)):
        with pytest.raises(MemoryError, match=rf"need about .* are free\. {words}"):
            plan.check()


def test_large_groups_take_candidates_for_the_time_they_take(free, monkeypatch):
    free(None)
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE", 29)
    assert table_plan(records(58, 2), "auto", 5).way == "dense"
    plan = table_plan(records(30), "auto", 5)
    assert plan.way == "knn"
    assert plan.why.startswith("All pairs of 30 records would take very long")
