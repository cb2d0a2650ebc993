"""A group whose tensors on GPUs go to NCCL."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store

from ..gpus import visible_gpus
from ._native import Group
from .group import RingGroup, Split
from .hosts import host_identity
from .untraced import untraced

_GPU = "cuda"
_NCCL = f"{_GPU}:nccl"


class RoutedGroup(RingGroup):
    """Collectives over CPU tensors; over those on GPUs too, by NCCL where it is asked for and can serve.

    Torch hands a backend that is a group of its own all devices, and makes no other: for
    `cpu:nbdist,cuda:nccl` it never makes the second. So we do. NCCL wants a GPU for each rank; where there
    are fewer, or `nbdist` was asked for alone, tensors on GPUs go through the host, as RingGroup sends them.
    """

    def __init__(
        self, native: Group, rank: int, size: int, split: Split, store: Store, timeout: timedelta
    ) -> None:
        super().__init__(native, rank, size, split)
        self._store = store
        self._timeout = timeout
        self._gpu: dist.ProcessGroup | None = None
        self._decided = False
        # Now, when all ranks are here: the first tensor on a GPU may be a message between two.
        store.set(f"gpus/{rank}", json.dumps([host_identity(), visible_gpus()]))

    @property
    def _device_types(self) -> list[torch.device]:
        served = [_GPU] if self.gpu() is not None else []
        return [torch.device(name) for name in ("cpu", *served)]

    def gpu(self) -> dist.ProcessGroup | None:
        """Return the group that serves tensors on GPUs, if there is one."""
        if not self._decided and self in dist.distributed_c10d._world.pg_backend_config:
            # Only now torch has written down what was asked for; and all ranks decide alike.
            asked = dist.distributed_c10d._world.pg_backend_config[self]
            if _NCCL in asked and _enough([self._fact(peer) for peer in range(self._size)]):
                store = PrefixStore("nccl", self._store)
                self._gpu = open_nccl(store, self._rank, self._size, self._timeout)
            self._decided = True
        return self._gpu

    def _fact(self, peer: int) -> tuple[str, list[str]]:
        host, gpus = json.loads(self._store.get(f"gpus/{peer}"))
        return host, gpus

    def leave(self) -> None:
        try:
            if self._gpu is not None:
                self._gpu.shutdown()
        finally:
            super().leave()

    def abort(self) -> None:
        if self._gpu is not None:
            self._gpu.abort()
        super().abort()


def open_nccl(store: Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroup:
    """Make NCCL's group of the same ranks; it connects them at its first collective."""
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout
    backend = dist.ProcessGroupNCCL(store, rank, size, options)
    group = dist.ProcessGroup(store, rank, size)
    group._set_default_backend(dist.ProcessGroup.BackendType.NCCL)
    group._register_backend(torch.device(_GPU), dist.ProcessGroup.BackendType.NCCL, backend)
    return group


def _enough(facts: Sequence[tuple[str, list[str]]]) -> bool:
    """Whether on each host there are as many GPUs as ranks."""
    ranks: dict[str, int] = defaultdict(int)
    gpus: dict[str, set[str]] = defaultdict(set)
    for host, visible in facts:
        ranks[host] += 1
        gpus[host].update(visible)
    return all(len(gpus[host]) >= number for host, number in ranks.items())


def _is_on_gpu(arguments: Sequence[Any]) -> bool:
    """Whether a collective is about GPUs, by the first tensor or device among its arguments."""
    for argument in arguments:
        if isinstance(argument, torch.device):
            return argument.type == _GPU
        if isinstance(argument, Tensor):
            return argument.device.type == _GPU
        if isinstance(argument, list) and argument:
            return _is_on_gpu(argument)
    return False


def _route(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(ours)
    def collective(self: RoutedGroup, *arguments: Any) -> Any:
        gpu = self.gpu() if _is_on_gpu(arguments) else None
        return ours(self, *arguments) if gpu is None else getattr(gpu, name)(*arguments)

    return collective


# A barrier has no tensors; ours serves.
for _name in (
    *("allreduce", "allreduce_coalesced", "reduce", "broadcast", "send", "recv", "recv_anysource"),
    *("reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced"),
    *("_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
    *("allgather", "allgather_coalesced", "all_gather_single", "all_gather_single_coalesced"),
    *("_allgather_base", "allgather_into_tensor_coalesced"),
    *("gather", "scatter", "alltoall", "all_to_all_single", "alltoall_base"),
    *("_start_coalescing", "_end_coalescing"),
):
    setattr(RoutedGroup, _name, _route(_name, getattr(RingGroup, _name)))
untraced(RoutedGroup)
