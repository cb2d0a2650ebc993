"""The exact mean over the samples of all ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..errors import UsageError
from . import ring
from .world import current


def mean(values: torch.Tensor | Sequence[float] | float, count: int | None = None) -> float:
    """Return the mean over all ranks' samples, the same figure on every rank.

    `values` holds one value per sample of this rank, any number of them, also none; or it is the sum of
    them, and `count` says of how many. Each sample counts once, whatever the batch sizes: a mean of
    means would not. Sums are taken in double precision. Without a sample anywhere the mean is nan.

    All ranks must call this together. One whose training loop ended early serves the others here first,
    so that a plain loop over shards of unequal lengths may average its losses after each epoch; then all
    ranks hold the same model.

    Raises:
        UsageError: a single value without `count`, a `count` with many values, or values that are no
            real numbers.
    """
    samples = _as_tensor(values)
    if count is None and samples.ndim == 0:
        raise UsageError(
            "mean() of a single number is not exact where ranks have unequal shares; give it the values of "
            "all samples, or their sum and how many there were: mean(total, count=n)."
        )
    if count is not None and samples.numel() != 1:
        raise UsageError(
            f"mean(..., count={count}) takes the sum of the values, one number, not {samples.numel()}; "
            "leave count out to give it the values themselves."
        )
    if count is not None and count < 0:
        raise UsageError(f"mean(..., count={count}): a count of samples is 0 or more.")
    sums = torch.tensor(
        [samples.sum().item(), samples.numel() if count is None else count], dtype=torch.float64
    )
    if current() is not None:
        ring.meet()
        dist.all_reduce(sums)
    total, samples_seen = sums.tolist()
    return total / samples_seen if samples_seen else math.nan


def _as_tensor(values: Any) -> torch.Tensor:
    if isinstance(values, list | tuple) and any(isinstance(v, torch.Tensor) for v in values):
        values = torch.cat([torch.as_tensor(v).detach().cpu().reshape(-1) for v in values])
    try:
        tensor = values if isinstance(values, torch.Tensor) else torch.as_tensor(np.asarray(values))
    except (TypeError, ValueError):  # strings, objects, lists of unequal lengths
        tensor = None
    if tensor is None or tensor.is_complex():
        raise UsageError(
            f"mean() takes real numbers, not a {type(values).__name__}; give it a tensor or a list."
        )
    return tensor.detach().cpu().double()
