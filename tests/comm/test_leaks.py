"""Two hundred groups or models leave nothing: no descriptor, thread, mapping, file, or shared memory."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.errors import GroupAborted
from nbdist.train import ring

from .ranks import spawn

GROUPS = 200


def footprint() -> dict[str, object]:
    """List what this process holds, and what it has left in /dev/shm."""
    gc.collect()  # a model and its hooks are a cycle
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "descriptors": sorted(_target(fd) for fd in os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "mappings": sorted(line.split()[-1] for line in maps if "memfd:" in line or "/dev/shm" in line),
        # Others of this machine use it, too: test_small_shm.py counts the bytes of one of its own.
        "/dev/shm": sorted(name for name in os.listdir("/dev/shm") if f"_{os.getpid()}_" in name),
    }


def _target(fd: str) -> str:
    try:
        # Which socket or pipe it is changes; how many there are must not.
        return os.readlink(f"/proc/self/fd/{fd}").partition("[")[0]
    except FileNotFoundError:
        return "the folder itself"


def resident() -> int:
    """Return this process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def use(group: dist.ProcessGroup | None, peer: int) -> None:
    """Start every kind of thread that a group can have."""
    work = dist.all_reduce(torch.ones(50_000), group=group, async_op=True)
    into = torch.empty(2)
    messages = [dist.isend(torch.ones(2), peer, group=group), dist.irecv(into, peer, group=group)]
    for each in (work, *messages):
        each.wait()
    dist.barrier(group)


def start_threads(rank: int, peer: int) -> None:
    """Have each rank wait for a late one, which is when the threads of the default group are made."""
    for late in (0, 1):
        if rank == late:
            dist.recv(torch.empty(1), peer)
            dist.all_reduce(torch.ones(10))
        else:
            work = dist.all_reduce(torch.ones(10), async_op=True)
            dist.send(torch.ones(1), peer)
            work.wait()


def make_and_drop(rank: int, peer: int, store: dist.Store, number: int) -> None:
    group = dist.new_group()
    use(group, peer)
    dist.destroy_process_group(group)


def abort_and_drop(rank: int, peer: int, store: dist.Store, number: int) -> None:
    group = dist.new_group()
    if rank == 1:
        group.abort()
    with pytest.raises(GroupAborted):
        dist.all_reduce(torch.ones(200_000), group=group, async_op=True).wait()
    dist.destroy_process_group(group)
    dist.barrier()


def next_generation(rank: int, peer: int, store: dist.Store, number: int) -> None:
    comm.leave_world()
    store.set(f"{number}/endpoint/{rank}", comm.open_endpoint())
    store.set(f"{number}/listener/{rank}", comm.listen())
    endpoints, listeners = (
        [store.get(f"{number}/{topic}/{other}") for other in range(2)] for topic in ("endpoint", "listener")
    )
    comm.form_world(endpoints, rank, b"secret", number, listeners)
    use(None, peer)
    comm.leave_world()


def train_and_drop(rank: int, peer: int, store: dist.Store, number: int) -> None:
    """Make a model whose gradients lie in an arena, where all ranks are on one host."""
    net = ring.attach(torch.nn.Linear(200, 200))
    net(torch.full((1, 200), float(rank))).sum().backward()
    assert (net.weight.grad == 0.5).all()
    ring.finish()


Round = Callable[[int, int, dist.Store, int], None]


def many(rank: int, size: int, path: str, one: Round, groups: int) -> None:
    store = dist.FileStore(path, size)
    start_threads(rank, 1 - rank)
    for number in range(5):
        one(rank, 1 - rank, store, number)
    before, memory = footprint(), resident()
    for number in range(5, groups + 5):
        one(rank, 1 - rank, store, number)
    after, grown = footprint(), resident() - memory
    grew = {what: (before[what], after[what]) for what in before if before[what] != after[what]}
    assert not grew, grew
    # A segment has more than a MiB: what torch and Python keep of a group is far less.
    assert grown < groups * 256 * 1024, f"{grown / groups / 1024:.0f} KiB a group"


@pytest.mark.parametrize("one", [make_and_drop, abort_and_drop, next_generation, train_and_drop])
@pytest.mark.parametrize("hosts", [(), (0, 1)], ids=["one host", "two hosts"])
def test_groups_leave_nothing(tmp_path: Path, one: Round, hosts: tuple[int, ...]) -> None:
    spawn(2, many, str(tmp_path / "store"), one, GROUPS, timeout=100, hosts=hosts)
