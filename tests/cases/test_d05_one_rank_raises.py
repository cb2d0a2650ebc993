"""D05: one rank raises before a collective; a slow rank is not a dead rank."""

from __future__ import annotations

import pytest

from ..notebook import Notebook


def test_the_others_are_released(notebook: Notebook) -> None:
    notebook.ok("%%distributed\nimport os\nkept, pid = rank * 7, os.getpid()")
    result = notebook.run(
        "%%distributed\nimport torch, torch.distributed as dist\n"
        "if dist.get_rank() == 2:\n    raise ValueError('bad shard 2')\n"
        "dist.all_reduce(torch.ones(4))",
        timeout=30,
    )
    assert result.status == "error"
    assert result.ename == "RankError"
    assert result.evalue == "rank 2: ValueError: bad shard 2"
    assert result.traceback.startswith("[2] ValueError")
    assert "[0-1,3] stopped because of the above" in result.traceback
    assert "GroupAborted" not in result.traceback, "a released rank is no root cause"
    notebook.ok("%%distributed\nassert (kept, pid) == (rank * 7, os.getpid())")
    notebook.alive()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_slow_rank_is_waited_for(notebook: Notebook) -> None:
    # Longer than every period that could take it for dead: the heartbeat, the controller's patience.
    result = notebook.ok(
        "%%distributed\nimport ctypes, torch, torch.distributed as dist\n"
        "if dist.get_rank() == 1:\n    ctypes.PyDLL(None).sleep(150)      # holds the GIL\n"
        "dist.all_reduce(torch.ones(4)); print('ok')",
        timeout=250,
    )
    assert result.stdout.splitlines() == ["[0-3] ok"]


def test_a_rank_that_leaves_releases_the_others(notebook: Notebook) -> None:
    result = notebook.run(
        "%%distributed\nimport torch, torch.distributed as dist\n"
        "if rank != 1:\n    dist.all_reduce(torch.ones(4))",
        timeout=30,
    )
    assert result.status == "error"
    assert "rank 1" in result.evalue
    notebook.alive()


def test_an_error_shows_the_lines_of_the_cell_alone(notebook: Notebook) -> None:
    notebook.ok("%%distributed\nimport torch, torch.distributed as dist")
    refused = notebook.run(
        "%%distributed\ndef mean(t):\n    dist.all_reduce(t, dist.ReduceOp.AVG)\nmean(torch.ones(3).int())"
    )
    differ = notebook.run(
        "%%distributed\ndef add(t):\n    dist.all_reduce(t)\nadd(torch.ones(3 + rank // 3))"
    )
    for result, line in ((refused, "all_reduce(t, dist.ReduceOp.AVG)"), (differ, "all_reduce(t)")):
        assert result.ename == "RankError"
        assert line in result.traceback
        assert "distributed_c10d.py" not in result.traceback
        assert "comm/group.py" not in result.traceback
