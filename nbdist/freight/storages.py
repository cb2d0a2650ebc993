"""How the memory of torch tensors is pickled: by reference, once for all tensors that share it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from .parcel import Bytes


def reducer() -> Callable[[Any], Any]:
    """Return a reducer for the storages of one pickle; it loads no torch, since tensors have done so.

    torch's own copies each storage twice and remembers the device. What travels arrives on the CPU,
    where every rank and the notebook can take it.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "UntypedStorage"):
        return lambda value: NotImplemented
    typed, untyped = torch.storage.TypedStorage, torch.UntypedStorage
    seen: dict[int, Any] = {}

    def reduce(value: Any) -> Any:
        kind = type(value)
        if kind is typed:
            memory = value._untyped_storage
            return _typed, (seen.setdefault(memory._cdata, memory), value.dtype)
        if kind is untyped:
            here = value if value.device.type == "cpu" else value.cpu()
            flat = torch.empty(0, dtype=torch.uint8).set_(here)
            return _untyped, (pickle.PickleBuffer(flat.numpy()),)
        return NotImplemented

    return reduce


def _typed(memory: Any, dtype: Any) -> Any:
    import torch

    return torch.storage.TypedStorage(wrap_storage=memory, dtype=dtype, _internal=True)  # type: ignore[no-untyped-call]


def _untyped(buffer: Bytes) -> Any:
    import torch

    count = memoryview(buffer).nbytes
    if not count:
        return torch.UntypedStorage(0)  # type: ignore[no-untyped-call]
    there = torch.frombuffer(buffer, dtype=torch.uint8)
    # A small one is copied out of the pickle, so that it can be resized as any other.
    return there.untyped_storage() if isinstance(buffer, memoryview) else there.clone().untyped_storage()
