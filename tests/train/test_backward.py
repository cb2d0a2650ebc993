"""Backward in all its forms: accumulated, retained, shared, frozen, checkpointed, failing."""

import pytest
import torch
from torch import nn

from nbdist.train import ring

from .nets import assert_equal, grads


def accumulated(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    for micro in range(3):
        net(torch.full((1, 1), float(rank + 10 * micro))).sum().backward()
    return net.weight.grad.item()


def test_accumulation_over_several_backwards(ranks):
    assert ranks(accumulated, 2) == [0.5 + 10.5 + 20.5] * 2


def retained(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    loss = net(torch.full((1, 1), float(rank))).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return net.weight.grad.item()


def test_retained_graph(ranks):
    assert ranks(retained, 2) == [1.0, 1.0]


def unrelated(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    other = nn.Parameter(torch.ones(1))
    if rank == 0:
        (other * 2).sum().backward()
    with torch.no_grad():
        net(torch.ones(1, 1))
    net(torch.full((1, 1), float(rank))).sum().backward()
    return net.weight.grad.item()


def test_a_loss_without_the_model_exchanges_nothing(ranks):
    assert ranks(unrelated, 2) == [0.5, 0.5]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def tied_and_frozen(rank, size):
    net = ring.attach(Tied())
    with torch.no_grad():
        net.a.weight.copy_(torch.eye(2))
    net(torch.full((1, 2), float(rank))).sum().backward()
    tied = net.a.weight.grad.tolist()
    pair = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    pair[0].requires_grad_(False)
    ring.attach(pair)
    seen = []
    for frozen in (0, 1, None):
        for i in (0, 1):
            pair[i].requires_grad_(i != frozen)
        pair.zero_grad()
        pair(torch.full((1, 1), float(rank))).sum().backward()
        seen.append(grads(pair))
    return tied, seen


def test_tied_once_and_frozen_not_at_all(ranks):
    got = ranks(tied_and_frozen, 2)
    assert_equal(got)
    tied, (first, second, third) = got[0]
    assert tied == [[1.0, 1.0], [1.0, 1.0]]
    assert first[:2] == [None, None]
    assert None not in first[2:]
    assert second[2:] == [None, None]
    assert None not in second[:2]
    assert None not in third


def two_models(rank, size):
    a, b = ring.attach(nn.Linear(1, 1, bias=False)), ring.attach(nn.Linear(1, 1, bias=False))
    x = torch.full((1, 1), float(rank))
    pair = (a, b) if rank else (b, a)  # reached in another order on each rank
    (pair[0](x) + pair[1](x)).sum().backward()
    both = a.weight.grad.item(), b.weight.grad.item()
    for model in (a, b, a):  # and one at a time, as in adversarial training
        model.weight.grad = None
        model(x).sum().backward()
    ring.finish()
    return both, a.weight.grad.item(), b.weight.grad.item()


def test_two_models(ranks):
    assert ranks(two_models, 2) == [((0.5, 0.5), 0.5, 0.5)] * 2


def unlike_models(rank, size):
    a, b = ring.attach(nn.Linear(1, 1)), ring.attach(nn.Linear(1, 1))
    with pytest.raises(Exception, match=r"rank 0,2 against rank 1.*same models in the same order") as told:
        (b if rank == 1 else a)(torch.ones(1, 1)).sum().backward()
    a.zero_grad()
    a(torch.full((1, 1), float(rank))).sum().backward()
    return type(told.value).__name__, a.weight.grad.item()


def test_stepping_different_models_is_told_on_every_rank(ranks):
    assert ranks(unlike_models, 3) == [("MismatchError", 1.0)] * 3


def unlike_frozen(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    net.bias.requires_grad_(rank == 0)
    with pytest.raises(Exception, match="freeze and unfreeze the same") as told:
        net(torch.ones(1, 1)).sum().backward()
    net.bias.requires_grad_(True)
    net.zero_grad()
    net(torch.full((1, 1), float(rank))).sum().backward()
    return type(told.value).__name__, net.weight.grad.item()


def test_freezing_unlike_parameters_is_told_on_every_rank(ranks):
    assert ranks(unlike_frozen, 2) == [("MismatchError", 0.5)] * 2


class Explode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("boom")


def raising(rank, size, everywhere):
    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    x = torch.full((1, 1), float(rank))
    if everywhere or rank == 0:
        with pytest.raises(ArithmeticError, match="boom"):
            net[1](Explode.apply(net[0](x))).sum().backward()
    else:
        with pytest.raises(Exception, match="raised on rank 0") as told:
            net(x).sum().backward()
        assert type(told.value).__name__ == "GroupError"
    net.zero_grad()
    with torch.no_grad():
        net[1].weight.fill_(1.0)
    net(x).sum().backward()
    ring.finish()
    return net[0].weight.grad.item(), net[1].bias.grad.item()


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_backward_that_raises_does_not_poison_the_next(ranks, everywhere):
    assert ranks(raising, 2, everywhere) == [(0.5, 1.0)] * 2


def rebuilt(rank, size):
    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    net[1] = nn.Linear(1, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net(torch.ones(1, 1)).sum().backward()
    with pytest.raises(Exception, match=r"new parameter, 1\.weight"):
        optimizer.step()


def test_a_rebuilt_model_is_refused(ranks):
    ranks(rebuilt, 2)


def checkpointed(rank, size, reentrant):
    from torch.utils.checkpoint import checkpoint

    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    x = torch.full((2, 1), float(rank), requires_grad=True)
    for part in net:
        x = checkpoint(part, x, use_reentrant=reentrant)
    x.sum().backward()
    return grads(net), net[1].weight.item()


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpoints(ranks, reentrant):
    got = ranks(checkpointed, 2, reentrant)
    assert_equal(got)
    assert got[0][0][1] == [pytest.approx(2 * got[0][1])]


def sparse(rank, size):
    net = ring.attach(nn.Embedding(3, 2))
    net.sparse = True  # seen only when its gradient comes
    with pytest.raises(Exception, match="sparse=False"):
        net(torch.tensor([rank])).sum().backward()


def test_sparse_gradients_are_refused(ranks):
    ranks(sparse, 2)


def channels_last(rank, size):
    net = ring.attach(nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last))
    x = torch.arange(2 * 2 * 5 * 5.0).reshape(2, 2, 5, 5) * (rank + 1)
    net(x.to(memory_format=torch.channels_last)).sum().backward()
    alone = nn.Conv2d(2, 3, 3)
    alone(x / (rank + 1) * 1.5).sum().backward()
    torch.testing.assert_close(net.weight.grad, alone.weight.grad)
    assert net.weight.grad.stride() == net.weight.stride()


def test_channels_last(ranks):
    ranks(channels_last, 2)
