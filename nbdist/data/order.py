"""The order in which a rank visits its items, a new one each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from torch.utils.data import Sampler

from .bounds import bounds

if TYPE_CHECKING:
    from .shard import Shard


class Order(Sampler[int]):
    """Positions in a shard's base, permuted anew each time they are iterated.

    Every rank draws from a generator of its own that only (seed, epoch) decide, and the rank where each
    permutes its own items: no rank's `torch.manual_seed` can make two ranks overlap.
    """

    def __init__(self, shard: Shard, *, shuffle: bool, seed: int, even: bool, whole: bool) -> None:
        self._rank, self._size, self._total = shard.rank, shard.size, shard.total
        self._own = len(shard)
        self._shuffle, self._seed, self._even, self._whole = shuffle, seed, even, whole
        self._epoch = 0

    def __len__(self) -> int:
        return self._total // self._size if self._even else self._own

    def __iter__(self) -> Iterator[int]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        # Dealt from the whole: every rank draws the same permutation and takes its own stretch of it.
        count = self._total if self._whole else self._own
        drawn = self._random(epoch).permutation(count) if self._shuffle else np.arange(count)
        if self._whole:
            dealt = len(self) * self._size if self._even else self._total
            stretch = bounds(dealt, self._rank, self._size)
            return iter(drawn[stretch.start : stretch.stop].tolist())
        return iter(drawn[: len(self)].tolist())

    def draw_seed(self) -> int:
        """Draw a seed that differs between ranks and seeds, and never between runs."""
        return int(np.random.default_rng([1, self._seed, self._rank]).integers(2**62))

    def _random(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([0, self._seed, epoch, 0 if self._whole else self._rank + 1])
