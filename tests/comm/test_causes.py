"""Every cause that ends a group, told alike on every rank that waits; and the next generation works."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.errors import GroupAborted, MismatchError

from .ranks import Ranks, Returned, begin_together

Outcome = tuple[str, int | None, str]
"""What a call raised: the type, the rank it names, the message."""

MISMATCHES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    # What all do, and what the last rank does instead. `how` says whether asynchronously.
    "shape": (
        lambda tensor, **how: dist.all_reduce(tensor, **how),
        lambda tensor, **how: dist.all_reduce(tensor[1:], **how),
    ),
    "dtype": (
        lambda tensor, **how: dist.all_reduce(tensor, **how),
        lambda tensor, **how: dist.all_reduce(tensor.view(torch.int32), **how),
    ),
    "op": (
        lambda tensor, **how: dist.all_reduce(tensor, **how),
        lambda tensor, **how: dist.all_reduce(tensor, dist.ReduceOp.MAX, **how),
    ),
    "root": (
        lambda tensor, **how: dist.broadcast(tensor, 0, **how),
        lambda tensor, **how: dist.broadcast(tensor, 1, **how),
    ),
    "order": (
        lambda tensor, **how: dist.all_reduce(tensor, **how),
        lambda tensor, **how: dist.barrier(**how),
    ),
}


def outcome(call: Callable[[], Any]) -> Outcome:
    with pytest.raises((GroupAborted, MismatchError, KeyboardInterrupt)) as caught:
        call()
    error = caught.value
    return type(error).__name__, getattr(error, "rank", None), str(error)


def reduce_in_vain(asynchronous: bool) -> Outcome:
    def call() -> None:
        work = dist.all_reduce(torch.ones(50_000), async_op=asynchronous)
        if work is not None:
            work.wait()

    return outcome(call)


def interrupted(asynchronous: bool) -> Outcome:
    """Interrupt this rank while it waits for another that waits, too, but not for this."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()

    def call() -> None:
        if asynchronous:
            work = dist.irecv(torch.ones(3), 0)
            assert work is not None
            work.wait()
        else:
            dist.recv(torch.ones(3), 0)

    return outcome(call)


def differ(what: str, odd: bool, asynchronous: bool) -> Outcome:
    tensor = torch.ones(6)

    def call() -> None:
        work = MISMATCHES[what][odd](tensor, async_op=asynchronous)
        if work is not None:
            work.wait()

    result = outcome(call)
    assert (tensor == 1).all(), "data moved"
    return result


def next_generation(rank: int, ranks: Sequence[int], path: str) -> None:
    """Form a group of the ranks that are left, and see that it works."""
    store = dist.FileStore(path, len(ranks))
    comm.leave_world()
    store.set(f"endpoint/{rank}", comm.open_endpoint())
    store.set(f"listener/{rank}", comm.listen())
    endpoints, listeners = (
        [store.get(f"{topic}/{other}") for other in ranks] for topic in ("endpoint", "listener")
    )
    comm.form_world(endpoints, ranks.index(rank), b"secret", 2, listeners)
    comm.enter_cell(2)
    for length in (3, 200_000):
        tensor = torch.ones(length)
        dist.all_reduce(tensor)
        assert (tensor == len(ranks)).all()
    comm.leave_cell(2)


def fall(rank: int, size: int, path: str, cause: str, asynchronous: bool) -> Outcome | None:
    comm.enter_cell(1)
    bad = size - 1
    begin_together(rank, bad)
    result = None
    if cause in MISMATCHES:
        result = differ(cause, rank == bad, asynchronous)
    elif rank != bad:
        result = reduce_in_vain(asynchronous)
    elif cause == "interrupt":
        result = interrupted(asynchronous)
    elif cause == "exception":
        comm.abort("ValueError: bad shard")  # what the end of a cell that raised does
    elif cause == "left":
        comm.leave_cell(1)
        while not comm.is_aborted():  # by those who wait; leaving the group is another cause
            threading.Event().wait(0.01)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    next_generation(rank, range(bad if cause == "death" else size), path)
    return result


REASONS = {
    "exception": "rank {bad} ended the group: ValueError: bad shard",
    "interrupt": "rank {bad} was interrupted in recv",
    "left": "rank {bad} left the cell while rank",
    "death": "rank {bad} died",
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "hosts", [(0, 0), (0, 1), (0, 0, 0, 0), (0, 0, 1, 1)], ids=lambda h: "".join(map(str, h))
)
@pytest.mark.parametrize("cause", [*REASONS, *MISMATCHES])
def test_all_are_released_and_the_next_generation_works(tmp_path, cause, hosts, asynchronous):
    size, bad = len(hosts), len(hosts) - 1
    several = hosts if len(set(hosts)) > 1 else ()
    with Ranks(size, fall, str(tmp_path / "store"), cause, asynchronous, hosts=several) as ranks:
        results = ranks.results()
    assert (results[bad] is None) == (cause == "death")
    lived = [result for result in results if result is not None]
    for result in lived:
        assert isinstance(result, Returned), result.text
    told = [result.value for result in lived if result.value is not None]
    if cause == "interrupt":
        assert told.pop()[0] == "KeyboardInterrupt"
    if cause in MISMATCHES:
        assert len(told) == size
        assert all(kind == "MismatchError" for kind, _, _ in told), told
        assert f"rank {bad} " in told[0][2]
    else:
        assert all((kind, rank) == ("GroupAborted", bad) for kind, rank, _ in told), told
        assert REASONS[cause].format(bad=bad) in told[0][2]
    # Two hosts may see it at one moment, each by a rank of its own that waits.
    texts = {re.sub(r"while rank \d+ waits", "while one waits", text) for _, _, text in told}
    assert len(texts) == 1, "not the same on all ranks"
