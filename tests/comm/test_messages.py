"""send, recv and their asynchronous forms."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.errors import MismatchError

from .ranks import Raised, Ranks, spawn


def both_send_first(rank: int, size: int) -> None:
    """A megabyte each way: more than a channel holds, so each must receive while it sends."""
    out, into = torch.full((300_000,), float(rank)), torch.empty(300_000)
    work = dist.isend(out, 1 - rank)
    dist.recv(into, 1 - rank)
    work.wait()
    assert (into == 1 - rank).all()


def round_the_ring(rank: int, size: int) -> None:
    out, into = torch.full((200_000,), float(rank)), torch.empty(200_000)
    right, left = (rank + 1) % size, (rank - 1) % size
    operations = [dist.P2POp(dist.isend, out, right), dist.P2POp(dist.irecv, into, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert (into == left).all()


def tags(rank: int, size: int) -> None:
    if rank == 0:
        for tag in (1, 2, 3, 2):
            dist.send(torch.full((5,), float(tag)), 1, tag=tag)
        dist.send(torch.empty(0), 1, tag=9)
        dist.send(torch.full((100_000,), 4.0), 1, tag=4)
    else:
        for tag in (3, 2, 2, 1):
            tensor = torch.empty(5)
            dist.recv(tensor, 0, tag=tag)
            assert (tensor == tag).all()
        large = torch.empty(100_000)
        dist.recv(large, 0, tag=4)
        assert (large == 4).all()
        dist.recv(torch.empty(0), 0, tag=9)


def anybody(rank: int, size: int) -> None:
    if rank > 0:
        dist.send(torch.full((3,), float(rank)), 0)
        return
    seen = set()
    for _ in range(size - 1):
        tensor = torch.empty(3)
        source = dist.recv(tensor)
        assert (tensor == source).all()
        seen.add(source)
    assert seen == set(range(1, size))


def beside_collectives(rank: int, size: int) -> None:
    """A message does not wait for its place among the collectives."""
    tensor = torch.ones(200_000)
    if rank == 0:
        work = dist.isend(torch.full((200_000,), 5.0), 1)
        dist.all_reduce(tensor)
        work.wait()
    else:
        dist.all_reduce(tensor)
        into = torch.empty(200_000)
        dist.recv(into, 0)
        assert (into == 5).all()
    assert (tensor == 2).all()


@pytest.mark.parametrize(
    ("size", "function"),
    [(2, both_send_first), (4, round_the_ring), (2, tags), (3, anybody), (2, beside_collectives)],
)
def test_messages(size, function):
    spawn(size, function)


def send_and_leave(rank: int, size: int) -> None:
    """A large message is on its way when its sender leaves the cell: leaving waits for it."""
    comm.enter_cell(1)
    if rank == 0:
        dist.isend(torch.ones(300_000), 1)
    else:
        threading.Event().wait(0.3)
        dist.recv(torch.empty(300_000), 0)
    comm.leave_cell(1)


def test_leaving_a_cell_waits_for_messages_on_their_way():
    spawn(2, send_and_leave)


def different_sizes(rank: int, size: int) -> None:
    if rank == 0:
        dist.send(torch.ones(4), 1)
        dist.barrier()
    else:
        dist.recv(torch.ones(5), 0)


def test_different_sizes_are_a_mismatch_on_both():
    with Ranks(2, different_sizes) as ranks:
        for result in ranks.results():
            assert isinstance(result, Raised)
            assert isinstance(result.error, MismatchError)
            assert "4 x float32" in str(result.error)
            assert "5 x float32" in str(result.error)
