"""Ask ranks where they are while their main threads are busy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster import Cluster

_POLL = 0.02


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a rank is in its cell."""

    operation: str = ""
    """What it waits in; empty if it runs code."""
    number: int = 0
    """The place of that collective in the cell, from 1; 0 if it has none."""
    size: int = 0
    """Bytes; 0 where every rank has a share of its own."""
    line: str = ""
    """The innermost line of a cell; empty when the cell's own lines are through."""
    stack: str = ""
    """Its Python stack below the cell's first line."""


class Inquiry:
    """Where ranks are, as far as they have answered; only they know, and a busy one may take its time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pending: dict[int, Any] = {}
        self._asked: dict[int, float] = {}
        self._answers: dict[int, Where] = {}

    def ask(self, ranks: Sequence[int]) -> None:
        """Ask ranks anew, but for those that have not answered yet; do not wait."""
        self._collect()
        free = [rank for rank in ranks if rank not in self._pending]
        self._pending |= self._cluster.control("where", free)
        self._asked |= dict.fromkeys(free, time.monotonic())
        for rank in free:
            self._answers.pop(rank, None)

    def wait(self, timeout: float) -> None:
        """Wait until all have answered, at most `timeout`."""
        end = time.monotonic() + timeout
        while self._pending and time.monotonic() < end:
            time.sleep(_POLL)
            self._collect()

    def answers(self) -> dict[int, Where]:
        """Return what ranks have answered since they were asked last."""
        self._collect()
        return dict(self._answers)

    def silent(self, patience: float) -> list[int]:
        """List the ranks that were asked `patience` seconds ago and have not answered."""
        self._collect()
        before = time.monotonic() - patience
        return sorted(rank for rank in self._pending if self._asked[rank] <= before)

    def _collect(self) -> None:
        for rank in [rank for rank, future in self._pending.items() if future.done()]:
            answer = self._pending.pop(rank).result()["content"].get("answer")
            if answer:
                self._answers[rank] = Where(**answer)
