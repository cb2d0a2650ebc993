"""D06: an interrupt reaches ranks stuck in native code and leaves them usable."""

from __future__ import annotations

import re

from ..notebook import Notebook

STUCK = """\
%%distributed
import os, time, torch.distributed as dist
kept, pid = dist.get_rank() * 7, os.getpid()
print("waiting", flush=True)
if dist.get_rank() == 0:
    dist.barrier()
while True: time.sleep(0.1)
"""
LATER = """\
%%distributed
import os, resource, time, torch
assert (kept, pid) == (rank * 7, os.getpid())
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
used = time.process_time(); time.sleep(1.0); used = time.process_time() - used
print(total.item(), used < 0.3)
"""


def test_three_times_in_a_row(notebook: Notebook) -> None:
    for _ in range(3):
        sent = notebook.send(STUCK)
        notebook.await_text(sent, "waiting")
        notebook.interrupt()
        result = notebook.collect(sent, timeout=30)
        assert (result.status, result.ename) == ("error", "KeyboardInterrupt")
        # Exactly 10: nothing of the broken barrier is taken for the sum's. And nobody burns a core.
        assert notebook.ok(LATER).stdout.splitlines() == ["[0-3] 10.0 True"]
    pids = re.findall(r"\d+", notebook.ok("%%distributed\npid").stdout)
    assert len(pids) >= 4
