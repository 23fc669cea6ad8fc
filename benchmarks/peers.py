"""On clusters that stand apart the determinant loses every digit; elimination keeps thirteen.

Run: python benchmarks/peers.py [--seeds N] [--only accuracy|speed] [--out docs/why-exact.png]

Two 2-D Gaussian clusters of 15 records each, unit variance, centres 0 to 60 standard deviations
apart; log-weight of "u descends from v" = log N(x_u | x_v, I), every record as likely a root.
Each engine's log Z and edge marginals are compared with ball arithmetic (tests/oracles/precise.py).
Needs python-flint (extra ``test``); measures those of networkx, torch-struct and JAX (extra
``peers``) that are installed. Then their speed, in processor time, for 10 to 2,000 records and for
batches: --only speed or --only accuracy runs one of the two.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure  # without pyplot it draws with Agg
from matplotlib.lines import Line2D
from threadpoolctl import threadpool_limits

from outtrees import OutTreeDistribution
from outtrees.trees.elimination import Elimination

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from oracles import enumeration
from oracles.precise import precise_sums

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "why-exact.png"

SEPARATIONS = (0, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 36, 40, 50, 60)
FLOOR = 1e-16
LIFT = 30.0
OURS, LIFTED = "outtrees", f"torch-struct, scores + {LIFT:.0f}"
JAX = "slogdet in JAX"
LOOKS = {  # colour, marker, line, row of its crosses
    OURS: ("#0072b2", "o", "-", 5),
    "bordered determinant": ("#d55e00", "s", "-", 0),
    "networkx": ("#009e73", "D", "--", 1),
    "torch-struct": ("#cc79a7", "^", "-", 4),
    LIFTED: ("#555555", "v", ":", 2),
    JAX: ("#e69f00", "P", "--", 3),
}

# (log_beta, log_root) → log Z and the edge marginals, or None where the engine has none.
Engine = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray | None]]


# ---------------------------------------------------------------------- the engines


def ours(log_beta, log_root):
    dist = OutTreeDistribution(log_beta, log_root)
    return dist.log_z, dist.edge_marginals


def bordered(log_beta, log_root):
    """The paper's Q̂: one determinant, one inverse."""
    beta, root = np.exp(log_beta), np.exp(log_root)
    sign, _ = np.linalg.slogdet(enumeration.bordered_laplacian(beta, root))
    log_z = enumeration.log_z_by_determinant(beta, root) if sign > 0 else np.nan
    try:
        return log_z, enumeration.edge_marginals_by_inverse(beta, root)
    except np.linalg.LinAlgError:  # exactly singular
        return log_z, np.full_like(beta, np.nan)


def with_networkx(networkx) -> Engine:
    """Z = Σ_r ρ_r Z_r: ``number_of_spanning_trees`` wants one root, and edges parent → child."""

    def engine(log_beta, log_root):
        weight = np.exp(log_beta).T  # [parent, child]
        graph = networkx.DiGraph()
        nodes = range(len(weight))
        graph.add_weighted_edges_from((v, u, weight[v, u]) for v in nodes for u in nodes if u != v)
        rooted = [networkx.number_of_spanning_trees(graph, root=r, weight="weight") for r in nodes]
        total = np.exp(log_root) @ np.array(rooted)
        return (float(np.log(total)) if total > 0 else np.nan), None

    return engine


def with_torch_struct(torch, torch_struct, lift=0.0) -> Engine:
    """Scores are [head, child] with the root's on the diagonal; doubles, single root.

    The package adds 1e-5 to every weight. ``lift`` is added to all scores beforehand, and taken
    from log Z, T times: no tree's probability changes, and the 1e-5 counts for less.
    """

    # It does not say what its parameters may be; torch asks for that.
    warnings.filterwarnings("ignore", message=".*arg_constraints", category=UserWarning)

    def engine(log_beta, log_root):
        scores = log_beta.T.copy()
        np.fill_diagonal(scores, log_root)
        crf = torch_struct.NonProjectiveDependencyCRF(
            torch.tensor(scores + lift, dtype=torch.float64)[None], multiroot=False
        )
        log_z = float(crf.partition[0]) - lift * len(log_root)
        try:
            edge = crf.marginals[0].numpy().T.copy()
        except torch.linalg.LinAlgError:  # exactly singular
            edge = np.full_like(log_beta, np.nan)
        np.fill_diagonal(edge, 0.0)  # the root marginals
        return log_z, edge

    return engine


def with_jax(jax) -> Engine:
    """The determinant of the bordered Laplacian and its gradient, compiled, in doubles."""
    jnp = jax.numpy
    jax.config.update("jax_enable_x64", True)

    def log_z(log_beta, log_root):
        beta = jnp.exp(log_beta)
        matrix = jnp.diag(beta.sum(axis=1)) - beta
        sign, value = jnp.linalg.slogdet(matrix.at[:, 0].set(jnp.exp(log_root)))
        return jnp.where(sign > 0, value, jnp.nan)

    both = jax.jit(jax.value_and_grad(log_z))

    def engine(log_beta, log_root):
        value, edge = both(log_beta, log_root)
        return float(value), np.asarray(edge)

    return engine


def engines() -> Iterator[tuple[str, Engine, float]]:
    """Yield the name of each engine that is installed, the engine, and its error by design."""
    yield OURS, ours, 0.0
    yield "bordered determinant", bordered, 0.0
    if networkx := _optional("networkx"):
        yield "networkx", with_networkx(networkx), 0.0
    torch, torch_struct = _optional("torch"), _optional("torch_struct")
    if torch and torch_struct:
        yield "torch-struct", with_torch_struct(torch, torch_struct), 1e-3
        lifted = with_torch_struct(torch, torch_struct, LIFT)
        yield LIFTED, lifted, 0.0
    if jax := _optional("jax"):
        yield JAX, with_jax(jax), 0.0


def _optional(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"{module} skipped: {error}")
        return None


def check_wiring(name: str, engine: Engine, by_design: float) -> None:
    """Stop unless the engine agrees with enumeration where arithmetic cannot be at fault.

    Five nodes, weights near one; not symmetric, and roots that differ, so that a transposed matrix
    or a forest in place of a tree would show.
    """
    rng = np.random.default_rng(0)
    log_beta, log_root = rng.normal(size=(5, 5)), rng.normal(size=5)
    np.fill_diagonal(log_beta, -np.inf)
    true = enumeration.EnumeratedDistribution(log_beta, log_root)
    log_z, edge = engine(log_beta, log_root)
    close = {"rtol": 0.0, "atol": max(by_design, 1e-12), "err_msg": f"{name} is wired wrongly"}
    np.testing.assert_allclose(log_z, true.log_z, **close)
    if edge is not None:
        np.testing.assert_allclose(edge, true.edge_marginals, **close)


# ---------------------------------------------------------------------- the measurement


@dataclass
class Errors:
    """Errors of one engine, [separation, seed]; NaN or inf where it returned no number."""

    log_z: np.ndarray
    marginal: np.ndarray | None


def clusters(separation: float, seed: int, size: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Return log_beta and log_root of two clusters."""
    X = np.random.default_rng(seed).normal(size=(2 * size, 2))
    X[size:, 0] += separation
    log_beta = -0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1) - np.log(2 * np.pi)
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, np.zeros(2 * size)


def measure(engines: dict[str, Engine], n_seeds: int) -> tuple[dict[str, Errors], list[str]]:
    """Return every engine's errors, and which arithmetic ours chose at each separation."""
    shape = (len(SEPARATIONS), n_seeds)
    log_z = {name: np.full(shape, np.nan) for name in engines}
    marginal = {name: np.full(shape, np.nan) for name in engines}
    silent = set()
    arithmetic = []
    for i, separation in enumerate(SEPARATIONS):
        in_range = []
        for seed in range(n_seeds):
            data = clusters(separation, seed)
            true_log_z, _, true_edge, _ = precise_sums(*data)
            in_range.append(isinstance(OutTreeDistribution(*data)._engine.elimination, Elimination))
            for name, engine in engines.items():
                value, edge = engine(*data)
                log_z[name][i, seed] = abs(value - true_log_z)
                if edge is None:
                    silent.add(name)
                else:
                    marginal[name][i, seed] = np.abs(edge - true_edge).max()
        counts = {"double": sum(in_range), "extended": n_seeds - sum(in_range)}
        used = {kind: count for kind, count in counts.items() if count}
        arithmetic.append(
            ", ".join(f"{kind} {count}" if len(used) > 1 else kind for kind, count in used.items())
        )
    errors = {
        name: Errors(log_z[name], None if name in silent else marginal[name]) for name in engines
    }
    return errors, arithmetic


def error_of_exact_differences(n_seeds: int) -> float:
    """Return our worst marginal error on log-weights whose differences are doubles.

    A log-weight of −1800 is rounded by up to 1e-13 when its row's maximum is taken from it. On
    multiples of 2⁻³⁰ that step is exact, and what is left is the error of the elimination.
    """
    worst_error = 0.0
    for separation in SEPARATIONS:
        for seed in range(n_seeds):
            log_beta, log_root = clusters(separation, seed)
            log_beta = np.round(log_beta * 2.0**30) / 2.0**30
            error = ours(log_beta, log_root)[1] - precise_sums(log_beta, log_root)[2]
            worst_error = max(worst_error, float(np.abs(error).max()))
    return worst_error


def worst(errors: np.ndarray) -> tuple[float, int]:
    """Return the largest finite error (NaN if none) and how many are not finite."""
    finite = errors[np.isfinite(errors)]
    return (float(finite.max()) if len(finite) else np.nan), len(errors) - len(finite)


# ---------------------------------------------------------------------- speed

SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)
BATCHES = (10, 20, 30, 40, 60)
PATIENCE = 0.5  # seconds: an engine that took longer is not asked for larger problems


def seconds(task) -> float:
    """Return a task's processor time, the shortest of several stretches after one turn to compile.

    A stretch is as many turns as take 50 ms: what other threads use is counted late.
    """
    task()
    count, times = 1, [np.inf]
    while len(times) < 4 or count * sum(times[1:]) < 1.0:
        start = time.process_time()
        for _ in range(count):
            task()
        taken = time.process_time() - start
        if taken < 0.05:
            count *= 2
        else:
            times.append(taken / count)
    return min(times)


def print_speed(engines: dict[str, Engine]) -> None:
    print("\nMilliseconds of processor time for log Z and all marginals:\n")
    print(f"| records | {' | '.join(engines)} |")
    print("|---" * (len(engines) + 1) + "|")
    slow: set[str] = set()
    for T in SIZES:
        rng = np.random.default_rng(T)
        log_beta, log_root = rng.normal(size=(T, T)), rng.normal(size=T)
        np.fill_diagonal(log_beta, -np.inf)
        cells = []
        for name, engine in engines.items():
            if name in slow:
                cells.append("")
                continue
            taken = seconds(lambda e=engine, b=log_beta, r=log_root: e(b, r))
            if taken > PATIENCE:
                slow.add(name)
            cells.append(f"{1e3 * taken:.3g}")
        print(f"| {T} | {' | '.join(cells)} |", flush=True)


def print_batches(size: int = 200) -> None:
    """Batches of problems: ours beside torch-struct's batched determinant and its gradient."""
    torch, torch_struct = _optional("torch"), _optional("torch_struct")
    if not (torch and torch_struct):
        return
    torch.set_num_threads(1)
    print(f"\nMicroseconds of processor time per problem, {size} at once:\n")
    print("| records | outtrees | torch-struct | error of outtrees | of torch-struct |")
    print("|---" * 5 + "|")
    for T in BATCHES:
        rng = np.random.default_rng(T)
        log_beta, log_root = rng.normal(size=(size, T, T)), rng.normal(size=(size, T))
        scores = log_beta.transpose(0, 2, 1).copy()
        np.einsum("bii->bi", scores)[:] = log_root
        scores = torch.tensor(scores)

        def mine(log_beta=log_beta, log_root=log_root):
            batch = OutTreeDistribution.batch(log_beta, log_root)
            _ = batch.edge_marginals
            return batch.log_z

        def theirs(scores=scores):
            crf = torch_struct.NonProjectiveDependencyCRF(scores, multiroot=False)
            _ = crf.marginals
            return crf.partition.numpy()

        np.einsum("bii->bi", log_beta)[:] = -np.inf
        right = np.array([precise_sums(log_beta[b], log_root[b])[0] for b in range(3)])
        errors = [np.abs(one()[:3] - right).max() for one in (mine, theirs)]
        taken = [1e6 * seconds(one) / size for one in (mine, theirs)]
        print(f"| {T} | {taken[0]:.1f} | {taken[1]:.1f} | {errors[0]:.0e} | {errors[1]:.0e} |")


# ---------------------------------------------------------------------- the output


def cell(errors: np.ndarray) -> str:
    largest, failures = worst(errors)
    if not failures:
        return f"{largest:.0e}" if largest else "0"
    lost = "nan" if failures == len(errors) else f"nan in {failures} of {len(errors)}"
    return lost if np.isnan(largest) else f"{largest:.0e}, {lost}"


def print_table(title: str, columns: dict[str, list[str]]) -> None:
    print(f"\n{title}\n")
    print(f"| separation | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for separation, *cells in zip(SEPARATIONS, *columns.values(), strict=True):
        print(f"| {separation} | {' | '.join(cells)} |")


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in (
        "outtrees",
        "numpy",
        "networkx",
        "torch",
        "torch-struct",
        "jax",
        "python-flint",
    ):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)


def draw(panels: dict[str, dict[str, np.ndarray]], out: Path) -> None:
    """Draw one panel for each kind of error, the worst data set of each separation."""
    figure = Figure(figsize=(9, 4.6))
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (title, columns) in zip(axes, panels.items(), strict=True):
        for name, errors in columns.items():
            colour, marker, line, row_of_crosses = LOOKS[name]
            largest, failures = np.array([worst(seeds) for seeds in errors]).T
            axis.semilogy(
                SEPARATIONS,
                np.maximum(largest, FLOOR),
                line,
                marker=marker,
                color=colour,
                markersize=5.5,
                linewidth=2.4 if name == OURS else 1.4,
                zorder=3 if name == OURS else 2,
                label=name,
            )
            lost = np.array(SEPARATIONS)[failures > 0]
            height = np.full(len(lost), 0.975 - 0.037 * row_of_crosses)
            axis.plot(
                lost,
                height,
                "x",
                color=colour,
                markersize=6,
                markeredgewidth=1.8,
                transform=axis.get_xaxis_transform(),
            )
        axis.set(title=title, xlabel="distance of the two centres (standard deviations)")
        axis.grid(alpha=0.25)
        axis.set_xlim(-1.5, 61.5)
    axes[0].set_ylim(FLOOR / 4, 1e8)
    axes[0].set_yticks([10.0**k for k in range(-16, 5, 4)])
    axes[0].set_ylabel("absolute error (worst data set)")
    axes[1].tick_params(labelleft=True)
    handles, labels = axes[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="0.3", marker="x", linestyle="", markeredgewidth=1.8))
    labels.append("no number for some data sets")
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1), w_pad=2)
    figure.savefig(out, dpi=200)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="data sets per separation")
    parser.add_argument("--only", choices=["accuracy", "speed"])
    parser.add_argument("--out", type=Path, default=FIGURE)
    options = parser.parse_args()
    found = {}
    for name, engine, by_design in engines():
        check_wiring(name, engine, by_design)
        found[name] = engine
    if options.only != "accuracy":
        with threadpool_limits(1):
            print_speed({name: one for name, one in found.items() if name != LIFTED})
            print_batches()
    if options.only == "speed":
        print(f"\n{date.today()}, {versions()}")
        return
    with np.errstate(divide="ignore"):  # a determinant of zero: counted, not warned of
        errors, arithmetic = measure(found, options.seeds)
    log_z = {name: e.log_z for name, e in errors.items()}
    marginal = {name: e.marginal for name, e in errors.items() if e.marginal is not None}
    cells = {name: list(map(cell, e)) for name, e in log_z.items()}
    print_table("Error of log Z in nats:", {**cells, "arithmetic of outtrees": arithmetic})
    cells = {name: list(map(cell, e)) for name, e in marginal.items()}
    print_table("Largest error of an edge marginal:", cells)
    print(
        "\nOur largest marginal error where differences of log-weights are doubles: "
        f"{error_of_exact_differences(options.seeds):.0e}"
    )
    print(f"\n{date.today()}, {options.seeds} data sets per separation, {versions()}")
    draw({"log Z (nats)": log_z, "edge marginals": marginal}, options.out)


if __name__ == "__main__":
    main()
