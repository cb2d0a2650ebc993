"""Sum sparse tensors, of which each rank has as many elements as it likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._native import Op

if TYPE_CHECKING:
    from .group import RingGroup


def all_reduce(group: RingGroup, tensor: Tensor, op: Op) -> None:
    """Make `tensor` the sum (or mean) of all ranks' tensors, before it returns.

    Every rank gathers every rank's elements: that is what there is to send when few of them coincide.

    Raises:
        TypeError: another reduction is asked for.
        ValueError: the ranks' tensors have different shapes.
    """
    if op not in (Op.sum, Op.avg):
        raise TypeError(f"nbdist does not reduce sparse tensors with {op.name}; use a sum, or .to_dense()")
    own = tensor.detach().cpu().coalesce()
    facts = _gather(group, torch.tensor([own._nnz(), own.sparse_dim(), *own.shape]))
    if any(not torch.equal(other[1:], facts[0][1:]) for other in facts):
        shapes = " and ".join(sorted({str(tuple(other[2:].tolist())) for other in facts}))
        raise ValueError(f"ranks have sparse tensors of different shapes, {shapes}; make them equal")
    counts = [int(other[0]) for other in facts]
    indices = _gather(group, own.indices().t().contiguous(), counts)
    values = _gather(group, own.values(), counts)
    with torch.no_grad():
        total = torch.sparse_coo_tensor(
            torch.cat(indices).t(), torch.cat(values), own.shape, check_invariants=False
        ).coalesce()
        tensor.copy_(total / group.size() if op is Op.avg else total)


def _gather(group: RingGroup, own: Tensor, rows: list[int] | None = None) -> list[Tensor]:
    lengths = rows or [own.shape[0]] * group.size()
    parts = [own.new_empty((length, *own.shape[1:])) for length in lengths]
    group.allgather([parts], [own]).wait()
    return parts
