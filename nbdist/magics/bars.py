"""Lines of ranks that rewrite themselves, such as progress bars: in a notebook one place that changes."""

from __future__ import annotations

import sys
import time
from typing import Any

from ..errors import rank_list
from .place import Place

_TERMINAL_PERIOD = 5.0
"""How often bars are told of where nothing can change in place, in seconds."""


class Bars:
    """Show the latest state of each rank's bars, a line each; equal ones of several ranks once."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._place = Place()
        self._of_rank: dict[int, list[str]] = {}
        self._shown = ""
        self._told = 0.0

    def feed(self, rank: int, bars: list[str]) -> None:
        """Take the bars of a rank as they are now."""
        self._of_rank[rank] = bars

    def show(self, final: bool = False) -> None:
        """Put the latest state in the place of the one before, if it is another."""
        text = self._text()
        if not text or text == self._shown:
            return
        if self._live:
            if self._place.put({"text/plain": text}, final=final):
                self._shown = text
        elif final or time.monotonic() - self._told >= _TERMINAL_PERIOD:
            self._told, self._shown = time.monotonic(), text
            sys.stdout.write(text + "\n")

    def _text(self) -> str:
        same: dict[tuple[int, str], list[int]] = {}
        for rank, bars in sorted(self._of_rank.items()):
            for i, bar in enumerate(bars):
                same.setdefault((i, bar), []).append(rank)
        tagged = [(f"[{rank_list(ranks)}]", bar) for (_, bar), ranks in _by_rank(same)]
        width = max((len(tag) for tag, _ in tagged), default=0)
        return "\n".join(f"{tag:<{width}} {bar.rstrip()}" for tag, bar in tagged)


def _by_rank(same: dict[tuple[int, str], list[int]]) -> list[tuple[Any, list[int]]]:
    return sorted(same.items(), key=lambda item: (item[1][0], item[0][0]))
