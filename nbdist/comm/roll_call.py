"""Meetings with a time limit, that tell who is missing."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from .work import Pending

if TYPE_CHECKING:
    from .group import RingGroup

_TAG = -2  # of messages nobody else receives; native/mail.h says whose tags are whose


def call_the_roll(group: RingGroup, timeout: timedelta | None) -> None:
    """Return when every rank has called it.

    Rank 0 tells everybody that it has come, hears from each, and then lets them go. So it knows who is
    missing; and the others wait for its word only as long as there can be one.

    Raises:
        GroupAborted: some rank has not come within `timeout`, and the group is over on all of them.
    """
    size, rank = group.size(), group.rank()
    seconds = math.inf if timeout is None else timeout.total_seconds()
    deadline = time.monotonic() + seconds
    hosts = range(1, size) if rank == 0 else [0]
    heard = {peer: _receive(group, peer) for peer in hosts}
    for peer in hosts:
        _send(group, peer)
    missing = [peer for peer, work in heard.items() if not _in_time(work, deadline)]
    if missing:
        names = ", ".join(f"rank {peer}" for peer in missing)
        group.native.abort(
            f"Rank {rank} timed out in monitoredBarrier: {names} did not come within a timeout of "
            f"{seconds:g} s"
        )
    for work in heard.values():
        work.wait()
    if rank == 0:
        for peer in hosts:
            _send(group, peer).wait()
    else:
        _receive(group, 0).wait()


def _in_time(work: Pending, deadline: float) -> bool:
    return deadline == math.inf or work.is_done_within(max(0.0, deadline - time.monotonic()))


def _send(group: RingGroup, peer: int) -> Pending:
    return group.send([torch.zeros(1, dtype=torch.uint8)], peer, _TAG)


def _receive(group: RingGroup, peer: int) -> Pending:
    return group.recv([torch.zeros(1, dtype=torch.uint8)], peer, _TAG)
