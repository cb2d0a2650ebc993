"""The table of the ranks' variables that `%nbdist who` shows."""

from __future__ import annotations

from ..errors import rank_list
from .session import Session
from .table import show_table

_COLUMNS = ("name", "type", "shape", "ranks")


def show_names(session: Session) -> None:
    """Show the ranks' variables, one row for all ranks where they agree, else one row a kind.

    Raises:
        NbdistError: no cluster is running, or a rank runs a cell.
    """
    cluster = session.idle()
    ranks = cluster.alive()
    seen = cluster.call("who", each=dict.fromkeys(ranks, ()))
    rows: list[tuple[str, ...]] = []
    for name in sorted({name for names in seen for name in names}, key=str.lower):
        kinds: dict[tuple[str, str, str], list[int]] = {}
        for rank, names in zip(ranks, seen, strict=True):
            if name in names:
                kinds.setdefault(tuple(names[name]), []).append(rank)
        described: dict[tuple[str, str], list[tuple[str, list[int]]]] = {}
        for (kind, shape, digest), where in kinds.items():
            described.setdefault((kind, shape), []).append((digest, where))
        for (kind, shape), groups in described.items():
            rows.append((name, kind, shape, _where(groups, len(ranks))))
    if rows:
        show_table(_COLUMNS, rows, f"Variables of {cluster.n} ranks")
    else:
        session.say("The ranks have no variables yet; a %%distributed cell makes some.")


def _where(groups: list[tuple[str, list[int]]], size: int) -> str:
    ranks = rank_list([rank for _, where in groups for rank in where])
    if size == 1:
        return ranks
    if len(groups) > 1:
        return f"{ranks}, values differ"
    [(digest, where)] = groups
    return f"{ranks}, equal" if digest and len(where) > 1 else ranks
