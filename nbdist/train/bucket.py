"""Tensors that travel together in one flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.distributed as dist

MIB = 1 << 20


class Bucket:
    """A flat buffer with a place for each of some tensors of one dtype and device."""

    def __init__(self, positions: Sequence[int], like: Sequence[torch.Tensor]) -> None:
        self.positions = tuple(positions)
        """Which of the caller's tensors these are."""
        ends = list(accumulate(like[i].numel() for i in positions))
        first = like[positions[0]]
        self.flat = torch.empty(ends[-1], dtype=first.dtype, device=first.device)
        self.views = tuple(
            self.flat[end - like[i].numel() : end].view(like[i].shape)
            for end, i in zip(ends, positions, strict=True)
        )


def into_buckets(tensors: Sequence[torch.Tensor], positions: Sequence[int], limit: int) -> list[Bucket]:
    """Deal the tensors at `positions` into buckets of at most `limit` bytes, keeping their order.

    A tensor larger than the limit has a bucket to itself. The same tensors give the same buckets in the
    same order on every rank.
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
    return [Bucket(members, tensors) for members in full]


@torch.no_grad()
def broadcast(tensors: Sequence[torch.Tensor], source: int, *, limit: int) -> None:
    """Make `tensors` on every rank those of rank `source`, in few collectives."""
    sends = dist.get_rank() == source
    for bucket in into_buckets(tensors, range(len(tensors)), limit):
        if sends:
            for view, i in zip(bucket.views, bucket.positions, strict=True):
                view.copy_(tensors[i])
        dist.broadcast(bucket.flat, source)
        if not sends:
            for view, i in zip(bucket.views, bucket.positions, strict=True):
                tensors[i].copy_(view)
