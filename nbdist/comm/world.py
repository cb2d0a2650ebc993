"""The life of this rank's groups: formed, aborted, left; and the cell the rank is in."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from ..settings import Settings
from . import _native
from .group import RingGroup
from .rendezvous import Plan, meet

BACKEND = "nbdist"

# How long asynchronous work may wait for the other ranks on its caller's thread.
_PATIENCE = 0.001

_lock = threading.Lock()
_groups: weakref.WeakSet[RingGroup] = weakref.WeakSet()
_groups_lock = threading.Lock()  # not held while a group is formed, which takes as long as the others do
_world: weakref.ref[RingGroup] | None = None
_endpoint: _native.Endpoint | None = None
_plan: Plan | None = None
_cell = 0


def open_endpoint() -> bytes:
    """Open this rank's segment of a group to be formed; the bytes tell the others how to map it."""
    global _endpoint
    _endpoint = _native.Endpoint()
    return _endpoint.address.encode()


def form_world(endpoints: Sequence[bytes], rank: int, secret: bytes, generation: int, store: Store) -> None:
    """Make the ranks behind `endpoints` one group, torch.distributed's default one.

    The endpoint of this rank is the one it opened last.

    Raises:
        ValueError: this rank's endpoint is not at its place in the list.
        GroupAborted: a rank died, or holds another secret, generation, rank or world size.
    """
    global _plan
    if _endpoint is None:
        raise ValueError("this rank has no endpoint; call open_endpoint() first")
    _plan = Plan(tuple(endpoint.decode() for endpoint in endpoints), secret, generation)
    try:
        dist.init_process_group(f"cpu:{BACKEND}", store=store, rank=rank, world_size=len(endpoints))
    finally:
        _plan = None


def leave_world() -> None:
    """Drop the group, aborted or not, without waiting for anybody."""
    global _endpoint
    _endpoint = None
    # Whichever default group there is: the user may have put another in the place of ours.
    if dist.is_initialized():
        dist.destroy_process_group()
    _close_all()  # one whose forming failed half-way is known to us alone


def abort(reason: str) -> None:
    """End the group's generation on every rank: whoever waits in a collective raises GroupAborted.

    Any thread may call it. The first reason wins.
    """
    world = _current()
    if world is not None:
        world.native.abort(reason)


def is_aborted() -> bool:
    """Whether the group's generation is over."""
    world = _current()
    return world is not None and world.native.is_aborted()


def enter_cell(number: int) -> None:
    """Tell the other ranks which cell this rank is in."""
    global _cell
    _cell = number
    for group in _open_groups():
        group.native.enter_cell(number)


def leave_cell(number: int) -> None:
    """Tell the other ranks that nothing new will come from this cell, and finish what was issued in it."""
    _native.leave_cell([group.native for group in _open_groups()], number)


def skip_cell(number: int) -> None:
    """Tell the other ranks that this one does not run a cell. Never waits; any thread may call it."""
    for group in _open_groups():
        group.native.skip_cell(number)


def bytes_moved() -> int:
    """Count the payload bytes this rank has sent to others, over all generations."""
    return _native.bytes_moved()


def register() -> None:
    """Make `init_process_group("nbdist")` known to torch."""
    dist.Backend.register_backend(BACKEND, _create, devices=["cpu", "cuda"])
    atexit.register(_close_all)


def _create(store: Store, rank: int, size: int, timeout: timedelta) -> RingGroup:
    global _endpoint, _world
    with _lock:
        # A default group has no parent, though torch 2.6 leaves an earlier one open.
        parent = _current() if dist.is_initialized() else None
        if _plan is not None and parent is None:
            endpoint, plan = _endpoint, _plan
            _endpoint = None
        else:
            endpoint = _native.Endpoint()
            plan = meet(store, rank, size, endpoint.address, timeout)
        assert endpoint is not None
        limit = Settings.from_environment().collective_timeout
        if timeout != dist.distributed_c10d.default_pg_timeout:
            limit = timeout.total_seconds()  # somebody chose it
        full = size * torch.get_num_threads() >= len(os.sched_getaffinity(0))
        native = _native.Group(
            endpoint,
            list(plan.endpoints),
            rank,
            plan.digests(),
            parent=parent.native if parent is not None else None,
            limit=limit,
            patience=_PATIENCE if full else 0.0,
        )
        group = RingGroup(native, rank, size, partial(_split, store, timeout))
        if _cell:
            native.enter_cell(_cell)
        with _groups_lock:
            _groups.add(group)
        if parent is None:
            _world = weakref.ref(group)
        return group


def _split(store: Store, timeout: timedelta, name: str, rank: int, size: int) -> RingGroup:
    return _create(PrefixStore(name, store), rank, size, timeout)


def _current() -> RingGroup | None:
    group = _world() if _world is not None else None
    return group if group is not None and group.is_open else None


def _open_groups() -> list[RingGroup]:
    with _groups_lock:
        return [group for group in _groups if group.is_open]


def _close_all() -> None:
    # Threads of ours must not outlive the interpreter they report to.
    for group in _open_groups():
        group.shutdown()
