"""D09: strided views and empty tensors in collectives, and a world of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..notebook import Notebook

VIEWS = """\
%%distributed
import torch, torch.distributed as dist
r, n = dist.get_rank(), dist.get_world_size()
plain = torch.arange(12.).reshape(3, 4)
base = plain + r
win = base.t()[1:3]
dist.all_reduce(win)
assert torch.equal(win, sum((plain + k).t()[1:3] for k in range(n)))
assert torch.equal(base[:, 0], plain[:, 0] + r) and torch.equal(base[:, 3], plain[:, 3] + r)
e = torch.empty(1, 0, 2)
outs = [torch.empty_like(e) for _ in range(n)]
dist.all_gather(outs, e); dist.all_reduce(e); dist.broadcast(e, 0)
assert all(o.shape == (1, 0, 2) for o in outs)
rows = [torch.empty(k, 2) for k in range(n)]  # rank 0 sends no row
dist.all_gather(rows, torch.full((r, 2), float(r)))
assert torch.cat(rows)[:, 0].tolist() == [float(k) for k in range(n) for _ in range(k)]
print("right")
"""
OVERLAPS = "%%distributed\nimport torch\ndist.all_reduce(torch.ones(1).expand(5))"


def test_views_are_right_and_overlaps_refused(notebook: Notebook) -> None:
    assert notebook.ok(VIEWS).stdout.splitlines() == ["[0-3] right"]
    refused = notebook.run(OVERLAPS)
    assert refused.evalue.startswith("rank 0-3: ValueError: elements of this tensor share memory")


@pytest.mark.timeout(180)
def test_in_a_world_of_one(tmp_path: Path) -> None:
    with Notebook(tmp_path) as alone:
        alone.ok("%load_ext nbdist\n%nbdist start -n 1", timeout=90)
        assert "right" in alone.ok(VIEWS).stdout
        refused = alone.run(OVERLAPS)
        assert "elements of this tensor share memory" in refused.evalue
