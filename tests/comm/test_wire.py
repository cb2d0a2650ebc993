"""Collectives and messages between hosts: ranks of this machine that believe to be on several."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.comm._native import DType, Op

from .ranks import spawn
from .samples import DTYPES, HALVES, expected, ops_for, sample

# Hosts of one rank, of several, of unequally many, and with ranks that are not numbered by host.
PLACES = ([0, 1], [0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1], [0, 1, 1, 1, 2], [0, 0, 1, 1, 2, 2])


@pytest.fixture(params=PLACES, ids=lambda hosts: "".join(map(str, hosts)))
def hosts(request) -> list[int]:
    return request.param


def close_to(result: torch.Tensor, right: torch.Tensor, parts: list[torch.Tensor]) -> bool:
    """Allow for another order of the sum, and for 16-bit types one rounding a host."""
    if not result.dtype.is_floating_point:
        return torch.equal(result, right)
    scale = sum(part.double().abs() for part in parts) + 1
    error = (result.double() - right.double()).abs()
    return bool((error <= torch.finfo(result.dtype).eps * 4 * scale).all())


def reductions(rank: int, size: int) -> None:
    for dtype in DTYPES:
        for op in ops_for(dtype):
            if op == dist.ReduceOp.PRODUCT and dtype in HALVES:
                continue  # overflows, and then the order decides between infinity and NaN
            for count in (0, 3, 70_001) if op == dist.ReduceOp.SUM else (1001, 70_001):
                parts = [sample(peer, count, dtype) for peer in range(size)]
                tensor = parts[rank].clone()
                dist.all_reduce(tensor, op)
                if op != dist.ReduceOp.PRODUCT:
                    assert close_to(tensor, expected(parts, op), parts), (dtype, op, count)
                same = [torch.empty_like(tensor) for _ in range(size)]
                dist.all_gather(same, tensor)
                for other in same:
                    assert torch.equal(other.view(torch.uint8), tensor.view(torch.uint8)), (dtype, op, count)


def test_every_dtype_and_reduction_gives_the_same_bits_everywhere(hosts):
    spawn(len(hosts), reductions, hosts=hosts, timeout=60)


def large(rank: int, size: int) -> None:
    for count in (1_000_003, 5_000_000):
        for asynchronous in (False, True):
            tensor = torch.full((count,), float(rank + 1))
            tensor[-1] = tensor[count // 3] = rank
            work = dist.all_reduce(tensor, async_op=asynchronous)
            if work is not None:
                work.wait()
            assert tensor[-1] == tensor[count // 3] == sum(range(size))
            tensor[-1] = tensor[count // 3] = sum(range(1, size + 1))
            assert (tensor == sum(range(1, size + 1))).all()
    mean = torch.full((3_000_000,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert torch.allclose(mean, torch.tensor((size - 1) / 2))


def test_large_ones(hosts):
    spawn(len(hosts), large, hosts=hosts, timeout=60)


def means_near_the_end_of_the_range(rank: int, size: int) -> None:
    """What all ranks have is their mean, and it has no room for a sum on the way."""
    for dtype, most in ((torch.float16, 60_000.0), (torch.bfloat16, 3e38 / size)):
        for count in (5, 100_003):
            tensor = torch.full((count,), most, dtype=dtype)
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
            assert (tensor == torch.tensor(most, dtype=dtype)).all(), (dtype, count, tensor)
            tensor.fill_(-most)
            dist.reduce(tensor, size - 1, dist.ReduceOp.AVG)
            assert (tensor == torch.tensor(-most, dtype=dtype)).all(), (dtype, count, tensor)
            rows = [torch.full((count,), most, dtype=dtype) for _ in range(size)]
            dist.reduce_scatter(tensor, rows, dist.ReduceOp.AVG)
            assert (tensor == torch.tensor(most, dtype=dtype)).all(), (dtype, count, tensor)


def test_a_mean_does_not_overflow(hosts):
    spawn(len(hosts), means_near_the_end_of_the_range, hosts=hosts, timeout=60)


def test_a_mean_does_not_overflow_within_a_host():
    spawn(3, means_near_the_end_of_the_range)


def in_arenas(rank: int, size: int) -> None:
    native = dist.group.WORLD.native
    for among in ([0, 1], [1 - rank]):
        with pytest.raises(ValueError, match=r"spans hosts .*; use all_reduce"):
            native.all_reduce_arena(None, 0, 1, DType.float32, Op.sum, among)


def test_arenas_are_refused():
    spawn(2, in_arenas, hosts=[0, 1])


def copies(rank: int, size: int) -> None:
    for count in (0, 5, 300_001):
        for root in range(size):
            tensor = torch.full((count,), float(rank))
            dist.broadcast(tensor, root)
            assert (tensor == root).all()
            tensor.fill_(rank + 1)
            dist.reduce(tensor, root)
            assert (tensor == (sum(range(size + 1)) if rank == root else rank + 1)).all()
        rows = [torch.zeros(count) for _ in range(size)]
        dist.all_gather(rows, torch.full((count,), float(rank)))
        assert all((row == peer).all() for peer, row in enumerate(rows))
        mine = torch.zeros(count)
        dist.reduce_scatter(mine, [torch.full((count,), float(rank * peer)) for peer in range(size)])
        assert (mine == rank * sum(range(size))).all()
        dist.reduce_scatter(mine, [torch.full((count,), float(rank)) for _ in range(size)], dist.ReduceOp.AVG)
        assert torch.allclose(mine, torch.tensor((size - 1) / 2))
        dist.barrier()


def test_copies_and_scattered_sums(hosts):
    spawn(len(hosts), copies, hosts=hosts, timeout=60)


def exchanges(rank: int, size: int) -> None:
    for count in (1, 300_001):
        for root in range(size):
            rows = [torch.zeros(count) for _ in range(size)] if rank == root else None
            dist.gather(torch.full((count,), float(rank)), rows, root)
            assert all((row == peer).all() for peer, row in enumerate(rows or []))
            mine = torch.zeros(count)
            rows = [torch.full((count,), float(peer)) for peer in range(size)] if rank == root else None
            dist.scatter(mine, rows, root)
            assert (mine == rank).all()
        into = [torch.zeros(count) for _ in range(size)]
        dist.all_to_all(into, [torch.full((count,), rank * 100.0 + peer) for peer in range(size)])
        assert all((row == peer * 100 + rank).all() for peer, row in enumerate(into))
    uneven = [torch.zeros(peer * 1000 + 1) for peer in range(size)]
    dist.all_gather(uneven, torch.full((rank * 1000 + 1,), float(rank)))
    assert all((row == peer).all() for peer, row in enumerate(uneven))


def test_exchanges(hosts):
    spawn(len(hosts), exchanges, hosts=hosts, timeout=60)


def messages(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 7, 400_000):
        out, into = torch.full((count,), float(rank)), torch.zeros(count)
        work = dist.isend(out, right)
        dist.recv(into, left)
        work.wait()
        assert (into == left).all()
    works = [dist.isend(torch.full((50_000,), float(tag)), right, tag=tag) for tag in (1, 2, 3)]
    for tag in (3, 1, 2):
        into = torch.zeros(50_000)
        dist.recv(into, left, tag=tag)
        assert (into == tag).all()
    for work in works:
        work.wait()
    if rank > 0:
        dist.send(torch.full((3,), float(rank)), 0)
        return
    seen = set()
    for _ in range(size - 1):
        into = torch.zeros(3)
        source = dist.recv(into)
        assert (into == source).all()
        seen.add(source)
    assert seen == set(range(1, size))


def test_messages(hosts):
    spawn(len(hosts), messages, hosts=hosts, timeout=60)


def everything_at_once(rank: int, size: int) -> None:
    """Messages nobody receives yet do not stand in the way of collectives, nor those in each other's."""
    right, left = (rank + 1) % size, (rank - 1) % size
    into = torch.zeros(500_000)
    for _ in range(5):
        sent = dist.isend(torch.full((500_000,), float(rank)), right)
        sums = [torch.ones(200_000) for _ in range(4)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in sums]
        received = dist.irecv(into, left)
        dist.barrier()
        for work in (*works, received, sent):
            work.wait()
        assert all((tensor == size).all() for tensor in sums)
        assert (into == left).all()


def test_messages_beside_collectives(hosts):
    spawn(len(hosts), everything_at_once, hosts=hosts, timeout=60)


def come_last(rank: int, size: int, mark: Path) -> bool:
    if rank == size - 1:
        threading.Event().wait(0.3)
        mark.touch()
    dist.barrier()
    return mark.exists()


def test_a_barrier_waits_for_every_rank_of_every_host(hosts, tmp_path):
    assert all(spawn(len(hosts), come_last, tmp_path / "mark", hosts=hosts))


def count_bytes(rank: int, size: int) -> int:
    before = comm.bytes_moved()
    dist.all_reduce(torch.ones(size * 300_000))
    return comm.bytes_moved() - before


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_large_one_moves_no_more_than_the_ring_must(size):
    total = size * 300_000 * 4
    assert spawn(size, count_bytes, hosts=range(size)) == [2 * (size - 1) * total // size] * size


def test_with_two_ranks_a_host_each_moves_its_shard_round_the_ring():
    size, total = 4, 4 * 300_000 * 4
    in_host, between = 2 * total // 2, 2 * (total // 2) // 2
    assert spawn(size, count_bytes, hosts=[0, 0, 1, 1]) == [in_host + between] * size
