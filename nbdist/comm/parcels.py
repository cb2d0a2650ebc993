"""Cut and check the tensors of collectives in which each rank has a share of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ._native import Group, Kind, Ticket
from .dtypes import type_code

Parcel = tuple[int, int, int]
"""A peer, an address and a number of bytes: what the native layer's exchange takes."""


def parcels(tensors: dict[int, Tensor]) -> list[Parcel]:
    """Address each tensor to (or expect it from) the rank it is filed under."""
    return [(peer, tensor.data_ptr(), tensor.nbytes) for peer, tensor in tensors.items()]


def exchange(
    native: Group, kind: Kind, root: int, own: Tensor, sends: dict[int, Tensor], receives: dict[int, Tensor]
) -> partial[Ticket | None]:
    """Make the call by which each rank sends and receives shares of the type of `own`.

    Raises:
        TypeError: one has another type.
    """
    for tensor in (*sends.values(), *receives.values()):
        alike(tensor, own)
    # Ranks may have shares of different sizes, so they compare no counts; each pair does.
    return partial(native.exchange, kind, root, 0, type_code(own), parcels(sends), parcels(receives))


def addresses(tensors: Sequence[Tensor]) -> list[int]:
    """Return where each tensor begins."""
    return [tensor.data_ptr() for tensor in tensors]


def like(tensor: Tensor, pattern: Tensor, name: str = "the tensor") -> None:
    """Check that a tensor has the size and type of another.

    Raises:
        ValueError: it has another size.
        TypeError: it has another type.
    """
    alike(tensor, pattern, name)
    if tensor.numel() != pattern.numel():
        raise ValueError(f"{name} has {tensor.numel()} elements, not {pattern.numel()}; make them equal")


def alike(tensor: Tensor, pattern: Tensor, name: str = "one of the tensors") -> None:
    """Check that a tensor has the type of another.

    Raises:
        TypeError: it has another type.
    """
    if tensor.dtype != pattern.dtype:
        raise TypeError(f"{name} is {tensor.dtype}, not {pattern.dtype}; convert it")


def one_each(tensors: Sequence[Any], size: int, pattern: Tensor | None = None) -> dict[int, Any]:
    """File one tensor for each rank; where a pattern is given, all must have its size and type.

    Raises:
        ValueError: there are more or fewer tensors than ranks, or one has another size.
        TypeError: one has another type.
    """
    if len(tensors) != size:
        raise ValueError(f"there are {size} ranks but {len(tensors)} tensors; give one for each rank")
    if pattern is not None:
        for rank, tensor in enumerate(tensors):
            like(tensor, pattern, f"the tensor for rank {rank}")
    return dict(enumerate(tensors))


def rows(tensor: Tensor, size: int, piece: Tensor) -> list[Tensor]:
    """Cut a contiguous tensor into one piece for each rank, each of the size of `piece`.

    Raises:
        ValueError: the sizes do not fit.
        TypeError: the types differ.
    """
    if tensor.dtype != piece.dtype:
        raise TypeError(f"one tensor is {tensor.dtype} and the other {piece.dtype}; convert one")
    if tensor.numel() != size * piece.numel():
        raise ValueError(
            f"a tensor of {tensor.numel()} elements is not {size} times one of {piece.numel()}; "
            "the larger one holds a piece for each rank"
        )
    flat, length = tensor.view(-1), piece.numel()
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
