"""Say torch's element types and reductions in the native layer's codes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ._native import DType, Op

NUMBERS = {
    torch.float16: DType.float16,
    torch.bfloat16: DType.bfloat16,
    torch.float32: DType.float32,
    torch.float64: DType.float64,
    torch.int8: DType.int8,
    torch.uint8: DType.uint8,
    torch.int16: DType.int16,
    torch.int32: DType.int32,
    torch.int64: DType.int64,
    torch.bool: DType.bool,
}

# The others' names differ from version to version; each is compared, and some are reduced, too.
_CODES: dict[torch.dtype, DType] = NUMBERS | {
    getattr(torch, code.name): code for code in DType if hasattr(torch, code.name) and code != DType.bytes
}

SUM = dist.ReduceOp.SUM
_OPS = {
    dist.ReduceOp.SUM: Op.sum,
    dist.ReduceOp.PREMUL_SUM: Op.sum,  # of tensors that were multiplied before: see `premultiplier`
    dist.ReduceOp.AVG: Op.avg,
    dist.ReduceOp.PRODUCT: Op.product,
    dist.ReduceOp.MIN: Op.min,
    dist.ReduceOp.MAX: Op.max,
    dist.ReduceOp.BAND: Op.band,
    dist.ReduceOp.BOR: Op.bor,
    dist.ReduceOp.BXOR: Op.bxor,
}


def number_code(tensor: torch.Tensor, op: Op) -> tuple[int, DType]:
    """Return how many numbers of which type a reduction sees in a tensor.

    Raises:
        TypeError: the type cannot be reduced (whether it can with `op`, the native layer says).
    """
    code = _CODES.get(tensor.dtype)
    if code is not None:
        return tensor.numel(), code
    name = str(tensor.dtype).removeprefix("torch.")
    raise TypeError(
        f"nbdist does not reduce {name} with {op.name}; convert the tensor, or use another reduction"
    )


def byte_code(tensor: torch.Tensor) -> tuple[int, DType]:
    """Return how many elements of which type are moved when a tensor is only copied."""
    code = _CODES.get(tensor.dtype)
    if code is not None:
        return tensor.numel(), code
    return tensor.numel() * tensor.element_size(), DType.bytes


def type_code(tensor: torch.Tensor) -> DType:
    """Return the type ranks compare where each moves a share of its own."""
    return _CODES.get(tensor.dtype, DType.bytes)


def op_code(opts: Any) -> Op:
    """Translate the reduction that a collective's options name; without options it is a sum.

    Raises:
        TypeError: nbdist has no such reduction.
    """
    if opts is None or opts.reduceOp == SUM:  # nearly always; to hash torch's enumeration takes a microsecond
        return Op.sum
    asked = opts.reduceOp.op
    code = _OPS.get(asked)
    if code is None:
        names = ", ".join(known.name for known in _OPS)
        raise TypeError(f"nbdist has no reduction {asked.name}; use one of {names}")
    return code


def premultiplier(opts: Any) -> Any:
    """Return what tensors are multiplied by before they are summed: a number, a tensor or None."""
    if opts is None or opts.reduceOp == SUM or opts.reduceOp.op != dist.ReduceOp.PREMUL_SUM:
        return None
    return opts.reduceOp.__getstate__()[1]
