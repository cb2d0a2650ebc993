"""Compare training steps: our model wrapper, DDP on nbdist and on gloo, and no exchange at all.

    python -m benchmarks.step [--runs 3] [--scene NAME ...] [--out figures]

Every contestant trains the same net on data of the same shape, two ranks on one host with a thread each,
and they take turns in the same processes. A step is zero_grad, forward, backward and optimizer. `apart` are
two ranks that do not exchange anything, `one rank` is one of them while the other sleeps, `idle` is DDP over
a group that does nothing, so what a backend costs is what a step takes beyond that. A bar is held against
the best run's ratio. `--out NAME` writes NAME.md, NAME.json and pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .race import Times, launch, race, slowest
from .report import Bar, Report, Row, tell

ONE, APART, IDLE, GLOO, OURS, ARENA = (
    "one rank",
    "apart",
    "idle DDP",
    "gloo DDP",
    "nbdist DDP",
    "nbdist model",
)
COST = "cost of "


@dataclass(frozen=True)
class Scene:
    """A net, the shape of its examples, and what is expected."""

    net: str
    batch: int
    shape: tuple[int, ...]
    steps: int
    """Steps in a row that are timed as one."""
    bars: tuple[Bar, ...]


SCENES = {
    "25 M parameters": Scene(
        "wide",
        64,
        (2048,),
        2,
        (Bar(COST + OURS, COST + GLOO, 1 / 0.35), Bar(COST + ARENA, COST + GLOO, 1 / 0.15)),
    ),
    "VGG-like": Scene("vgg", 32, (3, 32, 32), 3, (Bar(ARENA, GLOO, 1.5), Bar(ARENA, APART, 0.92))),
    "ResNet-20": Scene("resnet", 32, (3, 32, 32), 5, (Bar(ARENA, ONE, 0.95),)),
}


def compare(arguments: Sequence[str] | None = None) -> list[str]:
    """Measure; return a line for each bar that was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="bars are held against the best run")
    parser.add_argument("--turns", type=int, default=4, help="turns of each contestant in a run")
    parser.add_argument("--scene", nargs="+", choices=list(SCENES), default=list(SCENES))
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json and a picture")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds a run may take")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        measure(options.worker, SCENES[options.scene[0]], options.turns)
        raise SystemExit
    report = Report("step", options.out)
    rows = []
    for name in options.scene:
        again = ["--scene", name, "--turns", str(options.turns)]
        runs = report.repeat(
            name,
            options.runs,
            lambda again=again: with_costs(launch("benchmarks.step", again, 2, options.timeout)),
        )
        if runs:
            rows.append(Row(name, runs, SCENES[name].bars))
    if rows:
        title = f"a training step, 2 ranks on {os.cpu_count()} cores, median of {options.runs} runs"
        report.add("2 ranks", title, rows, scale=1e3, unit="ms")
    return report.missed


def with_costs(run: Any) -> Times:
    """Add what a backend costs beyond DDP's own work."""
    costs = {COST + name: max(run[name] - run[IDLE], 1e-5) for name in (GLOO, OURS, ARENA)}
    return run | costs


def measure(folder: Path, scene: Scene, turns: int) -> None:
    """Be one rank."""
    import torch
    import torch.distributed as dist
    from mpi4py import MPI
    from torch.nn.parallel import DistributedDataParallel

    import nbdist.comm  # noqa: F401 - registers the backend
    from nbdist.train import ring

    world = MPI.COMM_WORLD
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), world.size)
    dist.init_process_group("nbdist", store=store, rank=world.rank, world_size=world.size)
    gloo = dist.new_group(backend="gloo")
    inputs = torch.randn(scene.batch, *scene.shape)
    wrap: Mapping[str, Callable[[Any], Any]] = {
        ONE: lambda net: net,
        APART: lambda net: net,
        IDLE: lambda net: DistributedDataParallel(net, process_group=idle_group(world.rank, world.size)),
        GLOO: lambda net: DistributedDataParallel(net, process_group=gloo),
        OURS: DistributedDataParallel,
        ARENA: ring.attach,
    }

    def steps_of(name: str) -> Callable[[], object]:
        net = wrap[name](build(scene.net))
        optimizer = torch.optim.SGD(net.parameters(), 1e-4, momentum=0.9)

        def steps() -> None:
            if name == ONE and world.rank == 1:
                return
            for _ in range(scene.steps):
                optimizer.zero_grad()
                net(inputs).square().mean().backward()
                optimizer.step()

        return steps

    contestants = {name: steps_of(name) for name in wrap}
    for steps in contestants.values():
        steps()
    # Our own barrier sleeps, and so leaves `one rank` the machine.
    times = race(contestants, lambda: None, dist.barrier, time.perf_counter, turns, 2)
    figures = {name: seconds / scene.steps for name, seconds in slowest(world.allgather(times)).items()}
    if world.rank == 0:
        (folder / "figures.json").write_text(json.dumps(figures))
    world.Barrier()
    dist.destroy_process_group()


def idle_group(rank: int, size: int) -> Any:
    """Make a group whose collectives do nothing, but tell every rank what it says itself."""
    import torch.distributed as dist

    from nbdist.comm.work import Finished

    class Idle(dist.ProcessGroup):
        def allreduce(self, tensors: Any, opts: Any = None) -> dist.Work:
            return Finished(tensors)

        allreduce_coalesced = allreduce

        def broadcast(self, tensors: Any, opts: Any) -> dist.Work:
            return Finished(tensors)

        def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
            for output in outputs[0]:
                output.copy_(inputs[0])
            return Finished(outputs)

        def getBackendName(self) -> str:  # noqa: N802
            return "idle"

    return Idle(rank, size)


def build(kind: str) -> Any:
    """Build a net."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if kind == "wide":
        layers = [layer for _ in range(6) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
        return nn.Sequential(*layers)
    if kind == "vgg":
        return nn.Sequential(*vgg_layers(), nn.Flatten(), *head())
    return nn.Sequential(*resnet_layers())


def vgg_layers() -> list[Any]:
    from torch import nn

    layers: list[Any] = []
    width = 3
    for wide in (64, 128, 256, 512):
        layers += [nn.Conv2d(width, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        width = wide
    return layers


def head() -> list[Any]:
    from torch import nn

    return [nn.Linear(2048, 3584), nn.ReLU(), nn.Linear(3584, 1024), nn.ReLU(), nn.Linear(1024, 10)]


def resnet_layers() -> list[Any]:
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before: int, width: int) -> None:
            super().__init__()
            stride = 1 if before == width else 2
            self.first = nn.Conv2d(before, width, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
            self.stride, self.more = stride, width - before

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
            kept = x[:, :, :: self.stride, :: self.stride]
            return torch.relu(y + nn.functional.pad(kept, (0, 0, 0, 0, 0, self.more)))

    widths = [16] * 4 + [32] * 3 + [64] * 3
    blocks = [Block(before, width) for before, width in pairwise(widths)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return [*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]


if __name__ == "__main__":
    raise SystemExit(tell(compare()))
