"""A rank that dies or ends the group while data move: every call of every other rank says so."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.errors import GroupAborted

from .ranks import Ranks, Returned

LENGTH = 600_000
"""Several blocks of a slot and several chunks of a wire, for each rank."""

LAST = 2


def parts(size: int) -> list[torch.Tensor]:
    return [torch.ones(LENGTH) for _ in range(size)]


def to_the_last(rank: int, size: int) -> None:
    if rank == LAST:
        for source in range(LAST):
            dist.recv(torch.empty(LENGTH), source)
    else:
        dist.send(torch.ones(LENGTH), LAST)


def from_the_last(rank: int, size: int) -> None:
    if rank == LAST:
        for target in range(LAST):
            dist.send(torch.ones(LENGTH), target)
    else:
        dist.recv(torch.empty(LENGTH), LAST)


CALLS: dict[str, Callable[[int, int], object]] = {
    "barrier": lambda rank, size: dist.barrier(),
    "all_reduce": lambda rank, size: dist.all_reduce(torch.ones(LENGTH)),
    "reduce": lambda rank, size: dist.reduce(torch.ones(LENGTH), 0),
    "broadcast": lambda rank, size: dist.broadcast(torch.ones(LENGTH), LAST),
    "all_gather": lambda rank, size: dist.all_gather(parts(size), torch.ones(LENGTH)),
    "reduce_scatter": lambda rank, size: dist.reduce_scatter(torch.empty(LENGTH), parts(size)),
    "gather": lambda rank, size: dist.gather(torch.ones(LENGTH), parts(size) if rank == 0 else None, 0),
    "scatter": lambda rank, size: dist.scatter(
        torch.empty(LENGTH), parts(size) if rank == LAST else None, LAST
    ),
    "all_to_all": lambda rank, size: dist.all_to_all_single(
        torch.empty(LENGTH * size), torch.ones(LENGTH * size)
    ),
    "send": to_the_last,
    "recv": from_the_last,
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end() -> None:
    comm.abort("on purpose")


CAUSES = {die: f"rank {LAST} died", end: f"rank {LAST} ended the group: on purpose"}


def go_on(rank: int, size: int, name: str, cause: Callable[[], None]) -> tuple[int, str, str]:
    """Repeat a call for ever; meanwhile another thread of the last rank acts."""
    CALLS[name](rank, size)
    if rank == LAST:
        threading.Timer(0.1, cause).start()

    def call() -> None:
        while True:
            CALLS[name](rank, size)

    with pytest.raises(GroupAborted) as caught:
        call()
    return caught.value.rank, caught.value.operation, str(caught.value)


@pytest.mark.parametrize("hosts", [(), (0, 0, 1)], ids=["one host", "two hosts"])
@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_released(name, cause, hosts):
    with Ranks(LAST + 1, go_on, name, cause, hosts=hosts) as ranks:
        results = ranks.results()
    assert (results[LAST] is None) == (cause is die)
    for result in results[:LAST]:
        assert isinstance(result, Returned), result.text
        rank, operation, text = result.value
        assert (rank, operation) == (LAST, name)
        assert CAUSES[cause] in text
