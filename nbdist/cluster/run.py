"""A cell that is running on the ranks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import RankError
from .call import forget, targets_of
from .failures import error_of
from .reply import Reply, died, reply_of

if TYPE_CHECKING:
    from ipyparallel import Client

_SLICE = 0.2

_OUTPUT_TYPES = {
    "stream",
    "display_data",
    "execute_result",
    "update_display_data",
    "clear_output",
    "nbdist_bars",
}


@dataclass(frozen=True, kw_only=True)
class Output:
    """Something a rank put out, as Jupyter's message of that kind has it; `nbdist_bars` lists the lines of a
    rank that rewrite themselves.
    """

    rank: int
    kind: str
    content: dict[str, Any]


class CellRun:
    """Follow one cell on the ranks it was sent to: its output as it comes, its replies at the end."""

    def __init__(
        self,
        client: Client,
        code: str,
        spec: dict[str, Any],
        ranks: Sequence[int],
        check: Callable[[], None],
        hosts: Mapping[int, str],
    ) -> None:
        self._client = client
        self._hosts = hosts
        self._check = check
        """Raises if there is no use in waiting any longer."""
        self.ranks = tuple(ranks)
        self.number: int = spec["number"]
        self.outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._futures: dict[int, Any] = {}
        for rank, target in targets_of(client, self.ranks).items():
            # By the stream: sending on its bare socket can swallow the edge that announces a reply.
            future = client.send_execute_request(
                client._mux_stream,
                code,
                silent=False,
                metadata={"nbdist": spec},
                ident=target,
                message_future_hook=lambda future, rank=rank: self._listen(rank, future),
            )
            future.add_done_callback(lambda _: self._wake.set())
            self._futures[rank] = future

    def wait(self, timeout: float) -> None:
        """Wait until a rank puts something out or ends, at most `timeout`.

        Raises:
            NbdistError: the ranks cannot be reached any more.
        """
        self._check()
        self._wake.wait(timeout)
        self._wake.clear()

    def done(self) -> bool:
        """Tell whether every rank has ended and all of its output is here."""
        return all(self._has_ended(rank) for rank in self.ranks)

    def ended(self) -> list[int]:
        """List the ranks of which no more output will come."""
        return [rank for rank in self.ranks if self._has_ended(rank)]

    def release(self) -> None:
        """Let the client forget the cell, which it would keep for ever, with all of its output."""
        forget(self._client, [future.msg_id for future in self._futures.values() if future.done()])

    def join(self) -> None:
        """Wait for the cell's end.

        Raises:
            RankError: a rank failed.
        """
        while not self.done():
            self.wait(_SLICE)
        error = self.error()
        if error is not None:
            raise error

    def error(self) -> RankError | None:
        """Return how the cell has failed on the ranks that have ended it, if it has."""
        return error_of(self.replies(), self._hosts)

    def failed(self) -> bool:
        """Tell whether a rank has failed, still runs, or left the group unusable."""
        return bool(self.pending()) or any(not reply.ok or reply.group_over for reply in self.replies())

    def pending(self) -> tuple[int, ...]:
        """List the ranks that still run the cell."""
        return tuple(r for r, future in self._futures.items() if not future.done() and not self._is_lost(r))

    def replies(self) -> list[Reply]:
        """Return how each rank that has ended did so, in rank order."""
        ended = sorted(set(self._futures).difference(self.pending()))
        return [
            reply_of(rank, self._futures[rank].result()) if self._futures[rank].done() else died(rank)
            for rank in ended
        ]

    def _has_ended(self, rank: int) -> bool:
        future = self._futures[rank]
        return self._is_lost(rank) or (
            future.done() and (future.output.done() or reply_of(rank, future.result()).died)
        )

    def _is_lost(self, rank: int) -> bool:
        # A rank that ends in order while a request is on its way to it leaves that request unanswered.
        return self._client._closed or rank not in self._client._engines

    def _listen(self, rank: int, future: Any) -> None:
        # Called before the request leaves, so that not even the first line can be missed; the
        # callback itself runs in the client's thread.
        def receive(message: dict[str, Any]) -> None:
            kind = message["header"]["msg_type"]
            if kind in _OUTPUT_TYPES:
                self.outputs.put(Output(rank=rank, kind=kind, content=message["content"]))
            self._wake.set()

        future.iopub_callbacks.append(receive)
