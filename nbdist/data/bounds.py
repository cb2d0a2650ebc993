"""Which items are whose."""

from __future__ import annotations


def bounds(length: int, rank: int, size: int) -> range:
    """Return the contiguous part of `range(length)` that belongs to `rank`.

    The parts of all ranks cover everything once; lengths differ by at most one, the longer parts
    first (10 over 4 gives 3, 3, 2, 2).
    """
    share, longer = divmod(length, size)
    start = rank * share + min(rank, longer)
    return range(start, start + share + (rank < longer))
