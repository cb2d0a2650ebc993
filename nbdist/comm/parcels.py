"""Cut and check the tensors of collectives in which each rank has a share of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Parcel = tuple[int, int, int]
"""A peer, an address and a number of bytes: what the native layer's exchange takes."""


def parcels(tensors: dict[int, Tensor]) -> list[Parcel]:
    """Address each tensor to (or expect it from) the rank it is filed under."""
    return [(peer, tensor.data_ptr(), tensor.nbytes) for peer, tensor in tensors.items()]


def one_each(tensors: Sequence[Tensor], size: int, like: Tensor | None = None) -> dict[int, Tensor]:
    """File one tensor for each rank; where `like` is given, all must have its size and type.

    Raises:
        ValueError: there are more or fewer tensors than ranks, or one has another size.
        TypeError: one has another type.
    """
    if len(tensors) != size:
        raise ValueError(f"there are {size} ranks but {len(tensors)} tensors; give one for each rank")
    for rank, tensor in enumerate(tensors):
        if like is None:
            continue
        if tensor.dtype != like.dtype:
            raise TypeError(f"the tensor for rank {rank} is {tensor.dtype}, not {like.dtype}; convert it")
        if tensor.numel() != like.numel():
            raise ValueError(
                f"the tensor for rank {rank} has {tensor.numel()} elements, not {like.numel()}; "
                "make them equal"
            )
    return dict(enumerate(tensors))


def rows(tensor: Tensor, size: int, like: Tensor) -> list[Tensor]:
    """Cut a contiguous tensor into one piece for each rank, each of the size of `like`.

    Raises:
        ValueError: the sizes do not fit.
        TypeError: the types differ.
    """
    if tensor.dtype != like.dtype:
        raise TypeError(f"one tensor is {tensor.dtype} and the other {like.dtype}; convert one")
    if tensor.numel() != size * like.numel():
        raise ValueError(
            f"a tensor of {tensor.numel()} elements is not {size} times one of {like.numel()}; "
            "the larger one holds a piece for each rank"
        )
    flat, length = tensor.view(-1), like.numel()
    return [flat[rank * length : (rank + 1) * length] for rank in range(size)]


def splits(tensor: Tensor, lengths: Sequence[int], size: int) -> dict[int, Tensor]:
    """Cut a contiguous tensor along its first axis: by `lengths`, or evenly where there are none.

    Raises:
        ValueError: the axis cannot be cut so.
    """
    total = tensor.shape[0] if tensor.dim() else 0
    if not lengths:
        if total % size:
            raise ValueError(f"{total} rows cannot be cut evenly for {size} ranks; give split sizes")
        lengths = [total // size] * size
    if len(lengths) != size or sum(lengths) != total:
        raise ValueError(
            f"split sizes {list(lengths)} do not cut {total} rows for {size} ranks; "
            "give one for each rank, with the number of rows as their sum"
        )
    return dict(enumerate(torch.split(tensor, list(lengths))))
