"""What a rank has put out since it was started, as its engine wrote it down."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Log:
    """The end of a rank's log, and how much there is in all."""

    path: Path
    lines: list[str]
    total: int


def read_log(folder: Path, rank: int, last: int) -> Log:
    """Read the last lines of a rank's log; it is there while the cluster is, also when the rank has died."""
    path = folder / "log" / f"rank-{rank}.log"
    total = 0
    lines: deque[str] = deque(maxlen=last)
    if path.exists():
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                total += 1
                lines.append(line.rstrip("\n"))
    return Log(path=path, lines=list(lines), total=total)
