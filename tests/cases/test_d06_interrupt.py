"""D06: an interrupt reaches ranks that are stuck in native code, and leaves them usable and idle."""

from __future__ import annotations

import ast
import time

import psutil

from ..notebook import Notebook

STUCK = """\
%%distributed
import os, time, torch.distributed as dist
kept, pid = dist.get_rank() * 7, os.getpid()
print("in", flush=True)
if dist.get_rank() == 0:
    dist.barrier()
while True: time.sleep(0.1)
"""


def pids(notebook: Notebook) -> list[int]:
    """Return the process of each rank."""
    said = notebook.ok(
        "%%distributed\nimport os\nparts = [None] * size\ndist.all_gather_object(parts, os.getpid())\n"
        "if rank == 0: print(parts)"
    ).stdout
    return list(ast.literal_eval(said.removeprefix("[0] ").strip()))


def test_interrupt_three_times_in_a_row(notebook: Notebook) -> None:
    ranks = [psutil.Process(pid) for pid in pids(notebook)]
    for _ in range(3):
        sent = notebook.send(STUCK)
        notebook.await_ranks(sent, "in")
        notebook.interrupt()
        result = notebook.collect(sent, timeout=10)
        assert result.status == "error"
        assert result.ename == "KeyboardInterrupt"
        notebook.ok("%%distributed\nassert (kept, pid) == (rank * 7, os.getpid())")
        # A message left over from the broken barrier would spoil this sum.
        said = notebook.ok(
            "%%distributed\nimport torch\nt = torch.ones(3) * (rank + 1)\n"
            "dist.all_reduce(t)\nassert t.tolist() == [10.0, 10.0, 10.0]\nprint(t.tolist())"
        )
        assert said.stdout.splitlines() == ["[0-3] [10.0, 10.0, 10.0]"]
    before = [sum(rank.cpu_times()[:2]) for rank in ranks]
    time.sleep(2)  # what is measured, not waited for
    used = [sum(rank.cpu_times()[:2]) - spent for rank, spent in zip(ranks, before, strict=True)]
    # One that spins would use half a core, even where four share two.
    assert max(used) < 0.4, used
