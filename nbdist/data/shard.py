"""One rank's exact part of a dataset."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ..errors import UsageError
from . import kinds
from .bounds import bounds
from .order import Order
from .stream import Stream

_DECIDED = frozenset({"dataset", "sampler", "batch_sampler", "generator"})
"""Options of a DataLoader with which it would no longer visit just the shard's items in its order."""


class Shard(Dataset[Any]):
    """One rank's exact part of a dataset, itself a map-style dataset.

    The parts of all ranks cover the whole once: nothing is padded, repeated or dropped, and lengths
    differ by at most one. A shard made in the notebook holds only its own items; one made on a rank
    keeps the whole base, so that its loader can deal all items out anew each epoch.

    Attributes:
        rank, size: whose part this is, and of how many.
        total: length of the whole.
        indices: global index of each own item.
    """

    def __init__(self, base: Any, rank: int, size: int, *, total: int, whole: bool) -> None:
        self.rank = rank
        self.size = size
        self.total = total
        self.indices = bounds(total, rank, size)
        self._base = base
        self._whole = whole

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        own = self.indices if self._whole else range(len(self))
        if isinstance(index, slice):
            return kinds.select(self._base, own[index])
        try:
            return kinds.item(self._base, own[operator.index(index)])
        except IndexError:
            raise IndexError(f"{self!r} has no item {index}") from None

    def __repr__(self) -> str:
        return f"Shard {len(self)} of {self.total} (rank {self.rank} of {self.size})"

    @property
    def data(self) -> Any:
        """This rank's items as the kind that was sharded: a tensor, an array, a data frame, ..."""
        return self[:] if self._whole else self._base

    def loader(
        self, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False, **options: Any
    ) -> DataLoader[Any]:
        """Return an ordinary DataLoader that visits the items in a new order each time it is iterated.

        Where the shard keeps its whole base, all items are dealt out anew to the ranks each epoch; else
        each rank permutes its own. Ranks stay disjoint either way, the same `seed` gives the same orders
        after a fresh start, and torch's global random state neither matters nor moves.

        With `drop_last` every rank gives the same number of full batches: the up to `size - 1` items
        that cannot be dealt out evenly are left out this epoch, and so is an incomplete batch.
        `options` go to `torch.utils.data.DataLoader`.

        Raises:
            UsageError: an option would replace what the shard's loader decides itself.
        """
        if taken := sorted(_DECIDED & options.keys()):
            raise UsageError(
                f"loader({taken[0]}=...) is taken: the shard deals its items out itself; leave it out, or "
                f"make a plain loader of your own, DataLoader(shard, {taken[0]}=...)."
            )
        order = Order(self, shuffle=shuffle, seed=seed, even=drop_last, whole=self._whole)
        # Seeds the loader's worker processes, so that random augmentations differ between ranks.
        workers = torch.Generator().manual_seed(order.draw_seed())
        return DataLoader(
            self._base if isinstance(self._base, Dataset) else _Positions(self._base),
            batch_size,
            sampler=order,
            drop_last=drop_last,
            generator=workers,
            **options,
        )


class _Positions(Dataset[Any]):
    """Items of the base by position, whatever kind it is."""

    def __init__(self, base: Any) -> None:
        self._base = base

    def __len__(self) -> int:
        return kinds.length(self._base)

    def __getitem__(self, index: int) -> Any:
        return kinds.item(self._base, index)


def cut(base: Any, rank: int, size: int, *, whole: bool = False, copy: bool = True) -> Shard | Stream:
    """Return the part of `base` that belongs to `rank` of `size`.

    Takes tensors and arrays (by their first dimension), data frames and series, lists and tuples,
    map-style datasets, and dicts of these with equal lengths. By default the shard holds copies of its
    own items only, which is what travels to a rank (a dataset's are read one by one); with `whole` it
    keeps the base and an index range, and without `copy` the items may be the base's own memory. An
    `IterableDataset` becomes a `Stream`, which reads it all and keeps this rank's items.

    Raises:
        UsageError: `base` cannot be cut; the sentence names its type and the remedy.
    """
    if isinstance(base, IterableDataset):
        return Stream(base, rank, size)
    total = kinds.length(base)
    items = base if whole else kinds.select(base, bounds(total, rank, size), copy=copy)
    return Shard(items, rank, size, total=total, whole=whole)
