"""What torch offers around the collectives: odd reductions and views, groups of groups, time limits."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

from nbdist.errors import GroupAborted, GroupError, MismatchError

from .ranks import Raised, Ranks, spawn
from .samples import sample


def total(size: int, count: int = 5, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return sum(sample(peer, count, dtype) for peer in range(size))


def premultiplied(rank: int, size: int) -> None:
    for factor in (0.5, torch.tensor([0.5])):
        op = dist._make_nccl_premul_sum(factor)
        for dtype in (torch.float32, torch.bfloat16, torch.complex64):
            right = sum(sample(peer, 5, dtype) * 0.5 for peer in range(size))
            tensor = sample(rank, 5, dtype)
            dist.all_reduce(tensor, op)
            torch.testing.assert_close(tensor, right)
            tensor = sample(rank, 5, dtype)
            dist.reduce(tensor, 0, op)
            torch.testing.assert_close(tensor, right if rank == 0 else sample(rank, 5, dtype))
        output = torch.empty(5)
        inputs = torch.cat([sample(rank, 5, torch.float32)] * size)
        dist.reduce_scatter_tensor(output, inputs, op)
        torch.testing.assert_close(output, total(size) * 0.5)
        assert torch.equal(inputs[:5], sample(rank, 5, torch.float32))
    with pytest.raises(TypeError, match="int64 with premul_sum"):
        dist.all_reduce(torch.ones(3, dtype=torch.int64), op)


def views(rank: int, size: int) -> None:
    """Views whose bytes do not say what they mean: conjugates, negatives, and strided ones everywhere."""
    complex_total = total(size, 6, torch.complex64)
    tensor = sample(rank, 6, torch.complex64)
    view = tensor.conj()
    with pytest.raises(RuntimeError, match="conj"):  # by torch, before we are asked
        dist.all_reduce(view)
    dist.group.WORLD.allreduce([view]).wait()
    torch.testing.assert_close(tensor, complex_total.conj().conj())
    tensor = sample(rank, 6, torch.complex64)
    imaginary = tensor.conj().imag
    assert imaginary.is_neg()
    dist.all_reduce(imaginary)
    torch.testing.assert_close(tensor.imag, complex_total.imag)

    every_other = torch.zeros(2 * size * 3)[::2]
    dist.all_gather_into_tensor(every_other, sample(rank, 6, torch.float32)[::2])
    right = [sample(peer, 6, torch.float32)[::2] for peer in range(size)]
    assert torch.equal(every_other, torch.cat(right))
    rows = torch.zeros(3, 2 * size).t()
    source = sample(rank, 12, torch.float32).reshape(4, 3).t()[:, :2]
    dist.all_to_all_single(rows[:size], source.t()[:1].expand(size, 3))
    for peer in range(size):
        assert torch.equal(rows[peer], sample(peer, 12, torch.float32)[:3])
    output = torch.zeros(4, 2).t()
    dist.scatter(output, [torch.full((2, 4), float(peer)) for peer in range(size)] if rank == 0 else None)
    assert (output == rank).all()


def uneven(rank: int, size: int) -> None:
    lengths = range(1, size + 1)
    inputs = [sample(10 * rank + peer, length, torch.float32) for peer, length in enumerate(lengths)]
    right = sum(sample(10 * peer + rank, rank + 1, torch.float32) for peer in range(size))
    output = torch.empty(rank + 1)
    dist.reduce_scatter(output, inputs)
    torch.testing.assert_close(output, right)

    kept = sample(rank, 4, torch.float32)
    outputs = [[torch.empty(4), torch.empty(2, 2)] for _ in range(size)]
    dist.all_gather_coalesced(outputs, [kept, kept.reshape(2, 2)])
    for peer, (flat, square) in enumerate(outputs):
        assert torch.equal(flat, sample(peer, 4, torch.float32))
        assert torch.equal(square.flatten(), flat)


def sparse(rank: int, size: int) -> None:
    dense = torch.zeros(6, 2)
    dense[rank] = rank + 1.0
    dense[5] = 1.0
    tensor = dense.to_sparse(1)
    dist.all_reduce(tensor)
    right = torch.zeros(6, 2)
    right[range(size)] = torch.arange(1.0, size + 1).unsqueeze(1)
    right[5] += size
    assert torch.equal(tensor.to_dense(), right)
    if size > 1:
        with pytest.raises(ValueError, match="different shapes"):
            dist.all_reduce(torch.zeros(3 + rank).to_sparse())


def together(rank: int, size: int) -> None:
    for device in (None, torch.device("cpu")):
        tensors = [sample(rank, count, torch.float32) for count in (1, 70_000, 5)]
        with dist._coalescing_manager(device=device):
            for tensor in tensors:
                dist.all_reduce(tensor)
        for tensor in tensors:
            torch.testing.assert_close(tensor, total(size, tensor.numel()))
        outputs = [torch.empty(size * 5), torch.empty(size * 7)]
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            for output in outputs:
                dist.all_gather_into_tensor(output, sample(rank, output.numel() // size, torch.float32))
        manager.wait()
        for output in outputs:
            count = output.numel() // size
            assert torch.equal(output, torch.cat([sample(p, count, torch.float32) for p in range(size)]))
    peer = (rank + 1) % size
    into = torch.empty(3)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.full((3,), float(rank)), peer),
            dist.P2POp(dist.irecv, into, (rank - 1) % size),
        ]
    )
    for work in works:
        work.wait(timedelta(seconds=20))
    assert (into == (rank - 1) % size).all()


def functionals(rank: int, size: int) -> None:
    """Those that torch answers from C++, and through the forms it coalesces."""
    world = dist.group.WORLD
    tensor = sample(rank, 4, torch.float32)
    everybody = torch.cat([sample(peer, 4, torch.float32) for peer in range(size)])
    close = torch.testing.assert_close
    close(functional.all_reduce(tensor, "sum", world) + 0, total(size, 4))
    close(functional.all_reduce(tensor, "avg", world) + 0, total(size, 4) / size)
    close(functional.all_gather_tensor(tensor, 0, world) + 0, everybody)
    close(functional.reduce_scatter_tensor(tensor.repeat(size), "sum", 0, world) + 0, total(size, 4))
    close(functional.broadcast(tensor, 0, world) + 0, sample(0, 4, torch.float32))
    counts = [1] * size
    parts = sample(rank, size, torch.float32)
    swapped = functional.all_to_all_single(parts, counts, counts, world) + 0
    close(swapped, torch.stack([sample(peer, size, torch.float32)[rank] for peer in range(size)]))
    first, second = functional.all_reduce_coalesced([tensor, tensor * 2], "sum", world)
    close(first + 0, total(size, 4))
    close(second + 0, 2 * total(size, 4))
    (gathered,) = functional.all_gather_into_tensor_coalesced([tensor], world)
    close(gathered + 0, everybody)
    (scattered,) = functional.reduce_scatter_tensor_coalesced([tensor.repeat(size)], "sum", [0], world)
    close(scattered + 0, total(size, 4))


def groups(rank: int, size: int) -> None:
    own, others = dist.new_subgroups(max(1, size // 2))
    assert len(others) == min(size, 2)
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=own)
    assert (tensor == max(1, size // 2)).all()

    half = [rank ^ 1, rank] if size > 1 else [0]
    for _ in range(2):  # the same list again is another group
        split = dist.group.WORLD.split_group(sorted(half))
        tensor = torch.full((2,), float(rank))
        split.allreduce([tensor]).wait()
        assert (tensor == sum(half)).all()
        split.shutdown()
    assert dist.group.WORLD.split_group([size - 1 - rank]) is None or size == 2 * rank + 1

    mesh = init_device_mesh("cpu", (max(1, size // 2), min(size, 2)), mesh_dim_names=("outer", "inner"))
    tensor = torch.full((1,), float(rank))
    dist.all_reduce(tensor, group=mesh["inner"].get_group())
    dist.all_reduce(tensor, group=mesh["outer"].get_group())
    assert tensor.item() == sum(range(size))
    assert init_device_mesh("cpu", (size,)).get_local_rank() == rank


def meet(rank: int, size: int) -> None:
    world = dist.group.WORLD
    for _ in range(3):
        world.monitored_barrier()
        world.monitored_barrier(timedelta(seconds=30), True)
    with pytest.raises(ValueError, match="GLOO"):  # torch's own check, which asks for a name
        dist.monitored_barrier()


def everything(rank: int, size: int) -> None:
    for function in (premultiplied, views, uneven, sparse, together, functionals, groups, meet):
        try:
            function(rank, size)
        except Exception as error:
            raise AssertionError(f"in {function.__name__}") from error


@pytest.mark.parametrize("size", [1, 2, 4])
def test_surface(size):
    spawn(size, everything, timeout=60)


def miss(rank: int, size: int) -> None:
    if rank in (1, 3):
        dist.recv(torch.empty(1), 0)  # and never comes to the roll call
    dist.group.WORLD.monitored_barrier(timedelta(seconds=0.3))


def test_a_monitored_barrier_names_the_missing_on_every_rank():
    with Ranks(4, miss) as ranks:
        results = ranks.results()
    for result in results:
        assert isinstance(result, Raised)
        assert isinstance(result.error, GroupAborted), result.text
        assert "rank 1, rank 3 did not come within a timeout of 0.3 s" in str(result.error)


def give_up(rank: int, size: int) -> None:
    if rank == 0:
        work = dist.irecv(torch.empty(1), 1)
        with pytest.raises(GroupError, match=r"timeout of 0.05 s"):
            work.wait(timedelta(seconds=0.05))
        assert not work.is_completed()
        dist.barrier()
        work.wait(timedelta(seconds=20))  # nothing is lost by having given up
        with pytest.raises(RuntimeError, match=r"gave up waiting in barrier after a timeout of 0.05 s"):
            dist.barrier(timeout=timedelta(seconds=0.05))
    else:
        dist.barrier()
        dist.send(torch.ones(1), 0)
        with pytest.raises(GroupAborted, match="rank 0 gave up waiting"):
            dist.recv(torch.empty(1), 0)


def test_a_wait_ends_when_its_time_is_over():
    spawn(2, give_up)


def differ(rank: int, size: int) -> str:
    with pytest.raises(MismatchError) as caught:
        dist.all_reduce(torch.ones(3 + rank))
    return str(caught.value)


def test_sizes_that_differ_are_told_equally():
    first, second = spawn(2, differ)
    assert first == second
