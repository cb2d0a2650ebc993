"""Turn the ranks' replies into one error, root causes first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import RankError, RankFailure
from .reply import Reply

_NOWHERE: Mapping[int, str] = {}

_COUNTER = re.compile(r"In ?\[\d+\]")


def error_of(replies: Sequence[Reply], hosts: Mapping[int, str] = _NOWHERE) -> RankError | None:
    """Return the error that tells how a cell failed, or None if it did not.

    Equal failures are one entry with all of their ranks. Ranks that were only released from a
    collective are listed apart, unless nothing else explains the failure.
    """
    failed = [reply for reply in replies if not reply.ok]
    if not failed:
        return None
    roots = [reply for reply in failed if not reply.released]
    released = tuple(reply.rank for reply in failed if reply.released) if roots else ()
    groups: dict[tuple[str, str, str], list[Reply]] = {}
    for reply in roots or failed:
        groups.setdefault(_key(reply), []).append(reply)
    return RankError(
        [
            RankFailure(
                ranks=tuple(reply.rank for reply in group),
                host=group[0].host or hosts.get(group[0].rank, ""),
                name=group[0].name,
                message=group[0].message,
                traceback=group[0].traceback,
            )
            for group in groups.values()
        ],
        released,
    )


def _key(reply: Reply) -> tuple[str, str, str]:
    # Ranks that ran different numbers of cells count their inputs differently; the error is the same.
    return reply.name, reply.message, _COUNTER.sub("In[ ]", "\n".join(reply.traceback))


def lost_error(ranks: Sequence[int]) -> RankError:
    """Return the error for ranks that are not there any more."""
    message = (
        "it is gone; reach the others with --ranks, read its last words with "
        f"`%nbdist logs {ranks[0]}`, or start all afresh with `%nbdist restart`"
    )
    return RankError(
        [RankFailure(ranks=tuple(ranks), host="", name="RankDied", message=message, traceback=())]
    )
