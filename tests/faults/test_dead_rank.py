"""A rank that dies is named, the others keep their variables, and a restart brings it back."""

from __future__ import annotations

from pathlib import Path

import psutil

from ..notebook import Notebook


def test_a_killed_rank(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 3", timeout=90)
        notebook.ok("%%distributed\nkept = rank * 7")
        result = notebook.run(
            "%%distributed\nimport os, signal, torch\n"
            "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.all_reduce(torch.ones(1))",
            timeout=30,
        )
        assert result.status == "error"
        assert result.evalue.startswith("rank 1: RankDied")
        assert "[0,2] stopped because of the above" in result.traceback

        assert "gone" in notebook.ok("%nbdist status").displays[0]["text/plain"]
        again = notebook.run("%%distributed\nkept", timeout=15)
        assert again.status == "error"
        assert "rank 1: RankDied: it is gone; reach the others with --ranks" in again.evalue

        assert notebook.ok("%%distributed --ranks 0,2\nkept").stdout.split() == ["[0]", "0", "[2]", "14"]

        notebook.ok("%nbdist restart", timeout=90)
        notebook.alive()


def test_a_rank_killed_between_cells(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 2", timeout=90)
        pid = int(notebook.ok("%%distributed --ranks 1\nimport os; print(os.getpid())").stdout.split()[-1])
        psutil.Process(pid).kill()
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=20)
        notebook.ok(
            "import time\nwhile get_ipython()._nbdist.session.cluster.alive() != [0]: time.sleep(0.05)"
        )
        for cell in ("%%distributed\n1", "%%distributed --model nowhere\n1"):
            result = notebook.run(cell, timeout=15)
            assert result.status == "error"
            assert result.evalue.startswith("rank 1: RankDied: it is gone; reach the others")
