"""Everything the ranks logged in one cell."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from .message import Batch
from .meter import Meter, Rates
from .table import Account, Line, Table
from .thin import Floats

_log = logging.getLogger(__name__)

_RESERVED = ("time", "step", "examples", "epoch", "total_steps")

_QUIET = 0.05
"""Ranks that say no more for this long have nothing under way on a loopback socket."""

_MOST_METRICS = 64
"""A name made up at every step would otherwise fill the memory."""


@dataclass(frozen=True)
class Progress:
    """How far a run is; None where nothing is known yet."""

    step: int | None
    total: int | None
    epoch: float | None
    """Counted from 0, as the loop counts."""
    elapsed: float
    """Seconds between the first figure and the last."""
    remaining: float | None

    @property
    def fraction(self) -> float | None:
        """The part that is done, 0 to 1."""
        if self.step is None or not self.total:
            return None
        return self.step / self.total


class Run:
    """Sort what the ranks log into metrics and throughput. Safe to use from any thread."""

    def __init__(self, capacity: int | None = None) -> None:
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._ended: set[int] = set()
        self._capacity = capacity
        self._tables: dict[str, Table] = {}
        self._meter = Meter()
        self._moved: dict[int, int] = {}
        self._dropped: dict[int, int] = {}
        self._first: tuple[float, int] | None = None  # time and step
        self._last = (-math.inf, 0)
        self._epoch: float | None = None
        self._total: int | None = None
        self._ranks: set[int] = set()
        self._crowded = False
        self.revision = 0
        """Grows whenever figures arrive."""

    def add(self, batch: Batch) -> None:
        """Take a batch of rows from one rank."""
        time, step = batch.columns.get("time"), batch.columns.get("step")
        with self._lock:
            self._moved[batch.rank] = batch.moved
            self._dropped[batch.rank] = batch.dropped
            if batch.end:
                self._ended.add(batch.rank)
            self._arrived.notify_all()
            if time is None or step is None:
                return
            usable = np.isfinite(time) & np.isfinite(step)
            if not usable.any():
                return
            self.revision += 1
            self._ranks.add(batch.rank)
            times, steps = time[usable], step[usable].astype(np.int64)
            self._note_progress(times, steps, {n: batch.columns.get(n) for n in ("epoch", "total_steps")})
            for name, column in batch.columns.items():
                values, there = column[usable], batch.logged(name)[usable]
                if not there.any():
                    continue
                if name == "examples":
                    self._meter.add(batch.rank, times[there], values[there])
                elif name not in _RESERVED and (table := self._table(name)) is not None:
                    table.add(batch.rank, steps[there], times[there], values[there])

    def wait_for_end(self, ranks: Collection[int], at_most: float) -> bool:
        """Wait until these ranks have sent their last figures; return whether they have.

        With no ranks to wait for, wait until none of them has sent anything for `_QUIET`.
        """
        deadline = monotonic() + at_most
        with self._arrived:
            if ranks:
                return self._arrived.wait_for(lambda: self._ended.issuperset(ranks), at_most)
            while self._arrived.wait(min(_QUIET, max(0.0, deadline - monotonic()))):
                pass
            return monotonic() < deadline

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show: no metric and no examples."""
        with self._lock:
            return not self._tables and not self.has_rates

    @property
    def has_rates(self) -> bool:
        """Whether any rank counted examples."""
        with self._lock:
            return self._meter.revision > 0

    def metrics(self) -> list[str]:
        """Return the names of what was logged, in the order it first came."""
        with self._lock:
            return list(self._tables)

    def ranks(self) -> tuple[int, ...]:
        """Return the ranks that logged anything."""
        with self._lock:
            return tuple(sorted(self._ranks))

    def series(self, metric: str, rank: int) -> tuple[Floats, Floats, Floats]:
        """Return time, step and value of what one rank logged."""
        with self._lock:
            return self._tables[metric].series(rank)

    def line(self, metric: str) -> Line:
        """Return a metric as it is drawn."""
        with self._lock:
            return self._tables[metric].line()

    def line_since(self, metric: str, revision: int, row: int) -> tuple[int, Line, int]:
        """Return a first row, all rows from it on, and the revision now.

        The first row is `row`, or an earlier one that changed since `revision`.
        """
        with self._lock:
            table = self._tables[metric]
            start = min(row, table.first_changed(revision))
            return start, table.line(start), table.revision

    def last(self, metric: str) -> float:
        """Return the mean over ranks of what each logged last."""
        with self._lock:
            values = list(self._tables[metric].last().values())
        return sum(values) / len(values)

    def account(self, metric: str) -> Account:
        """Return count, least, greatest and mean of all finite figures of all ranks."""
        with self._lock:
            return self._tables[metric].account()

    def rates(self, *, final: bool = False) -> Rates:
        """Return examples a second over a moving window, in total and by rank."""
        with self._lock:
            return self._meter.rates(final=final)

    def rate(self, *, final: bool = False) -> float:
        """Return the latest examples a second of all ranks together, NaN where it is not known yet."""
        with self._lock:
            total = self._meter.rates(-1, final=final).total
        return float(total[-1]) if len(total) else math.nan

    def rates_since(self, revision: int, row: int) -> tuple[int, Rates, int]:
        """Like `line_since`, for the throughput."""
        with self._lock:
            start = min(row, self._meter.first_changed(revision))
            return start, self._meter.rates(start), self._meter.revision

    def average_rate(self) -> float:
        """Return examples a second over the whole run."""
        with self._lock:
            return self._meter.average()

    def bytes_moved(self) -> int:
        """Return the bytes all ranks together have sent round the ring."""
        with self._lock:
            return sum(self._moved.values())

    def dropped(self) -> int:
        """Return how many rows ranks logged and could not send."""
        with self._lock:
            return sum(self._dropped.values())

    def progress(self) -> Progress:
        """Say how far the run is and how long the rest takes at the pace so far."""
        with self._lock:
            if self._first is None:
                return Progress(None, self._total, self._epoch, 0.0, None)
            (began, first), (time, last) = self._first, self._last
            done = last + 1 if first == 0 else last  # a step 0 is a step done, too
            # A total that is passed was that of an earlier loop, and says nothing about the cell.
            total = self._total if self._total is not None and self._total >= done else None
            remaining = None
            if total is not None and last > first:
                remaining = (total - done) * (time - began) / (last - first)
            return Progress(done, total, self._epoch, time - began, remaining)

    def _note_progress(
        self, times: Floats, steps: NDArray[np.int64], marks: dict[str, Floats | None]
    ) -> None:
        if self._first is None:
            self._first = (float(times[0]), int(steps[0]))
        self._last = (max(self._last[0], float(times[-1])), max(self._last[1], int(steps.max())))
        for name, column in marks.items():
            known = column[np.isfinite(column)] if column is not None else np.empty(0)
            if len(known) and name == "epoch":
                self._epoch = float(known[-1])
            elif len(known):
                self._total = int(known[-1])

    def _table(self, name: str) -> Table | None:
        if name not in self._tables:
            if len(self._tables) >= _MOST_METRICS:
                if not self._crowded:
                    self._crowded = True
                    _log.warning(
                        "More than %d metrics were logged; %r and later names are not kept. "
                        "Log the same names at every step.",
                        _MOST_METRICS,
                        name,
                    )
                return None
            self._tables[name] = Table(self._capacity)
        return self._tables[name]
