"""A rank that waits for another host is released: by an abort, a death, a rank that left or differs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.comm import world
from nbdist.errors import GroupAborted, MismatchError

from .ranks import Raised, Ranks, Returned, begin_together, spawn

PLACES = ([0, 1], [0, 1, 2], [0, 0, 1, 1], [0, 0, 1])


@pytest.fixture(params=PLACES, ids=lambda hosts: "".join(map(str, hosts)))
def hosts(request) -> list[int]:
    return request.param


def released(call) -> str:
    """Say why a call was released."""
    with pytest.raises(GroupAborted) as caught:
        call()
    return str(caught.value)


# Ends of the group ---------------------------------------------------------------------------------------


def wait_in_vain(rank: int, size: int, act, count: int) -> None:
    dist.all_reduce(torch.ones(3))
    if rank == size - 1:
        act()
    for _ in range(100):
        dist.all_reduce(torch.ones(count))


def abort() -> None:
    comm.abort("ValueError: bad shard")


def interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    dist.recv(torch.ones(3), 0)


@pytest.mark.parametrize(
    ("act", "why"),
    [(abort, "ended the group: ValueError: bad shard"), (interrupt, "was interrupted in recv")],
)
def test_an_abort_on_one_host_releases_all_and_says_why(hosts, act, why):
    size = len(hosts)
    with Ranks(size, wait_in_vain, act, 100_000, hosts=hosts) as ranks:
        results = ranks.results()
    for result in results[: -1 if act is interrupt else None]:
        assert isinstance(result.error, GroupAborted), result.text
        assert result.error.rank == size - 1
        assert f"rank {size - 1} {why}" in str(result.error)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_soon() -> None:
    threading.Timer(0.1, die).start()


@pytest.mark.parametrize("act", [die, die_soon])
def test_a_killed_rank_is_named_on_every_host(hosts, act):
    size = len(hosts)
    with Ranks(size, wait_in_vain, act, 3_000_000, hosts=hosts) as ranks:
        results = ranks.results()
    assert results[-1] is None
    for result in results[:-1]:
        assert isinstance(result.error, GroupAborted), result.text
        assert result.error.rank == size - 1
        assert f"rank {size - 1} died" in str(result.error)


def stop_for_a_while(rank: int, size: int) -> None:
    """Neither a process that stands still nor a full wire is a dead one."""
    dist.barrier()
    if rank == 0:
        work = dist.isend(torch.ones(5_000_000), size - 1)
    if rank == size - 1:
        pid = os.getpid()
        resume = f"sleep 3; kill -CONT {pid}"
        os.posix_spawn("/bin/sh", ["sh", "-c", resume], os.environ)
        os.kill(pid, signal.SIGSTOP)
        into = torch.zeros(5_000_000)
        dist.recv(into, 0)
        assert (into == 1).all()
    if rank == 0:
        work.wait()
    dist.barrier()


def test_a_stopped_rank_is_waited_for():
    spawn(2, stop_for_a_while, hosts=[0, 1])


def lose_a_wire(rank: int, size: int, path: str) -> None:
    with linked(rank, size, path) as data:
        dist.barrier()
        for number in range(3):
            if rank == 1 and number == 1:
                data.shutdown(socket.SHUT_RDWR)
            dist.all_reduce(torch.ones(300_000))


@contextlib.contextmanager
def linked(rank: int, size: int, path: str) -> Iterator[socket.socket]:
    """Form a group of two ranks on two hosts; keep a hold of the connection for data."""
    kept = []
    meet = world.meet

    def meet_and_keep(*args):
        plan, links = meet(*args)
        kept.append(links[0].data.dup())
        return plan, links

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "meet", meet_and_keep)
        store = dist.FileStore(path, size)
        dist.init_process_group("cpu:nbdist", store=store, rank=rank, world_size=size)
    with kept[0]:
        yield kept[0]


def test_a_connection_that_breaks_is_named(tmp_path):
    with Ranks(2, lose_a_wire, str(tmp_path / "store"), form=False, hosts=[0, 1]) as ranks:
        results = ranks.results()
    for rank, result in enumerate(results):
        assert isinstance(result, Raised)
        assert isinstance(result.error, GroupAborted), result.text
        assert f"the connection to rank {1 - rank} broke" in str(result.error) or (
            f"the connection to rank {rank} broke" in str(result.error)
        )


# Calls that differ ----------------------------------------------------------------------------------------


def differ(rank: int, size: int, what: str, odd: int) -> None:
    tensor = torch.ones(6 if what != "large" else 600_000)
    odd_one = rank == odd
    try:
        if what == "count":
            dist.all_reduce(torch.ones(7) if odd_one else tensor)
        elif what == "dtype":
            dist.all_reduce(tensor.double() if odd_one else tensor)
        elif what == "root":
            dist.broadcast(tensor, 0 if odd_one else 1)
        elif what == "large":
            dist.all_reduce(torch.ones(700_000) if odd_one else tensor)
        else:
            dist.barrier() if odd_one else dist.all_reduce(tensor)
    finally:
        assert (tensor == 1).all(), "data moved"


@pytest.mark.parametrize("odd", [0, -1])
@pytest.mark.parametrize("what", ["count", "dtype", "root", "large", "call"])
def test_different_calls_are_a_mismatch_on_every_rank(hosts, what, odd):
    size = len(hosts)
    odd %= size
    with Ranks(size, differ, what, odd, hosts=hosts) as ranks:
        results = ranks.results()
    for result in results:
        assert isinstance(result.error, MismatchError), result.text
    assert len({str(result.error) for result in results}) == 1
    assert "issued different collectives: rank" in str(results[0].error)


def different_sizes(rank: int, size: int) -> None:
    if rank == 0:
        dist.send(torch.ones(4), 1)
        dist.barrier()
    else:
        dist.recv(torch.ones(5), 0)


def test_messages_of_different_sizes_are_a_mismatch_on_both():
    with Ranks(2, different_sizes, hosts=[0, 1]) as ranks:
        for result in ranks.results():
            assert isinstance(result.error, MismatchError), result.text
            assert "4 x float32" in str(result.error)
            assert "5 x float32" in str(result.error)


# Cells ----------------------------------------------------------------------------------------------------


def leave_early(rank: int, size: int, call) -> str:
    comm.enter_cell(3)
    begin_together(rank, size - 1)
    if rank == size - 1:
        comm.leave_cell(3)
        threading.Event().wait(30)
    return released(lambda: call(size))


def reduce_all(size: int) -> None:
    dist.all_reduce(torch.ones(3))


def receive_from_the_last(size: int) -> None:
    dist.recv(torch.ones(3), size - 1)


def send_to_the_last(size: int) -> None:
    dist.send(torch.ones(20_000_000), size - 1)


@pytest.mark.parametrize("call", [reduce_all, receive_from_the_last, send_to_the_last])
def test_a_rank_that_left_the_cell_is_not_waited_for(hosts, call):
    size = len(hosts)
    with Ranks(size, leave_early, call, hosts=hosts) as ranks:
        results = ranks.results(of=range(size - 1))
    for result in results:
        assert isinstance(result, Returned), result.text
        assert f"rank {size - 1} left the cell while rank" in result.value


def skip(rank: int, size: int) -> str:
    for cell in (1, 2):
        comm.enter_cell(cell)
        dist.all_reduce(torch.ones(3))
        comm.leave_cell(cell)
    if rank == size - 1:
        comm.skip_cell(3)
        threading.Event().wait(30)
    comm.enter_cell(3)
    return released(lambda: dist.all_reduce(torch.ones(3)))


def test_a_rank_that_skips_a_cell_is_named(hosts):
    size = len(hosts)
    with Ranks(size, skip, hosts=hosts) as ranks:
        for result in ranks.results(of=range(size - 1)):
            assert isinstance(result, Returned), result.text
            assert f"rank {size - 1} does not run this cell" in result.value


def all_on_its_way(rank: int, size: int) -> None:
    """What was issued before leaving arrives, whoever leaves first."""
    for cell in range(1, 8):
        comm.enter_cell(cell)
        right, left = (rank + 1) % size, (rank - 1) % size
        total, into = torch.ones(2_000_000), torch.zeros(2_000_000)
        works = [
            dist.all_reduce(total, async_op=True),
            dist.isend(torch.full((2_000_000,), 5.0), right),
            dist.irecv(into, left),
            dist.all_reduce(torch.ones(10), async_op=True),
        ]
        if rank == cell % size:
            time.sleep(0.05)
        comm.leave_cell(cell)
        for work in works:
            work.wait()
        assert (total == size).all()
        assert (into == 5).all()


def test_leaving_waits_for_everything_that_was_issued(hosts):
    spawn(len(hosts), all_on_its_way, hosts=hosts, timeout=60)


def never_answered(rank: int, size: int, kind: str) -> list[str]:
    comm.enter_cell(1)
    dist.barrier()
    peer = (rank + 1) % size
    try:
        if kind == "receive":
            works = [dist.irecv(torch.ones(3), peer)]
        elif kind == "send":
            works = [dist.isend(torch.ones(20_000_000), peer)]
        elif rank == 0:
            works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]
        else:
            works = [dist.irecv(torch.ones(3), 0)]
    except GroupAborted as error:  # others have left by now
        return [str(error)]
    comm.leave_cell(1)
    return [released(work.wait) for work in works]


@pytest.mark.parametrize("kind", ["receive", "send", "both"])
def test_ranks_that_leave_never_wait_for_one_another_in_vain(hosts, kind):
    for messages in spawn(len(hosts), never_answered, kind, hosts=hosts):
        for message in messages:
            assert "left the cell while" in message or "left the group while" in message


# Leaving the group ----------------------------------------------------------------------------------------


def last_words(rank: int, size: int) -> bool:
    """A rank that leaves the group at once after an operation takes nothing of it along."""
    tensor = torch.ones(1_000_000)
    if rank == 0:
        dist.send(torch.full((1_000_000,), 7.0), size - 1)
    if rank == size - 1:
        time.sleep(0.1)
        into = torch.zeros(1_000_000)
        dist.recv(into, 0)
        assert (into == 7).all()
    dist.all_reduce(tensor)
    comm.leave_world()
    return bool((tensor == size).all())


def test_what_was_sent_before_leaving_arrives(hosts):
    assert all(spawn(len(hosts), last_words, hosts=hosts))


def leave_first(rank: int, size: int) -> str:
    dist.barrier()
    if rank == size - 1:
        comm.leave_world()
        threading.Event().wait(1)
        return ""
    return released(dist.barrier)


def test_a_rank_that_left_the_group_is_named(hosts):
    *messages, _ = spawn(len(hosts), leave_first, hosts=hosts)
    for message in messages:
        assert f"rank {len(hosts) - 1} left the group" in message


def fork_and_die(rank: int, size: int, test_is_over: Connection) -> str:
    """A child of a rank keeps none of its connections open."""
    dist.barrier()
    if rank == size - 1:
        if os.fork() == 0:
            test_is_over.poll(None)
            os._exit(0)
        die()
    return released(dist.barrier)


def test_a_rank_whose_children_live_on_has_died_all_the_same():
    test_is_over, end_of_test = Pipe(duplex=False)
    with end_of_test, test_is_over, Ranks(2, fork_and_die, test_is_over, hosts=[0, 1]) as ranks:
        result = ranks.results(of=[0])[0]
    assert isinstance(result, Returned), result.text
    assert "rank 1 died" in result.value


def descriptors_and_threads(rank: int, size: int) -> tuple[int, int]:
    dist.barrier()
    before = len(os.listdir("/proc/self/task"))
    comm.leave_world()
    sockets = [fd for fd in os.listdir("/proc/self/fd") if _is_socket(fd)]
    return before - len(os.listdir("/proc/self/task")), len(sockets)


def _is_socket(fd: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    except OSError:
        return False


def test_leaving_closes_the_connections_and_ends_the_thread():
    for threads, sockets in spawn(2, descriptors_and_threads, hosts=[0, 1]):
        assert threads == 1
        assert sockets == 0
