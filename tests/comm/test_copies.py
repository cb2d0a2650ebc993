"""Broadcast, all-gather, reduce-scatter, reduce, gather, scatter, all-to-all and objects."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from .ranks import spawn
from .samples import DTYPES, expected, ops_for, sample

WORLDS = [1, 2, 3, 7]


def copies(rank: int, size: int) -> None:
    for dtype in (*DTYPES, torch.complex64):
        for count in (0, 1, 4097, 70_001):
            everybody = [sample(peer, count, dtype) for peer in range(size)]
            tensor = sample(rank, count, dtype)
            dist.broadcast(tensor, size - 1)
            assert torch.equal(tensor, everybody[-1]), dtype

            parts = [torch.empty_like(tensor) for _ in range(size)]
            dist.all_gather(parts, sample(rank, count, dtype))
            assert all(map(torch.equal, parts, everybody)), dtype

            whole = torch.empty(size * count, dtype=dtype)
            dist.all_gather_into_tensor(whole, sample(rank, count, dtype))
            assert torch.equal(whole, torch.cat(everybody)), dtype


def reductions(rank: int, size: int) -> None:
    for dtype in DTYPES:
        for count in (0, 3, 40_001):
            op = ops_for(dtype)[0]
            inputs = [[sample(10 * peer + to, count, dtype) for to in range(size)] for peer in range(size)]
            right = expected([inputs[peer][rank] for peer in range(size)], op)
            output = torch.empty(count, dtype=dtype)
            dist.reduce_scatter(output, inputs[rank], op)
            assert torch.equal(output, right), dtype
            output.zero_()
            dist.reduce_scatter_tensor(output, torch.cat(inputs[rank]), op)
            assert torch.equal(output, right), dtype

            tensor = sample(rank, count, dtype)
            dist.reduce(tensor, size - 1, op)
            everybody = [sample(peer, count, dtype) for peer in range(size)]
            mine = expected(everybody, op) if rank == size - 1 else everybody[rank]
            assert torch.equal(tensor, mine), dtype


def exchanges(rank: int, size: int) -> None:
    for count in (0, 3, 70_001):
        mine = [sample(10 * rank + peer, count, torch.float32) for peer in range(size)]
        theirs = [sample(10 * peer + rank, count, torch.float32) for peer in range(size)]
        outputs = [torch.empty(count) for _ in range(size)]
        dist.all_to_all(outputs, mine)
        assert all(map(torch.equal, outputs, theirs))

        whole = torch.empty(size * count)
        dist.all_to_all_single(whole, torch.cat(mine))
        assert torch.equal(whole, torch.cat(theirs))

        outputs = [torch.empty(count) for _ in range(size)]
        dist.gather(mine[0], outputs if rank == size - 1 else None, dst=size - 1)
        if rank == size - 1:
            assert all(torch.equal(outputs[p], sample(10 * p, count, torch.float32)) for p in range(size))

        output = torch.empty(count)
        dist.scatter(output, mine if rank == 0 else None, src=0)
        assert torch.equal(output, sample(rank, count, torch.float32))

    # Rank r has r + 1 rows for everybody.
    source = torch.full((size * (rank + 1), 2), float(rank))
    into = torch.empty(sum(range(1, size + 1)), 2)
    dist.all_to_all_single(into, source, list(range(1, size + 1)), [rank + 1] * size)
    assert into[:, 0].tolist() == [float(p) for p in range(size) for _ in range(p + 1)]
    uneven = [torch.empty(peer, 2) for peer in range(size)]
    dist.all_gather(uneven, torch.full((rank, 2), float(rank)))
    assert all((part == peer).all() for peer, part in enumerate(uneven))


def objects(rank: int, size: int) -> None:
    everybody: list[object] = [None] * size
    dist.all_gather_object(everybody, {"rank": rank, "pad": "x" * 1000 * rank})
    assert [entry["rank"] for entry in everybody] == list(range(size))
    shared = ["from", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, src=0)
    assert shared == ["from", 0]
    got: list[object] = [None]
    dist.scatter_object_list(got, [f"for {p}" for p in range(size)] if rank == 0 else None, src=0)
    assert got == [f"for {rank}"]


@pytest.mark.parametrize("size", WORLDS)
@pytest.mark.parametrize("function", [copies, reductions, exchanges, objects], ids=lambda f: f.__name__)
def test_every_rank_gets_its_own(function, size):
    spawn(size, function)


def coalesced(rank: int, size: int) -> None:
    tensors = [torch.full((count,), float(rank)) for count in (1, 100, 100_000)]
    dist.all_reduce_coalesced(tensors)
    total = sum(range(size))
    assert all((tensor == total).all() for tensor in tensors)


def subgroup(rank: int, size: int) -> None:
    groups = [dist.new_group([0, 2]), dist.new_group([1, 2])]
    tensor = torch.ones(10)
    if rank != 1:
        dist.all_reduce(tensor, group=groups[0])
        assert tensor[0] == 2
    if rank != 0:
        dist.all_reduce(tensor, group=groups[1])
        assert tensor[0] == 3
    dist.barrier()


def test_coalesced():
    spawn(2, coalesced)


def test_subgroups():
    spawn(3, subgroup)
