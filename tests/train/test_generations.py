"""When the group ends, and when a model does."""

import pytest
import torch
from torch import nn

from nbdist.train import ring

from .conftest import BACKENDS
from .nets import make_net


def aborted(rank, size, store, in_hook):
    import os

    import torch.distributed as dist

    from nbdist.errors import GroupAborted

    os.environ["NBDIST_BUCKET_MIB"] = "0"
    net = ring.attach(nn.Linear(1, 1))
    del os.environ["NBDIST_BUCKET_MIB"]
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
