"""Gradients that travel as something smaller."""

import pytest
import torch
from torch import nn

from nbdist.train import ring

from .conftest import BACKENDS
from .nets import assert_equal


def compressed(rank, size, compression):
    torch.manual_seed(3)
    net = ring.attach(nn.Linear(4, 3), compression)
    net(torch.full((1, 4), 1.0 + rank / 1000)).sum().backward()
    twice = net.weight.grad.clone(), net.weight.grad.dtype
    net(torch.full((1, 4), 1.0 + rank / 1000)).sum().backward()
    return twice[0].tolist(), str(twice[1]), net.weight.grad.tolist()


@pytest.mark.parametrize(("compression", "error"), [("none", 1e-7), ("fp16", 5e-4), ("bf16", 4e-3)])
def test_half_of_the_bytes(ranks, compression, error):
    got = ranks(compressed, 2, compression)
    assert_equal(got)
    once, dtype, twice = got[0]
    assert dtype == "torch.float32"
    torch.testing.assert_close(torch.tensor(once), torch.full((3, 4), 1.0005), atol=error, rtol=0)
    torch.testing.assert_close(torch.tensor(twice), torch.full((3, 4), 2.001), atol=3 * error, rtol=0)
    assert (once[0][0] == pytest.approx(1.0005, abs=1e-6)) == (compression == "none")


def low_rank(rank, size, steps):
    torch.manual_seed(3)
    net = ring.attach(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), "powersgd")
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(rank))
    losses = []
    for _ in range(steps[rank]):
        optimizer.zero_grad()
        loss = (net(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ring.finish()
    return losses, [p.tolist() for p in net.parameters()]


@pytest.mark.skipif("cpu:nbdist" not in BACKENDS, reason="the compiled module is not built")
@pytest.mark.parametrize("steps", [(40, 40), (40, 25), (12, 40)])
def test_power_sgd(all_ranks, steps):
    got = all_ranks(low_rank, 2, steps, backend="cpu:nbdist")
    assert_equal([weights for _, weights in got])
    for losses, _ in got:
        assert losses[-1] < losses[0]


def unlike(rank, size):
    with pytest.raises(Exception, match="is fp16 on rank 0, none on rank 1; choose one") as told:
        ring.attach(nn.Linear(1, 1), "none" if rank else "fp16")
    with pytest.raises(Exception, match="no compression 'zip'; choose one of none, fp16, bf16, powersgd"):
        ring.attach(nn.Linear(1, 1), "zip")
    return type(told.value).__name__


def test_unlike_and_unknown_compressions_are_refused(ranks):
    assert ranks(unlike, 2) == ["UsageError"] * 2
