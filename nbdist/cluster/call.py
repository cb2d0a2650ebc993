"""Call a rank's service functions between cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipyparallel as ipp

from .. import errors
from ..errors import NbdistError, StartError, rank_list
from .failures import error_of, lost_error
from .reply import Reply, died, reply_of

if TYPE_CHECKING:
    from ipyparallel import Client
    from ipyparallel.client.futures import MessageFuture

# Evaluated on the rank: the kernel's `rank` object dispatches by name, so that this side needs
# nothing of the engine's code.
_RANK = ipp.Reference("get_ipython().kernel.rank")

_SLICE = 0.2


def call(
    client: Client,
    name: str,
    arguments: Mapping[int, Sequence[Any]],
    check: Callable[[], None],
    timeout: float | None = None,
) -> list[Any]:
    """Call `name` on the ranks of `arguments`, each with its own, and return the results in rank order.

    Without a `timeout` this waits as long as the ranks live (a slow rank is not a dead one) and `check`
    does not raise.

    Raises:
        NbdistError: what a rank raised, where it is one of our own errors.
        RankError: a rank raised something else, or died.
        StartError: a rank did not answer within `timeout`.
    """
    ranks = sorted(arguments)
    futures = {
        rank: client.send_apply_request(
            client._mux_stream, _RANK, args=(name, *arguments[rank]), ident=target
        )
        for rank, target in targets_of(client, ranks).items()
    }
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    while late := [r for r, future in futures.items() if not future.done() and r in client._engines]:
        if time.monotonic() > deadline:
            raise StartError(
                f"Rank {rank_list(late)} did not answer within {timeout:g} s; "
                "set NBDIST_START_TIMEOUT higher on a slow machine."
            )
        check()
        futures[late[0]].wait(_SLICE)
    results = {rank: future.result() if future.done() else None for rank, future in futures.items()}
    replies = [
        reply_of(rank, results[rank]) if future.done() else died(rank) for rank, future in futures.items()
    ]
    forget(client, [future.msg_id for future in futures.values() if future.done()])
    error = _our_own(replies) or error_of(replies)
    if error is not None:
        raise error
    return [results[rank] for rank in ranks]


def tell(
    client: Client, action: str, ranks: Sequence[int], arguments: Mapping[str, Any]
) -> dict[int, MessageFuture]:
    """Tell those of `ranks` that live something they hear while busy; return their answers to come."""
    content = {"action": action, "arguments": dict(arguments)}
    addresses = dict(client._engines)
    return {
        rank: client._send(
            client._control_stream, "nbdist_request", content=content, ident=addresses[rank].encode()
        )
        for rank in ranks
        if rank in addresses
    }


def forget(client: Client, messages: Sequence[str]) -> None:
    """Let the client forget what was asked and answered; by itself it keeps all of it."""
    for message in messages:
        for kept in (client.results, client.metadata, client._futures, client._output_futures):
            kept.pop(message, None)
    client.history = [message for message in client.history if message not in messages]


def targets_of(client: Client, ranks: Sequence[int]) -> dict[int, bytes]:
    """Return the address of each rank.

    Raises:
        RankError: one is not there any more.
    """
    addresses = dict(client._engines)  # a rank that died has been taken out
    lost = [rank for rank in ranks if rank not in addresses]
    if lost:
        raise lost_error(lost)
    return {rank: addresses[rank].encode() for rank in ranks}


def _our_own(replies: list[Reply]) -> NbdistError | None:
    """Return the error a rank raised on purpose; one that was only released tells less than its cause."""
    for reply in sorted(replies, key=lambda reply: reply.released):
        kind = getattr(errors, reply.name, None) if not reply.ok else None
        if isinstance(kind, type) and issubclass(kind, NbdistError) and not reply.released:
            return kind(reply.message)
    return None
