"""Unmodified DistributedDataParallel trains over the backend."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nbdist.comm import world
from nbdist.errors import GroupAborted

from .ranks import Ranks, spawn


def make_model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 3))


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(16, 20, generator=generator), torch.randn(16, 3, generator=generator)


def train(rank: int, size: int, patience: float, options: dict) -> list[np.ndarray]:
    world._PATIENCE = patience
    group = dist.new_group()  # made with that patience
    torch.manual_seed(rank)
    model = DistributedDataParallel(
        make_model() if rank == 0 else nn.Sequential(*make_model()),
        process_group=group,
        bucket_cap_mb=0.2,
        **options,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        inputs, targets = batch(rank, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return [parameter.grad.numpy() for parameter in model.parameters()]


@pytest.mark.parametrize("patience", [0.0, 0.001], ids=["queued", "inline"])
@pytest.mark.parametrize(
    "options", [{}, {"gradient_as_bucket_view": True, "static_graph": True}], ids=["plain", "views"]
)
def test_gradients_equal_those_of_one_process(patience, options):
    first, second = spawn(2, train, patience, options, timeout=60)
    assert all(map(np.array_equal, first, second))

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        pairs = [batch(rank, step) for rank in range(2)]
        inputs, targets = (torch.cat(column) for column in zip(*pairs, strict=True))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    for ours, reference in zip(first, model.parameters(), strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), reference.grad, rtol=1e-4, atol=1e-6)


def lose_a_rank(rank: int, size: int, patience: float) -> None:
    world._PATIENCE = patience
    group = dist.new_group()
    model = DistributedDataParallel(make_model(), process_group=group)
    for step in range(10):
        inputs, targets = batch(rank, step)
        if rank == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        nn.functional.mse_loss(model(inputs), targets).backward()


@pytest.mark.parametrize("patience", [0.0, 0.001], ids=["queued", "inline"])
def test_backward_raises_when_a_rank_dies(patience):
    with Ranks(2, lose_a_rank, patience) as ranks:
        result = ranks.results()[0]
    assert isinstance(result.error, (GroupAborted, RuntimeError)), result.text
    assert "rank 1 died" in str(result.error)
