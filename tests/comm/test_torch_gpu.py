"""Tensors on GPUs: routed to NCCL where that is asked for and there are GPUs enough, else by the host."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from nbdist.comm import routed

from .ranks import spawn


class FakeWork(dist.Work):
    """What the stand-in for NCCL returns."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self.waits += 1
        return True


class FakeNCCL:
    """Stands in for NCCL's group; tensors on device `meta` stand in for those on GPUs.

    It is strict about order: within a coalescing nothing returns a work of its own, as with NCCL.
    """

    def __init__(self, *_: Any) -> None:
        self.calls: list[str] = []
        self.works: list[FakeWork] = []
        self.together = False

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> FakeWork | None:
            assert arguments or name == "shutdown"
            self.calls.append(name)
            return None if self.together else self.make()

        return call

    def make(self) -> FakeWork:
        self.works.append(FakeWork())
        return self.works[-1]

    def _start_coalescing(self, device: torch.device) -> None:
        assert device.type == "meta"
        assert not self.together
        self.together = True
        self.calls.append("start")

    def _end_coalescing(self, device: torch.device) -> FakeWork:
        assert device.type == "meta"
        assert self.together
        self.together = False
        self.calls.append("end")
        return self.make()


def coalesce(gpu: FakeNCCL, there: torch.Tensor, part: torch.Tensor) -> None:
    """See that together on a GPU means together for NCCL, and on the CPU for us."""
    before = len(gpu.works)
    with dist._coalescing_manager(device=there.device, async_ops=True) as together:
        dist.broadcast(part, 0, async_op=True)
        dist.broadcast(there, 1, async_op=True)
    (work,) = together.works
    assert [work] == gpu.works[before:]
    assert gpu.calls[-4:] == ["start", "broadcast", "broadcast", "end"]
    together.wait()
    assert work.waits == 1

    here = [torch.full((3,), float(dist.get_rank())) for _ in range(2)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as together:
        for tensor in here:
            dist.broadcast(tensor, 1, async_op=True)
    together.wait()
    assert all((tensor == 1).all() for tensor in here)
    assert gpu.calls[-1] == "end"


def pretend(rank: int, size: int, config: str, gpus: str, path: str) -> list[str] | None:
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    torch.cuda.is_available = lambda: True
    routed._GPU = "meta"
    routed.open_nccl = FakeNCCL
    store = dist.FileStore(path, size)
    dist.init_process_group(config, store=store, rank=rank, world_size=size)
    group = dist.group.WORLD
    assert isinstance(group, routed.RoutedGroup)

    tensor = torch.ones(4)
    dist.all_reduce(tensor)  # is on the CPU
    assert (tensor == size).all()
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, rank)
    assert objects == list(range(size))
    if group.gpu() is None:
        with pytest.raises(TypeError, match="meta"):  # our own staging has it, and knows no such device
            dist.all_reduce(torch.ones(4, device="meta"))
        return None

    there = torch.ones(4 * size, device="meta")
    part = there[:4]
    work = dist.all_reduce(part, async_op=True)
    assert work is group.gpu().works[0]
    dist.broadcast(part, 0)
    dist.all_gather_into_tensor(there, part)
    dist.all_gather(list(there.chunk(size)), part)
    dist.reduce_scatter_tensor(part, there)
    dist.all_to_all_single(there, there)
    group.send([part], 0, 0)
    coalesce(group.gpu(), there, part)
    dist.barrier()
    dist.destroy_process_group()
    return group.gpu().calls


ROUTED = "cpu:nbdist,cuda:nccl"


def run(tmp_path: Any, config: str, gpus: str) -> list[Any]:
    return spawn(2, pretend, config, gpus, str(tmp_path / "store"), form=False)


def test_tensors_on_gpus_go_to_nccl(tmp_path):
    calls = run(tmp_path, ROUTED, "0,1")
    assert calls[0] == calls[1]
    assert calls[0][0] == "allreduce"
    assert calls[0][6:11] == ["send", "start", "broadcast", "broadcast", "end"]
    assert calls[0][11:] in (["shutdown"], [])  # torch 2.6 leaves a group without a word


@pytest.mark.parametrize(
    ("config", "gpus"), [(ROUTED, "0"), ("nbdist", "0,1"), ("cpu:nbdist", "0,1")], ids=["few", "ours", "cpu"]
)
def test_without_nccl_they_go_by_the_host(tmp_path, config, gpus):
    assert run(tmp_path, config, gpus) == [None, None]


def test_there_must_be_a_gpu_for_each_rank_of_a_host():
    assert routed._enough([("a", ["0", "1"]), ("a", ["0", "1"]), ("b", ["0"])])
    assert routed._enough([("a", ["0"]), ("a", ["1"])])
    assert not routed._enough([("a", ["0"]), ("a", ["0"])])
    assert not routed._enough([("a", [])])


def on_gpu(rank: int, size: int, config: str, path: str) -> None:
    torch.cuda.set_device(rank % torch.cuda.device_count())
    store = dist.FileStore(path, size)
    dist.init_process_group(config, store=store, rank=rank, world_size=size)
    tensor = torch.full((1000,), float(rank), device="cuda")
    dist.all_reduce(tensor)
    assert (tensor == sum(range(size))).all()
    gathered = torch.empty(size, device="cuda")
    dist.all_gather_into_tensor(gathered, tensor[:1])
    assert (gathered == sum(range(size))).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("config", [ROUTED, "nbdist"])
def test_real_gpus(config, tmp_path):
    spawn(2, on_gpu, config, str(tmp_path / "store"), form=False, timeout=100)
