"""What `%nbdist logs` shows."""

from __future__ import annotations

from ..errors import NoClusterError
from .session import Session


def show_log(session: Session, rank: int, last: int) -> None:
    """Show the last lines of what a rank has put out, and where the rest is.

    Raises:
        NoClusterError: no cluster is running.
        UsageError: the cluster has no such rank.
    """
    if session.cluster is None:
        raise NoClusterError("No cluster is running; `%nbdist start -n 4` starts one.")
    log = session.cluster.log(rank, last)
    if not log.total:
        session.say(f"Rank {rank} has put out nothing yet.")
        return
    if log.total > len(log.lines):
        session.say(f"The last {len(log.lines):,} of {log.total:,} lines; the others are in {log.path}")
    session.say("\n".join(log.lines))
