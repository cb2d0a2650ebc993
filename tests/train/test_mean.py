"""Exact means over all ranks' samples."""

import math

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from nbdist.data import cut
from nbdist.errors import UsageError
from nbdist.train import mean


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
