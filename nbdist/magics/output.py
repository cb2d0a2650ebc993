"""Merge what the ranks put out into one stream a reader can follow."""

from __future__ import annotations

import queue
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..cluster import Output
from ..errors import rank_list
from .bars import Bars
from .fold import FROM, Fold
from .pane import Pane
from .place import Place

_LOOK_AHEAD = 50

_PATIENCE = 10.0
"""How long a figure waits for those of lower ranks, which may still import what draws, in seconds."""


@dataclass(frozen=True)
class _Item:
    """A line of text, or a rich bundle, of one rank; equal items of several ranks are shown once."""

    arrived: float
    index: int
    """Its place among the items of its rank."""
    stream: str
    text: str
    bundle: dict[str, Any] | None = None
    identity: str = ""
    """By what later updates name it; empty if there can be none."""

    def same(self, other: _Item) -> bool:
        mine, theirs = self.bundle or {}, other.bundle or {}
        return (
            self.stream == other.stream
            and self.text == other.text
            and self.identity == other.identity
            and mine.get("data") == theirs.get("data")
        )


class Merger:
    """Show the ranks' output live: whole lines, each tagged with the ranks that put it out.

    A line waits a moment for the other ranks to print the same, and is then shown once for all that
    did. Text goes to the notebook's own stdout and stderr, so that it is saved as ordinary output. What the
    cell's last expression gave comes last.
    """

    def __init__(self, ranks: Sequence[int], window: float, live: bool = True) -> None:
        self._window = window
        self._queues: dict[int, deque[_Item]] = {rank: deque() for rank in ranks}
        self._results: dict[int, list[_Item]] = {}
        self._partial: dict[tuple[int, str], str] = {}
        self._waiting: Counter[str] = Counter()
        """How many items with a text wait, on all ranks together."""
        self._taken = dict.fromkeys(ranks, 0)
        self._drawn = dict.fromkeys(ranks, 0)
        """How many bundles of a rank have been shown."""
        self._ended: Collection[int] = ()
        self._width = len(f"[{rank_list(list(ranks))}]")
        self._bars = Bars(live)
        self._fold = Fold() if live and len(ranks) >= FROM else None
        self._panes: dict[int, Pane] = {}
        self._places: dict[str, Place] = {}
        self._updates: dict[tuple[int, str], dict[str, Any]] = {}

    def feed(self, output: Output) -> None:
        """Take something a rank put out."""
        now, rank, content = time.monotonic(), output.rank, output.content
        if output.kind == "nbdist_bars":
            self._bars.feed(rank, content["bars"])
        elif output.kind == "clear_output":
            self._panes.setdefault(rank, Pane(f"[{rank}]")).clear()
        elif output.kind == "stream":
            if rank in self._panes:
                self._panes[rank].add_text(content["text"])
            else:
                self._feed_text(rank, content["name"], content["text"], now)
        else:
            self._feed_bundle(rank, output.kind, content, now)

    def feed_all(self, outputs: queue.SimpleQueue[Output], ended: Collection[int] = ()) -> None:
        """Take all that is waiting; of the ranks that have `ended` no more will come."""
        while not outputs.empty():
            self.feed(outputs.get())
        self._ended = ended

    def flush(self, final: bool = False) -> None:
        """Show what has waited long enough; everything, if this is the `final` call."""
        now = time.monotonic()
        if final:
            for (rank, stream), text in self._partial.items():
                if text:
                    self._append(rank, _Item(now, self._taken[rank], stream, text))
            self._partial.clear()
        self._flush_queues(now, final)
        for pane in self._panes.values():
            pane.show(final)
        for (rank, identity), bundle in list(self._updates.items()):
            if self._update(rank, identity, bundle, final):
                del self._updates[rank, identity]
        if self._fold is not None:
            self._fold.show(final)
        self._bars.show(final)
        if final:
            self._show_results()

    def _flush_queues(self, now: float, final: bool) -> None:
        lines: list[tuple[str, str]] = []
        last, arrived = -1, 0.0
        while heads := {rank: queue[0] for rank, queue in self._queues.items() if queue}:
            running = () if final else self._queues.keys() - set(self._ended)
            ready = {r: item for r, item in heads.items() if not self._on_hold(r, item, now, running)}
            if not ready:
                break
            # Of items that came at about the same time, the first of each rank go first, in rank order.
            oldest = min(item.arrived for item in ready.values())
            near = [rank for rank, item in ready.items() if item.arrived <= oldest + self._window]
            going_on = last in ready and ready[last].arrived == arrived and not self._elsewhere(last)
            item = ready[last if going_on else min(near, key=lambda rank: (ready[rank].index, rank))]
            group = [rank for rank, other in heads.items() if other.same(item)]
            others = self._queues.keys() - set(group) - (set(self._ended) - heads.keys())
            if others and not final and now - oldest < self._window:
                break
            for rank in group:
                self._waiting[self._queues[rank].popleft().text] -= 1
            # What a rank printed in one go (a table, a tensor) stays together.
            last, arrived = (group[0], item.arrived) if len(group) == 1 else (-1, 0.0)
            self._show(group, item, lines)
        self._waiting = +self._waiting  # texts of which none waits any more are dropped
        _write(lines)

    def _show(self, group: list[int], item: _Item, lines: list[tuple[str, str]]) -> None:
        tag = f"[{rank_list(group)}]"
        if item.bundle is None:
            if self._fold is not None and 2 * len(group) <= len(self._queues):
                self._fold.add(group, item.stream, item.text)
            else:
                lines.append((item.stream, f"{tag:<{self._width}} {item.text}\n"))
            return
        for rank in group:
            self._drawn[rank] += 1
        lines.append(("stdout", f"{tag}\n"))
        _write(lines)
        lines.clear()
        place = Place(item.identity or None)
        place.put(item.bundle["data"], item.bundle["metadata"])
        if item.identity:
            self._places[item.identity] = place

    def _show_results(self) -> None:
        """Show what the last expressions gave, in rank order, equal ones once."""
        shown: list[tuple[list[int], list[_Item]]] = []
        for rank, items in sorted(self._results.items()):
            for ranks, theirs in shown:
                if len(theirs) == len(items) and all(map(_Item.same, theirs, items)):
                    ranks.append(rank)
                    break
            else:
                shown.append(([rank], items))
        lines: list[tuple[str, str]] = []
        for ranks, items in shown:
            for item in items:
                self._show(ranks, item, lines)
        _write(lines)
        if self._fold is not None:
            self._fold.show(final=True)

    def _on_hold(self, rank: int, item: _Item, now: float, running: Collection[int]) -> bool:
        """Tell whether a figure is to wait, so that those of all ranks come in rank order."""
        if item.bundle is None:
            return False
        recent = now - item.arrived < _PATIENCE
        return any(
            (recent and lower in running)
            or any(waiting.bundle is not None for waiting in self._queues[lower])
            for lower, drawn in self._drawn.items()
            if lower < rank and drawn <= self._drawn[rank]
        )

    def _elsewhere(self, rank: int) -> bool:
        """Tell whether another rank is about to put out the same as `rank`."""
        item = self._queues[rank][0]
        if self._waiting[item.text] == 1:
            return False  # nobody has this text but this rank
        others = (queue for other, queue in self._queues.items() if other != rank)
        return any(item.same(waiting) for queue in others for waiting in islice(queue, _LOOK_AHEAD))

    def _append(self, rank: int, item: _Item) -> None:
        self._queues[rank].append(item)
        self._taken[rank] += 1
        self._waiting[item.text] += 1

    def _feed_text(self, rank: int, stream: str, text: str, now: float) -> None:
        key = (rank, stream)
        *lines, self._partial[key] = (self._partial.get(key, "") + text).split("\n")
        for line in lines:
            self._append(rank, _Item(now, self._taken[rank], stream, line))

    def _feed_bundle(self, rank: int, kind: str, content: dict[str, Any], now: float) -> None:
        bundle = {"data": content["data"], "metadata": content.get("metadata") or {}}
        identity = content.get("transient", {}).get("display_id", "")
        if identity:
            identity = f"nbdist-{rank}-{identity}"
        if kind == "update_display_data":
            self._updates[rank, identity] = bundle
        elif rank in self._panes and not identity:
            self._panes[rank].add_bundle(**bundle)
        else:
            items = [_Item(now, 0, "display", "", bundle, identity)]
            if bundle["data"].keys() == {"text/plain"} and not identity:
                items = [_Item(now, 0, "stdout", line) for line in bundle["data"]["text/plain"].splitlines()]
            for item in items:
                if kind == "execute_result":
                    self._results.setdefault(rank, []).append(item)
                else:
                    self._append(rank, replace(item, index=self._taken[rank]))

    def _update(self, rank: int, identity: str, bundle: dict[str, Any], final: bool) -> bool:
        waiting = self._queues.get(rank, deque[_Item]())
        for i, item in enumerate(waiting):
            if item.identity == identity:
                waiting[i] = replace(item, bundle=bundle)
                return True
        # What an earlier cell has shown may be changed by a later one.
        place = self._places.setdefault(identity, Place(identity, shown=True))
        return place.put(bundle["data"], bundle["metadata"], final)


def _write(lines: list[tuple[str, str]]) -> None:
    """Write runs of lines of one stream in one piece each."""
    start = 0
    for i, (stream, _) in enumerate(lines):
        if i + 1 == len(lines) or lines[i + 1][0] != stream:
            target = sys.stderr if stream == "stderr" else sys.stdout
            target.write("".join(text for _, text in lines[start : i + 1]))
            target.flush()
            start = i + 1
