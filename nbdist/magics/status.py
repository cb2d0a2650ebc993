"""The table of ranks that `%nbdist status` shows."""

from __future__ import annotations

import html

from ..cluster import Cluster, RankInfo
from .session import Session

_COLUMNS = ("rank", "host", "device", "threads", "process", "state")


def show_status(session: Session) -> None:
    """Show the ranks of the notebook's cluster as a table, or say that there are none."""
    cluster = session.cluster
    if cluster is None or not cluster.running:
        session.say("No cluster is running; `%nbdist start -n 4` starts one.")
        return
    from IPython.display import display

    rows = _rows(cluster)
    display({"text/plain": _plain(rows), "text/html": _html(rows, cluster)}, raw=True)


def _rows(cluster: Cluster) -> list[tuple[str, ...]]:
    alive = set(cluster.alive())

    def row(info: RankInfo) -> tuple[str, ...]:
        state = "ready" if info.rank in alive else "gone"
        return (str(info.rank), info.host, info.device, str(info.threads), str(info.pid), state)

    return [row(info) for info in cluster.ranks]


def _plain(rows: list[tuple[str, ...]]) -> str:
    table = [_COLUMNS, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table
    )


def _html(rows: list[tuple[str, ...]], cluster: Cluster) -> str:
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in _COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    caption = f"{cluster.n} rank{'s' if cluster.n > 1 else ''} in {html.escape(cluster.ranks[0].folder)}"
    return (
        f"<table><caption style='text-align:left;white-space:nowrap'>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
