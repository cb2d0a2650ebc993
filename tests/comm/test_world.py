"""Groups come and go: formed by endpoints or by a store, left, and formed again."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.comm import world
from nbdist.errors import GroupAborted

from .ranks import Raised, Ranks, spawn


def meet(rank: int, size: int, path: str, secret: bytes = b"secret") -> None:
    """Swap endpoints through a store of the test's own, as the notebook does over its channel."""
    store = dist.FileStore(path, size)
    for generation in range(3):
        store.set(f"{generation}/{rank}", comm.open_endpoint())
        endpoints = [store.get(f"{generation}/{peer}") for peer in range(size)]
        comm.form_world(endpoints, rank, secret, generation)
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        assert (tensor == size).all()
        assert not comm.is_aborted()
        dist.barrier()
        if generation == 1:
            if rank == 0:
                comm.abort("on purpose")
            with pytest.raises(GroupAborted, match="on purpose"):
                dist.barrier()
            assert comm.is_aborted()
        comm.leave_world()
        comm.leave_world()
        assert not dist.is_initialized()
        assert not comm.is_aborted()
        comm.abort("there is no group, so this does nothing")


def come_late(rank: int, size: int) -> None:
    if rank == 1:
        time.sleep(1)
    group = dist.new_group()
    dist.barrier(group)
    if rank == 0:
        with pytest.raises(TimeoutError, match="rank 1 has not come"):
            dist.new_group(timeout=timedelta(seconds=0.5))
    dist.barrier()
    # What rank 0 has tried alone does not keep the two apart, now or later.
    for _ in range(2):
        dist.barrier(dist.new_group(use_local_synchronization=True))


@pytest.mark.parametrize("hosts", [[], [0, 1]], ids=["one host", "two hosts"])
def test_a_late_rank_is_waited_for_and_an_absent_one_named(hosts):
    spawn(2, come_late, hosts=hosts)


def replace_the_group(rank: int, size: int, path: str) -> None:
    """What a user may do in a cell: put another default group in the place of ours."""
    for generation in range(2):
        store = dist.FileStore(f"{path}/{generation}", size)
        store.set(str(rank), comm.open_endpoint())
        endpoints = [store.get(str(peer)) for peer in range(size)]
        comm.form_world(endpoints, rank, b"secret", generation)
        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.PrefixStore("gloo", store), rank=rank, world_size=size)
        dist.barrier()
        comm.leave_world()
        assert not dist.is_initialized()


def test_a_group_of_the_users_own_is_left_too(tmp_path):
    spawn(2, replace_the_group, str(tmp_path), form=False)


@pytest.mark.parametrize("size", [1, 3])
def test_generations_follow_one_another(size, tmp_path):
    spawn(size, meet, str(tmp_path / "store"), form=False)


def wrong_secret(rank: int, size: int, path: str) -> None:
    meet(rank, size, path, secret=b"stranger" if rank == 1 else b"secret")


def test_a_wrong_secret_is_refused_on_both_sides(tmp_path):
    with Ranks(2, wrong_secret, str(tmp_path / "store"), form=False) as ranks:
        for result in ranks.results():
            assert isinstance(result, Raised)
            assert isinstance(result.error, GroupAborted), result.text
            assert "belongs to another group" in str(result.error)


def never_forms(rank: int, size: int, path: str) -> None:
    store = dist.FileStore(path, size)
    store.set(str(rank), comm.open_endpoint())
    endpoints = [store.get(str(peer)) for peer in range(size)]
    if rank == 1:
        comm.leave_world()
        threading.Event().wait(30)
    comm.form_world(endpoints, rank, b"secret", 0)


def test_a_rank_that_gives_up_before_the_group_is_formed_releases_the_others(tmp_path):
    with Ranks(2, never_forms, str(tmp_path / "store"), form=False) as ranks:
        result = ranks.results(of=[0])[0]
    assert isinstance(result.error, GroupAborted), result.text
    assert result.error.rank == 1


def form_until_aborted(rank: int, size: int, path: str) -> None:
    """Rank 1 meets rank 0, but goes no further; the notebook's other thread ends the waiting of rank 0."""
    store = dist.FileStore(path, size)
    store.set(f"endpoint/{rank}", comm.open_endpoint())
    store.set(f"listener/{rank}", comm.listen())
    endpoints, listeners = (
        [store.get(f"{topic}/{peer}") for peer in range(size)] for topic in ("endpoint", "listener")
    )
    make = world._make

    def delay(*arguments: Any) -> Any:
        if rank == 0:
            threading.Timer(0.3, comm.abort, ["on purpose"]).start()
        else:
            threading.Event().wait(30)
        return make(*arguments)

    world._make = delay
    comm.form_world(endpoints, rank, b"secret", 0, listeners)


@pytest.mark.parametrize("hosts", [[0, 0], [0, 1]], ids=["one host", "two hosts"])
def test_the_forming_of_a_group_can_be_aborted(hosts, tmp_path):
    with Ranks(2, form_until_aborted, str(tmp_path / "store"), form=False, hosts=hosts) as ranks:
        (result,) = ranks.results(of=[0])
    assert isinstance(result.error, GroupAborted), result.text
    assert "rank 0 ended the group: on purpose" in str(result.error)


def fail_after_the_meeting(rank: int, size: int) -> None:
    """Rank 1 fails when the ranks have met, and keeps the traceback, as a kernel does."""

    def fail(*_: Any) -> None:
        raise MemoryError

    if rank == 1:
        world._make = fail
        with pytest.raises(MemoryError) as kept:
            dist.group.WORLD.split_group([0, 1])
        threading.Event().wait(30)
        del kept
    dist.group.WORLD.split_group([0, 1])


@pytest.mark.parametrize("hosts", [[0, 0], [0, 1]], ids=["one host", "two hosts"])
def test_a_rank_that_fails_after_the_meeting_releases_the_others(hosts):
    with Ranks(2, fail_after_the_meeting, hosts=hosts) as ranks:
        (result,) = ranks.results(of=[0])
    assert isinstance(result.error, GroupAborted), result.text
    assert result.error.rank == 1


def test_an_endpoint_of_no_rank_is_refused():
    comm.open_endpoint()
    with pytest.raises(ValueError, match="is no endpoint"):
        comm.form_world([b"nonsense"], 0, b"", 0)
    first = comm.open_endpoint()
    comm.open_endpoint()
    with pytest.raises(ValueError, match="not the one this rank opened last"):
        comm.form_world([first], 0, b"", 0)
    comm.leave_world()
    with pytest.raises(ValueError, match="call open_endpoint"):
        comm.form_world([first], 0, b"", 0)


def leave_with_work_queued(rank: int, size: int) -> None:
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(3)] if rank == 0 else []
    comm.leave_world()
    for work in works:
        with pytest.raises(GroupAborted):
            work.wait()
        assert isinstance(work.exception(), GroupAborted)


def test_leaving_does_not_wait():
    spawn(2, leave_with_work_queued)


tells_of_the_end = pytest.mark.skipif(
    torch.__version__ < "2.7", reason="before 2.7 torch leaves a group without a word"
)


def destroy_with_work_queued(rank: int, size: int) -> float:
    tensor = torch.ones(100_000)
    if rank == 1:
        dist.recv(torch.ones(1), 0)  # when rank 0 has nothing left to do but to leave
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        dist.send(torch.ones(1), 1)
    dist.destroy_process_group()
    assert work.is_success()
    return float(tensor[0])


@tells_of_the_end
def test_what_is_queued_is_done_before_the_group_is_destroyed():
    assert spawn(2, destroy_with_work_queued) == [2.0, 2.0]


def destroy_without_a_peer(rank: int, size: int) -> str:
    dist.barrier()
    if rank == 1:
        dist.destroy_process_group()
        return ""
    work = dist.all_reduce(torch.ones(3), async_op=True)
    dist.destroy_process_group()
    return str(work.exception())


@tells_of_the_end
def test_what_no_peer_takes_part_in_holds_nobody():
    told, _ = spawn(2, destroy_without_a_peer)
    assert re.search(r"rank 1 (left the group|ended .*) while rank 0 waits in all_reduce", told)


def end_with_the_last_work(rank: int, size: int) -> None:
    """Rank 0 lets go of a group and of its work before that is done, so that who tells of it ends both."""
    ranks = dist.group.WORLD.split_group([0, 1])  # which torch does not know, and never shuts down
    if rank == 1:
        dist.barrier()
        ranks.allreduce([torch.ones(10)]).wait()
        return
    teller: SimpleQueue[int] = SimpleQueue()
    future = ranks.allreduce([torch.ones(10)]).get_future()
    future.then(lambda _: teller.put(threading.get_native_id()))
    del ranks, future
    dist.barrier()
    thread = Path(f"/proc/self/task/{teller.get(timeout=20)}")
    deadline = time.monotonic() + 20
    while thread.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("hosts", [[], [0, 1]], ids=["one host", "two hosts"])
def test_a_group_that_nobody_holds_ends_with_its_work(hosts):
    spawn(2, end_with_the_last_work, hosts=hosts)


SCRIPT = """
import torch, torch.distributed as dist
import nbdist.comm
dist.init_process_group("{backend}", init_method={method!r})
tensor = torch.ones(1000)
dist.all_reduce(tensor)
work = dist.all_reduce(tensor, async_op=True)
dist.barrier()
assert tensor[0] == 4, tensor
if "{end}" == "tidy":
    dist.destroy_process_group()
print("right", dist.is_initialized())
"""


def run_script(text: str, environment: dict[str, str]) -> list[str]:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            env=os.environ | environment | {"RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        return [process.communicate(timeout=45)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_plain_script_through_env():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = SCRIPT.format(backend="nbdist", method="env://", end="tidy")
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    assert run_script(text, environment) == ["right False\n"] * 2


def test_a_plain_script_through_a_file_that_never_says_goodbye(tmp_path):
    # The method carries the rank here, so that nothing comes from the environment.
    text = SCRIPT.format(backend="cpu:nbdist", method=f"file://{tmp_path}/store", end="untidy")
    text = text.replace("init_method=", "rank=int(os.environ['RANK']), world_size=2, init_method=")
    assert run_script("import os\n" + text, {}) == ["right True\n"] * 2


FAILING = """
import torch, torch.distributed as dist
import nbdist.comm
dist.init_process_group("nbdist", init_method="env://")
halves = [dist.new_group([0]), dist.new_group([1])]
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("bad shard")
dist.all_reduce(torch.ones(3))
"""


def test_a_script_that_raises_tells_the_others_why():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told, raised = run_script(FAILING, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    assert "rank 1 ended the group: ValueError: bad shard; this group is over, so form a new one" in told
    assert raised.rstrip().endswith("ValueError: bad shard")
