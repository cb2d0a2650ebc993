"""What gradients are turned into while they travel, for networks that are slower than the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import UsageError

NONE, FP16, BF16, POWER_SGD = NAMES = ("none", "fp16", "bf16", "powersgd")

_DTYPES = {FP16: torch.float16, BF16: torch.bfloat16}


def check(name: str) -> None:
    """Refuse a compression that there isn't.

    Raises:
        UsageError: nobody knows it.
    """
    if name not in NAMES:
        raise UsageError(f"there is no compression {name!r}; choose one of {', '.join(NAMES)}.")


def travels_as(dtype: torch.dtype, name: str) -> torch.dtype:
    """Return the type in which gradients of `dtype` travel."""
    return _DTYPES.get(name, dtype) if dtype in (torch.float32, torch.float64) else dtype


class PowerSGD:
    """Low-rank approximations with error feedback (Vogels et al., NeurIPS 2019), by torch's hook for DDP.

    The first steps are exact; a tensor is approximated only where that saves something. All ranks call this
    for the same buckets in the same order.
    """

    def __init__(self) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        self._hook = powerSGD_hook.powerSGD_hook
        self._state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=10)

    def average(
        self, flat: torch.Tensor, parts: Sequence[torch.Tensor], index: int, last: bool
    ) -> torch.Tensor:
        """Average `flat`, of which `parts` are the gradients, over all ranks; return it."""
        # The ranks must communicate in one order, so nothing else may come between.
        result = self._hook(self._state, _Bucket(flat, parts, index, last)).wait()
        return flat.copy_(result) if result.data_ptr() != flat.data_ptr() else flat


class _Bucket:
    """As much of torch's GradBucket, which only DDP can make, as the hook asks for."""

    def __init__(self, flat: torch.Tensor, parts: Sequence[torch.Tensor], index: int, last: bool) -> None:
        self._flat, self._parts, self._index, self._last = flat, list(parts), index, last

    def buffer(self) -> torch.Tensor:
        return self._flat

    def gradients(self) -> list[torch.Tensor]:
        return self._parts

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        return self._last
