"""Models made one: equal starts, averaged gradients, nothing left on the model."""

import pickle

import pytest
import torch
from torch import nn

from nbdist.train import ring

from .nets import assert_equal, attach_in_pieces, make_net, weights


def train_plain(rank, size, dtype, small_buckets):
    attach = attach_in_pieces if small_buckets else ring.attach
    net = attach(make_net(seed=rank)[:2].append(nn.Linear(8, 2)).to(dtype))
    torch.manual_seed(0)
    net.load_state_dict(reference_net().to(dtype).state_dict())
    x, y = reference_data(size, dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        (net(x[rank]) - y[rank]).pow(2).mean().backward()
        optimizer.step()
    ring.finish()
    return weights(net)


def reference_net():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def reference_data(size, dtype):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(size, 6, 4, generator=generator), torch.randn(size, 6, 2, generator=generator)
    return x.to(dtype), y.to(dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("small_buckets", [False, True])
def test_equals_one_process(ranks, size, small_buckets):
    got = ranks(train_plain, size, torch.float64, small_buckets)
    assert_equal(got)
    net = reference_net().double()
    x, y = reference_data(size, torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        (net(x.reshape(-1, 4)) - y.reshape(-1, 2)).pow(2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(torch.tensor(got[0], dtype=torch.float64), torch.tensor(weights(net)).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(ranks, dtype):
    assert_equal(ranks(train_plain, 2, dtype, False))


def half_range(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False).half())
    (net.weight * 60000).sum().backward()
    return net.weight.grad.item()


def test_average_of_half_stays_in_range(ranks):
    assert ranks(half_range, 2) == [60000.0 - 60000 % 32] * 2  # the nearest float16


def start_equal(rank, size):
    net = ring.attach(make_net(seed=rank))
    keys = list(net.state_dict())
    ring.attach(net)
    net[2].running_mean.fill_(rank)
    ring.attach(net)
    x = torch.full((1, 4), float(rank + 1))
    net[0](x).sum().backward()
    return weights(net), keys, net[2].running_mean.tolist(), net[0].weight.grad.tolist(), type(net).__name__


def test_attach_broadcasts_and_leaves_the_model_itself(ranks):
    got = ranks(start_equal, 2)
    assert_equal(got)
    _, keys, running_mean, gradient, name = got[0]
    assert keys == list(make_net().state_dict())
    assert running_mean == [0.0] * 8
    assert gradient == [[1.5] * 4] * 8  # attached three times, averaged once
    assert name == "Sequential"


def detached(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    ring.detach(net)
    ring.detach(net)
    net(torch.full((1, 1), float(rank))).sum().backward()
    return net.weight.grad.item()


def test_detach_takes_it_off(ranks):
    assert ranks(detached, 2) == [0.0, 1.0]


def different(rank, size):
    with pytest.raises(Exception, match="on rank 1-2 than on rank 0") as told:
        ring.attach(nn.Linear(2 if rank else 1, 1))
    return type(told.value).__name__


def test_attach_refuses_unlike_models_on_every_rank(ranks):
    assert ranks(different, 3) == ["UsageError"] * 3


def copies(rank, size):
    import copy
    import io

    net = ring.attach(make_net())
    twin, thawed = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    torch.save(net, io.BytesIO())
    for other in (twin, thawed):
        other[0](torch.full((1, 4), float(rank))).sum().backward()
    return [other[0].weight.grad[0, 0].item() for other in (twin, thawed)], b"nbdist" in pickle.dumps(net)


def test_copies_are_plain_models(ranks):
    assert ranks(copies, 2) == [([0.0, 0.0], False), ([1.0, 1.0], False)]


def test_works_without_a_group():
    net = ring.attach(nn.Linear(1, 1))
    net(torch.ones(1, 1)).sum().backward()
    ring.join()
    ring.finish()
    assert net.weight.grad.item() == 1.0


def saved(rank, size, path):
    net = ring.attach(nn.Linear(1, 1))
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    net(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    ring.finish()
    if rank == 0:
        torch.save(net.state_dict(), path)
        torch.save(optimizer.state_dict(), path + ".optimizer")
    return weights(net)


def test_state_opens_anywhere(ranks, tmp_path):
    path = str(tmp_path / "m.pt")
    got = ranks(saved, 2, path)
    fresh = nn.Linear(1, 1)
    fresh.load_state_dict(torch.load(path, weights_only=True), strict=True)
    assert weights(fresh) == got[0] == got[1]
    torch.optim.Adam(fresh.parameters()).load_state_dict(torch.load(path + ".optimizer", weights_only=True))


def batch_norm(rank, size):
    import torch.distributed as dist

    net = ring.attach(nn.BatchNorm1d(3, momentum=1.0))
    x = torch.full((8, 3), 10.0 * (size - rank), requires_grad=True)
    net.train()
    net(x).sum().backward()
    if rank == 0:
        net.eval()
        net(torch.zeros(2, 3))
    dist.barrier()
    ring.finish()
    return net.running_mean.tolist()


def test_buffers_are_rank_0s_at_the_end_of_a_cell(ranks):
    assert ranks(batch_norm, 4) == [[40.0] * 3] * 4


def average(rank, size):
    net = nn.Module()
    net.w = nn.Parameter(torch.tensor([1.0]))
    ring.attach(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.zero_grad()
    (net.w * (rank + 1)).sum().backward()
    optimizer.step()
    return net.w.item(), optimizer.param_groups[0]["lr"]


def test_average_is_the_default_and_no_rate_changes(ranks):
    for value, rate in ranks(average, 4):
        assert value == pytest.approx(0.75, abs=1e-6)
        assert rate == 0.1
