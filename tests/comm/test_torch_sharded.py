"""Sharded and pipelined training over the backend, against one process that holds everything."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from .ranks import spawn

STEPS = 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.down(torch.tanh(self.up(inputs)))


def make_model() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(Block(), Block(), nn.Linear(8, 3))  # of whose 3 rows one of 4 ranks has none


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(16, 8, generator=generator), torch.randn(16, 3, generator=generator)


def loss_of(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    inputs, targets = batch(rank, step)
    return nn.functional.mse_loss(model(inputs), targets)


def reference(size: int, limit: float | None = 0.1) -> nn.Sequential:
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        (sum(loss_of(model, rank, step) for rank in range(size)) / size).backward()
        if limit is not None:
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
    return model


def shard(model: nn.Sequential, **options: object) -> nn.Sequential:
    for layer in model:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def train(model: nn.Module, rank: int, limit: float | None = 0.1) -> torch.optim.Optimizer:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, rank, step).backward()
        if limit is not None:
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
    return optimizer


def check(model: nn.Module, right: nn.Module, tolerance: float = 1e-5) -> None:
    for (name, ours), theirs in zip(model.named_parameters(), right.parameters(), strict=True):
        whole = ours.full_tensor() if isinstance(ours, DTensor) else ours
        torch.testing.assert_close(
            whole, theirs, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def fsdp(rank: int, size: int) -> None:
    model = shard(make_model(), mesh=init_device_mesh("cpu", (size,)))
    assert sum(p.to_local().numel() for p in model.parameters()) < sum(p.numel() for p in model.parameters())
    train(model, rank)
    right = reference(size)
    check(model, right)

    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        for name, tensor in right.state_dict().items():
            torch.testing.assert_close(full[name], tensor, rtol=1e-5, atol=1e-5)
    fresh = shard(make_model(), mesh=init_device_mesh("cpu", (size,)))
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(fresh, full, options=options)
    check(fresh, right)


def fsdp_bfloat16(rank: int, size: int) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    model = shard(make_model(), mesh=init_device_mesh("cpu", (size,)), mp_policy=policy)
    train(model, rank)
    check(model, reference(size), 5e-2)


def hsdp(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("copies", "shards"))
    model = shard(make_model(), mesh=mesh)
    train(model, rank)
    check(model, reference(size))


def tensor_parallel(rank: int, size: int) -> None:
    """All ranks see the same batch; a block's layers are split by columns, then by rows."""
    mesh = init_device_mesh("cpu", (size,))
    model = make_model()
    for block in model[:2]:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    right = make_model()
    adam = torch.optim.Adam(right.parameters(), lr=0.01)
    for step in range(STEPS):
        for each, its in ((model, optimizer), (right, adam)):
            its.zero_grad()
            loss_of(each, 0, step).backward()
            its.step()
    check(model, right)


def both(rank: int, size: int) -> None:
    """Tensor parallel within a row of the mesh, sharded data parallel across rows."""
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    model = make_model()
    for block in model[:2]:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    shard(model, mesh=mesh["data"])
    train(model, mesh["data"].get_local_rank(), limit=None)
    check(model, reference(size // 2, limit=None))


def redistribute(rank: int, size: int) -> None:
    """Every change of a DTensor's placement."""
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(7.0 * 5).reshape(7, 5)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.full_tensor(), whole)
    columns = rows.redistribute(mesh, [Shard(1)])
    assert torch.equal(columns.full_tensor(), whole)
    copies = columns.redistribute(mesh, [Replicate()])
    assert torch.equal(copies.to_local(), whole)
    product = rows.t() @ rows  # a sum over ranks
    torch.testing.assert_close(product.full_tensor(), whole.t() @ whole)
    torch.testing.assert_close(product.redistribute(mesh, [Shard(0)]).full_tensor(), whole.t() @ whole)


def pipeline(rank: int, size: int) -> None:
    layers = list(make_model())
    cut = [layers[:1], layers[1:]] if size == 2 else [layers[:1], layers[1:2], layers[2:], [nn.Identity()]]
    own = nn.Sequential(*cut[rank])
    stage = PipelineStage(own, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    inputs, targets = batch(0, 0)
    losses: list[torch.Tensor] = []
    if rank == 0:
        schedule.step(inputs)
    elif rank == size - 1:
        outputs = schedule.step(target=targets, losses=losses)
    else:
        schedule.step()
    right = make_model()
    expected = right(inputs)
    nn.functional.mse_loss(expected, targets).backward()
    if rank == size - 1:
        torch.testing.assert_close(outputs, expected)
        assert len(losses) == 4
    begin = sum(len(list(nn.Sequential(*part).parameters())) for part in cut[:rank])
    for ours, theirs in zip(own.parameters(), list(right.parameters())[begin:], strict=False):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def save_and_load(rank: int, size: int, folder: str) -> None:
    """Save sharded over all ranks, load sharded in another way, and train on to the same figures."""
    model = shard(make_model(), mesh=init_device_mesh("cpu", (size,)))
    optimizer = train(model, rank)
    weights, state = get_state_dict(model, optimizer)
    checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=folder)

    again = make_model()
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("copies", "shards"))
    shard(again, mesh=mesh)
    adam = torch.optim.Adam(again.parameters(), lr=0.01)
    weights, state = get_state_dict(again, adam)
    content = {"model": weights, "optimizer": state}
    checkpoint.load(content, checkpoint_id=folder)
    set_state_dict(again, adam, model_state_dict=content["model"], optim_state_dict=content["optimizer"])
    check(again, reference(size))
    for each, its in ((model, optimizer), (again, adam)):
        its.zero_grad()
        loss_of(each, rank, STEPS).backward()
        its.step()
    for ours, theirs in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(ours.full_tensor(), theirs.full_tensor(), rtol=1e-5, atol=1e-5)


def everything(rank: int, size: int, folder: str) -> None:
    for function in (fsdp, fsdp_bfloat16, hsdp, tensor_parallel, both, redistribute, pipeline):
        try:
            function(rank, size)
        except Exception as error:
            raise AssertionError(f"in {function.__name__}") from error
    save_and_load(rank, size, folder)
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, rank)  # the group is still in order
    assert objects == list(range(size))


@pytest.mark.parametrize("size", [2, 4])
def test_parameters_equal_those_of_one_process(size, tmp_path):
    spawn(size, everything, str(tmp_path), timeout=100)
