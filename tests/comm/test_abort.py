"""A rank that waits is released: by an abort, a death, a signal, a rank that left, a different call."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist import errors
from nbdist.errors import GroupAborted

from .ranks import Raised, Ranks, Returned


def wait_in_vain(rank: int, size: int, absent: int, act) -> None:
    """Everybody but `absent` waits for it; it acts instead."""
    dist.all_reduce(torch.ones(3))
    if rank == absent:
        act()
    for _ in range(2):  # the second time: the generation stays over
        try:
            dist.all_reduce(torch.ones(100_000))
        except GroupAborted as error:
            last = error
    raise last


def abort_it() -> None:
    comm.abort("ValueError: bad shard")


def abort_from_a_thread() -> None:
    """Abort while the main thread is blocked in native code."""
    threading.Timer(0.2, abort_it).start()
    dist.recv(torch.ones(3), 0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("act", [abort_it, abort_from_a_thread])
def test_abort_releases_every_rank_and_says_why(act):
    with Ranks(3, wait_in_vain, 1, act) as ranks:
        results = ranks.results()
    for result in results:
        assert isinstance(result.error, GroupAborted), result.text
        assert result.error.rank == 1
        assert "rank 1 ended the group: ValueError: bad shard" in str(result.error)
    assert results[0].error.operation == "all_reduce"


@pytest.mark.parametrize("size", [2, 4])
def test_a_killed_rank_is_named(size):
    with Ranks(size, wait_in_vain, size - 1, die) as ranks:
        results = ranks.results()
        pid = ranks.processes[-1].pid
    assert results[-1] is None
    for result in results[:-1]:
        assert isinstance(result.error, GroupAborted), result.text
        assert result.error.rank == size - 1
        assert f"rank {size - 1} died (process {pid})" in str(result.error)


def in_cell_three(rank: int, size: int) -> None:
    comm.enter_cell(3)
    dist.all_reduce(torch.ones(3))
    if rank == 2:
        comm.leave_cell(3)
        threading.Event().wait(30)
    dist.all_reduce(torch.ones(3))


def test_a_rank_that_left_the_cell_is_not_waited_for():
    with Ranks(3, in_cell_three) as ranks:
        results = ranks.results(of=(0, 1))
    for result in results:
        assert isinstance(result.error, GroupAborted), result.text
        assert result.error.rank == 2
        assert "rank 2 left the cell while rank" in str(result.error)
        assert "waits in all_reduce" in str(result.error)


def late_but_there(rank: int, size: int) -> float:
    """What a rank did before it left counts: nobody is released too early."""
    for cell in range(1, 6):
        comm.enter_cell(cell)
        if rank == 1:
            time.sleep(0.05)
        tensor = torch.ones(500_000)
        works = [dist.all_reduce(tensor, async_op=True) for _ in range(2)]
        comm.leave_cell(cell)
        for work in works:
            work.wait()
    return float(tensor[0])


def test_leaving_a_cell_waits_for_what_is_queued():
    with Ranks(2, late_but_there) as ranks:
        assert [result.value for result in ranks.results()] == [4.0, 4.0]


def gone(rank: int, size: int) -> None:
    if rank == 1:
        comm.leave_world()
        comm.leave_world()
        return
    dist.barrier()


def test_a_rank_that_left_the_group_is_named():
    with Ranks(2, gone) as ranks:
        result = ranks.results()[0]
    assert isinstance(result.error, GroupAborted), result.text
    assert "rank 1 left the group" in str(result.error) or "rank 1 ended" in str(result.error)


def interrupted(rank: int, size: int, asynchronous: bool) -> str:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    dist.barrier()
    if rank == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    if rank == 2:
        threading.Event().wait(1.0)
    work = dist.all_reduce(torch.ones(3), async_op=asynchronous)
    if work is not None:
        work.wait()
    raise AssertionError("nobody was interrupted")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_interrupt_is_a_keyboard_interrupt_and_releases_the_others(asynchronous):
    with Ranks(3, interrupted, asynchronous) as ranks:
        results = ranks.results()
    assert isinstance(results[0].error, KeyboardInterrupt), results[0].text
    for result in results[1:]:
        assert isinstance(result.error, GroupAborted), result.text
        assert result.error.rank == 0
        assert "rank 0 was interrupted" in str(result.error)


class Interrupted(GroupAborted):
    """Stands for a Ctrl-C that arrives while the error is being made."""

    def __init__(self, *_: object) -> None:
        raise KeyboardInterrupt


def interrupted_while_raising(rank: int, size: int) -> None:
    errors.GroupAborted = Interrupted
    comm.abort("on purpose")
    dist.all_reduce(torch.ones(3))


def test_an_interrupt_while_the_error_is_made_stays_one():
    with Ranks(1, interrupted_while_raising) as ranks:
        (result,) = ranks.results()
    assert type(result.error) is KeyboardInterrupt, result.text


def slow_is_not_dead(rank: int, size: int) -> float:
    if rank == 1:
        time.sleep(0.7)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return float(tensor[0])


def test_a_slow_rank_is_waited_for():
    with Ranks(2, slow_is_not_dead) as ranks:
        for result in ranks.results():
            assert isinstance(result, Returned)
            assert result.value == 2


def limited(rank: int, size: int) -> None:
    os.environ["NBDIST_COLLECTIVE_TIMEOUT"] = "0.3"
    group = dist.new_group()
    if rank == 0:
        dist.barrier(group=group)
    threading.Event().wait(30)


def test_a_time_limit_is_kept_where_one_is_set():
    with Ranks(2, limited) as ranks:
        result = ranks.results(of=(0,))[0]
    assert isinstance(result, Raised)
    assert "rank 0 gave up waiting for rank 1 in barrier after a timeout of 0.3" in str(result.error)
