"""D02: start as root, with more ranks than cores, and threads that together fill the cores."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nbdist.cluster.local import LocalLauncher

from ..notebook import Notebook

CELL = """\
%%distributed
import os, torch, torch.distributed as dist
dev = torch.cuda.current_device() if torch.cuda.is_available() else "cpu"
print(dist.get_rank(), os.getuid(), torch.get_num_threads(), dev)
"""


def _threads(notebook: Notebook) -> list[int]:
    said = notebook.ok(CELL).stdout
    found = re.findall(r"^\[(\d)\]\s+\1 (\d+) (\d+) \S+$", said, re.MULTILINE)
    assert [int(rank) for rank, _, _ in found] == [0, 1, 2, 3]
    assert {int(uid) for _, uid, _ in found} == {os.getuid()}
    return [int(threads) for _, _, threads in found]


def test_four_ranks_share_two_cores(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    with Notebook(tmp_path) as notebook:
        notebook.ok(f"import os; os.sched_setaffinity(0, {cores})")
        notebook.ok("import torch; torch.cuda.is_available() and torch.zeros(1).cuda()")
        notebook.ok("%load_ext nbdist\n%nbdist start -n 4", timeout=90)
        assert sum(_threads(notebook)) <= max(4, len(cores))
        notebook.alive()


def test_a_users_thread_count_wins(tmp_path: Path) -> None:
    with Notebook(tmp_path, env={"OMP_NUM_THREADS": "2"}) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 4", timeout=90)
        assert _threads(notebook) == [2, 2, 2, 2]


def test_only_root_gets_the_run_as_root_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, given in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        environment = LocalLauncher(4).environment()
        assert ("OMPI_ALLOW_RUN_AS_ROOT" in environment) is given
