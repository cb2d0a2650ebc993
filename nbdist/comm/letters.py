"""How the ranks of a subgroup meet: by messages over the group they are in already."""

from __future__ import annotations

import ctypes
import hmac
import threading
import time
from collections.abc import Callable, Sequence

from ._native import DType, Group, Ticket
from .rendezvous import not_come

_LENGTH = 4096  # of every message, since both sides have to know it
_BYTES = DType.bytes
_SLICE = 0.2
_FIRST_TAG = -3  # the others lie below it; native/mail.h says whose tags are whose


class Unmet(TimeoutError):
    """Some have not come, and nothing has happened but for letters: the meeting can go on later."""


class Letters:
    """A board for some ranks of a group, kept nowhere: each writes to each.

    A swap that was not over in time goes on where it was when it is called again.
    """

    generation = 0

    def __init__(
        self, parent: Group, secret: bytes, members: Sequence[int], rank: int, number: int, deadline: float
    ) -> None:
        """`number` tells this meeting from all others that the members have over this parent."""
        self._parent = parent
        self._secret = secret
        self._members = members
        self._rank = rank
        self._tag = _FIRST_TAG - number
        self.deadline = deadline
        self._arrival = threading.Event()
        self._inbox: list[ctypes.Array[ctypes.c_char]] = []
        self._tickets: list[Ticket | None] = []
        self._met = False

    def secret(self) -> bytes:
        """Derive the subgroup's secret from the parent's, so that none has to be sent."""
        return hmac.digest(self._secret, f"subgroup {self._tag}".encode(), "sha256")

    def swap(self, topic: str, text: str) -> Sequence[str]:
        """Send a text to each member, and wait for theirs.

        Raises:
            TimeoutError: some have not sent one in time.
            GroupAborted: the parent has ended, or cannot bring one that is waited for.
        """
        others = [(peer, rank) for peer, rank in enumerate(self._members) if peer != self._rank]
        if not self._inbox:
            self._post(others, text)
        self._wait(self._tickets, [rank for _, rank in others] * 2)
        texts = [page.value.decode() for page in self._inbox]
        self._inbox, self._tickets, self._met = [], [], True
        return texts

    def _post(self, others: Sequence[tuple[int, int]], text: str) -> None:
        letter = ctypes.create_string_buffer(text.encode(), _LENGTH)
        self._inbox = inbox = [
            letter if peer == self._rank else _blank() for peer in range(len(self._members))
        ]
        sent = [
            self._parent.send(
                rank, self._tag, ctypes.addressof(letter), _LENGTH, _BYTES, self._ticked(letter)
            )
            for _, rank in others
        ]
        awaited = [
            self._parent.recv(
                rank, self._tag, ctypes.addressof(inbox[peer]), _LENGTH, _BYTES, self._ticked(inbox[peer])
            )
            for peer, rank in others
        ]
        self._tickets = [*awaited, *sent]

    def check(self) -> None:
        """Raise why the parent has ended, if it has."""
        if self._parent.is_aborted():
            self._parent.barrier()

    def give_up(self, error: BaseException) -> None:
        """End the parent, whose ranks are out of step now, unless others have merely not come."""
        if not isinstance(error, TimeoutError):
            self._parent.abort(str(error) or "interrupted while a group was formed")

    def _ticked(self, page: object) -> Callable[[Ticket], None]:
        # Holds the page for as long as the native layer may write to it, which may be longer than we wait;
        # and not us, lest the parent's own thread be the last to hold the parent.
        def tick(_: Ticket, arrival: threading.Event = self._arrival, page: object = page) -> None:
            arrival.set()

        return tick

    def _wait(self, tickets: Sequence[Ticket | None], ranks: Sequence[int]) -> None:
        for ticket in tickets:
            assert ticket is not None
            while True:
                self._arrival.clear()
                if ticket.done:
                    ticket.rethrow()
                    break
                if time.monotonic() > self.deadline:
                    late = {rank for each, rank in zip(tickets, ranks, strict=True) if each and not each.done}
                    if not late:
                        continue  # the last has come meanwhile
                    raise (TimeoutError if self._met else Unmet)(not_come(sorted(late)))
                self._arrival.wait(_SLICE)


def _blank() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(_LENGTH)
