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
import torch
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def step(use_b):
    optimizer.zero_grad()
    net(torch.full((2, 4), rank + 1.0), use_b).pow(2).mean().backward()
    optimizer.step()
    print([p.detach().numpy().tobytes().hex() for p in net.parameters()])
for _ in range(3):
    step(use_b=rank % 2 == 1)
before = [p.detach().clone() for p in net.b.parameters()]
for _ in range(3):
    step(use_b=False)
untouched = all(torch.equal(old, new) for old, new in zip(before, net.b.parameters()))
print("untouched", untouched)
"""


def test_it_trains_and_ranks_stay_equal(notebook: Notebook) -> None:
    notebook.ok(MODEL)
    lines = notebook.ok(TRAIN).stdout.splitlines()
    # A line for all ranks after every step: their weights are equal to the bit.
    assert [line[:7] for line in lines[:6]] == ["[0-3] ["] * 6
    assert len(set(lines[:6])) == 6, "every step changed something"
    assert lines[6:] == ["[0-3] untouched True"]
