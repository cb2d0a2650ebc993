"""Compiled functions and models that communicate: the compiler leaves our Python alone."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

from .ranks import spawn

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor compiles with g++")


def make_model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 600), nn.Tanh(), nn.Linear(600, 600), nn.Tanh(), nn.Linear(600, 3))


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(16, 8, generator=generator), torch.randn(16, 3, generator=generator)


def compiled_function(rank: int, size: int, backend: str) -> None:
    def scale(tensor: torch.Tensor) -> torch.Tensor:
        total = tensor * 2
        dist.all_reduce(total)
        gathered = torch.empty(size * 4)
        dist.all_gather_into_tensor(gathered, total)
        return functional.all_reduce(gathered + 1, "avg", dist.group.WORLD) * 3

    tensor = torch.full((4,), float(rank))
    right = torch.full((size * 4,), (2.0 * sum(range(size)) + 1) * 3)
    compiled = torch.compile(scale, backend=backend, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(tensor), right)


def broken_graph(rank: int, size: int, backend: str) -> None:
    """Calls that have no functional form end a graph, and run as ever."""

    def swap(tensor: torch.Tensor) -> torch.Tensor:
        doubled = tensor * 2
        work = dist.all_reduce(doubled, async_op=True)
        work.wait()
        dist.barrier()
        return doubled + 1

    compiled = torch.compile(swap, backend=backend)
    for _ in range(2):
        assert (compiled(torch.full((4,), float(rank))) == 2 * sum(range(size)) + 1).all()


def compiled_ddp(rank: int, size: int, backend: str) -> None:
    model = make_model()
    wrapped = torch.compile(DistributedDataParallel(model, bucket_cap_mb=1), backend=backend)
    right = make_model()
    for step in range(3):
        inputs, targets = batch(rank, step)
        model.zero_grad()
        nn.functional.mse_loss(wrapped(inputs), targets).backward()
        right.zero_grad()
        for peer in range(size):
            inputs, targets = batch(peer, step)
            (nn.functional.mse_loss(right(inputs), targets) / size).backward()
        for ours, theirs in zip(model.parameters(), right.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def everything(rank: int, size: int, backend: str, folder: str) -> None:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # here, not in processes of its own
    for function in (compiled_function, broken_graph, compiled_ddp):
        try:
            function(rank, size, backend)
        except Exception as error:
            raise AssertionError(f"in {function.__name__}") from error
        torch._dynamo.reset()


@pytest.mark.parametrize(
    ("size", "backend"),
    [(2, "aot_eager"), (4, "aot_eager"), pytest.param(2, "inductor", marks=needs_compiler)],
)
def test_compiled_code_communicates(size, backend, tmp_path):
    spawn(size, everything, backend, str(tmp_path), timeout=110)
