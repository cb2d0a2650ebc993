"""Processes that a rank forks: they do their own work, and are no ranks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Scripts, for the processes of `Ranks` are daemons, which may have no children of their own.
LOADER = """
import os, sys
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
import nbdist.comm

class Squares(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, i):
        return torch.tensor(i * i)

def total():
    tensor = torch.ones(50_000)
    dist.all_reduce(tensor)
    return tensor[0].item()

rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("cpu:nbdist", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
for epoch in range(3):
    assert total() == 2
    queued = dist.all_reduce(torch.ones(50_000), async_op=True)
    into = torch.zeros(3)
    messages = [dist.isend(torch.ones(3), 1 - rank), dist.irecv(into, 1 - rank)]
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork",
                        collate_fn=lambda items: torch.stack(items))
    assert sum(batch.sum().item() for batch in loader) == 20540
    for work in (queued, *messages):
        work.wait()
    assert total() == 2

class Broken(Squares):
    def __getitem__(self, i):
        raise KeyError("sample 7 is broken")

try:
    list(DataLoader(Broken(), num_workers=1, multiprocessing_context="fork"))
except KeyError as error:
    assert "sample 7 is broken" in str(error)
assert total() == 2
dist.destroy_process_group()
print("right")
"""


FORK = """
import os, signal, sys
import torch
import torch.distributed as dist
import nbdist.comm as comm
from nbdist.errors import GroupError

works = []

def use_everything():
    tensor, peer = torch.ones(3), 1 - rank
    uses = [
        lambda: dist.all_reduce(tensor),
        lambda: dist.all_reduce(tensor, async_op=True),
        lambda: dist.send(tensor, peer),
        lambda: dist.irecv(tensor, peer),
        lambda: dist.barrier(),
        lambda: comm.abort("in a child"),
        lambda: comm.is_aborted(),
        lambda: comm.enter_cell(1),
        lambda: comm.leave_cell(1),
        lambda: comm.skip_cell(1),
        lambda: works[0].wait(),
    ]
    for number, use in enumerate(uses):
        try:
            use()
        except GroupError as error:
            assert "a forked process is no rank" in str(error)
        else:
            raise AssertionError(number)

def let_go():
    works.clear()
    comm.leave_world()
    comm.leave_world()
    assert not dist.is_initialized()

rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("cpu:nbdist", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
dist.barrier()
if rank == 0:
    # Nobody answers these yet: the children inherit them, with the locks that our threads hold.
    works.append(dist.irecv(torch.ones(3), 1))
    works.append(dist.isend(torch.ones(300_000), 1))
    works.append(dist.all_reduce(torch.ones(3), async_op=True))
    for act in (lambda: None, use_everything, let_go):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            act()
            sys.exit()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    dist.send(torch.ones(1), 1, tag=9)
else:
    dist.recv(torch.ones(1), 0, tag=9)
    dist.send(torch.ones(3), 0)
    dist.recv(torch.ones(300_000), 0)
    dist.all_reduce(torch.ones(3))
for work in works:
    work.wait()
dist.barrier()
dist.destroy_process_group()
print("right")
"""


@pytest.mark.parametrize("script", [LOADER, FORK], ids=["data loader", "fork"])
def test_a_child_of_a_rank_ends_and_harms_nobody(script, tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    try:
        assert [process.communicate(timeout=60)[0] for process in processes] == ["right\n"] * 2
    finally:
        for process in processes:
            process.kill()
            process.wait()
