"""The loop round the user's batches."""

from collections import OrderedDict, UserDict, namedtuple
from types import MappingProxyType

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from nbdist.data import cut
from nbdist.errors import UsageError
from nbdist.train import loop, metrics, ring


@pytest.fixture(autouse=True)
def fresh():
    metrics.drain()
    metrics.begin_run()


def test_counts_steps_examples_and_epochs():
    loader = cut(TensorDataset(torch.arange(5)), 0, 1).loader(2, shuffle=False)
    seen = [x.tolist() for (x,) in loop(loader, epochs=2)]
    assert seen == [[0, 1], [2, 3], [4]] * 2
    rows = metrics.drain()
    assert [row["step"] for row in rows] == list(range(6))
    assert [row["examples"] for row in rows] == [2, 2, 1] * 2
    assert [row["epoch"] for row in rows] == [0] * 3 + [1] * 3
    assert {row["total_steps"] for row in rows} == {6}


def test_a_step_begins_and_ends_with_the_body():
    for x in loop([torch.zeros(3)] * 2):
        metrics.log(loss=x.sum())
    assert [(row["step"], row["loss"], row["examples"]) for row in metrics.drain()] == [(0, 0, 3), (1, 0, 3)]


def test_any_iterable():
    assert list(loop(x for x in "ab")) == ["a", "b"]
    rows = metrics.drain()
    assert [row["examples"] for row in rows] == [1, 1]
    assert "total_steps" not in rows[0]
    assert list(loop([], epochs=3)) == []


def test_a_one_shot_iterator_is_not_iterated_twice():
    with pytest.raises(UsageError, match="generator can be iterated only once"):
        loop((x for x in "ab"), epochs=2)


@pytest.mark.parametrize("thing", [5, None, 0.1])
def test_what_cannot_be_iterated_is_named_at_once(thing):
    with pytest.raises(UsageError, match=f"of type {type(thing).__name__}; "):
        loop(thing)


def test_moves_nested_batches():
    pair = namedtuple("pair", "x y")
    batch = {"a": [torch.zeros(2), "text"], "b": (torch.ones(2), pair(torch.zeros(1), 3))}
    (moved,) = loop([batch], device="meta")
    assert moved["a"][0].device.type == moved["b"][0].device.type == moved["b"][1].x.device.type == "meta"
    assert type(moved["b"][1]) is pair
    assert (moved["a"][1], moved["b"][1].y) == ("text", 3)
    assert batch["a"][0].device.type == "cpu"
    assert metrics.drain()[0]["examples"] == 2


class Tokens(UserDict):
    """As tokenizers return them: a mapping that moves itself."""

    def to(self, device):
        self.moved = device
        self.data = {key: value.to(device) for key, value in self.data.items()}


class Graph:
    def __init__(self, x):
        self.x = x

    def to(self, device):
        return Graph(self.x.to(device))


def test_moves_mappings_and_what_moves_itself():
    tokens, graph = Tokens(ids=torch.zeros(3, 2)), Graph(torch.zeros(1))
    ordered = OrderedDict(x=torch.zeros(3))
    view = MappingProxyType({"x": torch.zeros(3)})
    packed = pack_sequence([torch.zeros(2), torch.zeros(1)])
    (moved,) = loop([(tokens, graph, ordered, UserDict(ordered), view, packed)], device="meta")
    assert moved[0] is tokens
    assert tokens.moved == torch.device("meta")
    assert type(moved[2]) is OrderedDict
    assert type(moved[3]) is UserDict
    assert [m["x"].device.type for m in moved[2:5]] == ["meta"] * 3
    assert moved[1].x.device.type == moved[5].data.device.type == "meta"
    assert moved[5].batch_sizes.device.type == "cpu"  # torch wants it there
    assert ordered["x"].device.type == view["x"].device.type == graph.x.device.type == "cpu"
    assert metrics.drain()[0]["examples"] == 3


def break_out(batches):
    for _ in batches:
        break


def raise_out(batches):
    def body():
        for _ in batches:
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        body()


def close(batches):
    next(batches)
    batches.close()


@pytest.mark.parametrize("leave", [break_out, raise_out, close])
def test_a_step_ends_however_the_body_is_left(leave):
    leave(loop([torch.zeros(3)] * 5))
    for loss in (1.0, 2.0):
        metrics.log(loss=loss)
    rows = metrics.drain()
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert [row.get("examples") for row in rows] == [3, None, None]


def test_a_loop_inside_a_step_leaves_the_step_open():
    for _ in loop([torch.zeros(3)] * 2):
        for _ in loop([torch.zeros(4)] * 2):
            pass
        metrics.log(loss=1.0)
    rows = metrics.drain()
    assert sum(row.get("examples", 0) for row in rows) == 2 * 3 + 4 * 4
    assert [row["step"] for row in rows if "loss" in row] == [2, 5]


def test_what_the_user_counts_replaces_what_the_loop_counts():
    for _ in loop(["ab"]):
        metrics.log(examples=64, epoch=3, loss=1.0)
    (row,) = metrics.drain()
    assert (row["examples"], row["epoch"], row["total_steps"]) == (64, 3, 1)


def test_torchs_own_sampler_is_told_the_epoch():
    data = TensorDataset(torch.arange(32))
    loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data, 1, 0))
    first, second = ([int(i) for i in x] for (x,) in loop(loader, epochs=2))
    assert sorted(first) == sorted(second) == list(range(32))
    assert first != second


def uneven_epochs(rank, size, total):
    data = TensorDataset(torch.arange(float(total)).unsqueeze(1), torch.arange(total))
    net = ring.attach(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    history, seen = [], []
    loader = cut(data, rank, size).loader(1)
    for epoch in range(2):
        for x, i in loop(loader):
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
            seen += i.tolist()
        history.append([p.tolist() for p in net.parameters()])
        with torch.no_grad():
            if rank == 0:  # evaluation on one rank starts nothing
                list(loop(loader))
        assert len(seen) == (epoch + 1) * len(loader)
    ring.finish()
    return history, sorted(seen)


@pytest.mark.parametrize("total", [10, 3])
def test_uneven_shards_are_equal_after_each_epoch(ranks, total):
    got = ranks(uneven_epochs, 4, total)
    assert all(history == got[0][0] for history, _ in got)
    assert sorted(i for _, seen in got for i in seen) == sorted([*range(total)] * 2)


def broken_off(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.01), 0
    for x in loop([torch.ones(1, 1)] * 3, epochs=2):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
        seen += 1
        if rank == 1:
            break
    ring.finish()
    return seen, [p.tolist() for p in net.parameters()]


def test_a_break_on_one_rank_keeps_nobody_waiting(ranks):
    got = ranks(broken_off, 3, timeout=20)
    assert [seen for seen, _ in got] == [6, 1, 6]
    assert all(weights == got[0][1] for _, weights in got)


def documented_way(rank, size):
    """Case D07: a plain DataLoader over a shard, no join of the user's."""
    train = cut(TensorDataset(torch.arange(10.0).unsqueeze(1), torch.arange(10)), rank, size)
    net = ring.attach(nn.Linear(1, 1))
    opt, seen = torch.optim.SGD(net.parameters(), lr=0.01), []
    for x, idx in DataLoader(train, batch_size=1):
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        opt.step()
        seen += idx.tolist()
    ring.finish()
    return seen, [p.tolist() for p in net.parameters()]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_plain_loader_over_a_shard(ranks, size):
    got = ranks(documented_way, size)
    assert sorted(i for seen, _ in got for i in seen) == list(range(10))
    lengths = [len(seen) for seen, _ in got]
    assert max(lengths) - min(lengths) <= 1
    assert all(weights == got[0][1] for _, weights in got)


def frozen_eval(rank, size):
    ring.attach(nn.BatchNorm1d(1)).eval()
    if rank == 0:
        list(loop([torch.zeros(1, 1)]))  # a join here would meet the barrier of the others
    dist.barrier()
    return rank


def test_a_model_in_eval_mode_exchanges_nothing(ranks):
    assert ranks(frozen_eval, 2, timeout=20) == [0, 1]
