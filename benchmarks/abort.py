"""Measure how soon ranks that wait in vain are released, with nbdist and with gloo; and what idle ranks cost.

    python -m benchmarks.abort [--runs 20] [--scene NAME ...] [--out figures]

In each run fresh processes form a group. All ranks but the last block in an allreduce, which the last never
joins. Then there is a cause: SIGINT to rank 0, an abort from another thread of rank 0, SIGKILL of the last
rank, which holds some memory that the kernel has to take apart first, or the plug of the last rank's host is
pulled. A figure is the time from the cause to the error in Python, on each rank that was blocked. gloo gets a
time limit, without which most of its waits would last half an hour. Hosts are network namespaces; they need
root and `ip` (package iproute2). `--out NAME` writes NAME.md, NAME.json and a picture of each scene.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .hosts import Hosts, enter, why_not
from .race import RunFailed
from .report import Bar, Report, Row, tell

OURS, GLOO, ALLOWED = "nbdist", "gloo", "allowed"
BACKENDS = {OURS: "nbdist", GLOO: "gloo"}

SIGINT, ABORT, SIGKILL, UNPLUGGED = "SIGINT", "abort", "SIGKILL", "unplugged"
ALLOWED_MS: dict[str, dict[Callable[[Sequence[float]], float], float]] = {
    SIGINT: {statistics.median: 10},
    ABORT: {statistics.median: 10},
    SIGKILL: {statistics.median: 100, max: 500},
    UNPLUGGED: {max: 3000},
}
"""What the median or the worst may take, by cause."""


@dataclass(frozen=True)
class Scene:
    """So many ranks, on so many hosts, and what befalls them."""

    name: str
    ranks: int
    hosts: int = 1
    causes: tuple[str, ...] = (SIGINT, ABORT, SIGKILL)


SCENES = [
    Scene("2 ranks", 2),
    Scene("4 ranks", 4),
    Scene("2 hosts x 2 ranks", 4, 2, (SIGINT, ABORT, SIGKILL, UNPLUGGED)),
]

_context = multiprocessing.get_context("forkserver")


def compare(arguments: Sequence[str] | None = None) -> list[str]:
    """Measure; return a line for each bar that was missed."""
    _context.set_forkserver_preload(["torch", "torch.distributed", "nbdist.comm"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--gloo-runs", type=int, default=2)
    parser.add_argument("--gloo-limit", type=float, default=5.0, help="seconds that gloo may wait")
    parser.add_argument("--scene", nargs="+", choices=[scene.name for scene in SCENES])
    parser.add_argument("--ballast", type=int, default=256, help="MiB that a killed rank holds")
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json and pictures")
    options = parser.parse_args(arguments)
    report = Report("abort", options.out)
    for scene in SCENES:
        if options.scene and scene.name not in options.scene:
            continue
        if scene.hosts > 1 and (reason := why_not()):
            print(f"abort, {scene.name}: not measured: {reason}.\n")
            continue
        rows = [row for cause in scene.causes for row in measure(report, scene, cause, options)]
        title = (
            f"from the cause to the error on every blocked rank, {scene.name} on {os.cpu_count()} cores, "
            f"{options.runs} runs; gloo with a limit of {options.gloo_limit:g} s (1800 by default)"
        )
        report.add(scene.name, title, rows, 1e3, "ms")
    idle = {
        name: report.repeat(f"idle {name}", 1, Round(SCENES[0], backend, "idle", options).run)
        for name, backend in BACKENDS.items()
    }
    shares = {name: max(runs[0]) for name, runs in idle.items() if runs}
    text = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    calm = shares.get(OURS, 0.0) < 0.0005
    text = f"idle, a second after the last work: {text} of a core; bar 0.0%: {'met' if calm else 'MISSED'}"
    report.say(text, {"idle": idle})
    return report.missed if calm else [*report.missed, f"abort, {text}"]


def measure(report: Report, scene: Scene, cause: str, options: Any) -> list[Row]:
    """Take the seconds of each blocked rank in each run; return them held against the bars."""
    runs = {OURS: options.runs, GLOO: min(options.runs, options.gloo_runs)}
    taken = {}
    for name, backend in BACKENDS.items():
        once = Round(scene, backend, cause, options).run
        of_runs = report.repeat(f"{scene.name}, {cause}, {name}", runs[name], once)
        taken[name] = [took for run in of_runs for took in run]
    return held_against(cause, taken)


def held_against(cause: str, taken: dict[str, list[float]]) -> list[Row]:
    """Return the median and the worst, each beside what it may be."""
    rows = []
    for what, of in (("median", statistics.median), ("worst", max)):
        times = {name: of(seconds) for name, seconds in taken.items() if seconds}
        if of in ALLOWED_MS[cause]:
            times[ALLOWED] = ALLOWED_MS[cause][of] / 1e3
        rows.append(Row(f"{cause}, {what}", [times], (Bar(OURS, ALLOWED, 1),) if ALLOWED in times else ()))
    return rows


class Round:
    """Fresh ranks, one cause."""

    def __init__(self, scene: Scene, backend: str, cause: str, options: Any) -> None:
        self._scene = scene
        self._backend = backend
        self._cause = cause
        self._options = options
        self._patience = 60.0 + 3 * options.gloo_limit

    def run(self) -> list[float]:
        """Return seconds from the cause to the error by blocked rank; of idle ranks, the share of a core."""
        scene = self._scene
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            hosts = stack.enter_context(Hosts(scene.hosts)) if scene.hosts > 1 else None
            lines, ranks = [], []
            for rank in range(scene.ranks):
                ours, theirs = _context.Pipe()
                lines.append(stack.enter_context(ours))  # closed after its rank has been ended
                host = hosts.names[rank * scene.hosts // scene.ranks] if hosts is not None else None
                arguments = (
                    theirs,
                    folder,
                    host,
                    rank,
                    scene.ranks,
                    self._backend,
                    self._cause,
                    self._options,
                )
                ranks.append(_context.Process(target=be_rank, args=arguments, daemon=True))
                ranks[-1].start()
                stack.callback(ranks[-1].join)
                stack.callback(ranks[-1].kill)
                theirs.close()
            told = [self._hear(line) for line in lines]
            if self._cause == "idle":
                return told
            time.sleep(0.3)  # so that they are asleep in the kernel, as they would be
            began = time.monotonic()
            if self._cause == ABORT:
                lines[0].send("abort")
            elif self._cause == SIGINT:
                os.kill(ranks[0].pid, signal.SIGINT)
            elif self._cause == SIGKILL:
                os.kill(ranks[-1].pid, signal.SIGKILL)
            else:
                hosts.cut(scene.hosts - 1)
            return [self._hear(line) - began for line in lines[:-1]]

    def _hear(self, line: Connection) -> float:
        if not line.poll(self._patience):
            raise RunFailed(f"a rank was not released by {self._cause} within {self._patience:g} s")
        try:
            return float(line.recv())
        except EOFError as error:
            raise RunFailed("a rank died; see above") from error


def be_rank(
    line: Connection,
    folder: str,
    host: str | None,
    rank: int,
    size: int,
    backend: str,
    cause: str,
    options: Any,
) -> None:
    """Block until released, and tell when that was."""
    if host is not None:
        enter(host)  # before anything makes a thread
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"

    import torch
    import torch.distributed as dist

    import nbdist.comm

    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    limit = {"timeout": timedelta(seconds=options.gloo_limit)} if backend == "gloo" else {}
    store = dist.FileStore(os.path.join(folder, "store"), size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, **limit)
    for _ in range(20):
        work = dist.all_reduce(torch.ones(100_000), async_op=True)
        assert work is not None
        work.wait()
    if cause == "idle":
        line.send(idle_share())
        line.recv()  # until killed
    ballast = torch.ones(options.ballast << 18)
    if rank == size - 1:
        line.send(0.0)
        line.recv()
    group = dist.group.WORLD
    assert group is not None
    abort_when_told: Callable[[], None] = lambda: (line.recv(), group.abort())  # noqa: E731
    if cause == ABORT and rank == 0:
        threading.Thread(target=abort_when_told, daemon=True).start()
    line.send(0.0)
    try:
        dist.all_reduce(ballast[:1000])
    except (RuntimeError, KeyboardInterrupt, nbdist.errors.GroupError):
        line.send(time.monotonic())
    threading.Event().wait()  # a process that ends would release the others, too


def idle_share() -> float:
    """Return how much of a core this process uses, a second after its last work."""
    time.sleep(1)
    began, used = time.monotonic(), time.process_time()
    time.sleep(3)
    return (time.process_time() - used) / (time.monotonic() - began)


if __name__ == "__main__":
    raise SystemExit(tell(compare()))
