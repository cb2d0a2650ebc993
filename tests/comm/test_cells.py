"""The end of a cell: what is on its way is waited for, and what will never come is not."""

from __future__ import annotations

import threading
import time

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.errors import GroupAborted

from .ranks import Ranks, Returned, spawn


def released(call) -> str:
    """Say why a call was released."""
    with pytest.raises(GroupAborted) as caught:
        call()
    return str(caught.value)


# From any source ---------------------------------------------------------------------------------------


def receive_from_nobody(rank: int, size: int, act) -> str:
    comm.enter_cell(1)
    dist.barrier()
    if rank == 0:
        dist.recv(torch.ones(3))  # what rank 2 sent before it left counts
        return released(lambda: dist.recv(torch.ones(3)))
    if rank == 2:
        dist.send(torch.ones(3), 0)
    act()
    return ""


def leave_cell() -> None:
    comm.leave_cell(1)
    threading.Event().wait(30)


def leave_world() -> None:
    comm.leave_world()
    threading.Event().wait(30)


@pytest.mark.parametrize("act", [leave_cell, leave_world, comm.leave_world])
def test_a_receive_from_any_source_ends_when_nobody_is_left(act):
    with Ranks(3, receive_from_nobody, act) as ranks:
        result = ranks.results(of=[0])[0]
    assert isinstance(result, Returned), result.text
    assert "nobody is left to send while rank 0 waits in recv" in result.value


def one_is_left(rank: int, size: int) -> None:
    comm.enter_cell(1)
    dist.barrier()
    into = torch.zeros(3)
    if rank == 0:
        dist.recv(into)
        assert (into == 2).all()
    if rank == 2:
        time.sleep(0.3)
        dist.send(torch.full((3,), 2.0), 0)
    comm.leave_cell(1)


def test_a_receive_from_any_source_waits_for_whoever_is_left():
    spawn(3, one_is_left)


# Leaving ------------------------------------------------------------------------------------------------


def leave_with(rank: int, size: int, issue) -> list[str]:
    """Issue something that the others never answer, and leave; say how it ended."""
    comm.enter_cell(1)
    dist.barrier()
    works = issue(rank, size)
    comm.leave_cell(1)
    return [released(work.wait) for work in works]


def receives(rank: int, size: int) -> list[dist.Work]:
    return [dist.irecv(torch.ones(3), (rank + 1) % size)]


def sends(rank: int, size: int) -> list[dist.Work]:
    return [dist.isend(torch.ones(300_000), (rank + 1) % size)]


def collective_against_receive(rank: int, size: int) -> list[dist.Work]:
    if rank == 0:
        return [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]
    return [dist.irecv(torch.ones(3), 0)]


def two_groups(rank: int, size: int) -> list[dist.Work]:
    # Each rank has work in a group of its own choice.
    groups = [dist.new_group(), dist.new_group()]
    _kept.extend(groups)
    return [dist.all_reduce(torch.ones(3), group=groups[rank % 2], async_op=True)]


def sends_in_two_groups(rank: int, size: int) -> list[dist.Work]:
    groups = [dist.new_group() for _ in range(4)]
    _kept.extend(groups)
    return [dist.isend(torch.ones(300_000), (rank + 1) % size, group=group) for group in groups]


_kept: list[dist.ProcessGroup] = []


@pytest.mark.parametrize(
    "issue",
    [receives, sends, collective_against_receive, two_groups, sends_in_two_groups],
    ids=lambda issue: issue.__name__,
)
def test_ranks_that_leave_never_wait_for_one_another_in_vain(issue):
    for messages in spawn(2, leave_with, issue):
        for message in messages:
            # A rank whose own work has ended may have left the group, too, by the time the other looks.
            assert "left the cell while" in message or "left the group while" in message


def send_and_receive(rank: int, size: int) -> None:
    """Of two ranks each puts the other's message aside, so the sends succeed; of three none does."""
    comm.enter_cell(1)
    dist.barrier()
    peer = (rank + 1) % size
    dist.isend(torch.ones(300_000), peer, tag=1)
    received = dist.irecv(torch.ones(300_000), peer, tag=2)
    dist.barrier()  # the first to leave ends the group, also for one that has yet to receive
    comm.leave_cell(1)
    released(received.wait)


@pytest.mark.parametrize("size", [2, 3])
def test_sends_and_receives_that_fit_nothing_end(size):
    spawn(size, send_and_receive)


def all_on_its_way(rank: int, size: int) -> None:
    """What was issued before leaving arrives, in all groups and whoever leaves first."""
    groups = [dist.new_group() for _ in range(3)]
    for cell in range(1, 6):
        comm.enter_cell(cell)
        peer = 1 - rank
        sums = [torch.ones(200_000) for _ in groups]
        into = [torch.zeros(200_000) for _ in groups]
        works = []
        for group, total, place in zip(groups, sums, into, strict=True):
            works.append(dist.all_reduce(total, group=group, async_op=True))
            works.append(dist.isend(torch.full((200_000,), 5.0), peer, group=group))
            works.append(dist.irecv(place, peer, group=group))
            gathered = [torch.zeros(1000) for _ in range(size)]
            works.append(dist.all_to_all(gathered, [torch.ones(1000)] * size, group=group, async_op=True))
        if rank == cell % 2:
            time.sleep(0.05)
        comm.leave_cell(cell)
        for work in works:
            work.wait()
        assert all((total == 2).all() for total in sums)
        assert all((place == 5).all() for place in into)


def test_leaving_waits_for_everything_that_was_issued():
    spawn(2, all_on_its_way)


def second_receive(rank: int, size: int) -> str:
    """The first receive's peer is only late; the second one's has left."""
    comm.enter_cell(1)
    dist.barrier()
    if rank == 0:
        late = dist.irecv(torch.ones(3), 1)
        gone = dist.irecv(torch.ones(3), 2)
        del late
        return released(gone.wait)
    if rank == 2:
        comm.leave_cell(1)
    threading.Event().wait(30)
    return ""


def test_every_receive_is_watched_over_not_only_the_first():
    with Ranks(3, second_receive) as ranks:
        result = ranks.results(of=[0])[0]
    assert isinstance(result, Returned), result.text
    assert "rank 2 left the cell while rank 0 waits in recv" in result.value


# Skipping -----------------------------------------------------------------------------------------------


def skip(rank: int, size: int, operation: str) -> str:
    for cell in (1, 2):
        comm.enter_cell(cell)
        dist.all_reduce(torch.ones(3))
        comm.leave_cell(cell)
    if rank == 1:
        skipper = threading.Thread(target=comm.skip_cell, args=(3,))
        skipper.start()
        skipper.join()
        threading.Event().wait(30)
    comm.enter_cell(3)
    if operation == "send":
        return released(lambda: dist.send(torch.ones(300_000), 1))
    if operation == "recv":
        return released(lambda: dist.recv(torch.ones(3), 1))
    return released(lambda: dist.all_reduce(torch.ones(3)))


@pytest.mark.parametrize("operation", ["all_reduce", "send", "recv"])
def test_a_rank_that_does_not_run_the_cell_is_named_with_what_to_do(operation):
    with Ranks(2, skip, operation) as ranks:
        result = ranks.results(of=[0])[0]
    assert isinstance(result, Returned), result.text
    assert (
        f"{operation} was released: rank 1 does not run this cell; leave --ranks out, or use "
        "torch.distributed.new_group" in result.value
    )


def run_the_next(rank: int, size: int) -> float:
    """A cell that was skipped is no obstacle to those that follow."""
    comm.skip_cell(1) if rank == 1 else comm.enter_cell(1)
    if rank == 0:
        comm.leave_cell(1)
    comm.enter_cell(2)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    comm.leave_cell(2)
    return float(tensor[0])


def test_the_cell_after_a_skipped_one_runs():
    assert spawn(2, run_the_next) == [2.0, 2.0]
