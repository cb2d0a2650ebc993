"""The boards on which ranks leave word for one another while they form a group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from nbdist.comm.meeting import meet, number_meeting
from nbdist.comm.rendezvous import Collected, Shelf, host_of
from nbdist.errors import GroupError

from .ranks import Raised, Ranks, spawn

Make = Callable[[], dist.Store]


@pytest.fixture(params=["file", "tcp"])
def connect(request, tmp_path: Path) -> Iterator[Make]:
    """Open the same store, once for each rank."""
    if request.param == "file":
        yield lambda: dist.FileStore(str(tmp_path / "store"), 2)
        return
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    yield lambda: dist.PrefixStore(
        "group", dist.TCPStore("127.0.0.1", master.port, timeout=timedelta(seconds=20))
    )


def shelf(connect: Make, rank: int, patience: float = 20) -> Shelf:
    return Shelf(connect(), rank, 2, time.monotonic() + patience)


def test_ranks_swap_texts_and_share_a_secret(connect):
    def be(rank: int) -> tuple[bytes, list[str]]:
        board = shelf(connect, rank)
        return board.secret(), list(board.swap("colour", ["rot", "grün"][rank]))

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(be, range(2))
    assert first == second
    assert len(first[0]) == 32
    assert first[1] == ["rot", "grün"]


def test_an_absent_rank_is_named(connect):
    with pytest.raises(TimeoutError, match="rank 1 has not come to form the group; start it"):
        shelf(connect, 0, patience=0.3).swap("colour", "red")


def test_who_waits_hears_why_another_gave_up(connect):
    waiting, leaving, late = (shelf(connect, rank) for rank in (0, 1, 1))
    with ThreadPoolExecutor() as pool:
        outcome = pool.submit(waiting.swap, "colour", "red")
        leaving.give_up(GroupError("no network; plug it in"))
        leaving.give_up(GroupError("the second reason counts for nothing"))
        with pytest.raises(GroupError, match=r"^no network; plug it in"):
            outcome.result(timeout=20)
    with pytest.raises(GroupError, match=r"^no network; plug it in"):
        late.check()


def test_an_interrupt_has_a_reason_too(connect):
    shelf(connect, 1).give_up(KeyboardInterrupt())
    with pytest.raises(GroupError, match="rank 1 was interrupted while the group was formed; form it anew"):
        shelf(connect, 0).check()


class BrokenBoard(Collected):
    """Fails, and then cannot even say so."""

    def swap(self, topic: str, text: str) -> list[str]:
        raise GroupError("the first error; mend it")

    def give_up(self, error: BaseException) -> None:
        raise RuntimeError("the store is gone")


def test_the_first_error_is_raised_when_the_others_cannot_be_told():
    with pytest.raises(GroupError, match=r"^the first error; mend it") as caught:
        meet(BrokenBoard({}, b"secret", 0), 0, "endpoint", None, None, time.monotonic())
    assert caught.value.__notes__ == ["the other ranks could not be told: the store is gone"]


def test_the_host_of_a_store():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    assert host_of(dist.PrefixStore("a", dist.PrefixStore("b", store))) == "127.0.0.1"
    assert host_of(dist.PrefixStore("a", dist.HashStore())) is None


def test_what_the_notebook_collected():
    board = Collected({"listener": ["here", "there"]}, b"secret", 7)
    assert board.swap("listener", "here") == ["here", "there"]
    assert (board.secret(), board.generation) == (b"secret", 7)
    board.check()
    board.abort("interrupted from the notebook")
    with pytest.raises(GroupError, match="not formed: interrupted from the notebook; form it anew"):
        board.check()


def test_meetings_have_numbers_of_their_own():
    numbers = {
        number_meeting(members, count) for members in ([0, 1], [1, 0], [0, 1, 2], [0]) for count in (0, 1)
    }
    assert len(numbers) == 8
    assert all(0 <= number < 2**62 for number in numbers)


def make_groups(rank: int, size: int) -> None:
    """Form groups in orders that differ between ranks, while other messages are on their way."""
    tensor = torch.full((100,), float(rank))
    sent = dist.isend(tensor, (rank + 1) % size, tag=5)
    pair = dist.new_group([0, 1])
    mine = dist.new_group([rank], use_local_synchronization=True)
    if rank < 2:  # rank 2 makes one group less, which torch's own names for them do not survive
        other = dist.new_group([0, 1], use_local_synchronization=True)
        dist.barrier(other)
        dist.barrier(pair)
    dist.barrier(mine)
    all_of_them = dist.new_group(list(range(size)), use_local_synchronization=True)
    dist.barrier(all_of_them)
    dist.recv(tensor, (rank - 1) % size, tag=5)
    assert tensor[0] == (rank - 1) % size
    sent.wait()
    dist.barrier()


@pytest.mark.parametrize("hosts", [[], [0, 0, 1]], ids=["one host", "two hosts"])
def test_subgroups_meet_by_messages(hosts):
    spawn(3, make_groups, hosts=hosts)


def die_while_others_meet(rank: int, size: int, mark: Path) -> None:
    dist.barrier()
    if rank == size - 1:
        mark.touch()
        threading.Event().wait(60)
    dist.new_group()


@pytest.mark.parametrize("hosts", [[], [0, 0, 1]], ids=["one host", "two hosts"])
def test_a_rank_that_dies_before_it_comes_is_named(hosts, tmp_path):
    mark = tmp_path / "mark"
    with Ranks(3, die_while_others_meet, mark, hosts=hosts) as ranks:
        while not mark.exists():
            assert ranks.processes[2].is_alive()
        ranks.processes[2].kill()
        for result in ranks.results(of=[0, 1]):
            assert isinstance(result, Raised)
            assert "rank 2" in str(result.error)
