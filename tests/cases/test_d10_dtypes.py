"""D10: every dtype gives the right answer; a sum of booleans is a logical or."""

from __future__ import annotations

from ..notebook import Notebook

CELL = """\
%%distributed
import torch, torch.distributed as dist
r, n = dist.get_rank(), dist.get_world_size()
for name in "float16 bfloat16 float32 float64 int8 uint8 int32 int64 bool complex64".split():
    dt = getattr(torch, name)
    y = torch.tensor([r, 1, 0]).to(dt); dist.broadcast(y, src=n - 1)
    assert y.dtype == dt and torch.equal(y, torch.tensor([n - 1, 1, 0]).to(dt))
    outs = [torch.empty(3, dtype=dt) for _ in range(n)]
    dist.all_gather(outs, torch.tensor([r, 1, 0]).to(dt))
    assert all(torch.equal(out, torch.tensor([k, 1, 0]).to(dt)) for k, out in enumerate(outs))
    x = torch.tensor([r, 1, 0]).to(dt)
    dist.all_reduce(x); print(name, x.tolist())
big = torch.tensor([2**60 + r]); dist.all_reduce(big)
assert big.item() == n * 2**60 + n * (n - 1) // 2      # exact, no float detour
"""
SUMS = {
    "[6, 4, 0]": "int8 uint8 int32 int64",
    "[6.0, 4.0, 0.0]": "float16 bfloat16 float32 float64",
    "[(6+0j), (4+0j), 0j]": "complex64",
    "[True, True, False]": "bool",
}


def test_all_ten_types(notebook: Notebook) -> None:
    said = notebook.ok(CELL).stdout.splitlines()
    right = [f"[0-3] {name} {numbers}" for numbers, names in SUMS.items() for name in names.split()]
    assert sorted(said) == sorted(right)


def test_a_refusal_names_type_and_operation_on_all_ranks(notebook: Notebook) -> None:
    result = notebook.run(
        "%%distributed\nimport torch\ndist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND)"
    )
    assert result.evalue.startswith("rank 0-3: TypeError: nbdist does not reduce float32 with band")
