"""Units on a real Dask scheduler with worker processes, some of which are killed."""

import os
import threading
import time

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone

from dask_cluster import cluster
from outtrees import Ancestry, OutTreeDensity
from outtrees._common.threads import one_thread
from outtrees.ancestry.populations import fit_populations
from outtrees.bayes.stacking import stack_posteriors
from outtrees.models.conjugate import GaussianPosterior
from outtrees.parallel import RunFolder, run_units, run_units_into
from population_tables import population_table
from unit_work import die, draw, draw_or_wait

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'outtrees[dask]'")
DATA = np.eye(200)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("dask")) as made:
        yield made


def with_workers(running, n):
    """Return the cluster with n workers alive, whatever earlier tests killed."""
    from outtrees.parallel.scheduler import connected

    running.add_workers(n - sum(worker.poll() is None for worker in running.workers))
    with connected(running.address) as client:
        client.wait_for_workers(n, timeout=60)
        assert len(client.scheduler_info()["workers"]) == n
    return running


@pytest.fixture
def two_workers(running):
    return with_workers(running, 2)


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A scheduler that gives up a task over which one worker died."""
    with cluster(tmp_path_factory.mktemp("strict"), n_workers=3, allowed_failures=0) as made:
        yield made


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_dask_gives_the_same_bits_and_reports_failures(two_workers):
    units = {**{f"unit {i}": i for i in range(8)}, "b": "bad"}
    here = run_units(draw, units, data=DATA, seed=1)
    there = run_units(draw, units, data=DATA, seed=1, scheduler=two_workers.address)
    assert there == here
    assert there["b"].failure == "this unit is bad"
    one_at_a_time = run_units(
        draw, units, data=DATA, seed=1, scheduler=two_workers.address, n_jobs=1
    )
    assert one_at_a_time == here


def test_a_worker_killed_in_the_middle_of_a_unit_changes_nothing(two_workers, tmp_path):
    """One unit waits for its worker to be killed; it is then run by the other one."""
    marker = tmp_path / "pid"
    names = [f"unit {i}" for i in range(10)]
    units = {name: (name, str(marker) if name == "unit 4" else "") for name in names}
    killed = []

    def kill():
        until = time.monotonic() + 50
        while not marker.exists() and time.monotonic() < until:
            time.sleep(0.02)
        killed.append(int(marker.read_text()))
        two_workers.kill(killed[0])

    killer = threading.Thread(target=kill)
    killer.start()
    there = RunFolder(tmp_path / "there", "data", {}, seed=2)
    assert (
        run_units_into(there, draw_or_wait, units, data=DATA, scheduler=two_workers.address) == {}
    )
    killer.join()
    assert killed
    assert marker.exists()  # so that here the unit does not wait
    here = RunFolder(tmp_path / "here", "data", {}, seed=2)
    run_units_into(here, draw_or_wait, units, data=DATA)
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_populations_while_a_worker_is_killed(two_workers, tmp_path):
    """The whole way, from a table to parents.csv, with half of the machines lost on it."""
    table = population_table(n_populations=8, n_records=12)
    model = Ancestry(id="id", random_state=5)
    victim = next(worker for worker in two_workers.workers if worker.poll() is None)

    def kill_at_the_first(done, total):
        if done == 1 and victim.poll() is None:
            two_workers.kill(victim.pid)

    found = fit_populations(
        model, table, by="site", out=tmp_path / "there", scheduler=two_workers.address,
        progress=kill_at_the_first,
    )  # fmt: skip
    assert victim.poll() is not None
    assert not found.failures
    fit_populations(model, table, by="site", out=tmp_path / "here")
    assert {"parents.csv", "populations.csv", "run.json"} <= set(files(tmp_path / "here"))
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_a_unit_that_kills_every_worker_it_meets_is_given_up(strict):
    """joblib's own backend would wait for it for ever; units beside it have another chance."""
    three_workers = with_workers(strict, 3)
    units = {name: name for name in "abcdef"}
    found = run_units(
        die, {"killer": os.getpid(), **units}, data=DATA, seed=1, scheduler=three_workers.address
    )
    here = run_units(draw, units, data=DATA, seed=1)
    assert "its worker processes died" in found.pop("killer").failure
    assert found == here


@pytest.mark.slow
def test_estimators_on_dask_equal_those_here(two_workers):
    """Folds, and candidates of a stack, go through joblib too."""
    from outtrees.parallel.scheduler import on_scheduler

    X = np.random.default_rng(0).normal(size=(24, 1))
    folds = OutTreeDensity("gaussian", prior_strength="auto", cv=2, random_state=0)
    families = {t: GaussianPosterior(transition=t) for t in ("zero", "identity")}

    def numbers(n_jobs):
        density = clone(folds).set_params(n_jobs=n_jobs).fit(X)
        stack = stack_posteriors(families, X, n_jobs=n_jobs, random_state=0)
        return [
            density.cv_results_["mean_log_density"], density.score_samples(X),
            stack.log_densities, stack.weights,
        ]  # fmt: skip

    with one_thread():
        here = numbers(None)
    with on_scheduler(two_workers.address):
        there = numbers(2)
        assert Parallel(n_jobs=1)([delayed(os.getpid)()]) != [os.getpid()]
    for one, other in zip(here, there, strict=True):
        assert np.array_equal(one, other)


def test_estimators_do_not_wait_for_ever_for_a_lost_task(strict):
    two_workers = with_workers(strict, 2)
    from outtrees.parallel.scheduler import on_scheduler

    tasks = [delayed(die)(os.getpid(), DATA, 0), delayed(draw)("a", DATA, 0)]
    with (
        on_scheduler(two_workers.address),
        pytest.raises(
            ConnectionError, match=r"could not finish a task \(its worker processes died"
        ),
    ):
        Parallel(n_jobs=2)(tasks)


def test_refusals_before_anything_is_sent(two_workers, tmp_path, monkeypatch):
    from outtrees.parallel import scheduler

    monkeypatch.setattr(scheduler, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at 'tcp:"):
        run_units(draw, {"a": 1}, scheduler="tcp://127.0.0.1:1")
    monkeypatch.setattr(scheduler, "_SAME_VERSION", ("outtrees", "no such library"))
    run_units(draw, {"a": 1}, data=DATA, scheduler=two_workers.address)  # nowhere: the same
    monkeypatch.undo()
    with cluster(tmp_path, n_workers=0) as empty:
        monkeypatch.setattr(scheduler, "_WORKERS_SECONDS", 0.2)
        with pytest.raises(ConnectionError, match=r"has no worker after .* seconds; start some"):
            run_units(draw, {"a": 1}, scheduler=empty.address)


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_run_which_can_go_on(tmp_path, monkeypatch):
    from outtrees.parallel import scheduler

    monkeypatch.setattr(scheduler, "_CONNECT_SECONDS", 3)  # and to reconnect
    units = {f"unit {i}": i for i in range(40)}
    with cluster(tmp_path, n_workers=1) as running:

        def kill(done, total):
            if done == 2:
                running.scheduler.kill()

        with pytest.raises(ConnectionError, match="the Dask scheduler is gone; start it again"):
            run_units_into(
                RunFolder(tmp_path / "run", "data", {}, seed=1), draw, units, data=DATA,
                scheduler=running.address, progress=kill,
            )  # fmt: skip
    part = RunFolder(tmp_path / "run", "data", {})
    assert 2 <= sum(part.has(name) for name in units) < len(units)
    run_units_into(part, draw, units, data=DATA)
    whole = RunFolder(tmp_path / "whole", "data", {}, seed=1)
    run_units_into(whole, draw, units, data=DATA)
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_workers_with_other_versions_are_refused():
    from outtrees.parallel.scheduler import _refuse_other_versions

    class Client:
        def get_versions(self, packages):
            here = dict.fromkeys(packages, "2.0")
            there = {
                "tcp://a:1": {"packages": here},
                "tcp://b:2": {"packages": {**here, "numpy": None}},
            }
            return {"client": {"packages": here}, "workers": there}

    with pytest.raises(ConnectionError, match=r"b:2 has numpy None, but here it is 2\.0"):
        _refuse_other_versions(Client())
