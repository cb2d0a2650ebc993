"""The stop button ends a cell on all ranks and leaves them usable."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..notebook import Notebook

STUCK = {
    "in a collective": "if rank == 0:\n    dist.barrier()\nwhile True: time.sleep(0.1)",
    "in Python": "while True: pass",
    "all in a collective": "if rank: dist.all_reduce(torch.ones(1))\nelse: time.sleep(3600)",
    "in C code": "while True: torch.linalg.svd(torch.randn(500, 500))",
    "in a thread's end": "import threading\nidle = threading.Event()\nidle.wait()",
    "in a program": "import subprocess\nsubprocess.run(['sleep', '3600'])",
    "in a loader's worker": (
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Slow(Dataset):\n"
        "    def __len__(self): return 1\n"
        "    def __getitem__(self, i): time.sleep(3600)\n"
        "next(iter(DataLoader(Slow(), num_workers=1)))"
    ),
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
    notebook.ok(
        "%%distributed\nimport psutil\n"
        "left = [' '.join(p.cmdline()) for p in psutil.Process().children() if p.status() != 'zombie']\n"
        "own = 'resource_tracker', 'ipyparallel.engine.nanny'\n"
        "assert not [line for line in left if not any(name in line for name in own)], left"
    )
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


def test_a_rank_in_foreign_code_is_named_and_nothing_waits_for_it(tmp_path: Path) -> None:
    with Notebook(tmp_path, env={"NBDIST_INTERRUPT_GRACE": "1"}) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 3", timeout=90)
        notebook.ok("%%distributed\nimport time\nfrom mpi4py import MPI\nkept = rank * 7")
        sent = notebook.send(
            "%%distributed\nprint('in', flush=True)\n"
            "def foreign():\n    MPI.COMM_WORLD.Barrier()\n"
            "if rank == 1: foreign()\ntime.sleep(3600)"
        )
        notebook.await_ranks(sent, "in", size=3)
        notebook.interrupt()
        result = notebook.collect(sent)
        assert (result.ename, result.evalue) == (
            "KeyboardInterrupt",
            "the cell was interrupted; rank 1 still runs",
        )
        assert "was not answered: rank 1 in user code, line 3." in result.stdout
        assert "line 3, in foreign\n      MPI.COMM_WORLD.Barrier()" in result.stdout
        assert "`%nbdist restart`" in result.stdout

        for cell in ("%%distributed\n1", "%nbdist who"):
            assert "An earlier cell still runs: rank 1 in user code, line 3." in notebook.run(cell).evalue
        assert "busy in user code, line 3" in notebook.ok("%nbdist status").displays[0]["text/plain"]
        for _ in range(2):
            assert notebook.ok("%%distributed --ranks 0,2\nkept").stdout.split() == ["[0]", "0", "[2]", "14"]
        again = notebook.ok("%nbdist interrupt").stdout
        assert "was not answered: rank 1 in user code" in again

        notebook.ok("%nbdist restart", timeout=90)
        notebook.alive()
