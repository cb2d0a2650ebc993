"""Tensors that all ranks of a host write into, reduced where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from ._native import Arena as Arena
from ._native import Op
from ._native import Window as Window
from .dtypes import number_code
from .group import RingGroup
from .work import Pending


def make(length: int) -> Arena | str:
    """Reserve an arena of `length` bytes for this rank, or return why there is none."""
    try:
        return Arena(length)
    except (OSError, RuntimeError) as error:
        return str(error)


def tensor(arena: Arena, offset: int, count: int, dtype: torch.dtype) -> Tensor:
    """Return a stretch of an arena as a tensor of its own storage, which keeps the arena's memory alive."""
    return torch.frombuffer(arena, dtype=dtype, count=count, offset=offset)


def open_window(arena: Arena | str) -> Window | str:
    """Map the arenas of all ranks of the default group, or return why that cannot be.

    All ranks call this together, each with an arena of the same length or the reason why it has none; and
    either all have a window then, or all have the same reason.
    """
    told = _gather(arena if isinstance(arena, str) else f"={arena.address}")
    window: Window | str = _reason(told)
    if not window:
        assert isinstance(arena, Arena)
        try:
            window = Window(arena, [text[1:] for text in told], dist.get_rank())
        except (OSError, RuntimeError) as error:
            window = str(error)
        window = _reason(_gather(window if isinstance(window, str) else "=")) or window
    return window


def serves(group: dist.ProcessGroup | None) -> bool:
    """Say whether a group can reduce in arenas: one of ours, on one host."""
    return isinstance(group, RingGroup) and not group.native.spans_hosts()


def averages(group: dist.ProcessGroup | None) -> bool:
    """Say whether a group can average in its own all_reduce."""
    return isinstance(group, RingGroup)


def average(
    group: dist.ProcessGroup | None, window: Window | None, offset: int, flat: Tensor, among: Sequence[int]
) -> Pending:
    """Average `flat`, which lies at `offset` of every arena, in place over the ranks in `among`.

    All ranks of the group call this; those not in `among` keep their bytes, and need no window.
    """
    assert isinstance(group, RingGroup)
    count, code = number_code(flat, Op.avg)
    call = partial(group.native.all_reduce_arena, window, offset, count, code, Op.avg, list(among))
    return group.hand_over([call], [flat], keep=(window, flat))


def _gather(text: str) -> list[str]:
    told = [""] * dist.get_world_size()
    dist.all_gather_object(told, text)
    return told


def _reason(told: Sequence[str]) -> str:
    return next((f"rank {rank}: {text}" for rank, text in enumerate(told) if text[:1] != "="), "")
