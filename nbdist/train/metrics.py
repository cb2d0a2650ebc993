"""What a rank logs, kept until the engine sends it to the notebook; logging never waits."""

from __future__ import annotations

import math
import numbers
import threading
import time
from collections import deque
from typing import Any

from ..errors import UsageError

Row = dict[str, float]
"""One row: `time`, `step`, and whatever was logged."""

CAPACITY = 100_000


class Metrics:
    """A bounded buffer of rows; where nobody drains it, the oldest go first.

    Columns of the same step share a row until it is drained, so that a step costs one row whether its
    figures are logged at once or one by one.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.dropped = 0
        """Rows that were lost because nobody took them in time."""
        self._rows: deque[Row] = deque()
        self._capacity = capacity
        self._step = -1
        self._open: dict[object, set[str]] = {}
        """The loop's steps that have begun and not ended, and what was logged in each."""
        # Held for a few dict operations only. The collector may end a step in the midst of one.
        self._lock = threading.RLock()
        # The system's clock may be set while a run lasts, which would bend its curves and rates.
        self._wall_at_zero = time.time() - time.monotonic()

    def log(self, step: int | None, values: Row) -> None:
        """Append a row, or add to that of the same step."""
        with self._lock:
            if step is not None:
                self._step = step
            elif not self._open:
                self._step += 1
            if self._open:
                self._open[next(reversed(self._open))].update(values)
            self._append(values)

    def next_step(self) -> int:
        """Return the number the next step will have."""
        with self._lock:
            return self._step + 1

    def begin_step(self) -> object:
        """Count a step of the loop, and return what ends it; what is logged until then belongs to it."""
        step = object()
        with self._lock:
            self._step += 1
            self._open[step] = set()
        return step

    def end_step(self, step: object, values: Row) -> None:
        """Add the loop's own figures to the step, but for those that were logged in it."""
        with self._lock:
            said = self._open.pop(step, None)
            if said is not None:  # else it was left open by an earlier cell
                self._append({name: value for name, value in values.items() if name not in said})

    def drain(self) -> list[Row]:
        """Take the rows out."""
        with self._lock:
            rows, self._rows = self._rows, deque()
        return list(rows)

    def begin_run(self) -> None:
        """Number steps from 0 again."""
        with self._lock:
            self._step = -1
            self._open.clear()
            self._wall_at_zero = time.time() - time.monotonic()

    def _append(self, values: Row) -> None:
        last = self._rows[-1] if self._rows else None
        if last is not None and last["step"] == self._step and not values.keys() & last.keys():
            last.update(values)
            return
        self._rows.append(
            {"time": self._wall_at_zero + time.monotonic(), "step": float(self._step), **values}
        )
        if len(self._rows) > self._capacity:
            self._rows.popleft()
            self.dropped += 1


_metrics = Metrics()


def log(step: int | None = None, **metrics: Any) -> None:
    """Log figures of this rank: `nbdist.log(loss=loss, lr=0.1)`.

    A value is a number, or a tensor or array of no dimensions. Steps are counted by themselves, per
    cell, unless `step` is given; inside `nbdist.loop` a step is one batch. Throughput and progress are
    drawn of `examples`, `epoch` and `total_steps`, which the loop logs; given here they replace the
    loop's. This never waits for the notebook.

    Raises:
        UsageError: a value is no single number, or `step` no finite one.
    """
    if "time" in metrics:
        raise UsageError("log(time=...) is taken: every row has its time already; use another name.")
    values = {name: _number(name, value) for name, value in metrics.items()}
    _metrics.log(None if step is None else _step_number(step), values)


def drain() -> list[Row]:
    """Take out what was logged since the last call."""
    return _metrics.drain()


def begin_run() -> None:
    """Number steps from 0 again, at the start of a cell."""
    _metrics.begin_run()


def next_step() -> int:
    """Return the number the next step will have."""
    return _metrics.next_step()


def begin_step() -> object:
    """Begin a step of the loop; `record` ends it."""
    return _metrics.begin_step()


def record(step: object, examples: int, epoch: int, total_steps: int | None) -> None:
    """End a step of the loop with the loop's own figures."""
    values = {"examples": float(examples), "epoch": float(epoch)}
    if total_steps is not None:
        values["total_steps"] = float(total_steps)
    _metrics.end_step(step, values)


def dropped() -> int:
    """Return how many rows were lost because nobody took them in time."""
    return _metrics.dropped


def _number(name: str, value: Any) -> float:
    if isinstance(value, numbers.Real):
        return _as_float(value)
    # Tensors, numpy's bool and arrays alike, without importing either.
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        single = value.item()
        if isinstance(single, numbers.Real):
            return _as_float(single)
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    raise UsageError(
        f"log({name}=...) takes one number, not a {type(value).__name__}{shape}; "
        "give it a float, or reduce it first, for example with .mean()."
    )


def _step_number(step: Any) -> int:
    number = _number("step", step)
    if not abs(number) < 2**53:  # as far as a float counts
        raise UsageError(f"log(step=...) takes a count, not {number}; leave it out to count by itself.")
    return int(number)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int beyond the range of a float
        return math.inf if value > 0 else -math.inf
