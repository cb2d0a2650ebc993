"""Measure how soon ranks that wait in vain are released, with nbdist and with gloo; and what idle ranks cost.

    python -m benchmarks.abort [--rounds 20] [--ranks 2 4] [--out figures]

In each round fresh processes form a group. All ranks but the last block in an allreduce, which the last never
joins. Then there is a cause: SIGINT to rank 0, an abort from another thread of rank 0, or SIGKILL of the last
rank, which holds some memory that the kernel has to take apart first. A figure is the time from the cause to
the error in Python, on each rank that was blocked. gloo gets a time limit, without which most of its waits
would last half an hour. `--out NAME` writes NAME.md and NAME.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

CAUSES = ("SIGINT", "abort", "SIGKILL")

# cause: milliseconds that the median and the worst may take.
BARS = {"SIGINT": (10.0, None), "SIGKILL": (100.0, 500.0)}

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed", "nbdist.comm"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--gloo-rounds", type=int, default=2)
    parser.add_argument("--gloo-limit", type=float, default=5.0, help="seconds that gloo may wait")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--ballast", type=int, default=256, help="MiB that a killed rank holds")
    parser.add_argument("--out", type=Path, help="write OUT.md and OUT.json")
    options = parser.parse_args()
    figures: dict[str, dict[str, list[float]]] = {}
    for size in options.ranks:
        for cause in CAUSES:
            figures[f"{cause}, {size} ranks"] = {
                "nbdist": repeat(options.rounds, size, "nbdist", cause, options),
                "gloo": repeat(options.gloo_rounds, size, "gloo", cause, options),
            }
    idle = {backend: Round(2, backend, "idle", options).run() for backend in ("nbdist", "gloo")}
    text, met = render(figures, idle, options.gloo_limit)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.with_suffix(".md").write_text(text + "\n")
        options.out.with_suffix(".json").write_text(json.dumps({**figures, "idle": idle}, indent=1) + "\n")
    return 0 if met else 1


def repeat(rounds: int, size: int, backend: str, cause: str, options: Any) -> list[float]:
    """Return the milliseconds that each blocked rank took in each round."""
    return [took for _ in range(rounds) for took in Round(size, backend, cause, options).run()]


class Round:
    """Fresh ranks, one cause."""

    def __init__(self, size: int, backend: str, cause: str, options: Any) -> None:
        self._size = size
        self._backend = backend
        self._cause = cause
        self._options = options
        self._patience = 60.0 + 3 * options.gloo_limit

    def run(self) -> list[float]:
        """Return milliseconds from the cause to the error by blocked rank; of idle ranks, % of a core."""
        with tempfile.TemporaryDirectory() as folder:
            lines, ranks = [], []
            for rank in range(self._size):
                ours, theirs = _context.Pipe()
                arguments = (theirs, folder, rank, self._size, self._backend, self._cause, self._options)
                ranks.append(_context.Process(target=be_rank, args=arguments, daemon=True))
                ranks[-1].start()
                theirs.close()
                lines.append(ours)
            try:
                return self._cause_it(lines, ranks)
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.join()

    def _cause_it(self, lines: list[Connection], ranks: list[Any]) -> list[float]:
        if self._cause == "idle":
            return [self._hear(line) for line in lines]
        for line in lines:
            self._hear(line)
        time.sleep(0.3)  # so that they are asleep in the kernel, as they would be
        began = time.monotonic()
        if self._cause == "abort":
            lines[0].send("abort")
        elif self._cause == "SIGINT":
            os.kill(ranks[0].pid, signal.SIGINT)
        else:
            os.kill(ranks[-1].pid, signal.SIGKILL)
        return [(self._hear(line) - began) * 1e3 for line in lines[:-1]]

    def _hear(self, line: Connection) -> float:
        if not line.poll(self._patience):
            raise TimeoutError(f"a rank was not released by {self._cause} within {self._patience:g} s")
        return float(line.recv())


def be_rank(
    line: Connection, folder: str, rank: int, size: int, backend: str, cause: str, options: Any
) -> None:
    """Block until released, and tell when that was."""
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
    if cause == "abort" and rank == 0:
        threading.Thread(target=abort_when_told, daemon=True).start()
    line.send(0.0)
    try:
        dist.all_reduce(ballast[:1000])
    except (RuntimeError, KeyboardInterrupt, nbdist.errors.GroupError):
        line.send(time.monotonic())
    threading.Event().wait()  # a process that ends would release the others, too


def idle_share() -> float:
    """Return how many % of a core this process uses, a second after its last work."""
    time.sleep(1)
    began, used = time.monotonic(), time.process_time()
    time.sleep(3)
    return 100 * (time.process_time() - used) / (time.monotonic() - began)


def render(
    figures: dict[str, dict[str, list[float]]], idle: dict[str, list[float]], limit: float
) -> tuple[str, bool]:
    """Draw the table, and say whether every bar is met."""
    lines = [
        f"From the cause to the error on every blocked rank, {os.cpu_count()} cores; gloo with a limit of "
        f"{limit:g} s (1800 by default)",
        "",
        "| ms | nbdist median | worst | gloo median | worst | bar |",
        "|---|---|---|---|---|---|",
    ]
    all_met = True
    for name, of_backends in figures.items():
        cells = [cell for times in of_backends.values() for cell in (statistics.median(times), max(times))]
        median, worst = BARS.get(name.partition(",")[0], (None, None))
        text = []
        for what, value, bar in (("median", cells[0], median), ("worst", cells[1], worst)):
            if bar is not None:
                all_met &= value <= bar
                text.append(f"{what} {bar:g}: {'met' if value <= bar else 'MISSED'}")
        lines.append(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} | {', '.join(text)} |")
    calm = max(idle["nbdist"]) < 0.05
    all_met &= calm
    shares = [f"{name} {percent(of_ranks)}" for name, of_ranks in idle.items()]
    verdict = "met" if calm else "MISSED"
    lines += ["", f"Idle, a second after the last work: {', '.join(shares)} of a core (bar 0.0 %: {verdict})"]
    return "\n".join(lines), all_met


def percent(shares: Sequence[float]) -> str:
    return f"{max(shares):.1f} %"


if __name__ == "__main__":
    raise SystemExit(main())
