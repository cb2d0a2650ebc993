"""D08: parameters that get no gradient, or other ones on other ranks."""

from __future__ import annotations

from ..notebook import Notebook

MODEL = """\
import torch
class TwoHead(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = (torch.nn.Linear(4, k) for k in (4, 1, 1))
    def forward(self, x, use_b):
        return (self.b if use_b else self.a)(self.body(x))
net = TwoHead()
"""

TRAIN = """\
%%distributed --model net
import copy, torch, torch.distributed as dist

def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

def loss(model, r, step, use_b):
    x = torch.arange(8.0).reshape(2, 4) / 10 + r + step
    return model(x, use_b).pow(2).mean()

# What all ranks together should do, done by each alone: a gradient that is missing counts as zero.
twin = type(net)()
twin.load_state_dict(net.state_dict())
opt = torch.optim.SGD(net.parameters(), lr=0.001)
before_b = None
for step in range(6):
    wants_b = lambda r: step < 3 and r % 2 == 1
    if step == 3:
        before_b = [p.detach().clone() for p in net.b.parameters()]
    opt.zero_grad()
    loss(net, rank, step, wants_b(rank)).backward()
    opt.step()
    twin.zero_grad()
    for r in range(size):
        (loss(twin, r, step, wants_b(r)) / size).backward()
    with torch.no_grad():
        for p in twin.parameters():
            if p.grad is not None:
                p -= 0.001 * p.grad
    parts = [torch.empty_like(flat(net)) for _ in range(size)]
    dist.all_gather(parts, flat(net))
    assert all(torch.equal(part, parts[0]) for part in parts), f"drift in step {step}"
    assert torch.allclose(flat(net), flat(twin), rtol=1e-4, atol=1e-6), f"step {step}"
assert all(torch.equal(p, old) for p, old in zip(net.b.parameters(), before_b)), "b was touched"
print("trained")
"""


def test_a_missing_gradient_is_zero_and_no_gradient_leaves_it_alone(notebook: Notebook) -> None:
    notebook.ok(MODEL)
    assert notebook.ok(TRAIN, timeout=30).stdout.splitlines()[-1] == "[0-3] trained"
    notebook.alive()
