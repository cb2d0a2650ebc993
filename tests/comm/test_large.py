"""More than 2^31 elements and bytes, where 32 bits no longer count them."""

from __future__ import annotations

import psutil
import pytest
import torch
import torch.distributed as dist

from .ranks import spawn

COUNT = 2**31 + 7
NEEDED = 6 << 30
"""What two ranks hold, and some room."""

# Where a count that lost a bit would begin again, or end.
PLACES = (0, 1, 2**30, 2**31 - 1, 2**31, 2**31 + 6)

CHUNK = 1 << 26


def marked(rank: int) -> torch.Tensor:
    """Make a large tensor of one value, but for a few places."""
    tensor = torch.full((COUNT,), rank + 1, dtype=torch.int8)
    for number, place in enumerate(PLACES):
        tensor[place] = 10 * (rank + 1) + number
    return tensor


def check(tensor: torch.Tensor, value: int, marks: list[int]) -> None:
    assert [int(tensor[place]) for place in PLACES] == marks
    for place in PLACES:
        tensor[place] = value
    # In chunks, for a comparison makes a tensor as large.
    for begin in range(0, COUNT, CHUNK):
        part = tensor[begin : begin + CHUNK]
        assert int(part.min()) == int(part.max()) == value


def move_much(rank: int, size: int) -> None:
    tensor = marked(rank)
    dist.all_reduce(tensor)
    check(tensor, 3, [30 + 2 * number for number in range(len(PLACES))])

    del tensor
    tensor = marked(rank)
    dist.broadcast(tensor, 1)
    check(tensor, 2, [20 + number for number in range(len(PLACES))])

    del tensor
    tensor = marked(rank)
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    check(tensor, 1, [10 + number for number in range(len(PLACES))])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(psutil.virtual_memory().available < NEEDED, reason="two ranks need 6 GiB of memory")
@pytest.mark.parametrize("hosts", [(), (0, 1)], ids=["one host", "two hosts"])
def test_more_than_32_bits_count(hosts: tuple[int, ...]) -> None:
    spawn(2, move_much, timeout=500, hosts=hosts)
