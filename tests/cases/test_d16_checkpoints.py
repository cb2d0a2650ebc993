"""D16: a checkpoint opens anywhere."""

from __future__ import annotations

import subprocess
import sys

from ..notebook import Notebook

LOAD = """\
import sys, torch
fresh = torch.nn.Linear(1, 1)
fresh.load_state_dict(torch.load("m.pt", weights_only=True), strict=True)
torch.optim.Adam(fresh.parameters()).load_state_dict(torch.load("o.pt", weights_only=True))
assert not [name for name in sys.modules if name.startswith("nbdist")]
"""


def test_a_plain_process_loads_it(notebook: Notebook) -> None:
    notebook.ok("import torch; net = torch.nn.Linear(1, 1)")
    notebook.ok(
        "%%distributed --model net\nimport torch\n"
        "opt = torch.optim.Adam(net.parameters())\n"
        "net(torch.ones(2, 1) * (rank + 1)).sum().backward(); opt.step()\n"
        "if rank == 0:\n    torch.save(net.state_dict(), 'm.pt'); torch.save(opt.state_dict(), 'o.pt')\n"
    )
    folder = notebook.ok("import os; print(os.getcwd())").stdout.strip()
    keys = notebook.ok("%%distributed\nlist(net.state_dict())").stdout
    assert keys.strip() == "[0-3] ['weight', 'bias']"
    subprocess.run([sys.executable, "-c", LOAD], cwd=folder, check=True, timeout=60)
