"""The life of this rank's groups: formed, aborted, left; and the cell the rank is in."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from ..settings import Settings
from . import _native, ending
from .group import RingGroup
from .hosts import host_identity, number_hosts
from .letters import Letters, Unmet
from .links import Link, Listener
from .meeting import Plan, meet, number_meeting, open_listener
from .no_store import NO_STORE
from .rendezvous import Board, Collected, Shelf, host_of
from .routed import RoutedGroup

BACKEND = "nbdist"

# How long asynchronous work may wait for the other ranks on its caller's thread.
_PATIENCE = 0.001


@dataclass
class _Formed:
    """What is kept of the forming of a group, for groups of some of its ranks."""

    timeout: timedelta
    reach: str | None = None
    """The host over which the ranks met."""
    secret: bytes = b""
    store: Store | None = None
    """Torch's, which other backends of the group need."""
    children: Counter[tuple[int, ...]] = field(default_factory=Counter)
    """How many groups of these ranks there have been."""
    group: Callable[[], RingGroup | None] = lambda: None
    """What torch holds, while somebody does."""


@dataclass
class _Offer:
    """This rank's part of a group that the notebook forms."""

    endpoint: _native.Endpoint
    listener: Listener | None = None
    board: Collected | None = None
    """What the notebook has collected; there is one while the group is formed."""


_lock = threading.Lock()
# By what a group's unfinished work keeps, too: torch 2.6 lets go of a group without leaving it.
_groups: weakref.WeakKeyDictionary[_native.Group, _Formed] = weakref.WeakKeyDictionary()
_groups_lock = threading.Lock()  # not held while a group is formed, which takes as long as the others do
_world: weakref.ref[RingGroup] | None = None
_offer: _Offer | None = None
_cell = 0


def open_endpoint() -> bytes:
    """Open this rank's segment of a group to be formed; the bytes tell the others how to map it."""
    global _offer
    _withdraw()
    _offer = _Offer(_native.Endpoint())
    return f"{host_identity()} {_offer.endpoint.address}".encode()


def listen() -> bytes:
    """Let ranks on other hosts call this one until the group is formed; the bytes tell them where.

    Raises:
        ValueError: this rank has no endpoint.
        UsageError: NBDIST_INTERFACE names nothing this host has.
        GroupError: there is no address to listen at.
    """
    if _offer is None:
        raise ValueError("this rank has no endpoint; call open_endpoint() first")
    if _offer.listener is not None:
        _offer.listener.close()
    _offer.listener = open_listener()
    return _offer.listener.announcement().encode()


def form_world(
    endpoints: Sequence[bytes],
    rank: int,
    secret: bytes,
    generation: int,
    listeners: Sequence[bytes] = (),
) -> None:
    """Make the ranks behind `endpoints` one group, torch.distributed's default one.

    The endpoint of this rank is the one it opened last. `listeners` is what listen() returned on each
    rank; it is needed where the ranks are on several hosts.

    Raises:
        ValueError: this rank's endpoint is not at its place in the list, or listeners are missing.
        GroupAborted: a rank died, or holds another secret, generation, rank or world size.
        GroupError: a rank on another host cannot be reached.
    """
    if _offer is None:
        raise ValueError("this rank has no endpoint; call open_endpoint() first")
    texts = {
        topic: [text.decode() for text in given]
        for topic, given in (("endpoint", endpoints), ("listener", listeners))
    }
    _offer.board = Collected(texts, secret, generation)
    try:
        dist.init_process_group(f"cpu:{BACKEND}", store=NO_STORE, rank=rank, world_size=len(endpoints))
    finally:
        _withdraw()


def leave_world() -> None:
    """Drop the group, aborted or not, without waiting for anybody."""
    _withdraw()
    _close_all()  # torch knows nothing of one whose forming failed half-way
    # Whichever default group there is: the user may have put another in the place of ours.
    if dist.is_initialized():
        dist.destroy_process_group()


def abort(reason: str) -> None:
    """End the group's generation on every rank: whoever waits in a collective raises GroupAborted.

    Any thread may call it. The first reason wins.
    """
    offer, world = _offer, _current()
    if offer is not None and offer.board is not None:
        offer.board.abort(reason)
        offer.endpoint.abort(reason)
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
        group.enter_cell(number)


def end_lines() -> None:
    """Tell the other ranks that the cell's own lines are through here: they take no more part in them."""
    for group in _open_groups():
        group.end_lines()


def leave_cell(number: int) -> None:
    """Tell the other ranks that nothing new will come from this cell, and finish what was issued in it."""
    _native.leave_cell(_open_groups(), number)


def skip_cell(number: int) -> None:
    """Tell the other ranks that this one does not run a cell. Never waits; any thread may call it."""
    for group in _open_groups():
        group.skip_cell(number)


def step() -> tuple[str, int, int] | None:
    """Return what this rank waits in: the operation, its number in the cell, its bytes. Any thread may ask.

    The number is 0 for a message, and the bytes where every rank has a share of its own.
    """
    return next((step for group in _open_groups() if (step := group.step()) is not None), None)


def bytes_moved() -> int:
    """Count the payload bytes this rank has sent to others, over all generations."""
    return _native.bytes_moved()


def register() -> None:
    """Make `init_process_group("nbdist")` known to torch."""
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu", "cuda"])
    atexit.register(_end)


def _create(options: Any, _: object) -> RingGroup:
    """Form a group; torch calls it in init_process_group, and for new_group on the members."""
    global _world
    members = options.global_ranks_in_group  # none for the default group
    parent = _parent() if members else None
    if parent is not None:
        return _form_within(parent, members, options.group_rank, options.timeout, options.store)
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    with _lock:
        deadline = time.monotonic() + timeout.total_seconds()
        if _offer is not None and _offer.board is not None and not members:
            group = _form(_offer.endpoint, rank, _offer.board, deadline, _Formed(timeout), _offer.listener)
        else:
            formed = _Formed(timeout, reach=host_of(options.store), store=options.store)
            board = Shelf(options.store, rank, size, deadline)
            group = _form(_native.Endpoint(), rank, board, deadline, formed)
        if not members:
            _world = weakref.ref(group)
        return group


def _form_within(
    parent: RingGroup, members: Sequence[int], rank: int, timeout: timedelta, store: Store | None = None
) -> RingGroup:
    """Form a group of some ranks of another; they meet over that."""
    with _lock:
        above = _groups[parent.native]
        key = tuple(members)
        number = number_meeting(members, above.children[key])
        deadline = time.monotonic() + timeout.total_seconds()
        begun = parent.unmet.pop(key, None)
        board, endpoint = begun or (
            Letters(parent.native, above.secret, members, rank, number, deadline),
            _native.Endpoint(),
        )
        board.deadline = deadline
        formed = _Formed(timeout, reach=above.reach, store=store if above.store is not None else None)
        above.children[key] += 1
        try:
            return _form(endpoint, rank, board, deadline, formed, world=_current())
        except Unmet:
            # Who comes late finds our letter. So it is not over for anybody, and goes on when we try again.
            above.children[key] -= 1
            parent.unmet[key] = board, endpoint
            raise


def _form(
    endpoint: _native.Endpoint,
    rank: int,
    board: Board,
    deadline: float,
    formed: _Formed,
    listener: Listener | None = None,
    world: RingGroup | None = None,
) -> RingGroup:
    own = f"{host_identity()} {endpoint.address}"
    links: list[Link] = []
    try:
        plan, links = meet(board, rank, own, listener, formed.reach, deadline)
        return _make(endpoint, rank, plan, links, formed, world)
    except Unmet:
        raise
    except BaseException:
        # A traceback may keep all of this, and others wait for it.
        endpoint.close()
        for each in links:
            each.close()
        raise


def _make(
    endpoint: _native.Endpoint,
    rank: int,
    plan: Plan,
    links: list[Link],
    formed: _Formed,
    world: RingGroup | None,
) -> RingGroup:
    limit = Settings.from_environment().collective_timeout
    if formed.timeout != dist.distributed_c10d.default_pg_timeout:
        limit = formed.timeout.total_seconds()  # somebody chose it
    size = len(plan.endpoints)
    full = size * torch.get_num_threads() >= len(os.sched_getaffinity(0))
    native = _native.Group(
        endpoint,
        plan.addresses,
        rank,
        plan.digests(),
        parent=world.native if world is not None else None,
        limit=limit,
        patience=_PATIENCE if full else 0.0,
        hosts=number_hosts(plan.hosts),
        links=links,
    )
    try:
        if _cell:
            native.enter_cell(_cell)
        formed.secret = plan.secret
        if formed.store is not None and torch.cuda.is_available():
            group: RingGroup = RoutedGroup(native, rank, size, _split, formed.store, formed.timeout)
        else:
            group = RingGroup(native, rank, size, _split)
        with _groups_lock:
            formed.group = weakref.ref(group)
            _groups[native] = formed
        return group
    except BaseException:
        native.close()  # the sockets are its own by now
        raise


def _split(group: RingGroup, members: Sequence[int], rank: int) -> RingGroup:
    return _form_within(group, members, rank, _groups[group.native].timeout)


def _withdraw() -> None:
    """Take back what this rank has offered for a group that the notebook forms."""
    global _offer
    offer, _offer = _offer, None
    if offer is not None and offer.listener is not None:
        offer.listener.close()


def _parent() -> RingGroup | None:
    # Torch 2.6 leaves our group open when another takes its place as the default one.
    group = _current()
    return group if group is not None and dist.group.WORLD is group else None


def _current() -> RingGroup | None:
    group = _world() if _world is not None else None
    return group if group is not None and group.native.is_open else None


def _open_groups() -> list[_native.Group]:
    with _groups_lock:
        return [group for group in _groups if group.is_open]


def _close_all() -> None:
    for native in _open_groups():
        group = _groups[native].group()
        if group is not None:
            group.leave()
        else:
            native.close()


def _end() -> None:
    try:
        if reason := ending.reason_of_exit():
            ending.abort(_open_groups(), reason)
    finally:
        # Threads of ours must not outlive the interpreter they report to.
        _close_all()
        _native.finish_announcing()
