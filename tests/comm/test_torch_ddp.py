"""DistributedDataParallel with each of its options, against one process that sees all the data."""

from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from .ranks import spawn

STEPS = 3


class Forked(nn.Module):
    """Two heads, of which a batch may use one; a tied weight; a buffer; a table with sparse gradients."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8, sparse=sparse)
        self.body = nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 8), nn.BatchNorm1d(8))
        self.heads = nn.ModuleList([nn.Linear(8, 11), nn.Linear(8, 11)])
        self.tied = nn.Linear(8, 11)
        self.tied.weight = self.table.weight if not sparse else self.tied.weight

    def forward(self, tokens: torch.Tensor, heads: tuple[int, ...]) -> torch.Tensor:
        hidden = self.body(self.table(tokens))
        return self.tied(hidden) + sum(self.heads[i](hidden) for i in heads)


def make_model(sparse: bool = False) -> nn.Module:
    torch.manual_seed(5)
    model = Forked(sparse)
    model.eval()  # so that BatchNorm is the same for all batches
    return model


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return (
        torch.randint(11, (16,), generator=generator),
        torch.randn(16, 11, generator=generator),
    )


def loss_of(model: nn.Module, rank: int, step: int, heads: tuple[int, ...]) -> torch.Tensor:
    tokens, targets = batch(rank, step)
    return nn.functional.mse_loss(model(tokens, heads), targets)


def reference(size: int, heads: tuple[int, ...], sparse: bool = False, lag: int = 1) -> list[torch.Tensor]:
    model = make_model(sparse)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = sum(loss_of(model, rank, step, heads) for rank in range(size)) / size
        loss.backward()
        if (step + 1) % lag == 0:
            optimizer.step()
            optimizer.zero_grad()
    return [parameter.detach() for parameter in model.parameters()]


def check(rank: int, model: nn.Module, right: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    for ours, theirs in zip(model.parameters(), right, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=tolerance, atol=tolerance)
        mine = ours.detach().clone()
        dist.broadcast(mine, 0)
        assert torch.equal(mine, ours.detach()), "ranks differ"


def train(rank: int, size: int, name: str) -> None:
    options, heads, sparse, lag, hook = OPTIONS[name]
    model = make_model(sparse)
    if rank > 0:  # rank 0's are what counts
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.005, **options)
    tolerance = 1e-5
    if hook is not None:
        wrapped.register_comm_hook(None, hook)
        tolerance = 1e-5 if hook is default_hooks.allreduce_hook else 2e-2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        syncs = (step + 1) % lag == 0
        with nullcontext() if syncs else wrapped.no_sync():
            loss_of(wrapped, rank, step, heads).backward()
        if syncs:
            optimizer.step()
            optimizer.zero_grad()
    check(rank, model, reference(size, heads, sparse, lag), tolerance)


def bf16_hook(group, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """torch's own, which by that name DDP gives to NCCL only."""
    return default_hooks.bf16_compress_hook(group, bucket)


BOTH, ONE = (0, 1), (1,)
UNUSED = {"find_unused_parameters": True}
# name: DDP's options, heads in use, sparse gradients, steps between syncs, communication hook
OPTIONS = {
    "plain": ({}, BOTH, False, 1, None),
    "views": ({"gradient_as_bucket_view": True}, BOTH, False, 1, None),
    "static": ({"static_graph": True}, ONE, False, 1, None),
    "static-views": ({"static_graph": True, "gradient_as_bucket_view": True}, BOTH, False, 1, None),
    "unused": (UNUSED, ONE, False, 1, None),
    "unused-views": ({**UNUSED, "gradient_as_bucket_view": True}, ONE, False, 1, None),
    "unused-skipped": ({**UNUSED, "skip_all_reduce_unused_params": True}, ONE, False, 1, None),
    "no-buffers": ({"broadcast_buffers": False}, BOTH, False, 1, None),
    "no-sync": ({}, BOTH, False, 3, None),
    "sparse": ({}, BOTH, True, 1, None),
    "hook-allreduce": ({}, BOTH, False, 1, default_hooks.allreduce_hook),
    "hook-fp16": ({}, BOTH, False, 1, default_hooks.fp16_compress_hook),
    "hook-bf16": ({}, BOTH, False, 1, bf16_hook),
}


def train_all(rank: int, size: int) -> None:
    for name in OPTIONS:
        try:
            train(rank, size, name)
        except Exception as error:
            raise AssertionError(f"with {name}") from error


def different_heads(rank: int, size: int) -> None:
    """A head that some ranks do not use counts as zero there."""
    model = make_model()
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    loss_of(wrapped, rank, 0, (rank % 2,)).backward()
    right = make_model()
    (sum(loss_of(right, peer, 0, (peer % 2,)) for peer in range(size)) / size).backward()
    for ours, theirs in zip(model.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def delayed(rank: int, size: int) -> None:
    model = make_model()
    late = [model.heads[0].weight, model.heads[0].bias]
    wrapped = DistributedDataParallel(
        model,
        delay_all_reduce_named_params=list(zip("ab", late, strict=True)),
        param_to_hook_all_reduce=model.body[0].weight,
    )
    loss_of(wrapped, rank, 0, BOTH).backward()
    right = make_model()
    (sum(loss_of(right, peer, 0, BOTH) for peer in range(size)) / size).backward()
    for ours, theirs in zip(model.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def join(rank: int, size: int) -> None:
    """Rank r has r + 1 batches; the average is over the ranks that still have data."""
    model = make_model()
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([wrapped], divide_by_initial_world_size=False):
        for step in range(rank + 1):
            optimizer.zero_grad()
            loss_of(wrapped, rank, step, BOTH).backward()
            optimizer.step()
    right = make_model()
    optimizer = torch.optim.SGD(right.parameters(), lr=0.1)
    for step in range(size):
        optimizer.zero_grad()
        left = [peer for peer in range(size) if step <= peer]
        (sum(loss_of(right, peer, step, BOTH) for peer in left) / len(left)).backward()
        optimizer.step()
    check(rank, model, [parameter.detach() for parameter in right.parameters()])


def power_sgd(rank: int, size: int) -> None:
    """Compressed to rank 8, which is all the rank these matrices have, gradients lose next to nothing."""
    model = make_model()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.002)
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=8, start_powerSGD_iter=2, min_compression_rate=1
    )
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(wrapped, rank, step, BOTH).backward()
        optimizer.step()
    assert state.iter > 2
    check(rank, model, reference(size, BOTH), 1e-2)


def post_local_sgd(rank: int, size: int) -> None:
    """Gradients are averaged for two steps, then the parameters, each second step."""
    model = make_model()
    wrapped = DistributedDataParallel(model)
    state = local_hook.PostLocalSGDState(None, dist.new_subgroups(1)[0], start_localSGD_iter=2)
    wrapped.register_comm_hook(state, local_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), averager)
    for step in range(5):
        optimizer.zero_grad()
        loss_of(wrapped, rank, step, BOTH).backward()
        optimizer.step()
    check(rank, model, [parameter.detach() for parameter in model.parameters()])


def zero(rank: int, size: int) -> None:
    """ZeroRedundancyOptimizer, alone and overlapped with backward, gives what Adam gives."""
    model = make_model()
    wrapped = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    right = make_model()
    adam = torch.optim.Adam(right.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(wrapped, rank, step, BOTH).backward()
        optimizer.step()
        adam.zero_grad()
        (sum(loss_of(right, peer, step, BOTH) for peer in range(size)) / size).backward()
        adam.step()
    check(rank, model, [parameter.detach() for parameter in right.parameters()], 1e-4)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))


@pytest.mark.parametrize("size", [2, 4])
def test_parameters_equal_those_of_one_process(size):
    spawn(size, train_all, timeout=100)


def go_with_it(rank: int, size: int) -> None:
    for function in (different_heads, delayed, join, power_sgd, post_local_sgd, zero):
        function(rank, size)


@pytest.mark.parametrize("size", [2, 4])
def test_what_goes_with_it(size):
    spawn(size, go_with_it, timeout=100)
