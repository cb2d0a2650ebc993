"""Iterate batches, with throughput, device moves and an end that all ranks reach."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch

from ..errors import UsageError
from . import metrics, ring

T = TypeVar("T")


def loop(loader: Iterable[T], *, epochs: int = 1, device: torch.device | str | None = None) -> Iterator[T]:
    """Iterate the batches of `epochs` passes over `loader`, moved to this rank's device.

    Each batch counts as one step: its examples, the epoch and, where the loader has a length, the total
    are drawn live. Tensors are moved wherever they are in tuples, lists and mappings, and so is what has
    a `.to(device)` of its own.

    At the end of a training epoch ranks with fewer batches serve those with more, so that nobody waits
    for ever, and all go on with the same weights and buffers; under `torch.no_grad()`, or with every
    model in eval mode, nothing is exchanged. A plain `for batch in DataLoader(...)` has no such end: its
    rank serves the others at the next `nbdist.mean`, or when the cell ends, and what it evaluates before
    that is its own, earlier model.

    Raises:
        UsageError: `loader` cannot be iterated, or only once where more is asked for.
    """
    if not isinstance(loader, Iterable) and not hasattr(type(loader), "__getitem__"):
        raise UsageError(
            "loop() takes what yields batches, such as a DataLoader or a list, and not something of type "
            f"{type(loader).__name__}; for a number of steps give it range(n)."
        )
    if epochs > 1 and isinstance(loader, Iterator):
        raise UsageError(
            f"a {type(loader).__name__} can be iterated only once; "
            "give loop a list or a DataLoader, or epochs=1."
        )
    where = torch.device(device) if device is not None else _own_device()
    return _batches(loader, epochs, where)


def _batches(loader: Iterable[T], epochs: int, device: torch.device) -> Iterator[T]:
    length = _length(loader)
    total = None if length is None else metrics.next_step() + length * epochs
    for epoch in range(epochs):
        _tell_sampler(loader, epoch)
        for batch in loader:
            step = metrics.begin_step()
            try:
                yield _move(batch, device)
            finally:  # the body may break, and its batch counts
                metrics.record(step, _examples(batch), epoch, total)
        if torch.is_grad_enabled() and ring.trains():
            ring.join()


def _own_device() -> torch.device:
    return (
        torch.device("cuda", torch.cuda.current_device())
        if torch.cuda.is_available()
        else torch.device("cpu")
    )


def _length(loader: Iterable[Any]) -> int | None:
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:  # a DataLoader over an iterable dataset has __len__ too, and raises this
        return None


def _tell_sampler(loader: Iterable[Any], epoch: int) -> None:
    # Torch's own DistributedSampler repeats its order unless it is told.
    set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
    if set_epoch is not None:
        set_epoch(epoch)


def _move(batch: Any, device: torch.device) -> Any:
    """Move all tensors in nested tuples, lists and mappings, and whatever can move itself."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if callable(to := getattr(batch, "to", None)):  # first, since a packed sequence is a tuple, too
        moved = to(device)
        return batch if moved is None else moved
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_move(part, device) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(_move(part, device) for part in batch)
    if isinstance(batch, Mapping):
        parts = {key: _move(part, device) for key, part in batch.items()}
        if not isinstance(batch, dict | UserDict):
            return parts  # nobody knows how to make another of its kind
        copied = copy.copy(batch)
        copied.update(parts)
        return copied
    return batch


def _examples(batch: Any) -> int:
    """Count the examples in a batch: the first dimension of its first tensor."""
    found = _first_tensor(batch)
    if found is not None:
        return found.shape[0]
    return len(batch) if isinstance(batch, list | tuple) else 1


def _first_tensor(batch: Any) -> torch.Tensor | None:
    if isinstance(batch, torch.Tensor):
        return batch if batch.ndim else None
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
    return next((found for part in parts if (found := _first_tensor(part)) is not None), None)
