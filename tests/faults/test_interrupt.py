"""The stop button ends a cell on all ranks and leaves them usable."""

from __future__ import annotations

import pytest

from ..notebook import Notebook

STUCK = {
    "in a collective": "if rank == 0:\n    dist.barrier()\nwhile True: time.sleep(0.1)",
    "in Python": "while True: pass",
    "all in a collective": "if rank: dist.all_reduce(torch.ones(1))\nelse: time.sleep(3600)",
}


@pytest.mark.parametrize("where", STUCK)
def test_interrupt(notebook: Notebook, where: str) -> None:
    notebook.ok("%%distributed\nimport os, time, torch\nkept, pid = rank * 7, os.getpid()")
    sent = notebook.send(f"%%distributed\nprint('in', flush=True)\n{STUCK[where]}")
    notebook.await_ranks(sent, "in")
    notebook.interrupt()
    result = notebook.collect(sent, timeout=20)
    assert result.status == "error"
    assert result.ename == "KeyboardInterrupt"
    notebook.ok("%%distributed\nassert (kept, pid) == (rank * 7, os.getpid())")
    notebook.alive()


def test_training_goes_on_with_equal_weights(notebook: Notebook) -> None:
    notebook.ok("%%distributed --model net\nimport torch\nnet = torch.nn.Linear(64, 64)")
    train = (
        "%%distributed\noptimizer = torch.optim.Adam(net.parameters())\nprint('in', flush=True)\n"
        "for _ in range({steps}):\n"
        "    optimizer.zero_grad(); net(torch.randn(8, 64)).square().mean().backward(); optimizer.step()\n"
    )
    sent = notebook.send(train.format(steps=10**9))
    notebook.await_ranks(sent, "in")
    notebook.interrupt()
    assert notebook.collect(sent, timeout=20).ename == "KeyboardInterrupt"
    notebook.ok(train.format(steps=3))
    digest = "%%distributed\n[p.detach().numpy().tobytes().hex() for p in net.parameters()]"
    assert notebook.ok(digest).stdout.startswith("[0-3] ["), "one line for all ranks"
