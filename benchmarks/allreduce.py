"""Compare allreduce within one host: nbdist, gloo, MPI and what memory allows, in one run.

    python -m benchmarks.allreduce [--runs 3] [--scene NAME ...] [--out figures]

The contestants take turns in the same processes and on the same tensors, which are rewritten before each
operation (a tensor still in the cache from the last one flatters everybody). An operation's time is that of
its slowest rank, a run's figure the median over its operations. On a machine with other work to do only
ratios within one run mean something; a bar is held against the best run's. `--out NAME` writes NAME.md,
NAME.json and a picture of each scene.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .race import Times, launch, race, slowest
from .report import Bar, Report, tell

SIZES = {
    "4 B": 4,
    "4 KB": 4 << 10,
    "64 KB": 64 << 10,
    "1 MB": 1 << 20,
    "25 MB": 25 << 20,
    "100 MB": 100 << 20,
}
TURNS = {
    "4 B": (40, 20),
    "4 KB": (40, 20),
    "64 KB": (30, 10),
    "1 MB": (20, 5),
    "25 MB": (8, 2),
    "100 MB": (4, 2),
}
"""By size: how many turns each contestant has, and how many operations in one."""

OURS, NATIVE, ARENA, GLOO, THEIR_MPI, FLOOR = "nbdist", "native call", "arena", "gloo", "MPI", "floor"
ALLOWED = "allowed"
ALLOWED_SECONDS = {"4 B": 6e-6}
"""What a call itself may cost, however little it moves."""


@dataclass(frozen=True)
class Scene:
    """So many ranks, reducing tensors of one type."""

    name: str
    ranks: int
    dtype: str
    bars: dict[str, tuple[Bar, ...]]


SCENES = [
    Scene(
        "float32, 2 ranks",
        2,
        "float32",
        {
            "4 B": (Bar(OURS, ALLOWED, 1),),
            "4 KB": (Bar(OURS, GLOO, 30), Bar(NATIVE, THEIR_MPI, 1)),
            "64 KB": (Bar(OURS, GLOO, 15), Bar(NATIVE, THEIR_MPI, 1)),
            "1 MB": (Bar(OURS, GLOO, 6), Bar(NATIVE, THEIR_MPI, 1)),
            "25 MB": (
                Bar(OURS, GLOO, 4),
                Bar(NATIVE, THEIR_MPI, 1.7),
                Bar(ARENA, GLOO, 10),
                Bar(ARENA, THEIR_MPI, 4),
                Bar(ARENA, FLOOR, 1 / 1.3),
            ),
            "100 MB": (Bar(OURS, GLOO, 4), Bar(NATIVE, THEIR_MPI, 3)),
        },
    ),
    Scene(
        "bfloat16, 2 ranks",
        2,
        "bfloat16",
        {"1 MB": (Bar(OURS, GLOO, 8),), "25 MB": (Bar(OURS, GLOO, 3),), "100 MB": (Bar(OURS, GLOO, 5),)},
    ),
    Scene(
        "float32, 4 ranks",
        4,
        "float32",
        {"4 KB": (Bar(OURS, GLOO, 100),), "1 MB": (Bar(OURS, GLOO, 15),), "25 MB": (Bar(OURS, GLOO, 3.5),)},
    ),
]


def compare(arguments: Sequence[str] | None = None) -> list[str]:
    """Measure; return a line for each bar that was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="bars are held against the best run")
    parser.add_argument("--scene", nargs="+", choices=[scene.name for scene in SCENES])
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json and pictures")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds a run may take")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    scenes = [scene for scene in SCENES if not options.scene or scene.name in options.scene]
    if options.worker is not None:
        measure(options.worker, scenes[0])
        raise SystemExit
    report = Report("allreduce", options.out)
    report.compare(
        scenes,
        options.runs,
        lambda scene: launch("benchmarks.allreduce", ["--scene", scene.name], scene.ranks, options.timeout),
        f"allreduce, {{}} on {os.cpu_count()} cores",
    )
    return report.missed


def measure(folder: Path, scene: Scene) -> None:
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
    arena = InArena(ours) if scene.ranks == 2 and scene.dtype == "float32" else None
    floor = Floor(world) if scene.ranks == 2 and scene.dtype == "float32" else None

    figures: dict[str, Times] = {}
    for name in scene.bars:
        dtype = getattr(torch, scene.dtype)
        source = torch.rand(max(1, SIZES[name] // dtype.itemsize)).to(dtype)
        tensor = torch.empty_like(source)
        contestants: dict[str, Callable[[], object]] = {
            OURS: lambda t=tensor: dist.all_reduce(t, group=ours),
            NATIVE: native_call(ours, tensor),
            GLOO: lambda t=tensor: dist.all_reduce(t),
        }
        if scene.dtype != "bfloat16":
            array = tensor.numpy()
            contestants[THEIR_MPI] = lambda a=array: world.Allreduce(MPI.IN_PLACE, a)
        prepare: list[Callable[[], object]] = [lambda t=tensor, s=source: t.copy_(s)]
        if floor is not None and floor.usable:
            contestants[FLOOR] = floor.over(source.numel())
            prepare.append(lambda s=source: floor.mine[: s.numel()].copy_(s))
        if arena is not None:
            operation, place = arena.over(tensor)
            contestants[ARENA] = operation
            prepare.append(lambda p=place, s=source: p.copy_(s))
        turns, in_a_row = TURNS[name]
        times = race(
            contestants,
            lambda p=prepare: [each() for each in p],
            world.Barrier,
            time.perf_counter,
            turns,
            in_a_row,
        )
        figures[name] = slowest(world.allgather(times))
        if name in ALLOWED_SECONDS:
            figures[name][ALLOWED] = ALLOWED_SECONDS[name]
    if world.rank == 0:
        (folder / "figures.json").write_text(json.dumps(figures))
    world.Barrier()
    dist.destroy_process_group()


def native_call(group: Any, tensor: Any) -> Callable[[], object]:
    """Return our all_reduce without torch's and our own Python around it."""
    from nbdist.comm._native import Op
    from nbdist.comm.dtypes import number_code

    count, code = number_code(tensor, Op.sum)
    address, call = tensor.data_ptr(), group.native.all_reduce
    return lambda: call(address, count, code, Op.sum)


class InArena:
    """Our all_reduce on memory that lies in an arena, where nothing is copied."""

    def __init__(self, group: Any) -> None:
        from nbdist.comm import arena

        self._arena = arena.make(SIZES["100 MB"])
        self._window = arena.open_window(self._arena)
        if isinstance(self._arena, str) or isinstance(self._window, str):
            raise SystemExit(f"no arena: {self._window}")
        self._group = group

    def over(self, like: Any) -> tuple[Callable[[], object], Any]:
        """Return the operation on a tensor of this size, and the tensor."""
        from nbdist.comm import arena
        from nbdist.comm._native import Op
        from nbdist.comm.dtypes import number_code

        assert not isinstance(self._arena, str)
        place = arena.tensor(self._arena, 0, like.numel(), like.dtype)
        count, code = number_code(place, Op.sum)
        ranks, call = [0, 1], self._group.native.all_reduce_arena
        return (lambda: call(self._window, 0, count, code, Op.sum, ranks)), place


class Floor:
    """a = b = a + b over both cores, on memory that both processes share."""

    def __init__(self, world: Any) -> None:
        import numpy as np
        import torch
        from mpi4py import MPI

        self._rank = world.rank
        bytes_each = SIZES["100 MB"]
        self._window = MPI.Win.Allocate_shared(bytes_each, 4, comm=world)
        memory = [self._window.Shared_query(rank)[0] for rank in range(2)]
        self._places = [ctypes.c_void_p(part.address) for part in memory]
        self.mine = torch.from_numpy(np.frombuffer(memory[world.rank], dtype=np.float32))
        self._add = compile_floor()
        self.usable = all(world.allgather(self._add is not None))

    def over(self, count: int) -> Callable[[], object]:
        begin, end = count * self._rank // 2, count * (self._rank + 1) // 2
        a, b = self._places
        return lambda: self._add(a, b, ctypes.c_size_t(begin), ctypes.c_size_t(end))


def compile_floor() -> Any:
    """Build floor.c; nothing where there is no compiler, and the floor is left out."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "floor.so"
        source = Path(__file__).with_name("floor.c")
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source]
        subprocess.run(command, check=True, timeout=60)
        return ctypes.CDLL(str(library)).floor_add


if __name__ == "__main__":
    raise SystemExit(tell(compare()))
