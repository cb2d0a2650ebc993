"""When the group ends, and when a model does."""

import pytest
import torch
from torch import nn

from nbdist.train import ring

from .conftest import BACKENDS
from .nets import assert_equal, attach_in_pieces, make_net, weights


def aborted(rank, size, store, in_hook):
    import torch.distributed as dist

    from nbdist.errors import GroupAborted

    net = attach_in_pieces(nn.Linear(1, 1))
    x = torch.full((1, 1), float(rank))
    all_reduce, calls = dist.all_reduce, []

    def abort(*args, **options):
        calls.append(args)
        if len(calls) == (2 if in_hook else 4):  # header, two buckets, presence
            raise GroupAborted("released by rank 1", rank=1, operation="all_reduce")
        return all_reduce(*args, **options)

    dist.all_reduce = abort
    try:
        net(x).sum().backward()
    except GroupAborted as error:
        told = error.rank, error.operation
    finally:
        dist.all_reduce = all_reduce
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    net.zero_grad()
    net(x).sum().backward()
    ring.finish()
    return told, net.weight.grad.item()


@pytest.mark.parametrize("in_hook", [True, False])
def test_an_abort_leaves_backward_as_it_is_and_the_next_generation_works(all_ranks, tmp_path, in_hook):
    got = all_ranks(aborted, 2, f"file://{tmp_path}/next", in_hook)
    assert got == [((1, "all_reduce"), 0.5)] * 2


def collected(rank, size):
    import gc
    import weakref

    net = ring.attach(make_net())
    net(torch.randn(4, 4)).sum().backward()
    ring.finish()
    gone = weakref.ref(net[0].weight)
    del net
    gc.collect()
    ring.finish()
    return gone() is None


def test_a_model_that_is_dropped_is_freed(ranks):
    assert ranks(collected, 2) == [True, True]


def left_over(rank, size, steps):
    """Drop a model that on rank 0 alone hangs in a cycle, with its buffers changed."""
    import gc

    import torch.distributed as dist

    from nbdist.train import loop

    gc.disable()
    try:
        dropped, kept = ring.attach(nn.BatchNorm1d(1)), ring.attach(nn.BatchNorm1d(1))
        if rank == 0:
            dropped.itself = [dropped]
        x = torch.tensor([[1.0], [rank]])
        for _ in range(steps[rank]):
            dropped(x).sum().backward()
        with torch.no_grad():
            kept(x)
        del dropped
        ring.finish()
        kept.eval()
        for _ in loop([1]):
            pass
        dist.barrier()  # a join would meet this, if rank 0 thought that its left-over model trains
    finally:
        gc.enable()
    return kept.running_mean.tolist(), kept.running_var.tolist()


@pytest.mark.parametrize("steps", [(2, 2), (1, 2)])
def test_what_the_collector_left_on_one_rank_starts_nothing(ranks, steps):
    assert_equal(ranks(left_over, 2, steps, timeout=20))


def unfrozen_late(rank, size):
    """Serve, on rank 1, the steps of a model that has other parameters trainable on rank 0."""
    net = ring.attach(nn.Linear(1, 1))
    net.bias.requires_grad_(rank == 0)
    if rank == 0:
        net(torch.ones(1, 1)).sum().backward()
    ring.finish()


def dropped_early(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    if rank == 0:
        net(torch.ones(1, 1)).sum().backward()
    del net
    ring.finish()


def as_the_engine_does(rank, size, store, cell):
    import torch.distributed as dist

    from nbdist import comm
    from nbdist.errors import GroupError

    kept = ring.attach(nn.Linear(1, 1))
    told = ""
    try:
        cell(rank, size)
    except GroupError as error:
        told = str(error)
        if not comm.is_aborted():
            comm.abort(f"{type(error).__name__}: {error}")
    dist.destroy_process_group()
    dist.init_process_group("cpu:nbdist", init_method=store, rank=rank, world_size=size)
    ring.resume()
    if rank == 0:
        kept(torch.ones(1, 1)).sum().backward()
        torch.optim.SGD(kept.parameters(), 0.1).step()
    ring.finish()
    return told, weights(kept)


@pytest.mark.skipif("cpu:nbdist" not in BACKENDS, reason="the compiled module is not built")
@pytest.mark.parametrize(
    ("cell", "cause"),
    [
        (
            dropped_early,
            "rank 0 trains a model that this rank has dropped or never had; keep it on every rank",
        ),
        (unfrozen_late, "rank 1 ran out of data with other parameters of Linear trainable"),
    ],
)
def test_an_error_of_one_rank_alone_is_the_cause_on_all(all_ranks, tmp_path, cell, cause):
    store = f"file://{tmp_path}/next"
    (first, *_), (second, *_) = got = all_ranks(
        as_the_engine_does, 2, store, cell, backend="cpu:nbdist", timeout=20
    )
    assert cause in second
    assert "rank 1" in first
    assert cause[:30] in first
    assert got[0][1] == got[1][1]


def written_late(rank, size, store):
    """Write, after the group is over, where the gradients lay in it, as a rank that is late in it may."""
    import torch.distributed as dist

    from nbdist.comm import arena

    net = ring.attach(nn.Linear(1, 1))
    x = torch.full((1, 1), float(rank))
    net(x).sum().backward()
    (member,) = ring._ring._members.values()
    before = member.layout()._arena
    dist.destroy_process_group()
    dist.init_process_group("cpu:nbdist", init_method=store, rank=rank, world_size=size)
    ring.resume()
    net.zero_grad()
    net(x).sum().backward()
    arena.tensor(before, 0, 32, torch.float32).fill_(99)
    ring.finish()
    return net.weight.grad.item(), net.bias.grad.item()


@pytest.mark.skipif("cpu:nbdist" not in BACKENDS, reason="the compiled module is not built")
def test_memory_of_a_group_that_is_over_is_not_used_again(all_ranks, tmp_path):
    store = f"file://{tmp_path}/next"
    got = all_ranks(written_late, 2, store, backend="cpu:nbdist", timeout=20)
    assert got == [(0.5, 1.0)] * 2


def released(rank, size):
    from nbdist import comm
    from nbdist.errors import GroupAborted

    net = ring.attach(nn.Linear(1, 1))
    if rank == 1:
        comm.abort("rank 1 gave up")
        return "GroupAborted"
    with pytest.raises(GroupAborted, match="rank 1 gave up") as told:
        net(torch.ones(1, 1)).sum().backward()
    return type(told.value).__name__


@pytest.mark.skipif("cpu:nbdist" not in BACKENDS, reason="the compiled module is not built")
def test_a_rank_blocked_in_backward_is_released(all_ranks):
    assert all_ranks(released, 2, backend="cpu:nbdist", timeout=20) == ["GroupAborted"] * 2
