"""How ranks find each other: the endpoints of a group, and the proof that they belong to it."""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import Store

_SLICE = timedelta(milliseconds=200)


@dataclass(frozen=True)
class Plan:
    """What every rank must know to form a group."""

    endpoints: tuple[str, ...]
    secret: bytes
    generation: int

    def digests(self) -> list[bytes]:
        """Make, for each rank, what its segment must show: the same only for the same group."""
        size = len(self.endpoints)
        return [
            hmac.digest(self.secret, f"{self.generation}/{rank}/{size}".encode(), "sha256")
            for rank in range(size)
        ]


def meet(store: Store, rank: int, size: int, endpoint: str, timeout: timedelta) -> Plan:
    """Exchange endpoints through the store that torch hands to a backend.

    Raises:
        TimeoutError: a rank has not come within `timeout`; it is named.
    """
    if rank == 0:
        store.set("secret", secrets.token_hex(32))
    store.set(f"endpoint/{rank}", endpoint)
    deadline = time.monotonic() + timeout.total_seconds()
    secret = _fetch(store, "secret", 0, deadline)
    endpoints = [_fetch(store, f"endpoint/{peer}", peer, deadline) for peer in range(size)]
    return Plan(tuple(endpoints), bytes.fromhex(secret), generation=0)


def _fetch(store: Store, key: str, peer: int, deadline: float) -> str:
    # In slices, because only between them can a signal be answered.
    while True:
        begun = time.monotonic()
        try:
            store.wait([key], _SLICE)
        except RuntimeError as error:
            # A slice that is over is a DistStoreError to most stores, to FileStore a bare RuntimeError.
            if isinstance(error, dist.DistError) and not isinstance(error, dist.DistStoreError):
                raise
            if time.monotonic() - begun < _SLICE.total_seconds() / 2:
                raise  # not a slice that is over: the store itself fails
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"rank {peer} has not come to form the group; start it, or give init_process_group a "
                    "longer timeout"
                ) from error
            continue
        return str(store.get(key), "ascii")
