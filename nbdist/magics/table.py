"""A plain table under a magic."""

from __future__ import annotations

import html
from collections.abc import Sequence

_LEFT = "style='text-align:left'"


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
    """Show rows of text, as a table where the front end draws one."""
    from IPython.display import display

    display({"text/plain": _plain(columns, rows), "text/html": _html(columns, rows, caption)}, raw=True)


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = [columns, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table
    )


def _html(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    head = "".join(f"<th {_LEFT}>{name}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td {_LEFT}>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption style='text-align:left;white-space:nowrap'>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
