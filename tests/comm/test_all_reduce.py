"""Allreduce: every dtype, reduction, size and world, against a fold in rank order."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm

from .ranks import spawn
from .samples import DTYPES, SIZES, expected, ops_for, sample


def every_type(rank: int, size: int) -> None:
    for dtype in DTYPES:
        for op in ops_for(dtype):
            for count in SIZES if op == dist.ReduceOp.SUM else (3, 4097):
                tensor = sample(rank, count, dtype)
                dist.all_reduce(tensor, op)
                right = expected([sample(peer, count, dtype) for peer in range(size)], op)
                # To the bit: the order of the sum is promised.
                assert torch.equal(tensor, right), (dtype, op, count)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_every_dtype_and_reduction_equals_the_fold_in_rank_order(size):
    spawn(size, every_type)


def large(rank: int, size: int) -> None:
    count = 1_000_007
    for dtype in (torch.float32, torch.bfloat16, torch.uint8):
        tensor = sample(rank, count, dtype)
        dist.all_reduce(tensor)
        right = expected([sample(peer, count, dtype) for peer in range(size)], dist.ReduceOp.SUM)
        assert torch.equal(tensor, right), dtype


@pytest.mark.parametrize("size", [2, 7])
def test_large_and_odd(size):
    spawn(size, large)


def nan_and_infinity(rank: int, size: int, dtype: torch.dtype) -> None:
    odd = torch.tensor([math.nan, math.inf, -math.inf, math.inf, 65504.0, 2.0**-24], dtype=dtype)
    plain = torch.tensor([1.0, 1.0, 1.0, -math.inf, 65504.0, 0.0], dtype=dtype)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        tensor = (odd if rank == 1 else plain).clone()
        dist.all_reduce(tensor, op)
        right = expected([plain, odd], op)
        assert torch.equal(tensor.nan_to_num(7.5), right.nan_to_num(7.5)), (tensor, right)
        assert torch.equal(tensor.isnan(), right.isnan())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_nan_and_infinity_are_kept(dtype):
    spawn(2, nan_and_infinity, dtype)


def all_halves(rank: int, size: int, dtype: torch.dtype) -> None:
    """Add zero to each of the 65536 values there are, and average them with themselves."""
    values = torch.arange(-32768, 32768, dtype=torch.int16).view(dtype)
    tensor = values.clone() if rank == 0 else torch.zeros_like(values)
    dist.all_reduce(tensor)
    number = ~values.isnan()
    assert torch.equal(tensor[number], values[number])
    assert tensor[~number].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_16_bit_value_survives(dtype):
    spawn(2, all_halves, dtype)


def count_bytes(rank: int, size: int) -> int:
    before = comm.bytes_moved()
    dist.all_reduce(torch.ones(size * 300_000))
    return comm.bytes_moved() - before


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_large_one_moves_no_more_than_the_ring_must(size):
    total = size * 300_000 * 4
    assert spawn(size, count_bytes) == [2 * (size - 1) * total // size] * size


def count_bytes_of_reduce(rank: int, size: int, count: int) -> int:
    before = comm.bytes_moved()
    tensor = torch.full((count,), float(rank + 1))
    dist.reduce(tensor, 1)
    assert tensor[0] == tensor[-1] == (sum(range(size + 1)) if rank == 1 else rank + 1)
    return comm.bytes_moved() - before


@pytest.mark.parametrize("size", [2, 3])
def test_a_reduction_to_one_rank_moves_nothing_to_the_others(size):
    # Small: all of it, to the root. Large: its parts to those who reduce them, and its result to the root.
    small, large = size * 100, size * 300_000
    scattered = (size - 1) * large * 4 // size
    for rank, moved in enumerate(spawn(size, count_bytes_of_reduce, small)):
        assert moved == (0 if rank == 1 else small * 4)
    for rank, moved in enumerate(spawn(size, count_bytes_of_reduce, large)):
        assert moved == scattered + (0 if rank == 1 else large * 4 // size)


def in_a_row(rank: int, size: int) -> None:
    """Many operations of changing kinds reuse the slots without a barrier between them."""
    for i in range(60):
        count = (1, 5_000, 100_000, 17)[i % 4]
        tensor = torch.full((count,), float(rank + i))
        dist.all_reduce(tensor)
        assert (tensor == sum(peer + i for peer in range(size))).all()
        dist.broadcast(tensor, i % size)


@pytest.mark.parametrize("size", [2, 5])
def test_many_in_a_row(size):
    spawn(size, in_a_row)
