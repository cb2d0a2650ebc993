"""The lines of many ranks, folded: what only some of them put out, a line for each until it is opened."""

from __future__ import annotations

import html
import re

from .place import Place

FROM = 9
"""How many ranks are many."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LIVE_LINES = 10
_SUMMARY = 80


class Fold:
    """Keep lines by rank and stream, and show them folded in one place."""

    def __init__(self) -> None:
        self._place = Place()
        self._lines: dict[tuple[tuple[int, ...], str], list[str]] = {}
        self._tags: dict[tuple[tuple[int, ...], str], str] = {}
        self._changed = False

    def add(self, ranks: list[int], tag: str, stream: str, text: str) -> None:
        """Take a line that these ranks put out."""
        key = tuple(ranks), stream
        self._tags[key] = f"{tag} stderr" if stream == "stderr" else tag
        self._lines.setdefault(key, []).append(text)
        self._changed = True

    def show(self, final: bool = False) -> None:
        """Show the latest lines of each rank; at the end all of them."""
        if (not self._changed and not final) or not self._lines:
            return
        if self._place.put(self._bundle(0 if final else _LIVE_LINES), final=final):
            self._changed = False

    def _bundle(self, last: int) -> dict[str, str]:
        plain, drawn = [], []
        for key in sorted(self._lines):
            tag, lines = self._tags[key], self._lines[key]
            plain += [f"{tag} {line}" for line in lines[-last:]]
            if len(lines) == 1:
                line = html.escape(_COLOUR.sub("", f"{tag} {lines[0]}"))
                drawn.append(f"<div><code>{line}</code></div>")
                continue
            newest = _COLOUR.sub("", lines[-1])[:_SUMMARY]
            summary = html.escape(f"{tag} {len(lines):,} lines · {newest}")
            body = html.escape(_COLOUR.sub("", "\n".join(lines[-last:])))
            drawn.append(f"<details><summary><code>{summary}</code></summary><pre>{body}</pre></details>")
        return {"text/plain": "\n".join(plain), "text/html": "\n".join(drawn)}
