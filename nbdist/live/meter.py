"""Throughput: examples counted against time, for each rank and for all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .thin import Floats

WINDOW = 2.0
"""How far back a moving rate looks."""

_PATIENCE = 2.0
"""How long the curve waits for a rank that has not reported before it goes on without it."""


@dataclass(frozen=True)
class Rates:
    """Examples a second: the sum over ranks and each rank."""

    time: Floats
    """Seconds since the first figure."""
    total: Floats
    ranks: tuple[int, ...]
    each: Floats


@dataclass
class _Count:
    first: float
    time: float
    examples: float = 0.0
    edge: int = 0
    """The next grid line that has no count yet."""


class Meter:
    """Keep how many examples each rank had done at the lines of a time grid.

    A row's examples are spread evenly over the time since the rank's row before, so the rate is right
    for steps of any length. A rank's first row only starts its clock, since nobody knows when that
    step began. When the grid runs out every second line goes, which loses no example.
    """

    def __init__(self, capacity: int = 4096, width: float = 0.1) -> None:
        self._capacity = capacity
        self._width = width
        self._origin = 0.0
        self._counts: dict[int, _Count] = {}
        self._done = np.empty((0, 0))  # examples by grid line and rank; NaN where not known
        self._revision = np.empty(0, np.int64)
        self.revision = 0

    def add(self, rank: int, times: Floats, examples: Floats) -> None:
        """Take rows of one rank: when each ended and how many examples it had."""
        if not self._counts:
            self._origin = float(times[0])
        if rank not in self._counts:
            start = float(times[0])
            edge = max(0, math.ceil((start - self._origin) / self._width))
            self._counts[rank] = _Count(first=start, time=start, edge=edge)
            times, examples = times[1:], examples[1:]
        count = self._counts[rank]
        knots = np.maximum.accumulate(np.concatenate([[count.time], times]))
        done = count.examples + np.concatenate([[0.0], np.cumsum(examples)])
        count.time, count.examples = float(knots[-1]), float(done[-1])
        while (count.time - self._origin) / self._width >= self._capacity:
            self._halve()
        end = math.floor((count.time - self._origin) / self._width + 1e-9) + 1
        if end > count.edge:
            self._reserve(end, rank)
            self.revision += 1
            grid = self._origin + self._width * np.arange(count.edge, end)
            self._done[count.edge : end, rank] = np.interp(grid, knots, done)
            self._revision[count.edge : end] = self.revision
            count.edge = end

    def first_changed(self, revision: int) -> int:
        """Return the first row of `rates` that is new or different since that revision."""
        changed = self._revision > revision
        return int(changed.argmax()) if changed.any() else len(self._revision)

    def rates(self, start: int = 0, window: float = WINDOW, *, final: bool = False) -> Rates:
        """Return the moving rates from row `start` on; as in a slice, -1 is the last.

        Rows that a rank may still complete are held back for a while, unless the run is `final`.
        """
        ranks = tuple(sorted(self._counts))
        end = self._settled(final)
        rows = np.arange(end)[start:]
        each = np.full((len(rows), len(ranks)), np.nan)
        back = max(1, round(window / self._width))
        for column, rank in enumerate(ranks):
            done = self._done[:end, rank] if rank < self._done.shape[1] else np.full(end, np.nan)
            known = np.flatnonzero(np.isfinite(done))
            if len(known) > 1:
                since = np.maximum(rows - back, known[0])
                moved = rows > known[0]
                span = np.where(moved, rows - since, 1) * self._width
                each[:, column] = np.where(moved, (done[rows] - done[since]) / span, np.nan)
        there = np.isfinite(each)
        total = np.where(there.any(axis=1), np.where(there, each, 0.0).sum(axis=1), np.nan)
        return Rates(np.asarray(rows * self._width, np.float64), total, ranks, each)

    def average(self) -> float:
        """Return examples a second over the whole run, NaN while it is too short to tell."""
        if not self._counts:
            return math.nan
        counts = self._counts.values()
        span = max(count.time for count in counts) - min(count.first for count in counts)
        return sum(count.examples for count in counts) / span if span > 0 else math.nan

    def _settled(self, final: bool) -> int:
        edges = [count.edge for count in self._counts.values()]
        if not edges:
            return 0
        patient = 0 if final else int(_PATIENCE / self._width)
        return max(min(edges), max(edges) - patient)

    def _reserve(self, rows: int, rank: int) -> None:
        height, width = self._done.shape
        if rows > height or rank >= width:
            larger = np.full((max(rows, height), max(rank + 1, width)), np.nan)
            larger[:height, :width] = self._done
            self._done = larger
            self._revision = np.pad(self._revision, (0, len(larger) - height), constant_values=self.revision)

    def _halve(self) -> None:
        self._width *= 2
        self._done = self._done[::2].copy()
        self.revision += 1
        self._revision = np.full(len(self._done), self.revision)
        for count in self._counts.values():
            count.edge = (count.edge + 1) // 2
