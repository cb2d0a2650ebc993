"""D10: every dtype gives the right answer. The sum of booleans is logical or."""

from __future__ import annotations

from ..notebook import Notebook

NAMES = "float16 bfloat16 float32 float64 int8 uint8 int32 int64 bool complex64"

CHECK = f"""\
%%distributed
import torch, torch.distributed as dist
r, n = dist.get_rank(), dist.get_world_size()
for name in "{NAMES}".split():
    dt = getattr(torch, name)
    y = torch.tensor([r, 1, 0]).to(dt); dist.broadcast(y, src=n - 1)
    assert y.dtype == dt and torch.equal(y, torch.tensor([n - 1, 1, 0]).to(dt))
    parts = [torch.empty(3, dtype=dt) for _ in range(n)]
    dist.all_gather(parts, torch.tensor([r, 1, 0]).to(dt))
    assert all(torch.equal(part, torch.tensor([k, 1, 0]).to(dt)) for k, part in enumerate(parts))
    x = torch.tensor([r, 1, 0]).to(dt)
    try:
        dist.all_reduce(x); print(name, x.tolist())
    except Exception as err:
        print(name, "refused:", err)
big = torch.tensor([2**60 + r]); dist.all_reduce(big)
assert big.item() == n * 2**60 + n * (n - 1) // 2      # exact, no float detour
"""

REFUSED = """\
%%distributed
import torch, torch.distributed as dist
x = torch.ones(3)
try:
    dist.all_reduce(x, dist.ReduceOp.BAND)
except TypeError as err:
    print(err)
assert x.tolist() == [1, 1, 1]
"""


def test_every_type_sums_exactly(notebook: Notebook) -> None:
    right = {
        **{name: [6.0, 4.0, 0.0] for name in NAMES.split() if "float" in name},
        **{name: [6, 4, 0] for name in NAMES.split() if "int" in name},
        "bool": [True, True, False],
        "complex64": [6 + 0j, 4 + 0j, 0j],
    }
    said = notebook.ok(CHECK, timeout=30).stdout.splitlines()
    text = [line.removeprefix("[0-3]").strip() for line in said]
    assert [line for line in text if line] == [f"{name} {right[name]}" for name in NAMES.split()]


def test_a_refusal_names_type_and_operation_on_every_rank(notebook: Notebook) -> None:
    said = notebook.ok(REFUSED, timeout=30).stdout
    assert said == (
        "[0-3] nbdist does not reduce float32 with band; convert the tensor, or use another reduction\n"
    )
    notebook.alive()
