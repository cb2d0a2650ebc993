"""A cell that is running on the ranks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipyparallel.error import RemoteError

from ..errors import RankError, RankFailure

if TYPE_CHECKING:
    from ipyparallel import Client

_OUTPUT_TYPES = {"stream", "display_data", "execute_result"}


@dataclass(frozen=True, kw_only=True)
class Output:
    """Something a rank put out: text (`stream`) or a rich bundle (`display_data`, `execute_result`)."""

    rank: int
    kind: str
    content: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """How a cell ended on one rank."""

    rank: int
    ok: bool
    name: str = ""
    message: str = ""
    traceback: tuple[str, ...] = ()
    host: str = ""
    released: bool = False
    died: bool = False


class CellRun:
    """Follow one cell on the ranks it was sent to: its output as it comes, its replies at the end."""

    def __init__(self, client: Client, code: str, spec: dict[str, Any], ranks: Sequence[int]) -> None:
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
        """Wait until a rank puts something out or ends, at most `timeout`."""
        self._wake.wait(timeout)
        self._wake.clear()

    def done(self) -> bool:
        """Tell whether every rank has ended and all of its output is here."""
        return all(
            future.done() and (future.output.done() or _died(future)) for future in self._futures.values()
        )

    def pending(self) -> tuple[int, ...]:
        """List the ranks that still run the cell."""
        return tuple(rank for rank, future in self._futures.items() if not future.done())

    def replies(self) -> list[Reply]:
        """Return how each rank that has ended did so, in rank order."""
        return [reply_of(rank, f.result()) for rank, f in sorted(self._futures.items()) if f.done()]

    def _listen(self, rank: int, future: Any) -> None:
        # Called before the request leaves, so that not even the first line can be missed; the
        # callback itself runs in the client's thread.
        def receive(message: dict[str, Any]) -> None:
            kind = message["header"]["msg_type"]
            if kind in _OUTPUT_TYPES:
                self.outputs.put(Output(rank=rank, kind=kind, content=message["content"]))
            self._wake.set()

        future.iopub_callbacks.append(receive)


def _died(future: Any) -> bool:
    result = future.result()
    return isinstance(result, RemoteError) and result.ename == "EngineError"


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


def lost_error(ranks: Sequence[int]) -> RankError:
    """Return the error for ranks that are not there any more."""
    message = "it is gone; `%nbdist restart` starts the ranks afresh"
    return RankError(
        [RankFailure(ranks=tuple(ranks), host="", name="RankDied", message=message, traceback=())]
    )


def reply_of(rank: int, result: Any) -> Reply:
    """Read what a rank answered."""
    if not isinstance(result, RemoteError):
        return Reply(rank=rank, ok=True)
    if result.ename == "EngineError":
        return Reply(rank=rank, ok=False, name="RankDied", message="the process ended", died=True)
    about = (result.engine_info or {}).get("nbdist", {})
    return Reply(
        rank=rank,
        ok=False,
        name=result.ename,
        message=result.evalue,
        traceback=tuple(str(result.traceback).splitlines()),
        host=about.get("host", ""),
        released=about.get("released", result.ename == "GroupAborted"),
    )
