"""Arenas: tensors reduced where they lie, in memory that all ranks of a host share."""

from __future__ import annotations

import os
import signal

import pytest
import torch
import torch.distributed as dist

from nbdist.comm import arena, bytes_moved
from nbdist.comm._native import Arena, DType, Op, Window
from nbdist.errors import GroupAborted, MismatchError

from .ranks import Ranks, Returned, spawn

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def shared(count, dtype=torch.float32, offset=0):
    """Return a window and this rank's tensor in it."""
    own = arena.make(offset + count * dtype.itemsize)
    window = arena.open_window(own)
    assert isinstance(window, Window), window
    return window, arena.tensor(own, offset, count, dtype)


def group():
    return dist.group.WORLD


def averaged(rank, size, among):
    return [average(rank, size, dtype, count, among) for dtype in FLOATS for count in (1, 17, 5000)]


def average(rank, size, dtype, count, among):
    window, flat = shared(count, dtype, offset=128)
    source = torch.randn(count, generator=torch.Generator().manual_seed(rank)).to(dtype)
    flat.copy_(source)
    told = [torch.empty_like(source) for _ in range(size)]
    dist.all_gather(told, source)
    exact = torch.stack([told[r].double() for r in (among if rank in among else [rank])]).mean(0)
    before = bytes_moved()
    arena.average(group(), window if rank in among else None, 128, flat, among).wait()
    moved = bytes_moved() - before
    torch.testing.assert_close(flat, exact.to(dtype))
    return flat.view(torch.uint8).tolist(), moved


@pytest.mark.parametrize(("size", "among"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 2, 3]), (3, [1])])
def test_averages_in_place_to_the_same_bits(size, among):
    for got in zip(*spawn(size, averaged, among), strict=True):
        bits, moved = zip(*got, strict=True)
        assert all(bits[rank] == bits[among[0]] for rank in among)
        # Each writes its part for the others, once.
        assert sum(moved) == len(bits[0]) * (len(among) - 1)
        assert all(moved[rank] == 0 for rank in range(size) if rank not in among)


def other_reductions(rank, size):
    window, flat = shared(100)
    results = []
    for op in (Op.sum, Op.product, Op.min, Op.max):
        flat.fill_(rank + 2)
        group().native.all_reduce_arena(window, 0, 100, DType.float32, op, [0, 1, 2])
        assert (flat == flat[0]).all()
        results.append(flat[0].item())
    with pytest.raises(TypeError, match="does not reduce int32 with sum"):
        group().native.all_reduce_arena(window, 0, 10, DType.int32, Op.sum, [0, 1, 2])
    for offset, count, among in [(4, 1, [0, 1, 2]), (64, 100, [0, 1, 2]), (0, 1, [0, 1, 2, 3])]:
        with pytest.raises(ValueError, match=r"a stretch begins|shows as many"):
            group().native.all_reduce_arena(window, offset, count, DType.float32, Op.sum, among)
    return results


def test_other_reductions_and_what_is_refused():
    assert spawn(3, other_reductions) == [[9.0, 24.0, 2.0, 4.0]] * 3


def in_order(rank, size):
    """Mix arenas with ordinary collectives, all queued."""
    window, flat = shared(50_000)
    plain = torch.full((50_000,), float(rank))
    flat.fill_(rank)
    works = []
    for _ in range(5):
        works.append(arena.average(group(), window, 0, flat, [0, 1]))
        works.append(dist.all_reduce(plain, async_op=True))
        works.append(dist.all_reduce(plain[:3], async_op=True))
    works[-1].wait()
    for work in works:
        work.wait()
    return flat.unique().tolist(), plain[3:].unique().tolist(), plain[:3].unique().tolist()


def test_keeps_the_order_of_operations():
    assert spawn(2, in_order) == [([0.5], [16.0], [2.0**9])] * 2


def told_apart(rank, size):
    window, flat = shared(64)
    with pytest.raises(MismatchError, match=r"rank 0 all_reduce.*rank 1 all_reduce"):
        dist.all_reduce(flat) if rank == 0 else arena.average(group(), window, 0, flat, [0, 1]).wait()


def test_ranks_that_differ_are_told():
    spawn(2, told_apart)


def no_memory(rank, size):
    own = arena.make((1 << 50) if rank == 1 else 4096)
    return arena.open_window(own)


def no_file(rank, size):
    own = arena.make(4096 * (rank + 1))
    return arena.open_window(own)


def test_a_window_that_cannot_be_is_refused_alike_on_all_ranks():
    (reason, *others) = spawn(3, no_memory)
    assert others == [reason] * 2
    assert reason.startswith("rank 1: reserving 1073741824 MiB of shared memory")
    (reason, other) = spawn(2, no_file)
    assert reason == other == "rank 0: its arena has another size"


def killed(rank, size):
    window, flat = shared(1 << 20)
    arena.average(group(), window, 0, flat, [0, 1, 2]).wait()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(GroupAborted, match="rank 1 died") as told:
        arena.average(group(), window, 0, flat, [0, 1, 2]).wait()
    return told.value.rank, flat.sum().item()


def test_a_dead_rank_releases_the_others_and_its_memory_stays_readable():
    with Ranks(3, killed) as ranks:
        got = ranks.results()
    assert got[1] is None
    assert [got[r].value for r in (0, 2)] == [(1, 0.0)] * 2
    assert isinstance(got[0], Returned)


def test_memory_lives_as_long_as_a_tensor_on_it():
    own = Arena(8192)
    whole, part = arena.tensor(own, 0, 10, torch.float32), arena.tensor(own, 4096, 5, torch.float64)
    files = len(os.listdir("/proc/self/fd"))
    del own
    whole.fill_(1)
    del whole
    part.fill_(2)
    assert part.tolist() == [2.0] * 5
    del part
    assert len(os.listdir("/proc/self/fd")) == files - 1


def test_a_child_finds_the_bytes_and_changes_only_its_own():
    own = Arena(1 << 16)
    flat = arena.tensor(own, 0, 1000, torch.float32)
    flat.fill_(3)
    child = os.fork()
    if child == 0:
        right = flat.sum().item() == 3000
        flat.fill_(7)
        right = right and flat.sum().item() == 7000
        grandchild = os.fork()
        if grandchild == 0:
            flat.add_(1)
            os._exit(0 if flat.sum().item() == 8000 else 1)
        right = right and os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0
        os._exit(0 if right and flat.sum().item() == 7000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert flat.sum().item() == 3000
