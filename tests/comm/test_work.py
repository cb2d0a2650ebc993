"""Handles of asynchronous collectives."""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import FrameType

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.comm import world
from nbdist.comm.work import Pending
from nbdist.errors import GroupAborted

from .ranks import spawn


def handles(rank: int, size: int, patience: float) -> None:
    world._PATIENCE = patience
    group = dist.new_group()
    tensor = torch.ones(300_000)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    assert work.exception() is None
    assert (tensor == size).all()

    future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert (doubled.wait() == 2 * size * size).all()

    # The tensors live until they have been moved, even when nobody keeps the handle.
    for _ in range(20):
        dist.all_reduce(torch.ones(100_000), group=group, async_op=True)
    gc.collect()
    dist.barrier(group)

    # A synchronous one never overtakes what is queued.
    tensor.fill_(1)
    dist.all_reduce(tensor, group=group, async_op=True)
    dist.all_reduce(tensor, group=group)
    assert (tensor == size * size).all()


@pytest.mark.parametrize("patience", [0.0, 0.001], ids=["queued", "inline"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_handles(size, patience):
    spawn(size, handles, patience)


def late_peer(rank: int, size: int) -> None:
    """Asynchronous means it: the caller goes on, and may be what the late rank waits for."""
    world._PATIENCE = 0.001
    group = dist.new_group()
    tensor = torch.ones(10)
    if rank == 0:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(tensor, group=group)
    assert (tensor == 2).all()


def test_a_late_rank_does_not_hold_the_caller():
    spawn(2, late_peer)


def fail(rank: int, size: int) -> None:
    group = dist.new_group()
    if rank == 1:
        threading.Event().wait(0.2)
        comm.abort("on purpose")
        return
    work = dist.all_reduce(torch.ones(10), group=group, async_op=True)
    with pytest.raises(RuntimeError, match="on purpose"):
        work.get_future().wait()
    with pytest.raises(GroupAborted, match="on purpose"):
        work.wait()
    assert isinstance(work.exception(), GroupAborted)
    assert work.is_completed()
    assert not work.is_success()


def test_an_aborted_one_raises_from_wait_and_from_its_future():
    spawn(2, fail)


def communicate_in_a_callback(rank: int, size: int) -> None:
    """Wait in a callback for work that has a future, too, and then for the future of yet another."""
    world._PATIENCE = 0.0
    group = dist.new_group()
    tensor = torch.ones(10)
    called = threading.Event()

    def go_on(_: object) -> None:
        second.wait()
        dist.all_reduce(tensor, group=group, async_op=True).get_future().wait()
        called.set()

    if rank == 1:
        dist.recv(torch.ones(1), 0)
    first = dist.all_reduce(tensor, group=group, async_op=True)
    second = dist.all_reduce(tensor, group=group, async_op=True)
    if rank == 1:
        dist.all_reduce(tensor, group=group)
    else:
        second.get_future()
        first.get_future().then(go_on)
        dist.send(torch.ones(1), 1)
        assert called.wait(20)
    assert (tensor == 8).all()


def test_a_callback_may_wait_for_one_work_after_another():
    spawn(2, communicate_in_a_callback)


class Alarm(Exception):
    """What a signal handler raises."""


def ring(_: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code.co_name == "wait":  # before that nothing is to be interrupted
        raise Alarm


def interrupted(rank: int, size: int) -> None:
    world._PATIENCE = 0.0
    group = dist.new_group()
    if rank == 1:
        with pytest.raises(GroupAborted, match="rank 0 was interrupted"):
            dist.recv(torch.ones(1), 0, group=group)
        return
    work = dist.all_reduce(torch.ones(10), group=group, async_op=True)
    assert isinstance(work, Pending)
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    with pytest.raises(Alarm):
        work._settle()
    signal.setitimer(signal.ITIMER_REAL, 0)
    with pytest.raises(GroupAborted):
        work.wait()
    assert isinstance(work.exception(), GroupAborted)


def test_what_a_signal_handler_raises_gets_out():
    spawn(2, interrupted)


def hold_pythons_lock(rank: int, size: int, done: Connection, tell: Connection) -> None:
    """Queue work, drop the handles, and let no other thread of rank 1 run Python before rank 0 is done."""
    world._PATIENCE = 0.0
    group = dist.new_group()
    dist.all_reduce(torch.ones(10), group=group, async_op=True).wait()
    dist.barrier()
    for _ in range(20):
        last = dist.all_reduce(torch.ones(10), group=group, async_op=True)
    if rank == 1:
        ctypes.PyDLL(None).read(done.fileno(), ctypes.create_string_buffer(1), 1)
    last.wait()
    if rank == 0:
        tell.send_bytes(b"done")


def test_the_threads_that_move_data_never_wait_for_pythons_lock():
    done, tell = Pipe(duplex=False)
    with done, tell:
        spawn(2, hold_pythons_lock, done, tell)
