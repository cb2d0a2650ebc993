"""Small nets and what the tests compare of them."""

from unittest import mock

import torch
from torch import nn

from nbdist.train import ring


def make_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 2))


def attach_in_pieces(model):
    """Attach a model whose parameters each travel by themselves."""
    with mock.patch.object(ring, "MIB", 0):
        return ring.attach(model)


def weights(model):
    return torch.cat([p.detach().reshape(-1).double() for p in model.parameters()]).tolist()


def grads(model):
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


def assert_equal(values):
    assert all(value == values[0] for value in values)
