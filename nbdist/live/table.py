"""One metric over steps and ranks, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .thin import Floats

_SUM, _COUNT, _LOW, _HIGH = range(4)
_EMPTY = (0.0, 0.0, np.inf, -np.inf)

_CELLS = 1 << 18
"""Rows times ranks a table may hold; at four float64 each that is 8 MiB a metric."""


@dataclass(frozen=True)
class Line:
    """A metric as it is drawn: the mean over ranks, the range they span, and each rank."""

    step: Floats
    mean: Floats
    low: Floats
    high: Floats
    ranks: tuple[int, ...]
    each: Floats
    """One column a rank; NaN where it did not log this step."""


@dataclass(frozen=True)
class Account:
    """All finite figures of all ranks, each counted once; NaN where there is none."""

    count: int
    least: float
    greatest: float
    mean: float


class Table:
    """Hold a metric by step (rows) and rank (columns).

    When the rows run out, neighbouring steps are merged: `width` doubles, and a cell then holds the
    mean, the lowest and the highest of its steps. All ranks share the rows, so a mean over ranks is
    always one over the same steps.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._key = np.empty(0, np.int64)  # step // width, ascending
        self._step = np.empty(0, np.int64)  # the last step in the row
        self._time = np.empty(0)  # when it was logged
        self._revision = np.empty(0, np.int64)
        self._cells = np.empty((0, 0, 4))
        self._latest: dict[int, tuple[int, float]] = {}  # by rank: step, value
        # Of every finite figure; the cells forget single ones when they are merged.
        self._count, self._sum, self._least, self._greatest = 0, 0.0, np.inf, -np.inf
        self.rows = 0
        self.width = 1
        self.revision = 0

    def add(self, rank: int, steps: NDArray[np.int64], times: Floats, values: Floats) -> None:
        """Take rows of one rank, in the order they were logged."""
        steps = self._continue(rank, steps)
        self._latest[rank] = (int(steps[-1]), float(values[-1]))
        self._take_account(values[np.isfinite(values)])
        self._make_column(rank)
        self.revision += 1
        keys, place = np.unique(steps // self.width, return_inverse=True)
        row = self._make_rows(keys)[place]
        cells = self._cells[:, rank]
        with np.errstate(invalid="ignore"):  # a NaN, also that of inf - inf, is drawn as a gap
            np.add.at(cells[:, _SUM], row, values)
            np.minimum.at(cells[:, _LOW], row, values)
            np.maximum.at(cells[:, _HIGH], row, values)
        np.add.at(cells[:, _COUNT], row, 1)
        np.maximum.at(self._step, row, steps)
        np.maximum.at(self._time, row, times)
        self._revision[row] = self.revision
        while self.rows > self._limit():
            self._merge_neighbours()

    def ranks(self) -> tuple[int, ...]:
        """Return the ranks that logged this metric."""
        return tuple(sorted(self._latest))

    def last(self) -> dict[int, float]:
        """Return the value each rank logged last."""
        return {rank: value for rank, (_, value) in sorted(self._latest.items())}

    def account(self) -> Account:
        """Return exact figures of all that was logged, however the line was thinned."""
        if not self._count:
            return Account(0, np.nan, np.nan, np.nan)
        return Account(self._count, self._least, self._greatest, self._sum / self._count)

    def first_changed(self, revision: int) -> int:
        """Return the first row that is new or different since that revision."""
        changed = self._revision[: self.rows] > revision
        return int(changed.argmax()) if changed.any() else self.rows

    def series(self, rank: int) -> tuple[Floats, Floats, Floats]:
        """Return time, step and value of one rank's points."""
        if rank not in self._latest:
            return np.empty(0), np.empty(0), np.empty(0)
        cells = self._cells[: self.rows, rank]
        there = cells[:, _COUNT] > 0
        value = cells[there, _SUM] / cells[there, _COUNT]
        return self._time[: self.rows][there], self._step[: self.rows][there].astype(float), value

    def line(self, start: int = 0) -> Line:
        """Return the rows from `start` on, as they are drawn."""
        ranks = self.ranks()
        cells = self._cells[start : self.rows][:, list(ranks)]
        count = cells[..., _COUNT]
        there = count > 0
        each = np.where(there, cells[..., _SUM] / np.maximum(count, 1), np.nan)
        with np.errstate(invalid="ignore"):
            mean = np.where(there, each, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
            low = cells[..., _LOW].min(axis=1, initial=np.inf)
            high = cells[..., _HIGH].max(axis=1, initial=-np.inf)
        return Line(
            step=self._step[start : self.rows].astype(float),
            mean=mean,
            low=low,
            high=high,
            ranks=ranks,
            each=each,
        )

    def _take_account(self, values: Floats) -> None:
        if len(values):
            self._count += len(values)
            with np.errstate(over="ignore"):
                self._sum += float(values.sum())
            self._least = min(self._least, float(values.min()))
            self._greatest = max(self._greatest, float(values.max()))

    def _continue(self, rank: int, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Let a second loop that counts from 0 again go on where the first one ended."""
        before = int(self._latest[rank][0] if rank in self._latest else steps[0])
        if steps[0] >= before and np.all(steps[1:] >= steps[:-1]):
            return steps
        ahead = np.diff(steps, prepend=before)
        onward: NDArray[np.int64] = before + np.cumsum(np.where(ahead < 0, 1, ahead))
        return onward

    def _limit(self) -> int:
        if self._capacity is not None:
            return self._capacity
        return min(8192, max(1024, _CELLS // self._cells.shape[1]))

    def _make_column(self, rank: int) -> None:
        rows, columns, _ = self._cells.shape
        if rank >= columns:
            wider = np.empty((rows, max(rank + 1, min(2 * columns, rank + 8)), 4))
            wider[:] = _EMPTY
            wider[:, :columns] = self._cells
            self._cells = wider

    def _make_rows(self, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows of these ascending keys, making those that are missing."""
        at = np.searchsorted(self._key[: self.rows], keys)
        found = np.append(self._key[: self.rows], np.iinfo(np.int64).max)[at] == keys
        new, before = keys[~found], at[~found]
        if len(new):
            self._reserve(self.rows + len(new))
            # Only the rows behind the first new one move; mostly there are none.
            first, end = before[0], self.rows + len(new)
            for name, fill in (("_key", new), ("_step", 0), ("_time", 0.0), ("_revision", self.revision)):
                array = getattr(self, name)
                array[first:end] = np.insert(array[first : self.rows], before - first, fill)
            tail = self._cells[first : self.rows]
            self._cells[first:end] = np.insert(tail, before - first, np.array(_EMPTY), axis=0)
            self._revision[first:end] = self.revision
            self.rows = end
            at = np.searchsorted(self._key[: self.rows], keys)
        return at

    def _reserve(self, rows: int) -> None:
        if rows <= len(self._key):
            return
        size = max(rows, 2 * len(self._key), 64)
        for name in ("_key", "_step", "_time", "_revision", "_cells"):
            array = getattr(self, name)
            longer = np.empty((size, *array.shape[1:]), array.dtype)
            longer[: self.rows] = array[: self.rows]
            setattr(self, name, longer)

    def _merge_neighbours(self) -> None:
        self.width *= 2
        keys = self._key[: self.rows] // 2
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        cells = self._cells[: self.rows]
        merged = np.empty((len(starts), *cells.shape[1:]))
        with np.errstate(invalid="ignore"):
            merged[..., :_LOW] = np.add.reduceat(cells[..., :_LOW], starts, axis=0)
            merged[..., _LOW] = np.minimum.reduceat(cells[..., _LOW], starts, axis=0)
            merged[..., _HIGH] = np.maximum.reduceat(cells[..., _HIGH], starts, axis=0)
        self._step = np.maximum.reduceat(self._step[: self.rows], starts)
        self._time = np.maximum.reduceat(self._time[: self.rows], starts)
        self._key = keys[starts]
        self._cells = merged
        self._revision = np.full(len(starts), self.revision)
        self.rows = len(starts)
