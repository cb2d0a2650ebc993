"""The ranks there are to talk to."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True, eq=False)
class World:
    """One generation of the process group, as one of its ranks sees it."""

    rank: int
    size: int
    group: weakref.ref[dist.ProcessGroup]
    """Not held: when a generation is over, its group must go."""


_latest: World | None = None


def current() -> World | None:
    """Return the world, the same object as long as the generation lives; None if there is nobody else."""
    global _latest
    group = dist.group.WORLD if dist.is_available() and dist.is_initialized() else None
    if group is None:
        _latest = None
    elif _latest is None or _latest.group() is not group:
        _latest = World(dist.get_rank(), dist.get_world_size(), weakref.ref(group))
    return _latest if _latest is not None and _latest.size > 1 else None


class Table:
    """A few integers from every rank, known to all after one small all-reduce.

    Each rank fills its own row of a table of zeros; the sum is the whole table. So every rank can say
    which ones differ, and all of them come to the same verdict.
    """

    def __init__(self, world: World, *row: int) -> None:
        self._cells = torch.zeros(world.size, len(row), dtype=torch.int64)
        self._cells[world.rank] = torch.tensor(row)
        self._work = dist.all_reduce(self._cells, async_op=True)

    def wait(self) -> list[list[int]]:
        """Return the rows in order of rank."""
        if self._work is not None:
            self._work.wait()
        rows: list[list[int]] = self._cells.tolist()
        return rows
