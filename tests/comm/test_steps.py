"""What a rank says, while it waits, of what it waits in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.errors import MismatchError

from .ranks import spawn


class Watch:
    """Look from another thread, until what is there is what was expected or time is over."""

    def __init__(self, expected: Any) -> None:
        self._expected = expected
        self.seen: Any = None
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def result(self) -> Any:
        self._thread.join()
        return self.seen

    def _look(self) -> None:
        end = time.monotonic() + 10
        while self.seen != self._expected and time.monotonic() < end:
            self.seen = comm.step() or self.seen
            time.sleep(0.001)


def held_up(rank: int, size: int, call: Callable[[int], None], expected: Any, cell: int = 1) -> Any:
    comm.enter_cell(cell)
    for _ in range(3):
        dist.barrier()
    if rank == 1:
        time.sleep(0.5)
        call(rank)
        return comm.step()
    watch = Watch(expected)
    call(rank)
    seen = watch.result()
    return seen, comm.step()


def reduce_now(rank: int) -> None:
    dist.all_reduce(torch.ones(1000))


def reduce_later(rank: int) -> None:
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    work.wait()


def message(rank: int) -> None:
    if rank == 0:
        dist.recv(torch.ones(5), 1)
    else:
        dist.send(torch.ones(5), 0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (reduce_now, ("all_reduce", 4, 4000)),
        (reduce_later, ("all_reduce", 4, 4000)),
        (message, ("recv", 0, 0)),
    ],
)
@pytest.mark.parametrize("hosts", [(), (0, 1)], ids=["one-host", "two-hosts"])
def test_who_waits_says_in_what(call, expected, hosts):
    waiting, late = spawn(2, held_up, call, expected, hosts=hosts)
    assert waiting == (expected, None)
    assert late is None


def compute_meanwhile(rank: int, size: int) -> Any:
    work = dist.all_reduce(torch.ones(4), async_op=True) if rank == 0 else None
    time.sleep(0.2)
    seen = comm.step()
    if work is None:
        dist.all_reduce(torch.ones(4))
    else:
        work.wait()
    return seen


def test_who_computes_while_work_is_under_way_does_not_wait():
    assert spawn(2, compute_meanwhile) == [None, None]


def counted_anew(rank: int, size: int) -> Any:
    for number in (1, 2):
        comm.enter_cell(number)
        dist.barrier()
        comm.leave_cell(number)
    return held_up(rank, size, reduce_now, ("all_reduce", 4, 4000), cell=3)


def test_the_count_begins_anew_in_each_cell():
    assert spawn(2, counted_anew)[0] == (("all_reduce", 4, 4000), None)


def at_the_end(rank: int, size: int) -> str:
    comm.enter_cell(1)
    if rank == 1:
        comm.end_lines()
    with pytest.raises(MismatchError) as caught:
        dist.all_reduce(torch.ones(3 - rank))
    return str(caught.value)


@pytest.mark.parametrize("hosts", [(), (0, 1)], ids=["one-host", "two-hosts"])
def test_a_collective_that_meets_the_end_of_the_cell_is_named(hosts):
    told = set(spawn(2, at_the_end, hosts=hosts))
    assert told == {
        "rank 0 waits in all_reduce(sum, 3 x float32), but rank 1 has come to the end of the cell "
        "without it; call it on every rank, or among those of a torch.distributed.new_group"
    }
