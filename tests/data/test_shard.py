"""Exact shards of everything that can be cut, and loaders that reshuffle."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdist.data import Shard, bounds, cut
from nbdist.errors import UsageError


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 64, 101])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_bounds_cover_everything_once(length, size):
    parts = [bounds(length, rank, size) for rank in range(size)]
    assert [i for part in parts for i in part] == list(range(length))
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)


def test_ten_over_four():
    assert [len(bounds(10, rank, 4)) for rank in range(4)] == [3, 3, 2, 2]


class Squares(Dataset):
    def __init__(self, count):
        self.count = count
        self.read = []

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        self.read.append(i)
        return i * i


KINDS = {
    "tensor": torch.arange(10),
    "rows": torch.arange(20).reshape(10, 2),
    "array": np.arange(10),
    "dataset of tensors": TensorDataset(torch.arange(10.0).unsqueeze(1), torch.arange(10)),
    "dataset": Squares(10),
    "list": list("abcdefghij"),
    "tuple": tuple("abcdefghij"),
    "range": range(10),
    "series": pd.Series(range(10), index=list("abcdefghij")),
    "frame": pd.DataFrame({"a": range(10), "b": range(10)}, index=list("abcdefghij")),
    "dict": {"x": torch.arange(10), "y": list(range(10))},
}


def as_text(item):
    return str(item)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_its_own_items(kind, whole):
    base = KINDS[kind]
    at = base.iloc if isinstance(base, pd.Series | pd.DataFrame) else base
    wanted = (
        [{"x": base["x"][i], "y": base["y"][i]} for i in range(10)]
        if isinstance(base, dict)
        else [at[i] for i in range(10)]
    )
    got, indices = [], []
    for rank in range(4):
        shard = pickle.loads(pickle.dumps(cut(base, rank, 4, whole=whole)))
        assert len(shard) == len(shard.indices) == (3, 3, 2, 2)[rank]
        assert (shard.rank, shard.size, shard.total) == (rank, 4, 10)
        assert as_text(shard[-1]) == as_text(shard[len(shard) - 1])
        with pytest.raises(IndexError, match="Shard"):
            shard[len(shard)]
        got += list(shard)
        indices += shard.indices
    assert list(map(as_text, got)) == list(map(as_text, wanted))
    assert indices == list(range(10))


def test_repr():
    assert repr(cut(range(10), 0, 4)) == "Shard 3 of 10 (rank 0 of 4)"


def test_only_the_own_part_travels():
    whole = torch.zeros(100_000)
    for base in (whole, whole.numpy(), TensorDataset(whole), {"x": whole}, pd.Series(whole.numpy())):
        assert len(pickle.dumps(cut(base, 1, 4))) < whole.numel() * 4 / 3.9
    lazy = Squares(8)
    cut(lazy, 1, 4)
    assert lazy.read == [2, 3]


def test_a_part_that_is_not_copied_leaves_the_rest_behind():
    whole = torch.zeros(100_000)
    for base in (whole, whole.numpy(), TensorDataset(whole), {"x": whole}, whole.to(torch.bfloat16)):
        part = cut(base, 1, 4, copy=False)
        assert len(pickle.dumps(part)) < whole.numel() * 4 / 3.9
        assert len(part) == 25_000
    assert cut(whole, 1, 4, copy=False).data.data_ptr() == whole[25_000:].data_ptr()
    assert cut(torch.arange(12).reshape(3, 4).t(), 1, 2, copy=False).data.tolist() == [[2, 6, 10], [3, 7, 11]]
    assert cut(torch.arange(9)[1:], 1, 2, copy=False).data.tolist() == [5, 6, 7, 8]
    assert cut(torch.arange(2), 3, 4, copy=False).data.tolist() == []


def test_data_is_of_the_kind_that_was_cut():
    for whole in (False, True):
        assert cut(torch.arange(10), 1, 4, whole=whole).data.tolist() == [3, 4, 5]
        assert list(cut(KINDS["series"], 3, 4, whole=whole).data.index) == ["i", "j"]
        assert cut(torch.arange(10), 1, 4, whole=whole)[1:].tolist() == [4, 5]


def test_a_subclass_that_reads_differently_is_asked():
    class Doubled(TensorDataset):
        def __getitem__(self, i):
            return super().__getitem__(i)[0] * 2

    assert [int(x) for x in cut(Doubled(torch.arange(4)), 1, 2)] == [4, 6]


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ((x for x in range(3)), "generator.*no length"),
        (3, "an int: it has no length"),
        (torch.eye(3).to_sparse(), "a sparse Tensor: .*to_dense"),
        (TensorDataset(torch.eye(3).to_sparse()), "a sparse Tensor: .*to_dense"),
        ({"x": [1], "lr": 0.1}, "dict's 'lr': cannot shard a float"),
        (None, "NoneType"),
        ("text", "str"),
        ({1, 2}, "set.*list"),
        (torch.tensor(1.0), "Tensor.*first dimension"),
        (np.array(1.0), "ndarray.*first dimension"),
        (DataLoader([1, 2]), "DataLoader.*shard its dataset"),
        ({"x": [1, 2], "y": [1]}, "x: 2, y: 1"),
        ({}, "empty dict"),
        ({"x": 5}, "int"),
    ],
)
def test_what_cannot_be_cut_is_named(base, told):
    with pytest.raises(UsageError, match=f"cannot shard .*{told}"):
        cut(base, 0, 2)


def test_more_ranks_than_items():
    assert [list(cut([7, 8], rank, 4)) for rank in range(4)] == [[7], [8], [], []]
    empty = cut(TensorDataset(torch.zeros(2, 1)), 3, 4)
    assert list(empty.loader(1)) == []
    assert list(DataLoader(empty, batch_size=1)) == []


# -- loaders


def orders(size, epochs, *, whole, total=64, **options):
    """Return what each rank reads in each epoch, after each seeded torch in its own way."""
    read = []
    for rank in range(size):
        torch.manual_seed(100 + rank)
        shard = cut(TensorDataset(torch.arange(total)), rank, size, whole=whole)
        loader = shard.loader(batch_size=3, **options)
        read.append([[int(x) for (batch,) in loader for x in batch] for _ in range(epochs)])
    return read


@pytest.mark.parametrize("whole", [False, True])
def test_a_new_order_each_epoch_without_overlap(whole):
    read = orders(4, 2, whole=whole)
    for first, second in read:
        assert first != second
    for epoch in range(2):
        assert sorted(i for rank in read for i in rank[epoch]) == list(range(64))
    assert read == orders(4, 2, whole=whole)
    assert read != orders(4, 2, whole=whole, seed=1)
    redealt = any(set(first) != set(second) for first, second in read)
    assert redealt == whole


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_uneven_shards_cover_everything(whole, shuffle):
    read = orders(4, 3, whole=whole, total=10, shuffle=shuffle)
    for epoch in range(3):
        assert [len(rank[epoch]) for rank in read] == [3, 3, 2, 2]
        assert sorted(i for rank in read for i in rank[epoch]) == list(range(10))
    if not shuffle:
        assert [i for rank in read for i in rank[0]] == list(range(10))


@pytest.mark.parametrize("whole", [False, True])
def test_drop_last_gives_every_rank_as_many(whole):
    for rank in range(4):
        loader = cut(range(10), rank, 4, whole=whole).loader(1, drop_last=True)
        assert len(loader) == len(list(loader)) == 2
        assert len(list(cut(range(10), rank, 4, whole=whole).loader(3, drop_last=True))) == 0


def test_a_loader_is_torchs_own_and_leaves_the_global_state_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    loader = cut(torch.arange(10), 0, 2).loader(2)
    assert isinstance(loader, DataLoader)
    assert len(loader) == len(list(loader)) == 3
    assert torch.equal(before, torch.get_rng_state())


def test_a_loader_takes_dicts_frames_and_options():
    by_name = cut({"x": torch.arange(6), "y": list(range(6))}, 1, 2).loader(3, shuffle=False)
    (batch,) = by_name
    assert batch["x"].tolist() == batch["y"].tolist() == [3, 4, 5]
    frame = pd.DataFrame({"a": range(4)})
    rows = cut(frame, 1, 2).loader(2, shuffle=False, collate_fn=lambda rows: [row.a for row in rows])
    assert list(rows) == [[2, 3]]


@pytest.mark.parametrize("taken", ["sampler", "batch_sampler", "generator", "dataset"])
def test_what_a_loader_decides_itself_cannot_be_given(taken):
    with pytest.raises(UsageError, match=rf"loader\({taken}=.*is taken"):
        cut([1, 2], 0, 1).loader(1, **{taken: None})


def test_a_loader_with_worker_processes():
    loader = cut(TensorDataset(torch.arange(20)), 0, 2, whole=True).loader(5, num_workers=1)
    first, second = ([int(x) for (batch,) in loader for x in batch] for _ in range(2))
    assert len(set(first)) == len(set(second)) == 10
    assert first != second


def test_a_plain_loader_reads_a_shard():
    train = cut(TensorDataset(torch.arange(10.0).unsqueeze(1), torch.arange(10)), 3, 4)
    assert isinstance(train, Shard)
    assert [i for _, idx in DataLoader(train, batch_size=1) for i in idx.tolist()] == [8, 9]
