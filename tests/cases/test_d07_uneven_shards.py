"""D07: a sample count that the ranks do not divide."""

from __future__ import annotations

import ast
import re

from ..notebook import Notebook

DATA = """\
import torch
from torch.utils.data import TensorDataset
train = TensorDataset(torch.arange(10.).unsqueeze(1), torch.arange(10))
net = torch.nn.Linear(1, 1)
"""
TRAIN = """\
%%distributed --model net --shard train
import torch
from torch.utils.data import DataLoader
opt, seen = torch.optim.SGD(net.parameters(), lr=0.01), []
for x, idx in DataLoader(train, batch_size=1):
    opt.zero_grad(); net(x).pow(2).mean().backward(); opt.step()
    seen += idx.tolist()
print(len(seen), sorted(seen))
"""


def test_every_sample_once_and_equal_weights(notebook: Notebook) -> None:
    notebook.ok(DATA)
    said = notebook.ok(TRAIN).stdout
    seen = [ast.literal_eval(text) for text in re.findall(r"\d (\[.*\])$", said, re.MULTILINE)]
    assert sorted(index for part in seen for index in part) == list(range(10))
    assert {len(part) for part in seen} == {2, 3}
    weights = notebook.ok("%%distributed\n[p.detach().numpy().tobytes().hex() for p in net.parameters()]")
    assert weights.stdout.startswith("[0-3] ["), "one line for all ranks: equal to the bit"


def test_a_rank_is_sent_only_its_shard(notebook: Notebook) -> None:
    notebook.ok("import numpy\nbig = numpy.arange(10.0)")
    said = notebook.ok("%%distributed --shard big\nprint(len(big), big.total, len(big.data))").stdout
    assert sorted(set(re.findall(r"(\d+) 10 (\d+)", said))) == [("2", "2"), ("3", "3")]
