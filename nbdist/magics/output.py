"""Merge what the ranks put out into one stream a reader can follow."""

from __future__ import annotations

import queue
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..cluster import Output
from ..errors import rank_list

_LOOK_AHEAD = 50

_BAR_PERIOD = 1.0
"""How often a line that rewrites itself (a progress bar) is shown, in seconds."""


@dataclass(frozen=True)
class _Item:
    """A line of text, or a rich bundle, of one rank; equal items of several ranks are shown once."""

    arrived: float
    index: int
    """Its place among the items of its rank."""
    stream: str
    text: str
    bundle: dict[str, Any] | None = None

    def same(self, other: _Item) -> bool:
        return self.stream == other.stream and self.text == other.text and self.bundle == other.bundle


class Merger:
    """Show the ranks' output live: whole lines, each tagged with the ranks that put it out.

    A line waits a moment for the other ranks to print the same, and is then shown once for all that
    did. Text goes to the notebook's own stdout and stderr, so that it is saved as ordinary output.
    """

    def __init__(self, ranks: Sequence[int], window: float) -> None:
        self._window = window
        self._queues: dict[int, deque[_Item]] = {rank: deque() for rank in ranks}
        self._partial: dict[tuple[int, str], str] = {}
        self._bar_shown: dict[tuple[int, str], float] = {}
        self._waiting: Counter[str] = Counter()
        """How many items with a text wait, on all ranks together."""
        self._taken = dict.fromkeys(ranks, 0)
        self._width = len(f"[{rank_list(list(ranks))}]")

    def feed(self, output: Output) -> None:
        """Take something a rank put out."""
        now = time.monotonic()
        if output.kind == "stream":
            self._feed_text(output.rank, output.content["name"], output.content["text"], now)
            return
        data = output.content["data"]
        if set(data) == {"text/plain"}:
            for line in data["text/plain"].splitlines():
                self._append(output.rank, now, "stdout", line)
        else:
            bundle = {"data": data, "metadata": output.content.get("metadata", {})}
            self._append(output.rank, now, "display", "", bundle)

    def feed_all(self, outputs: queue.SimpleQueue[Output]) -> None:
        """Take all that is waiting."""
        while not outputs.empty():
            self.feed(outputs.get())

    def flush(self, final: bool = False) -> None:
        """Show what has waited long enough; everything, if this is the `final` call."""
        now = time.monotonic()
        if final:
            for (rank, stream), text in self._partial.items():
                if text:
                    self._append(rank, now, stream, text.rsplit("\r", 1)[-1])
            self._partial.clear()
        lines: list[tuple[str, str]] = []
        last, arrived = -1, 0.0
        while heads := {rank: queue[0] for rank, queue in self._queues.items() if queue}:
            # Of items that came at about the same time, the first of each rank go first, in rank order.
            oldest = min(item.arrived for item in heads.values())
            near = [rank for rank, item in heads.items() if item.arrived <= oldest + self._window]
            going_on = last in heads and heads[last].arrived == arrived and not self._elsewhere(last)
            item = heads[last if going_on else min(near, key=lambda rank: (heads[rank].index, rank))]
            group = [rank for rank, other in heads.items() if other.same(item)]
            if len(group) < len(self._queues) and not final and now - oldest < self._window:
                break
            for rank in group:
                self._waiting[self._queues[rank].popleft().text] -= 1
            # What a rank printed in one go (a table, a tensor) stays together.
            last, arrived = (group[0], item.arrived) if len(group) == 1 else (-1, 0.0)
            tag = f"[{rank_list(group)}]"
            if item.bundle is None:
                lines.append((item.stream, f"{tag:<{self._width}} {item.text}\n"))
            else:
                lines.append(("stdout", f"{tag}\n"))
                _write(lines)
                lines = []
                _publish(item.bundle)
        self._waiting = +self._waiting  # texts of which none waits any more are dropped
        _write(lines)

    def _elsewhere(self, rank: int) -> bool:
        """Tell whether another rank is about to put out the same as `rank`."""
        item = self._queues[rank][0]
        if self._waiting[item.text] == 1:
            return False  # nobody has this text but this rank
        others = (queue for other, queue in self._queues.items() if other != rank)
        return any(item.same(waiting) for queue in others for waiting in islice(queue, _LOOK_AHEAD))

    def _append(
        self, rank: int, now: float, stream: str, text: str, bundle: dict[str, Any] | None = None
    ) -> None:
        self._queues[rank].append(_Item(now, self._taken[rank], stream, text, bundle))
        self._taken[rank] += 1
        self._waiting[text] += 1

    def _feed_text(self, rank: int, stream: str, text: str, now: float) -> None:
        key = (rank, stream)
        *lines, rest = (self._partial.get(key, "") + text).split("\n")
        for line in lines:
            # Of a line that rewrote itself, the last state is what stays on a terminal.
            self._append(rank, now, stream, line.rstrip("\r").rsplit("\r", 1)[-1])
        if "\r" in rest and now - self._bar_shown.get(key, 0.0) >= _BAR_PERIOD:
            self._bar_shown[key] = now
            state = [part for part in rest.split("\r") if part]
            if state:
                self._append(rank, now, stream, state[-1])
            rest = ""
        self._partial[key] = rest


def _write(lines: list[tuple[str, str]]) -> None:
    """Write runs of lines of one stream in one piece each."""
    start = 0
    for i, (stream, _) in enumerate(lines):
        if i + 1 == len(lines) or lines[i + 1][0] != stream:
            target = sys.stderr if stream == "stderr" else sys.stdout
            target.write("".join(text for _, text in lines[start : i + 1]))
            target.flush()
            start = i + 1


def _publish(bundle: dict[str, Any]) -> None:
    from IPython.display import display

    display(bundle["data"], metadata=bundle["metadata"], raw=True)
