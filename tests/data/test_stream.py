"""A stream is split between ranks and workers, never multiplied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from nbdist.data import Stream, cut
from nbdist.errors import UsageError


class Numbers(IterableDataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class Sized(Numbers):
    def __len__(self) -> int:
        return self.count


class Split(Numbers):
    """Deals out to workers itself, as torch's documentation teaches it."""

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        yield from range(first, self.count, step)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("kind", [Numbers, Sized, Split])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("whole", [False, True])
def test_every_item_is_read_once(kind: type[Numbers], workers: int, whole: bool) -> None:
    read = []
    for rank in range(2):
        part = cut(kind(11), rank, 2, whole=whole)
        loader = DataLoader(part, batch_size=2, num_workers=workers)
        own = [int(x) for batch in loader for x in batch]
        assert len(own) == (6, 5)[rank]
        read += own
    assert sorted(read) == list(range(11))


def test_the_base_sees_its_worker_again_afterwards() -> None:
    class Told(IterableDataset):
        def __iter__(self) -> Iterator[int]:
            for _ in cut(Split(4), 0, 1):
                info = get_worker_info()
                assert info is not None
                yield info.id

    assert [int(x) for x in DataLoader(Told(), batch_size=None, num_workers=1)] == [0] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_drop_last_gives_every_rank_as_many(workers: int) -> None:
    batches = [
        [b.tolist() for b in cut(Numbers(23), rank, 4).loader(2, drop_last=True, num_workers=workers)]
        for rank in range(4)
    ]
    assert len({len(own) for own in batches}) == 1
    seen = [x for own in batches for batch in own for x in batch]
    assert len(seen) == len(set(seen)) > 0


def test_it_is_as_long_as_its_base_says() -> None:
    assert [len(cut(Sized(10), rank, 4)) for rank in range(4)] == [3, 3, 2, 2]
    with pytest.raises(TypeError):
        len(cut(Numbers(10), 0, 4))
    assert list(cut(Numbers(10), 1, 4)) == [1, 5, 9]
    assert isinstance(cut(Numbers(10), 1, 4), Stream)
    assert repr(cut(Numbers(10), 1, 4)) == "Stream of every 4th item from 1 of a Numbers"


def test_a_stream_is_not_shuffled() -> None:
    with pytest.raises(UsageError, match="a stream has the order it is read in"):
        cut(Numbers(3), 0, 1).loader(1, shuffle=True)  # type: ignore[call-arg]


def test_a_column_is_no_stream() -> None:
    with pytest.raises(UsageError, match=r"dict's 'x': cannot shard a Numbers in here: .*by itself"):
        cut({"x": Numbers(3)}, 0, 2)
