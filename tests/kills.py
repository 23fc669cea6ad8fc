"""Processes killed at every write and at random moments: nothing torn, nothing mixed, and whoever
runs again ends with the same bytes.

    python tests/kills.py --long          at least 5,000 kills; `make kills`
    python tests/kills.py                 some hundred; part of the tests

A scenario is something that writes. It runs in a fork of this process, in which every function of
the system that writes counts, before and after it is called; at the number asked for, or after a
random time, the fork is killed (SIGKILL, SIGTERM or SIGINT). What is then on the disk must be one
of the states that the scenario allows. Then the same runs once more, in another fork and to its
end, and must leave what it leaves without kills, byte for byte, and nothing else.
"""

import argparse
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
WRITES = ("write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "chmod")
_MANY = 470
OWN = {"notes.txt": b"mine", "more/table.csv": b"a,b\n1,2\n"}


def snapshot(folder):
    """Return every file below a folder, with its bytes, and every empty folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
        elif not any(path.iterdir()):
            found[str(path.relative_to(folder)) + "/"] = None
    return found


class Counter:
    """Counts writes; kills this process at one of them."""

    def __init__(self, at=0, number=0):
        self.count, self.at, self.number = 0, at, number
        self.split = set()

    def reach(self):
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), self.number)

    def patch(self):
        for name in WRITES:
            setattr(os, name, self.counted(name, getattr(os, name)))

    def counted(self, name, real):
        def call(*arguments, **options):
            self.reach()
            if name == "write" and len(arguments[1]) > 1 and arguments[0] not in self.split:
                self.split.add(arguments[0])  # half of it first
                arguments = (arguments[0], arguments[1][: len(arguments[1]) // 2])
            elif name == "write":
                self.split.discard(arguments[0])
            result = real(*arguments, **options)
            self.reach()
            return result

        return call


def forked(act, folder, counter=None, kill_after=None, number=0):
    """Run in a fork; return the number of writes it counted and how it ended."""
    reader, writer = os.pipe()
    write = os.write
    # What comes before the fork is ready for it waits: it must never go on as a second parent.
    late = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, late)
    child = os.fork()
    if child == 0:
        code = [1]
        try:
            os.close(reader)
            _in_fork(act, folder, counter, late, code)
        finally:
            # One signal was sent: if it comes in the inner cleaning up, it cannot come here.
            try:
                write(writer, str(counter.count if counter else 0).encode())
            finally:
                os._exit(code[0])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, late)
    os.close(writer)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, number)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        count = int(file.read() or 0)
    return count, os.waitstatus_to_exitcode(status)


def _in_fork(act, folder, counter, late, code):
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as the commands do
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, late)
        if counter is not None:
            counter.patch()
        act(folder)
        code[0] = 0
    except (SystemExit, KeyboardInterrupt):
        code[0] = 143
    except BaseException:
        import traceback

        traceback.print_exc()


class Scenario:
    """Something that writes into a folder.

    Parameters
    ----------
    prepare : function of the folder
        Makes what is there before.
    act : function of the folder
        Writes.
    allowed : function of (folder, before, after)
        Raises AssertionError if what is there after a kill is neither.
    """

    def __init__(self, name, act, prepare=lambda folder: None, allowed=None, slow=False):
        self.name, self.act, self.prepare, self.slow = name, act, prepare, slow
        self.allowed = allowed or (lambda folder, before, after: None)

    def run(self, home, kills, say, every):
        """Kill so many times, and at every write if asked to; return how many kills there were."""
        before_folder = home / "before"
        before_folder.mkdir()
        self.prepare(before_folder)
        before = snapshot(before_folder)
        right = self._fresh(home, before_folder)
        begin = time.perf_counter()
        _, code = forked(self.act, right)
        took = time.perf_counter() - begin
        assert code == 0, f"{self.name}: fails without kills"
        after = snapshot(right)
        assert not hidden(after), f"{self.name}: leaves {hidden(after)} without kills"
        n_writes, _ = forked(self.act, self._fresh(home, before_folder), Counter())
        points = [(at, number) for at in range(1, n_writes + 1) for number in SIGNALS]
        rng = random.Random(self.name)
        # Of fits with hundreds of checkpoints, which are all written alike, some.
        if kills < len(points) and not (every and len(points) < _MANY):
            points = rng.sample(points, kills)
        done = 0
        for at, number in points:
            self._one(home, before_folder, before, after, Counter(at, number), None, number)
            done += 1
        for _ in range(kills - len(points)):
            number = rng.choice(SIGNALS)
            self._one(home, before_folder, before, after, None, rng.uniform(0, took), number)
            done += 1
        say(f"{self.name}: {done} kills, {n_writes} writes in {took:.3f} s")
        return done

    def _fresh(self, home, before):
        folder = home / "now"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before, folder)
        return folder

    def _one(self, home, before_folder, before, after, counter, moment, number):
        folder = self._fresh(home, before_folder)
        at = f"write {counter.at}" if counter else f"after {moment:.4f} s"
        what = f"{self.name}, {signal.Signals(number).name} at {at}"
        forked(self.act, folder, counter, moment, number)
        try:
            self.allowed(folder, before, after)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error
        _, code = forked(self.act, folder)
        found = snapshot(folder)
        assert code == 0, f"{what}: cannot be run again"
        assert sorted(found) == sorted(after), f"{what}: {sorted(set(found) ^ set(after))}"
        differ = [name for name in after if found[name] != after[name]]
        assert not differ, f"{what}: other bytes in {differ}"


def hidden(found):
    return [name for name in found if ".outtrees" in name]


# What may be seen after a kill ------------------------------------------------------------------


def one_file(name):
    """The old file or the new one, whole."""

    def allowed(folder, before, after):
        now = {k: v for k, v in snapshot(folder).items() if not hidden([k])}
        assert now.get(name) in (before.get(name), after[name]), f"{name} is torn"

    return allowed


def one_run(folder, before, after):
    """Files of one run only; the user's own as they were; a complete one has its list."""
    from outtrees._common.folders import problems

    now = {k: v for k, v in snapshot(folder).items() if not hidden([k])}
    own = {k: v for k, v in before.items() if k in after and after[k] == v}
    lost = [k for k in own if now.get(k) != own[k]]
    assert not lost, f"lost {lost}"
    rest = {k: v for k, v in now.items() if k not in own and not k.endswith("/")}
    whole = [
        {k: v for k, v in state.items() if k not in own and not k.endswith("/")}
        for state in (before, after)
    ]
    from_one = any(all(state.get(k) == v for k, v in rest.items()) for state in whole)
    assert from_one, f"files of two runs: {sorted(rest)}"
    if "out/results.json" in rest:
        assert rest in whole, f"a list beside other files than its own: {sorted(rest)}"
    elif rest not in whole:  # told, and finished by the next
        assert problems(folder / "out"), f"incomplete, and nobody tells: {sorted(rest)}"


def exchanged(folder, before, after):
    """The whole old run or the whole new one."""
    now = {k: v for k, v in snapshot(folder).items() if not hidden([k])}
    assert now in (before, after), f"neither the old results nor the new: {sorted(now)}"


# Scenarios --------------------------------------------------------------------------------------


def saving():
    import numpy as np

    from outtrees import OutTreeDensity
    from outtrees.io import load, save

    X = np.random.default_rng(0).normal(size=(12, 2))
    old, new = (OutTreeDensity(max_iter=n).fit(X) for n in (1, 2))

    def act(folder):
        save(new, folder / "model.safetensors")

    def allowed(folder, before, after):
        one_file("model.safetensors")(folder, before, after)
        if (folder / "model.safetensors").exists():
            load(folder / "model.safetensors")

    yield Scenario("save, new file", act, allowed=allowed)
    yield Scenario(
        "save, existing file", act, lambda folder: save(old, folder / "model.safetensors"), allowed
    )


def captured(home):
    """Return, for every command with --out, the files it writes and the names they may have."""
    import click
    import numpy as np
    from click.testing import CliRunner

    from outtrees.cli import group, results

    found = {}
    table = home / "table.csv"
    rng = np.random.default_rng(0)
    rows = [f"r{i},{i},{rng.normal():.3f},{'uv'[i % 2] if i % 5 else ''}" for i in range(12)]
    table.write_text("id,onset,x,side\n" + "\n".join(rows) + "\n")
    holes = home / "holes.csv"
    holes.write_text("id,a,b\n" + "".join(f"r{i},{i}.5,{i % 4 or ''}\n" for i in range(12)))
    arguments = {
        "ancestry": [table, "--date", "onset", "--waiting-mean", "1", "--waiting-sd", "1",
                     "--label", "side", "--max-iter", "2"],
        "density": [table, "--max-iter", "2", "--ignore", "side"],
        "label": [table, "--label", "side"],
        "impute": [holes],
    }  # fmt: skip
    for name, options in arguments.items():
        group.main.get_command(click.Context(group.main), name)  # imports it
        module = sys.modules[f"outtrees.cli.{name}"]
        caught = {}

        def catch(screen, folder, writers, names=(), model=None, *, caught=caught):
            caught["names"] = list(names)
            writers = {**writers, **results._model_writer(screen, model)}
            stage = home / "written"
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir()
            for file, write in writers.items():
                write(stage / file)
            caught["files"] = snapshot(stage)
            raise KeyboardInterrupt  # that was all

        before, module.write_files = module.write_files, catch
        try:
            text = [name, *map(str, options), "--seed", "1", "--quiet", "--out", str(home / "no")]
            outcome = CliRunner().invoke(group.main, text)
        finally:
            module.write_files = before
        assert "files" in caught, f"{name}: {outcome.output} {outcome.exception!r}"
        found[name] = caught
    return found


def written(name, caught):
    """Yield the scenarios of a command, from the moment at which its results are written."""
    from outtrees._common.files import write_atomically
    from outtrees.cli.results import write_files
    from outtrees.cli.screen import Screen

    screen = Screen(quiet=True)
    screen.summary["command"] = name
    new = caught["files"]
    old = {"earlier.csv": b"of an earlier run\n"} | {k: b"old " + v[:3000] for k, v in new.items()}

    def writers(files):
        return {k: lambda path, v=v: write_atomically(path, v) for k, v in files.items()}

    def act(folder):
        write_files(screen, str(folder / "out"), writers(new), caught["names"])

    def earlier(folder):
        write_files(screen, str(folder / "out"), writers(old), caught["names"])

    def beside(folder):
        earlier(folder)
        for file, data in OWN.items():
            (folder / "out" / file).parent.mkdir(exist_ok=True)
            (folder / "out" / file).write_bytes(data)

    yield Scenario(f"{name} --out, new folder", act, allowed=exchanged)
    yield Scenario(f"{name} --out, existing folder", act, earlier, exchanged)
    yield Scenario(f"{name} --out, folder with other files", act, beside, one_run)


def checkpoints():
    import numpy as np

    from outtrees import Ancestry, OutTreeDensity
    from outtrees.io import load, save

    X = np.random.default_rng(1).normal(size=(10, 2))
    table = {"id": [f"r{i}" for i in range(8)], "day": list(range(8)), "x": X[:8, 0].tolist()}

    def density(folder):
        model = OutTreeDensity("gaussian", max_iter=4, n_init=2, random_state=0)
        model.fit(X, checkpoint=folder / "checkpoint")
        save(model, folder / "model")
        (folder / "checkpoint").unlink(missing_ok=True)

    def ancestry(folder):
        model = Ancestry(
            id="id", kinds={"day": "date"}, waiting_mean=1.0, waiting_sd=1.0, max_iter=2
        )
        model.fit(table, checkpoint=folder / "checkpoint")
        save(model, folder / "model")
        (folder / "checkpoint").unlink(missing_ok=True)

    def allowed(folder, before, after):
        one_file("model")(folder, before, after)
        if (folder / "checkpoint").exists():
            from outtrees.inference.checkpoint import CheckpointFile

            load(folder / "checkpoint", classes=[CheckpointFile])

    yield Scenario("density with a checkpoint", density, allowed=allowed, slow=True)
    yield Scenario("ancestry with a checkpoint", ancestry, allowed=allowed, slow=True)


def populations(scheduler=None):
    from outtrees import Ancestry
    from outtrees.ancestry import populations as module
    from outtrees.parallel import run_units_into

    cells = [("a", "A", 0), ("b", "A", 3), ("c", "A", 5), ("d", "B", 0), ("e", "B", 2)]
    table = dict(zip(("case", "site", "day"), map(list, zip(*cells, strict=True)), strict=True))
    model = Ancestry(
        id="case", kinds={"day": "date"}, waiting_mean=3.0, waiting_sd=1.0, random_state=0,
        max_iter=2,
    )  # fmt: skip

    def act(folder):
        out = folder / "out"
        module.fit_populations(model, table, by="site", out=out, n_jobs=1, scheduler=scheduler)

    def failed(folder):
        """One population failed: its files are to be replaced by others."""

        def without_b(store, function, units, **options):
            some = {name: units[name] for name in units if name != "B"}
            return {**run_units_into(store, function, some, **options), "B": "no luck"}

        module.run_units_into = without_b
        try:
            act(folder)
        finally:
            module.run_units_into = run_units_into

    def allowed(folder, before, after):
        out = folder / "out"
        if (out / "run.json").exists():
            json.loads((out / "run.json").read_bytes())
        units = sorted((out / "units").glob("*.json")) if (out / "units").exists() else []
        for unit in units:
            assert unit.read_bytes() == after[str(unit.relative_to(folder))], f"{unit.name} is torn"
        tables = ("out/parents.csv", "out/populations.csv", "out/results.json")

        def only(state):
            return {k: v for k, v in state.items() if k in tables}

        now, old, new = (only(state) for state in (snapshot(folder), before, after))
        from_one = any(all(state.get(k) == v for k, v in now.items()) for state in (old, new))
        assert from_one, f"tables of two runs: {sorted(now)}"
        assert "out/results.json" not in now or now in (old, new), "a list beside other files"

    where = "" if scheduler is None else ", on Dask workers"
    yield Scenario(f"populations, new folder{where}", act, allowed=allowed, slow=True)
    if scheduler is None:
        yield Scenario("populations, run again", act, failed, allowed, slow=True)


def with_dask(home, n, say):
    """Kill a client of Dask workers, and workers, at random moments."""
    from dask_cluster import cluster

    done = 0
    there = home / "cluster"
    there.mkdir()
    with cluster(there, 2, allowed_failures=50) as running:
        (scenario,) = populations(running.address)
        before = scenario._fresh(home, _empty(home / "nothing"))
        begin = time.perf_counter()
        assert forked(scenario.act, before)[1] == 0
        took = time.perf_counter() - begin
        after = snapshot(before)
        rng = random.Random(1)
        for turn in range(n):
            folder = scenario._fresh(home, home / "nothing")
            number = rng.choice(SIGNALS)
            if turn % 4 == 3:  # a worker, while the client goes on
                victim = running.workers[-1]
                pid = os.fork()
                if pid == 0:
                    time.sleep(rng.uniform(0, took))
                    os.kill(victim.pid, signal.SIGKILL)
                    os._exit(0)
                _, code = forked(scenario.act, folder)
                os.waitpid(pid, 0)
                victim.wait()
                running.add_workers(1)
                assert code == 0, "a killed worker took the run with it"
            else:
                forked(scenario.act, folder, None, rng.uniform(0, took), number)
                scenario.allowed(folder, {}, after)
                assert forked(scenario.act, folder)[1] == 0, "cannot be run again"
            assert snapshot(folder) == after, "other bytes"
            done += 1
    say(f"{scenario.name}: {done} kills of clients and workers, {took:.1f} s each")
    return done


def _empty(folder):
    folder.mkdir(exist_ok=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="at least 5,000 kills")
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    parser.add_argument("--kills", type=int, help="so many for each scenario, where they fall")
    parser.add_argument("--captured", help=argparse.SUPPRESS)
    options = parser.parse_args()
    memory = Path("/dev/shm")  # where fsync costs nothing
    where = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    begin = time.monotonic()

    def say(text):
        print(f"{time.monotonic() - begin:6.0f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(dir=where) as folder:
        home = Path(folder)
        if options.captured:
            kept = pickle.loads(Path(options.captured).read_bytes())
            scenarios = [one for name, caught in kept.items() for one in written(name, caught)]
            print(run(scenarios, home, options, say))
            return
        (home / "captured").write_bytes(pickle.dumps(captured(home)))
        total = _lean(home / "captured", options)
        total += run([*saving(), *checkpoints(), *populations()], home, options, say)
        if options.long and options.only in "populations with dask":
            total += with_dask(home, min(40, options.kills or 40), say)
    print(f"{total} kills: nothing torn, nothing mixed, every run again the same bytes")


def run(scenarios, home, options, say):
    """Run those that are asked for; return the number of kills."""
    total = 0
    for number, scenario in enumerate(scenarios):
        if options.only in scenario.name:
            few, many = (1, 120) if scenario.slow else (5, 400)
            own = home / f"scenario{number}"
            own.mkdir()
            kills = options.kills or (many if options.long else few)
            every = options.long and not options.kills
            total += scenario.run(own, kills, say, every)
            shutil.rmtree(own)
    return total


def _lean(file, options):
    """Kill writes of results in a process that imported little: its forks are cheap."""
    command = [sys.executable, __file__, "--captured", str(file), "--only", options.only]
    command += ["--kills", str(options.kills)] if options.kills else []
    lines = []
    with subprocess.Popen(
        command + ["--long"] * options.long, stdout=subprocess.PIPE, text=True
    ) as lean:
        for line in lean.stdout:
            lines.append(line)
            if line.startswith(" "):
                print(line, end="", flush=True)
    assert lean.returncode == 0, "see above"
    return int(lines[-1])


if __name__ == "__main__":
    main()
