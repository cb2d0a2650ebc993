"""What the browser knows of a run, and the rows it still needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .panels import MOST_RANKS
from .store import Run
from .thin import BUCKETS, Floats, finite, thin

_MOST_ROWS = 4 * BUCKETS
"""Beyond these the browser's rows are replaced by thinned ones."""

_OPEN_ROWS = 64
"""The newest rows are never thinned, since slower ranks still fill them in."""

_REPLACE_PERIOD = 1.0


@dataclass(frozen=True)
class Block:
    """Rows of one table of the browser."""

    start: int
    x: Floats
    columns: tuple[str, ...]
    values: Floats
    revision: int


Reader = Callable[[Run, int, int], Block]
"""Reads the rows from a row on, and those before it that changed since a revision."""


def metric_reader(name: str) -> Reader:
    """Read a metric: mean, range over ranks, and each rank while they are few."""

    def read(run: Run, revision: int, row: int) -> Block:
        start, line, revision = run.line_since(name, revision, row)
        columns: tuple[str, ...] = ("mean", "low", "high")
        values = [line.mean[:, None], line.low[:, None], line.high[:, None]]
        if 1 < len(line.ranks) <= MOST_RANKS:
            columns += tuple(f"rank {rank}" for rank in line.ranks)
            values.append(line.each)
        return Block(start, line.step, columns, finite(np.hstack(values)), revision)

    return read


def read_rates(run: Run, revision: int, row: int) -> Block:
    """Read the throughput: total, and each rank or, if they are many, the range they span."""
    start, rates, revision = run.rates_since(revision, row)
    columns: tuple[str, ...] = ("total",)
    values = [rates.total[:, None]]
    if 1 < len(rates.ranks) <= MOST_RANKS:
        columns += tuple(f"rank {rank}" for rank in rates.ranks)
        values.append(rates.each)
    elif len(rates.ranks) > MOST_RANKS:
        columns += ("low", "high")
        there = np.isfinite(rates.each)
        values.append(np.where(there, rates.each, np.inf).min(axis=1)[:, None])
        values.append(np.where(there, rates.each, -np.inf).max(axis=1)[:, None])
    return Block(start, rates.time, columns, finite(np.hstack(values)), revision)


@dataclass(frozen=True)
class _Known:
    """What the browser has: its rows from `own` on are our rows from `ours` on; those before are thinned."""

    version: int = 0
    revision: int = -1
    columns: tuple[str, ...] = ()
    rows: int = 0
    own: int = 0
    ours: int = 0
    replaced: float = -np.inf


@dataclass(frozen=True)
class Patch:
    """Rows for the browser: it keeps its first `at` rows and puts these behind them."""

    at: int
    x: Floats
    values: Floats
    columns: tuple[str, ...]
    version: int

    def describe(self, name: str, kind: str) -> dict[str, Any]:
        """Return what goes beside the numbers."""
        return {
            "name": name,
            "kind": kind,
            "version": self.version,
            "at": self.at,
            "rows": len(self.x),
            "columns": list(self.columns),
        }

    def data(self) -> bytes:
        """Return the numbers, x first, column after column."""
        return np.column_stack([self.x, self.values]).T.astype("<f8").tobytes()


class Stream:
    """Feed one table of the browser.

    `patch` may be asked again when sending it failed: nothing counts as known before `sent`.
    """

    def __init__(self, name: str, kind: str, read: Reader) -> None:
        self.name = name
        self.kind = kind
        self._read = read
        self._known = _Known()
        self._next = self._known

    def patch(self, run: Run, now: float) -> Patch | None:
        """Return the rows that are new or changed, if there are any."""
        known = self._known
        following = known.ours + known.rows - known.own
        block = self._read(run, known.revision, following)
        at = known.own + block.start - known.ours
        if not len(block.x):
            return None
        if (
            block.columns != known.columns
            or block.start < known.ours
            or at + len(block.x) > _MOST_ROWS
            or len(block.x) > 2 * BUCKETS
        ):
            return self._replace(run, now)
        self._next = replace(known, revision=block.revision, rows=at + len(block.x))
        return Patch(at, block.x, block.values, block.columns, known.version)

    def sent(self) -> None:
        """Count the last patch as known to the browser."""
        self._known = self._next

    def whole(self, run: Run, rows: int) -> Patch:
        """Return the whole table in at most `rows` rows.

        Its version is -1 where later patches would not fit behind these rows.
        """
        block = self._read(run, -1, 0)
        x, values = thin(block.x, block.values, max(1, rows // 2))
        fits = len(x) == len(block.x) and self._known.ours == 0 and block.columns == self._known.columns
        return Patch(0, x, values, block.columns, self._known.version if fits else -1)

    def _replace(self, run: Run, now: float) -> Patch | None:
        known = self._known
        if now - known.replaced < _REPLACE_PERIOD and known.columns:
            return None
        block = self._read(run, -1, 0)
        closed = max(0, len(block.x) - _OPEN_ROWS)
        x, values = thin(block.x[:closed], block.values[:closed], BUCKETS - _OPEN_ROWS // 2)
        own = len(x)
        x = np.concatenate([x, block.x[closed:]])
        values = np.concatenate([values, block.values[closed:]])
        if own == closed:  # nothing was thinned, so the rows still are ours one by one
            own = closed = 0
        self._next = _Known(known.version + 1, block.revision, block.columns, len(x), own, closed, now)
        return Patch(0, x, values, block.columns, known.version + 1)
