"""The line under a cell that says which ranks wait in what, while they get no further."""

from __future__ import annotations

import sys
import time

from ..cluster import CellRun, Cluster, Inquiry, Where, describe
from .place import Place

_PERIOD = 2.0
"""How often ranks are asked, in seconds; a rank that is twice in one operation gets no further."""

_GRACE = 0.3
"""How long they may take to answer before the line goes without them."""


class WaitLine:
    """Ask the ranks of a cell where they are, and show it for as long as one waits in the same operation."""

    def __init__(self, cluster: Cluster, run: CellRun, live: bool) -> None:
        """Follow `run`; where no output can change (not `live`) each new state is a line of its own."""
        self._inquiry = Inquiry(cluster)
        self._run = run
        self._live = live
        self._place = Place()
        self._asked = time.monotonic()
        self._open = False
        self._before: dict[int, Where] = {}
        self._since: float | None = None
        self._shown = ""

    def look(self) -> None:
        """Bring the line up to date, every `_PERIOD`."""
        now = time.monotonic()
        if self._open and now - self._asked >= _GRACE:
            self._open = False
            self._tell(self._inquiry.answers(), now)
        if now - self._asked >= _PERIOD:
            self._open, self._asked = True, now
            self._inquiry.ask(self._run.pending())

    def end(self, keep: bool) -> None:
        """Take the line away, unless the reader will want to know (`keep`)."""
        if not keep:
            self._hide()

    def _tell(self, places: dict[int, Where], now: float) -> None:
        before, self._before = self._before, places
        if not any(_is_same(where, before.get(rank)) for rank, where in places.items()):
            self._since = None
            self._hide()
            return
        if self._since is None:
            self._since = self._asked - _PERIOD
        ended = sorted(set(self._run.ranks).difference(self._run.pending(), places))
        state = describe(places, self._inquiry.silent(_PERIOD), ended)
        text = f"Waiting for {now - self._since:.0f} s: {state}"
        if self._live:
            self._place.put({"text/plain": text}, final=True)
        elif state != self._shown:
            sys.stdout.write(f"{text}\n")
        self._shown = state

    def _hide(self) -> None:
        if self._shown and self._live:
            self._place.put({"text/plain": ""}, final=True)
        self._shown = ""


def _is_same(where: Where, before: Where | None) -> bool:
    return (
        before is not None
        and bool(where.operation)
        and (where.operation, where.number, where.line) == (before.operation, before.number, before.line)
    )
