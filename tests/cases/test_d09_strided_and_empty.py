"""D09: strided views and empty tensors in collectives, and a world of one."""

from __future__ import annotations

from pathlib import Path

from ..notebook import Notebook

CHECK = """\
%%distributed
import torch, torch.distributed as dist
r, n = dist.get_rank(), dist.get_world_size()
plain = torch.arange(12.).reshape(3, 4)
base = plain + r
win = base.t()[1:3]                                   # strided window: columns 1 and 2
dist.all_reduce(win)
assert torch.equal(win, sum((plain + k).t()[1:3] for k in range(n)))
assert torch.equal(base[:, 0], plain[:, 0] + r) and torch.equal(base[:, 3], plain[:, 3] + r)
e = torch.empty(1, 0, 2)
outs = [torch.empty_like(e) for _ in range(n)]
dist.all_gather(outs, e); dist.all_reduce(e); dist.broadcast(e, 0)
assert all(o.shape == (1, 0, 2) for o in outs)
"""

# The case says hvd.allgather; without nbdist.horovod the same is an all_gather of uneven sizes.
UNEVEN = """\
g = [torch.empty(k, 2) for k in range(n)]
dist.all_gather(g, torch.full((r, 2), float(r)))      # rank 0 sends no row
assert torch.cat(g)[:, 0].tolist() == [float(k) for k in range(n) for _ in range(k)]
print("right")
"""

OVERLAP = """\
%%distributed
import torch, torch.distributed as dist
dist.all_reduce(torch.ones(1).expand(5))
"""


def check(notebook: Notebook, ranks: str) -> None:
    said = notebook.ok(CHECK + UNEVEN, timeout=30).stdout
    assert said.splitlines() == [f"[{ranks}] right"]
    refused = notebook.run(OVERLAP, timeout=30)
    assert refused.status == "error"
    assert refused.evalue.startswith(f"rank {ranks}: ValueError: elements of this tensor share memory"), (
        "every rank refuses, in the same words"
    )
    notebook.alive()


def test_four_ranks(notebook: Notebook) -> None:
    check(notebook, "0-3")


def test_a_world_of_one(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 1", timeout=90)
        check(notebook, "0")
