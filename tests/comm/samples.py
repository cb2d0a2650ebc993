"""Tensors whose reductions are known."""

from __future__ import annotations

from functools import reduce

import torch
import torch.distributed as dist

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
HALVES = (torch.float16, torch.bfloat16)
SIZES = (0, 1, 3, 4095, 4096, 4097, 70_001)

ARITHMETIC = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
BITWISE = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


def sample(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Make the tensor that rank contributes; the same on every rank that asks."""
    generator = torch.Generator().manual_seed(1000 * rank + count % 997)
    if dtype.is_complex:
        return torch.randn(count, generator=generator, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max, (count,), generator=generator, dtype=dtype)


def ops_for(dtype: torch.dtype) -> tuple[dist.ReduceOp.RedOpType, ...]:
    """List the reductions a type has."""
    if dtype.is_floating_point:
        return (*ARITHMETIC, dist.ReduceOp.AVG)
    return (*ARITHMETIC, *BITWISE)


def expected(parts: list[torch.Tensor], op: dist.ReduceOp.RedOpType) -> torch.Tensor:
    """Fold in rank order; the 16-bit floats in float32 with one rounding at the end."""
    dtype = parts[0].dtype
    wide = [part.float() if dtype in HALVES else part for part in parts]
    result = reduce(_step(op, dtype), wide)
    if op == dist.ReduceOp.AVG:
        result = result / len(parts)
    return result.to(dtype)


def _step(op: dist.ReduceOp.RedOpType, dtype: torch.dtype):
    logical = dtype is torch.bool
    steps = {
        dist.ReduceOp.SUM: torch.logical_or if logical else torch.add,
        dist.ReduceOp.AVG: torch.add,
        dist.ReduceOp.PRODUCT: torch.logical_and if logical else torch.mul,
        dist.ReduceOp.MIN: torch.logical_and if logical else torch.minimum,
        dist.ReduceOp.MAX: torch.logical_or if logical else torch.maximum,
        dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor,
    }
    return steps[op]
