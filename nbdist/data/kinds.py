"""What can be cut: how long a thing is, one of its items, some of its items.

Every kind answers three questions (`length`, `item`, `select`), so that a shard treats a tensor, a data
frame and a dataset alike. What is selected never drags the rest along to a rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from ..errors import UsageError


def length(base: Any) -> int:
    """Return how many items `base` has.

    Raises:
        UsageError: it cannot be cut; the sentence names its type and the remedy.
    """
    kind = with_article(type(base).__name__)
    if isinstance(base, Mapping):
        return _common_length(base)
    if isinstance(base, DataLoader):
        raise UsageError(f"cannot shard {kind}: shard its dataset and let each rank make its own loader.")
    if isinstance(base, IterableDataset):
        raise UsageError(f"cannot shard {kind} in here: it is a stream; shard it by itself.")
    if not hasattr(type(base), "__len__"):
        raise UsageError(f"cannot shard {kind}: it has no length; make it a list or a map-style dataset.")
    if isinstance(base, str | bytes) or not hasattr(type(base), "__getitem__"):
        raise UsageError(f"cannot shard {kind}: it has no items by number; make it a list first.")
    tensors = base.tensors if isinstance(base, TensorDataset) else (base,)
    if any(isinstance(t, torch.Tensor) and t.layout is not torch.strided for t in tensors):
        raise UsageError("cannot shard a sparse Tensor: its rows cannot be cut apart; use .to_dense() first.")
    try:
        return len(base)
    except TypeError:
        raise UsageError(f"cannot shard {kind} without a first dimension; give it one item a row.") from None


def with_article(noun: str) -> str:
    """Return `an int`, `a list`."""
    return f"an {noun}" if noun[:1].lower() in "aeio" else f"a {noun}"


def item(base: Any, index: int) -> Any:
    """Return one item, as the whole would give it."""
    if isinstance(base, Mapping):
        return {key: item(column, index) for key, column in base.items()}
    if _is_pandas(base):
        return base.iloc[index]
    return base[index]


def select(base: Any, indices: range, *, copy: bool = True) -> Any:
    """Return some items as the same kind where that kind is known, else as a list.

    Without `copy` they may be the base's own memory, for who writes them elsewhere at once.
    """
    if isinstance(base, Mapping):
        return {key: select(column, indices, copy=copy) for key, column in base.items()}
    if isinstance(base, torch.Tensor):
        part = base.detach()[_slice(indices)]
        return part.clone() if copy else _alone(part)
    if isinstance(base, np.ndarray):
        rows = base[_slice(indices)]
        return rows.copy() if copy else rows
    if _is_pandas(base):
        return base.iloc[_slice(indices)].copy()
    if isinstance(base, list):
        return base[_slice(indices)]
    if isinstance(base, TensorDataset) and type(base).__getitem__ is TensorDataset.__getitem__:
        return TensorDataset(*(select(tensor, indices, copy=copy) for tensor in base.tensors))
    return [base[i] for i in indices]


def _alone(part: torch.Tensor) -> torch.Tensor:
    """Give a view a storage of its own length over the same memory: pickled, a tensor takes all it has."""
    plain = type(part) is torch.Tensor and part.is_contiguous() and not (part.is_conj() or part.is_neg())
    if not plain or not part.numel() or part.is_quantized:
        return part.clone()
    start = part.storage_offset() * part.element_size()
    memory = part.untyped_storage()[start : start + part.nbytes]
    return torch.empty(0, dtype=part.dtype, device=part.device).set_(memory, 0, part.shape, part.stride())


def _common_length(columns: Mapping[Any, Any]) -> int:
    lengths = {}
    for key, column in columns.items():
        try:
            lengths[key] = length(column)
        except UsageError as error:
            raise UsageError(f"cannot shard the dict's {key!r}: {error}") from None
    if not lengths:
        raise UsageError("cannot shard an empty dict: put at least one column in it.")
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key}: {n}" for key, n in lengths.items())
        raise UsageError(f"cannot shard a dict of unequal lengths ({told}); make them equal.")
    return next(iter(lengths.values()))


def _is_pandas(base: Any) -> bool:
    # By name: whoever has no data frame need not have pandas.
    return type(base).__module__.partition(".")[0] == "pandas" and hasattr(base, "iloc")


def _slice(indices: range) -> slice:
    # Torch refuses negative steps; ranges here only ever go up.
    return slice(indices.start, indices.stop, indices.step)
