"""Strided and overlapping tensors, odd types, wrong arguments: done right or refused in a sentence."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from nbdist.comm.staging import overlaps
from nbdist.errors import MismatchError

from .ranks import Raised, Ranks, spawn


def strided(rank: int, size: int) -> None:
    plain = torch.arange(12.0).reshape(3, 4)
    for asynchronous in (False, True):
        base = plain + rank
        window = base.t()[1:3]
        work = dist.all_reduce(window, async_op=asynchronous)
        if work is not None:
            work.wait()
        assert torch.equal(window, sum((plain + peer).t()[1:3] for peer in range(size)))
        assert torch.equal(base[:, 0], plain[:, 0] + rank)
        assert torch.equal(base[:, 3], plain[:, 3] + rank)

    square = (torch.arange(9.0).reshape(3, 3) * (rank + 1)).t()
    dist.broadcast(square, 0)
    assert torch.equal(square, torch.arange(9.0).reshape(3, 3).t())
    empty = torch.empty(1, 0, 2)
    dist.all_reduce(empty)
    outputs = [torch.empty_like(empty) for _ in range(size)]
    dist.all_gather(outputs, empty)
    assert all(output.shape == (1, 0, 2) for output in outputs)


@pytest.mark.parametrize("size", [1, 2])
def test_strided_views_are_reduced_in_place(size):
    spawn(size, strided)


def refuse(rank: int, size: int) -> list[str]:
    messages = []

    def refused(kind: type[Exception], call, *args, **kwargs) -> None:
        with pytest.raises(kind) as caught:
            call(*args, **kwargs)
        messages.append(str(caught.value))

    refused(ValueError, dist.all_reduce, torch.ones(1).expand(5))
    refused(TypeError, dist.all_reduce, torch.ones(3, dtype=torch.bool), dist.ReduceOp.AVG)
    refused(TypeError, dist.all_reduce, torch.ones(3, dtype=torch.int64), dist.ReduceOp.AVG)
    refused(TypeError, dist.all_reduce, torch.ones(3), dist.ReduceOp.BXOR)
    refused(TypeError, dist.all_reduce, torch.ones(3).to_sparse(), dist.ReduceOp.MAX)
    refused(TypeError, dist.all_reduce, torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 2)))
    refused(ValueError, dist.all_gather, [torch.ones(3)] * (size + 1), torch.ones(3))
    refused(ValueError, dist.reduce_scatter_tensor, torch.ones(3), torch.ones(3 * size + 1))
    # No refusal has cost the group its order.
    tensor = torch.tensor([1 + 2j, rank], dtype=torch.complex64)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size * (1 + 2j), sum(range(size))]
    return messages


def test_refusals_are_equal_on_all_ranks_and_name_type_and_reduction():
    first, second = spawn(2, refuse)
    assert first == second
    assert "share memory" in first[0]
    assert "bool" in first[1]
    assert "avg" in first[1]
    assert "int64" in first[2]
    assert "float32" in first[3]
    assert "bxor" in first[3]
    assert "sparse tensors with max" in first[4]


@pytest.mark.parametrize(
    ("tensor", "answer"),
    [
        (torch.ones(3, 4), False),
        (torch.ones(3, 4).t(), False),
        (torch.ones(3, 4)[:, 1:3], False),
        (torch.ones(2, 3, 4).permute(2, 0, 1)[::2], False),
        (torch.ones(1).expand(5), True),
        (torch.ones(4, 1).expand(4, 3), True),
        (torch.ones(10).as_strided((4, 3), (2, 1)), True),
        (torch.ones(0, 3).expand(5, 0, 3), False),
        (torch.ones(1, 1).expand(1, 1), False),
    ],
)
def test_overlaps(tensor, answer):
    assert overlaps(tensor) is answer


def odd_type(rank: int, size: int, kind: str) -> None:
    # Of one size, so that only the type tells.
    exact = torch.ones(4, dtype=torch.int32 if rank == 0 else torch.float32)
    eighth = torch.ones(4).to(torch.float8_e5m2 if rank == 0 else torch.float8_e4m3fn)
    if kind == "broadcast":
        dist.broadcast(eighth, 0)
    elif kind == "gather":
        dist.gather(exact, [torch.zeros_like(exact) for _ in range(size)] if rank == 0 else None)
    elif kind == "scatter":
        dist.scatter(exact, [torch.ones_like(exact) for _ in range(size)] if rank == 0 else None)
    elif kind == "all_gather":
        dist.all_gather([torch.zeros_like(exact) for _ in range(size)], exact)
    elif kind == "all_to_all":
        dist.all_to_all_single(torch.zeros_like(exact), exact)
    elif rank == 0:
        dist.send(exact, 1)
    else:
        dist.recv(exact, 0)


@pytest.mark.parametrize("hosts", [(), (0, 1)], ids=["one host", "two"])
@pytest.mark.parametrize("kind", ["broadcast", "gather", "scatter", "all_gather", "all_to_all", "message"])
def test_types_of_one_size_are_told_apart(kind, hosts):
    with Ranks(2, odd_type, kind, hosts=hosts) as ranks:
        results = ranks.results()
    errors = [result.error for result in results if isinstance(result, Raised)]
    assert errors
    assert all(isinstance(error, MismatchError) for error in errors)
    (text,) = {str(error) for error in errors}
    types = ("float8_e5m2", "float8_e4m3fn") if kind == "broadcast" else ("int32", "float32")
    assert all(name in text for name in types), text
