"""Ask ranks where they are while their main threads are busy."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import rank_list

if TYPE_CHECKING:
    from .cluster import Cluster

_POLL = 0.02

SILENT = "in code that lets no other Python run, so it cannot say where"
_ENDED = "has ended the cell"


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

    def __str__(self) -> str:
        """Say it in a reader's words, to go on after "rank 3"."""
        if not self.line:
            return "at the end of the cell"
        number = f" #{self.number}" if self.number else ""
        size = f" of {_bytes(self.size)}" if self.size else ""
        what = f"{self.operation}{number}{size}" if self.operation else "user code"
        return f"in {what}, {self.line}"


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

    def silent(self, patience: float = 0.0) -> list[int]:
        """List the ranks that were asked `patience` seconds ago or earlier and have not answered."""
        self._collect()
        before = time.monotonic() - patience
        return sorted(rank for rank in self._pending if self._asked[rank] <= before)

    def _collect(self) -> None:
        for rank in [rank for rank, future in self._pending.items() if future.done()]:
            answer = self._pending.pop(rank).result()["content"].get("answer")
            if answer:
                self._answers[rank] = Where(**answer)


def locate(cluster: Cluster, ranks: Sequence[int], timeout: float = 0.5) -> Inquiry:
    """Ask ranks where they are, and wait for their answers, at most `timeout`."""
    inquiry = Inquiry(cluster)
    inquiry.ask(ranks)
    inquiry.wait(timeout)
    return inquiry


def describe(places: Mapping[int, Where], silent: Iterable[int], ended: Iterable[int] = ()) -> str:
    """Say where each rank is, those that wait first, one clause for all that are at one place."""
    clauses: dict[str, list[int]] = {}
    waits_first = sorted(places, key=lambda rank: (not places[rank].operation, rank))
    for rank in waits_first:
        clauses.setdefault(str(places[rank]), []).append(rank)
    clauses |= {text: list(ranks) for text, ranks in ((SILENT, silent), (_ENDED, ended)) if ranks}
    return "; ".join(f"rank {rank_list(ranks)} {text}" for text, ranks in clauses.items())


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
