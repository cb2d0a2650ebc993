"""Exact means over all ranks' samples."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdist.data import cut
from nbdist.errors import UsageError
from nbdist.train import loop, mean, ring

from .conftest import RankError
from .nets import assert_equal, make_net, weights


def accuracy(rank, size, total):
    right = [i < 7 for i in range(total)]
    val = cut(right, rank, size)
    results = []
    for batch_size in (1, 2, 3, 4):
        correct = list(DataLoader(val, batch_size=batch_size))
        results.append(mean(torch.cat(correct) if correct else []))
        results.append(mean(sum(int(b.sum()) for b in correct), count=len(val)))
    return results


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_seven_of_ten(ranks, size):
    assert ranks(accuracy, size, 10) == [[0.7] * 8] * size


def test_ranks_without_a_sample(ranks):
    assert ranks(accuracy, 4, 2) == [[1.0] * 8] * 4


def test_no_sample_anywhere_is_nan(ranks):
    assert all(math.isnan(value) for value in ranks(lambda rank, size: mean([]), 2))


@pytest.mark.parametrize(
    "values",
    [[1, 2, 6], (1.0, 2.0, 6.0), torch.tensor([1, 2, 6]), np.array([1.0, 2, 6]),
     torch.tensor([[1], [2], [6]]),
     [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(6.0)],
     [torch.tensor([1.0, 2.0]), torch.tensor([6.0])],
     torch.tensor([1.0, 2.0, 6.0], dtype=torch.bfloat16, requires_grad=True)],
)  # fmt: skip
def test_alone_and_of_every_kind(values):
    assert mean(values) == 3.0


def test_a_sum_with_its_count():
    assert mean(torch.tensor(9.0), count=3) == mean(9, 3) == 3.0
    assert math.isnan(mean(0, count=0))


def test_sums_are_exact_in_double_precision():
    assert mean(torch.full((1000,), 0.1)) == pytest.approx(float(np.float32(0.1)), rel=1e-15)


@pytest.mark.parametrize(
    ("values", "count", "told"),
    [
        (0.5, None, "count=n"),
        (torch.tensor(0.5), None, "count=n"),
        ([1.0, 2.0], 2, "one number"),
        (["a"], None, "real numbers"),
        (None, None, "real numbers"),
        ([[1], [2, 3]], None, "real numbers"),
        (torch.tensor([1j]), None, "real numbers"),
        (1.0, -1, "count"),
    ],
)
def test_what_has_no_exact_mean_is_refused(values, count, told):
    with pytest.raises(UsageError, match=told):
        mean(values, count)


# -- a mean after each epoch of uneven length


def plain_epochs(rank, size, total, guard):
    """Train with a plain DataLoader over a shard, and average the losses of each epoch."""
    data = cut(TensorDataset(torch.arange(float(total)).unsqueeze(1)), rank, size)
    net = ring.attach(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)
    means, states = [], []
    for _ in range(2):
        losses = []
        for (x,) in DataLoader(data, batch_size=1):
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with guard():
            means.append(mean(losses))
        states.append(weights(net))
    ring.finish()
    return means, states, weights(net)


@pytest.mark.parametrize("guard", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("size", [2, 3])
def test_a_rank_with_fewer_batches_serves_the_others_before_it_averages(ranks, size, guard):
    got = ranks(plain_epochs, size, 5, guard, timeout=20)
    assert_equal(got)
    assert all(math.isfinite(value) for value in got[0][0])
    assert got[0][1][0] != got[0][1][1]


def mean_meets_the_end_of_an_epoch(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    for x in loop([torch.ones(1, 1)] * 3):
        net(x).sum().backward()
        if rank == 1:
            break  # so that this rank is at the mean while the others end their epoch
    return mean([float(rank)])


def test_a_rank_that_broke_off_waits_in_the_mean_for_the_others(ranks):
    assert ranks(mean_meets_the_end_of_an_epoch, 3, timeout=20) == [1.0] * 3


def mean_meets_the_end_of_the_cell(rank, size):
    ring.attach(nn.Linear(1, 1))
    if rank == 1:
        mean([1.0])
    ring.finish()


def test_a_mean_that_one_rank_never_reaches_is_named_on_all(ranks):
    with pytest.raises(RankError, match=r"rank 1 waits in .*mean while rank 0,2 is at") as caught:
        ranks(mean_meets_the_end_of_the_cell, 3, timeout=20)
    assert str(caught.value).count("MismatchError: rank 1 waits") == 3


# -- one model to evaluate


def evaluated_each_epoch(rank, size, end):
    net = ring.attach(make_net())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(9))
    told = []
    for _ in range(2):
        batches = [torch.randn(3, 4, generator=generator) + rank for _ in range(2)]
        for batch in batches if end == "mean" else loop(batches):
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
        if end == "mean":
            mean([0.0])
        with torch.no_grad():
            told.append(net.eval()(x).tolist())
        net.train()
        told.append([b.tolist() for b in net.buffers()])
    return told


@pytest.mark.parametrize("end", ["mean", "loop"])
def test_all_ranks_evaluate_the_same_buffers_after_an_epoch(ranks, end):
    got = ranks(evaluated_each_epoch, 2, end, timeout=20)
    assert_equal(got)
    assert got[0][0] != got[0][2]
