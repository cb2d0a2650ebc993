"""Who the ranks of a cluster are."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..gpus import visible_gpus


@dataclass(frozen=True, kw_only=True)
class RankInfo:
    """Who and where a rank is."""

    rank: int
    size: int
    local_rank: int
    host: str
    pid: int
    device: str
    threads: int
    folder: str


def default_size() -> int:
    """Return the number of ranks where none is given: one a visible GPU, else one a core up to 4."""
    return len(visible_gpus()) or min(4, len(os.sched_getaffinity(0)))
