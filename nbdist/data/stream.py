"""One rank's part of a dataset that can only be read from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import _utils as _torch

from ..errors import UsageError

_DONE = object()


class Stream(IterableDataset[Any]):
    """Every `size`-th item of an `IterableDataset`, itself one.

    Items are dealt out in turn, to the ranks and on each rank to the workers of a DataLoader, so that
    each is read by exactly one of them. All read the whole stream for it, and a dataset that would
    itself deal out to workers is kept from doing it a second time.

    Attributes:
        rank, size: whose part this is, and of how many.
    """

    def __init__(self, base: Any, rank: int, size: int, *, even: bool = False) -> None:
        self.rank = rank
        self.size = size
        self._base = base
        self._even = even

    def __iter__(self) -> Iterator[Any]:
        worker = _torch.worker.get_worker_info()
        place, places = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        own: Any = _DONE
        for index, item in enumerate(_whole(self._base)):
            turn, rank = divmod(index, self.size)
            if rank == self.rank and turn % places == place:
                own = item
            # An even stream waits till every rank has an item of this turn.
            if own is not _DONE and (not self._even or rank == self.size - 1):
                yield own
                own = _DONE

    def __len__(self) -> int:
        total = len(self._base)  # raises TypeError where it has none, as the base would
        return total // self.size if self._even else len(range(self.rank, total, self.size))

    def __repr__(self) -> str:
        return f"Stream of every {self.size}th item from {self.rank} of a {type(self._base).__name__}"

    def loader(
        self, batch_size: int, shuffle: bool = False, drop_last: bool = False, **options: Any
    ) -> DataLoader[Any]:
        """Return an ordinary DataLoader over this rank's items, in their order.

        With `drop_last` every rank gives the same number of full batches. `options` go to
        `torch.utils.data.DataLoader`.

        Raises:
            UsageError: a shuffle was asked for.
        """
        if shuffle:
            raise UsageError(
                "loader(shuffle=True): a stream has the order it is read in; "
                "shuffle inside the dataset, or shard a map-style dataset."
            )
        source = Stream(self._base, self.rank, self.size, even=drop_last)
        return DataLoader(source, batch_size, drop_last=drop_last, **options)


def _whole(base: Any) -> Iterator[Any]:
    """Iterate `base` as if in the main process, where it does not ask which worker reads."""
    worker = _torch.worker._worker_info
    items = None
    while True:
        _torch.worker._worker_info = None
        try:
            if items is None:
                items = iter(base)
            item = next(items, _DONE)
        finally:
            _torch.worker._worker_info = worker
        if item is _DONE:
            return
        yield item
