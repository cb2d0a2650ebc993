"""Tensors that travel together in one flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.distributed as dist

MIB = 1 << 20


def deal(tensors: Sequence[torch.Tensor], positions: Sequence[int], limit: int) -> list[list[int]]:
    """Deal the tensors at `positions` into buckets of at most `limit` bytes, keeping their order.

    A bucket's tensors have one dtype and device. A tensor larger than the limit has a bucket to itself.
    The same tensors give the same buckets in the same order on every rank.
    """
    full: list[list[int]] = []
    filling: dict[tuple[torch.dtype, torch.device], tuple[list[int], int]] = {}
    for i in positions:
        kind = tensors[i].dtype, tensors[i].device
        size = tensors[i].numel() * tensors[i].element_size()
        members, filled = filling.get(kind, ([], 0))
        if members and filled + size > limit:
            full.append(members)
            members, filled = [], 0
        members.append(i)
        filling[kind] = members, filled + size
    full.extend(members for members, _ in filling.values())
    return full


@torch.no_grad()
def broadcast(tensors: Sequence[torch.Tensor], source: int, *, limit: int) -> None:
    """Make `tensors` on every rank those of rank `source`, in few collectives."""
    sends = dist.get_rank() == source
    for members in deal(tensors, range(len(tensors)), limit):
        first = tensors[members[0]]
        ends = list(accumulate(tensors[i].numel() for i in members))
        flat = torch.empty(ends[-1], dtype=first.dtype, device=first.device)
        views = [
            flat[end - tensors[i].numel() : end].view(tensors[i].shape)
            for end, i in zip(ends, members, strict=True)
        ]
        if sends:
            for view, i in zip(views, members, strict=True):
                view.copy_(tensors[i])
        dist.broadcast(flat, source)
        if not sends:
            for view, i in zip(views, members, strict=True):
                tensors[i].copy_(view)
