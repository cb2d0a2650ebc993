"""Hand tensors to the native layer, which takes contiguous CPU memory only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def stage(tensor: Tensor) -> Tensor:
    """Return the tensor itself where the native layer can take it, else a contiguous copy on the CPU.

    This is the one place where tensors of other devices and strided views become plain memory;
    `restore` is the way back.

    Raises:
        TypeError: the tensor has no elements in memory (sparse, meta).
    """
    if _is_plain(tensor):
        return tensor
    if tensor.is_meta:
        raise TypeError(
            "nbdist moves elements, and a tensor on meta has none; make it with .to_empty() first"
        )
    if tensor.layout is not torch.strided:
        raise TypeError(
            f"nbdist moves dense tensors, and this one is {tensor.layout} on {tensor.device}; "
            "convert it with .to_dense() first"
        )
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def stage_output(tensor: Tensor) -> Tensor:
    """Stage a tensor that will be written.

    Raises:
        ValueError: two of its elements share memory, so that no result could be right.
    """
    if _is_plain(tensor):
        return tensor
    if overlaps(tensor):
        raise ValueError(
            f"elements of this tensor share memory (shape {tuple(tensor.shape)}, strides {tensor.stride()}); "
            "pass a copy made with .clone()"
        )
    return stage(tensor)


def multiply(tensors: Sequence[Tensor], factor: Any) -> list[Tensor]:
    """Return tensors times what a PREMUL_SUM multiplies by; the same tensors where that is nothing.

    Raises:
        TypeError: the product would be of another type than the tensor.
    """
    if factor is None:
        return list(tensors)
    products = []
    for tensor in tensors:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            name = str(tensor.dtype).removeprefix("torch.")
            raise TypeError(
                f"nbdist does not reduce {name} with premul_sum; convert the tensor, or use another reduction"
            )
        scale = factor.to(tensor.dtype) if isinstance(factor, Tensor) else factor
        products.append(tensor.detach() * scale)
    return products


def restore(tensors: Sequence[Tensor], staged: Sequence[Tensor]) -> None:
    """Copy results back into the tensors that had to be staged."""
    for tensor, copy in zip(tensors, staged, strict=True):
        if copy is not tensor:
            with torch.no_grad():
                tensor.copy_(copy)


def overlaps(tensor: Tensor) -> bool:
    """Whether two elements of a strided tensor may lie at one address."""
    if tensor.layout is not torch.strided or tensor.numel() < 2:
        return False
    reach = 0
    axes = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for stride, length in axes:
        if length == 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (length - 1)
    return False


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is contiguous CPU memory that means what its bytes say."""
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor.is_conj()
    )
