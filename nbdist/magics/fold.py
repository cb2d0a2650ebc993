"""The lines of many ranks, folded: what only some of them put out, a line for each until it is opened."""

from __future__ import annotations

import html
import re

from .place import Place

FROM = 9
"""How many ranks are many."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STYLE = (
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.3"
)
_INSIDE = "margin-left:1.2em;white-space:pre-wrap"

_LIVE_LINES = 10
_SUMMARY = 80


class Fold:
    """Keep the lines of each rank and stream, and show them folded in one place."""

    def __init__(self) -> None:
        self._place = Place()
        self._lines: dict[tuple[int, str], list[str]] = {}
        self._changed = False

    def add(self, ranks: list[int], stream: str, text: str) -> None:
        """Take a line that these ranks put out."""
        for rank in ranks:
            self._lines.setdefault((rank, stream), []).append(text)
        self._changed = True

    def show(self, final: bool = False) -> None:
        """Show the latest lines of each rank; at the end all of them."""
        if not self._lines or not (final or self._changed):
            return
        if self._place.put(self._bundle(0 if final else _LIVE_LINES), final=final):
            self._changed = False

    def _bundle(self, last: int) -> dict[str, str]:
        plain, drawn = [], []
        for (rank, stream), lines in sorted(self._lines.items()):
            tag = f"[{rank}] stderr" if stream == "stderr" else f"[{rank}]"
            plain += [f"{tag} {line}" for line in lines[-last:]]
            text = [html.escape(_COLOUR.sub("", line)) for line in lines[-last:]]
            if len(lines) == 1:
                drawn.append(f"<div>{tag} {text[0]}</div>")
                continue
            newest = html.escape(_COLOUR.sub("", lines[-1])[:_SUMMARY])
            summary = f"<summary>{tag} {len(lines):,} lines · {newest}</summary>"
            drawn.append(f"<details>{summary}<div style='{_INSIDE}'>{'<br>'.join(text)}</div></details>")
        return {
            "text/plain": "\n".join(plain),
            "text/html": f"<div style='{_STYLE}'>{''.join(drawn)}</div>",
        }
