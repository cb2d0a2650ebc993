"""D11: classes, lambdas and closures written in the notebook; what cannot travel is named."""

from __future__ import annotations

import re

from ..notebook import Notebook

DEFINE = """\
import torch
scale = 3
act = lambda t: t * scale
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.fc = torch.nn.Linear(2, 1); self.act = act
    def forward(self, x): return {sign}self.act(self.fc(x))
torch.manual_seed(1)
net = Net()
print(net(torch.ones(1, 2)).item())
"""
SHOW = "%%distributed --model net\nimport torch\nprint(net(torch.ones(1, 2)).item())"


def test_a_class_travels_and_so_does_its_redefinition(notebook: Notebook) -> None:
    for sign in ("", "-"):
        here = notebook.ok(DEFINE.format(sign=sign)).stdout.strip()
        assert notebook.ok(SHOW).stdout.splitlines() == [f"[0-3] {here}"]


def test_what_cannot_travel_is_named(notebook: Notebook) -> None:
    notebook.ok(DEFINE.format(sign=""))
    notebook.ok("net.log = open('/dev/null', 'w')")
    result = notebook.run("%%distributed --model net\nran_anyway = True", timeout=10)
    assert result.status == "error"
    assert re.search(r"net\.log is a TextIOWrapper", result.evalue)
    notebook.ok("net.log.close(); del net")
    notebook.ok("%%distributed\nassert 'ran_anyway' not in globals()")


def test_a_rerun_goes_on_with_the_trained_model(notebook: Notebook) -> None:
    notebook.ok("import torch; net = torch.nn.Linear(1, 1)")
    change = "%%distributed --model net\nwith torch.no_grad(): net.bias += 1\nprint(net.bias.item())"
    first, second = (float(notebook.ok(change).stdout.split()[-1]) for _ in range(2))
    assert abs(second - first - 1) < 1e-6
    notebook.ok("net = torch.nn.Linear(1, 1)")
    fresh = float(notebook.ok("print(net.bias.item())").stdout)
    assert abs(float(notebook.ok(change).stdout.split()[-1]) - fresh - 1) < 1e-6


def test_a_model_the_ranks_made_anew_is_one_again(notebook: Notebook) -> None:
    notebook.ok("import torch; net = torch.nn.Linear(1, 1)")
    notebook.ok("%%distributed --model net\n1")
    notebook.ok("%%distributed\nimport torch\nnet = torch.nn.Linear(1, 1)  # each rank its own")
    said = notebook.ok("%%distributed --model net\n(net.weight.item(), net.bias.item())").stdout
    assert said.startswith("[0-3] ("), "equal on all ranks"


def test_a_module_missing_on_the_ranks_is_told(notebook: Notebook) -> None:
    notebook.ok(
        "import sys, types, torch\nmynets = types.ModuleType('mynets'); sys.modules['mynets'] = mynets\n"
        "class Far(torch.nn.Linear): pass\nFar.__module__ = 'mynets'; mynets.Far = Far\nfar = Far(1, 1)"
    )
    result = notebook.run("%%distributed --model far\n1", timeout=15)
    assert result.status == "error"
    assert result.evalue == "rank 0-3: ModuleNotFoundError: No module named 'mynets'"
