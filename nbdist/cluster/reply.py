"""How a request ended on a rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipyparallel.error import RemoteError


@dataclass(frozen=True, kw_only=True)
class Reply:
    """How a cell or a call ended on one rank."""

    rank: int
    ok: bool
    name: str = ""
    message: str = ""
    traceback: tuple[str, ...] = ()
    host: str = ""
    released: bool = False
    """Whether the rank failed only because it was released from waiting for another."""
    died: bool = False
    group_over: bool = False
    """Whether the group can't be used any more, however the cell itself ended."""


def died(rank: int) -> Reply:
    """Return the reply of a rank that can give none."""
    message = (
        "its process ended, with its variables; the other ranks keep theirs (reach them with --ranks), "
        f"`%nbdist logs {rank}` shows its last words, and `%nbdist restart` starts all afresh"
    )
    return Reply(rank=rank, ok=False, name="RankDied", message=message, died=True)


def reply_of(rank: int, result: Any) -> Reply:
    """Read what a rank answered."""
    if not isinstance(result, BaseException):
        content = getattr(result, "_content", {})
        return Reply(rank=rank, ok=True, group_over=content.get("nbdist", {}).get("group_over", False))
    if not isinstance(result, RemoteError):  # the request was dropped, say, and never began
        return Reply(rank=rank, ok=False, name=type(result).__name__, message=str(result))
    if result.ename == "EngineError":
        return died(rank)
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
