"""The forming of a group, from what a rank brings to what the native layer needs."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..settings import Settings
from .hello import Hello
from .hosts import choose_places
from .links import Link, Listener, link
from .rendezvous import Board


@dataclass(frozen=True)
class Plan:
    """What every rank knows once the group's ranks have met."""

    endpoints: tuple[str, ...]
    """Each rank's host and address there."""
    secret: bytes
    generation: int = 0

    @property
    def hosts(self) -> list[str]:
        """The identity of each rank's host."""
        return [endpoint.partition(" ")[0] for endpoint in self.endpoints]

    @property
    def addresses(self) -> list[str]:
        """Where each rank's segment is."""
        return [endpoint.rpartition(" ")[2] for endpoint in self.endpoints]

    def digests(self) -> list[bytes]:
        """Make, for each rank, what its segment must show: the same only for the same group."""
        size = len(self.endpoints)
        return [
            hmac.digest(self.secret, f"{self.generation}/{rank}/{size}".encode(), "sha256")
            for rank in range(size)
        ]


def number_meeting(members: Sequence[int], count: int) -> int:
    """Number the `count`-th meeting of these members: the same on each of them, and no other's."""
    text = f"{count}:{','.join(map(str, members))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7])


def open_listener(reach: str | None = None) -> Listener:
    """Listen where NBDIST_INTERFACE says, or where the host `reach` is reached, or at every address.

    Raises:
        UsageError: NBDIST_INTERFACE names nothing this host has.
        GroupError: there is no address to listen at.
    """
    return Listener(choose_places(Settings.from_environment().interface, reach))


def meet(
    board: Board,
    rank: int,
    endpoint: str,
    listener: Listener | None,
    reach: str | None,
    deadline: float,
) -> tuple[Plan, list[Link]]:
    """Learn from the board who the ranks are, and connect with those on other hosts, if any.

    Raises:
        GroupError: some cannot be reached; the message, equal on all ranks, says where that was tried.
        TimeoutError: a rank has not come in time.
    """
    try:
        secret = board.secret()
        plan = Plan(tuple(board.swap("endpoint", endpoint)), secret, board.generation)
        hosts = plan.hosts
        remote = [peer for peer, host in enumerate(hosts) if host != hosts[rank]]
        if not remote:
            return plan, []
        listener = listener or open_listener(reach)
        announcements = board.swap("listener", listener.announcement())
        # All have come, so from here on only the network is waited for.
        patience = min(Settings.from_environment().start_timeout, max(0.0, deadline - time.monotonic()))
        hello = Hello(secret, plan.generation, len(hosts), rank)
        calls = {peer: announcements[peer] for peer in remote}
        return plan, link(listener, hello, calls, patience, board.check)
    except BaseException as error:
        try:
            board.give_up(error)
        except Exception as other:  # noqa: BLE001 - the first error is what went wrong
            error.add_note(f"the other ranks could not be told: {other}")
        raise
    finally:
        if listener is not None:
            listener.close()
