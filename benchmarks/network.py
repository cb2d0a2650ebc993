"""Compare allreduce between hosts: nbdist and gloo in one run, over network namespaces as hosts.

    python -m benchmarks.network [--runs 3] [--scene NAME ...] [--out figures]

Needs root and `ip` (package iproute2). Each host is a network namespace; they are joined by a bridge, and
where a rate is given `tc tbf` shapes what leaves a host. "line" is the time in which 2(H-1)/H of the bytes
(Patarasuk & Yuan, JPDC 69(2), 2009) pass at that rate, H hosts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .hosts import Hosts, enter, why_not
from .race import RunFailed, Times, race, slowest
from .report import Bar, Report, tell

OURS, GLOO, LINE = "nbdist", "gloo", "line"
SIZES = {"4 KB": 4 << 10, "1 MB": 1 << 20, "25 MB": 25 << 20, "100 MB": 100 << 20}
TURNS = {"4 KB": (20, 10), "1 MB": (15, 4), "25 MB": (5, 1), "100 MB": (4, 1)}


@dataclass(frozen=True)
class Scene:
    """So many hosts with so many ranks each, on such a line."""

    name: str
    hosts: int
    ranks_each: int
    gbit: float
    """Gbit/s that may leave a host; 0 where nothing limits it."""
    bars: dict[str, tuple[Bar, ...]]


SCENES = [
    Scene(
        "4 hosts, 1 Gbit per s",
        4,
        1,
        1.0,
        {
            "4 KB": (Bar(OURS, GLOO, 15),),
            "1 MB": (Bar(OURS, LINE, 0.94),),
            "25 MB": (Bar(OURS, LINE, 0.94),),
            "100 MB": (Bar(OURS, LINE, 0.94),),
        },
    ),
    Scene(
        "2 hosts, no limit",
        2,
        1,
        0.0,
        {"1 MB": (Bar(OURS, GLOO, 4),), "25 MB": (Bar(OURS, GLOO, 1.2),), "100 MB": (Bar(OURS, GLOO, 1.4),)},
    ),
    Scene(
        "2 hosts x 2 ranks, 1 Gbit per s",
        2,
        2,
        1.0,
        {"1 MB": (Bar(OURS, GLOO, 1.5),), "25 MB": (Bar(OURS, GLOO, 1.3),)},
    ),
]


def compare(arguments: Sequence[str] | None = None) -> list[str]:
    """Measure; return a line for each bar that was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="bars are held against the best run")
    parser.add_argument("--scene", nargs="+", choices=[scene.name for scene in SCENES])
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json and pictures")
    parser.add_argument("--timeout", type=float, default=200.0, help="seconds a run may take")
    parser.add_argument(
        "--worker", nargs=4, metavar=("FOLDER", "HOST", "RANK", "SIZE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    scenes = [scene for scene in SCENES if not options.scene or scene.name in options.scene]
    if options.worker is not None:
        folder, host, rank, size = options.worker
        measure(Path(folder), host, int(rank), int(size), list(scenes[0].bars))
        raise SystemExit
    if reason := why_not():
        print(f"network: not measured: {reason}.\n")
        return []
    report = Report("network", options.out)
    report.compare(
        scenes, options.runs, lambda scene: run(scene, options.timeout), "allreduce of float32, {}"
    )
    return report.missed


def run(scene: Scene, timeout: float) -> dict[str, Times]:
    """Make the hosts, start the ranks on them, and return medians by size and contestant."""
    size = scene.hosts * scene.ranks_each
    rate = f"{scene.gbit:g}gbit" if scene.gbit else None
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    with tempfile.TemporaryDirectory() as folder, Hosts(scene.hosts, rate=rate) as hosts:
        ranks = []
        try:
            for rank in range(size):
                host = hosts.names[rank // scene.ranks_each]
                worker = ["--worker", folder, host, str(rank), str(size)]
                command = [sys.executable, "-m", "benchmarks.network", "--scene", scene.name, *worker]
                ranks.append(subprocess.Popen(command, env=environment))
            deadline = time.monotonic() + timeout
            for process in ranks:
                if process.wait(max(0.1, deadline - time.monotonic())) != 0:
                    raise RunFailed("a rank failed; see above")
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"it took longer than {timeout:g} s") from error
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        figures: dict[str, Times] = json.loads((Path(folder) / "figures.json").read_text())
    if scene.gbit:
        share = 2 * (scene.hosts - 1) / scene.hosts
        for name, times in figures.items():
            times[LINE] = share * SIZES[name] * 8 / (scene.gbit * 1e9)
    return {name: figures[name] for name in scene.bars}


def measure(folder: Path, host: str, rank: int, size: int, names: list[str]) -> None:
    """Be one rank, on its host."""
    enter(host)  # before anything makes a thread

    import torch
    import torch.distributed as dist

    import nbdist.comm  # noqa: F401 - registers the backend

    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    ours = dist.new_group(backend="nbdist")
    figures = {}
    for name in names:
        source = torch.rand(SIZES[name] // 4)
        tensor = torch.empty_like(source)
        contestants = {
            OURS: lambda t=tensor: dist.all_reduce(t, group=ours),
            GLOO: lambda t=tensor: dist.all_reduce(t),
        }
        times = race(
            contestants,
            lambda t=tensor, s=source: t.copy_(s),
            lambda: dist.barrier(group=ours),
            time.perf_counter,
            *TURNS[name],
        )
        told: list[dict[str, list[float]]] = [{}] * size
        dist.all_gather_object(told, times)
        figures[name] = slowest(told)
    if rank == 0:
        (folder / "figures.json").write_text(json.dumps(figures))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    raise SystemExit(tell(compare()))
