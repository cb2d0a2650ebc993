"""Compare allreduce: nbdist, gloo and Open MPI, in one run.

    python benchmarks/allreduce.py [--ranks 2] [--runs 3] [--out figures]

The three take turns within every round, in the same processes and on the same tensors, which are rewritten
before each operation (a tensor still in the cache from the last one flatters everybody). A round's time is
that of its slowest rank, and a run's figure the median over its rounds. On a machine with other work to do
only ratios within one run mean something: a bar is held against the median over runs of that ratio. nbdist
and gloo are called as users call them, through torch.distributed.all_reduce; Open MPI through mpi4py, in
place. `--out NAME` writes NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SIZES = {"4 KB": 4 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20, "25 MB": 25 << 20}
ROUNDS = {"4 KB": 300, "64 KB": 200, "1 MB": 100, "25 MB": 25}

RIVALS = ("gloo", "Open MPI")

# Medians in seconds, by size and name.
Figures = dict[str, dict[str, float]]

# (size, rival): how many times faster than it we must be.
BARS = {("1 MB", "gloo"): 3.0, ("25 MB", "gloo"): 3.0, ("25 MB", "Open MPI"): 1.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3, help="bars are held against the median run")
    parser.add_argument("--out", type=Path, help="write the table to OUT.json and OUT.md")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds a run may take")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        measure(options.worker)
        return 0
    runs = [launch(options.ranks, options.timeout) for _ in range(options.runs)]
    table, met = render(runs, options.ranks)
    print(table)
    if options.out is not None:
        options.out.with_suffix(".json").write_text(json.dumps(runs, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(table + "\n")
    return 0 if met else 1


def launch(ranks: int, timeout: float) -> Figures:
    """Start the ranks under the mpiexec of this environment; return medians in seconds by size and rival."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        # Bound to one core, gloo's own thread would have to share it with ours.
        command = [mpiexec, "-n", str(ranks), "--bind-to", "none", sys.executable, __file__]
        subprocess.run([*command, "--worker", folder], env=environment, timeout=timeout, check=True)
        return json.loads((Path(folder) / "figures.json").read_text())


def measure(folder: Path) -> None:
    """Be one rank."""
    import torch
    import torch.distributed as dist
    from mpi4py import MPI

    import nbdist.comm  # noqa: F401 - registers the backend

    world = MPI.COMM_WORLD
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), world.size)
    dist.init_process_group("gloo", store=store, rank=world.rank, world_size=world.size)
    ours = dist.new_group(backend="nbdist")

    figures = {}
    for name, size in SIZES.items():
        source = torch.rand(size // 4)
        tensor = torch.empty_like(source)
        array = tensor.numpy()
        rivals: dict[str, Callable[[], object]] = {
            "nbdist": lambda t=tensor: dist.all_reduce(t, group=ours),
            "gloo": lambda t=tensor: dist.all_reduce(t),
            "Open MPI": lambda a=array: world.Allreduce(MPI.IN_PLACE, a),
        }
        times: dict[str, list[float]] = {rival: [] for rival in rivals}
        for _ in range(ROUNDS[name] + 3):
            for rival, operation in rivals.items():
                tensor.copy_(source)
                world.Barrier()
                began = time.perf_counter()
                operation()
                times[rival].append(time.perf_counter() - began)
        slowest = {
            rival: [max(of_ranks) for of_ranks in zip(*world.allgather(mine), strict=True)][3:]
            for rival, mine in times.items()
        }
        figures[name] = {rival: statistics.median(rounds) for rival, rounds in slowest.items()}
    if world.rank == 0:
        (folder / "figures.json").write_text(json.dumps(figures))
    world.Barrier()
    dist.destroy_process_group()


def render(runs: list[Figures], ranks: int) -> tuple[str, bool]:
    """Draw the table, and say whether every bar is met."""
    lines = [
        f"allreduce of float32, {ranks} ranks on {os.cpu_count()} cores: median of {len(runs)} runs; "
        "microseconds, and times ours (lowest-highest run)",
        "",
        "| size | nbdist | gloo | Open MPI | gloo / nbdist | Open MPI / nbdist | bars |",
        "|---|---|---|---|---|---|---|",
    ]
    all_met = True
    for size in SIZES:
        cells, verdicts = [], []
        for name in ("nbdist", *RIVALS):
            cells.append(f"{statistics.median(run[size][name] for run in runs) * 1e6:.1f}")
        for rival in RIVALS:
            ratios = sorted(run[size][rival] / run[size]["nbdist"] for run in runs)
            middle = statistics.median(ratios)
            cells.append(f"{middle:.2f}x ({ratios[0]:.2f}-{ratios[-1]:.2f})")
            bar = BARS.get((size, rival))
            if bar is not None and ranks == 2:
                all_met &= middle >= bar
                verdicts.append(f"{bar:g}x {rival}: {'met' if middle >= bar else 'MISSED'}")
        lines.append(f"| {size} | {' | '.join(cells)} | {', '.join(verdicts)} |")
    return "\n".join(lines), all_met


if __name__ == "__main__":
    raise SystemExit(main())
