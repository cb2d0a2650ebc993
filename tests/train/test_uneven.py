"""Ranks with unlike data: fewer batches, parameters without a gradient."""

import pytest
import torch
from torch import nn

from nbdist.train import ring

from .conftest import RankError
from .nets import assert_equal, make_net, weights


def uneven(rank, size, batches, kind):
    net = ring.attach(make_net(seed=rank))
    make = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, 0.01),
    }
    optimizer = make[kind](net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    generator = torch.Generator().manual_seed(rank)
    for count in (batches[rank], 2):  # the second time round evenly, to show that nothing drifts
        for _ in range(count):
            optimizer.zero_grad()
            net(torch.randn(3, 4, generator=generator)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
        ring.finish()
    ring.finish()
    buffers = [b.tolist() for b in net.buffers()]
    return weights(net), buffers, optimizer.param_groups[0]["lr"], schedule.last_epoch


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("batches", [(3, 1), (1, 3), (3, 3, 2, 2), (0, 2, 1)])
def test_uneven_steps_end_equal(ranks, batches, kind):
    got = ranks(uneven, len(batches), batches, kind)
    assert_equal(got)
    assert got[0][3] == max(batches) + 2


def over_those_that_train(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    seen = []
    for step in range(rank + 1):
        net.weight.grad = None
        net(torch.full((1, 1), float(rank + step))).sum().backward()
        seen.append(net.weight.grad.item())
    ring.join()
    return seen


def test_average_is_over_the_ranks_that_have_data(ranks):
    assert ranks(over_those_that_train, 3) == [[1.0], [1.0, 2.5], [1.0, 2.5, 4.0]]


def join_meets_finish(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(3):
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        if rank == 1 and epoch == 0:
            break  # ends its cell early, without a join
        ring.join()
    ring.finish()
    return weights(net)


def test_a_rank_that_ends_early_serves_later_epochs(ranks):
    assert_equal(ranks(join_meets_finish, 3))


# -- D08: parameters without a gradient


class TwoHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = (nn.Linear(4, k) for k in (4, 1, 1))

    def forward(self, x, use_b):
        return (self.b if use_b else self.a)(self.body(x))


def two_heads(rank, size):
    net = ring.attach(TwoHead())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    history, b = [], []
    for step in range(6):
        optimizer.zero_grad()
        net(torch.full((2, 4), rank + 1.0), step < 3 and rank % 2 == 1).sum().backward()
        optimizer.step()
        history.append(weights(net))
        b.append((net.b.weight.tolist(), net.b.bias.tolist(), net.b.weight.grad is None))
    ring.finish()
    return history, b


@pytest.mark.parametrize("size", [2, 4])
def test_missing_gradient_counts_as_zero(ranks, size):
    got = ranks(two_heads, size)
    assert_equal(got)
    b = got[0][1]
    assert b[0] != b[1] != b[2]
    assert [untouched for *_, untouched in b] == [False] * 3 + [True] * 3
    assert b[3][:2] == b[4][:2] == b[5][:2] == b[2][:2]


def one_sided(rank, size):
    net = ring.attach(TwoHead())
    net.b.bias.grad = torch.tensor([5.0])  # accumulated earlier, touched by nobody now
    net(torch.ones(1, 4), use_b=False).sum().backward()
    kept = net.b.bias.grad.item()
    net.zero_grad()
    net(torch.ones(1, 4), use_b=rank == 1).sum().backward()
    return kept, net.b.bias.grad.item(), net.a.bias.grad.item()


def test_missing_on_some_ranks_and_on_all(ranks):
    assert ranks(one_sided, 2) == [(5.0, 0.5, 0.5)] * 2


# -- gradients that cannot travel


def sparse_layer(rank, size, sparse_on):
    ring.attach(nn.Sequential(nn.Embedding(4, 2, sparse=rank in sparse_on), nn.Linear(2, 1)))


@pytest.mark.parametrize("sparse_on", [[0, 1, 2], [1]])
def test_a_sparse_layer_is_refused_on_every_rank(ranks, sparse_on):
    with pytest.raises(RankError) as caught:
        ranks(sparse_layer, 3, sparse_on, timeout=20)
    assert str(caught.value).count("UsageError: Sequential has a layer built with sparse=True on rank") == 3


def odd_gradients(rank, size, odd_on):
    net = ring.attach(nn.Linear(2, 2, bias=False))
    for step in range(2 - rank):
        net.weight.grad = None
        net(torch.full((1, 2), step + 1.0)).sum().backward()
    if rank == odd_on:
        net.weight.grad = torch.ones(2, 2).to_sparse() if odd_on else torch.ones(1).expand(2, 2)
    ring.finish()
    ring.resume()
    return None if net.weight.grad is None else net.weight.grad.tolist()


@pytest.mark.parametrize(("odd_on", "expected"), [(0, None), (1, [[2.0, 2.0]] * 2)])
def test_a_gradient_that_cannot_travel_is_dropped(ranks, odd_on, expected):
    assert ranks(odd_gradients, 2, odd_on, timeout=20) == [expected] * 2
