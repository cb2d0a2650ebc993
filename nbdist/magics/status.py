"""The table of ranks that `%nbdist status` shows."""

from __future__ import annotations

from ..cluster import SILENT, Cluster, RankInfo, locate
from .session import Session, count
from .table import show_table

_COLUMNS = ("rank", "host", "device", "threads", "process", "state")


def show_status(session: Session) -> None:
    """Show the ranks of the notebook's cluster as a table, or say that there are none."""
    cluster = session.cluster
    if cluster is None or not cluster.running:
        session.say("No cluster is running; `%nbdist start -n 4` starts one.")
        return
    caption = f"{count(cluster.n)} in {cluster.ranks[0].folder}"
    show_table(_COLUMNS, _rows(cluster), caption)


def _rows(cluster: Cluster) -> list[tuple[str, ...]]:
    states = dict.fromkeys(cluster.lost(), "gone")
    if busy := cluster.busy():
        seen = locate(cluster, busy)
        states |= {rank: f"busy {where}" for rank, where in seen.answers().items()}
        states |= dict.fromkeys(seen.silent(), f"busy {SILENT}")

    def row(info: RankInfo) -> tuple[str, ...]:
        state = states.get(info.rank, "ready")
        return (str(info.rank), info.host, info.device, str(info.threads), str(info.pid), state)

    return [row(info) for info in cluster.ranks]
