"""Models trained as one: gradients, missing ones, uneven data."""

import pickle

import pytest
import torch
from torch import nn

from nbdist.train import ring


def make_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 2))


def weights(model):
    return torch.cat([p.detach().reshape(-1).double() for p in model.parameters()]).tolist()


def grads(model):
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


def assert_equal(values):
    assert all(value == values[0] for value in values)


# -- gradients against one process


def train_plain(rank, size, dtype, small_buckets):
    import os

    if small_buckets:
        os.environ["NBDIST_BUCKET_MIB"] = "0"  # every parameter travels by itself
    try:
        net = ring.attach(make_net(seed=rank)[:2].append(nn.Linear(8, 2)).to(dtype))
    finally:
        os.environ.pop("NBDIST_BUCKET_MIB", None)
    torch.manual_seed(0)
    net.load_state_dict(reference_net().to(dtype).state_dict())
    x, y = reference_data(size, dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        (net(x[rank]) - y[rank]).pow(2).mean().backward()
        optimizer.step()
    ring.finish()
    return weights(net)


def reference_net():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def reference_data(size, dtype):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(size, 6, 4, generator=generator), torch.randn(size, 6, 2, generator=generator)
    return x.to(dtype), y.to(dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("small_buckets", [False, True])
def test_equals_one_process(ranks, size, small_buckets):
    got = ranks(train_plain, size, torch.float64, small_buckets)
    assert_equal(got)
    net = reference_net().double()
    x, y = reference_data(size, torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        (net(x.reshape(-1, 4)) - y.reshape(-1, 2)).pow(2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(torch.tensor(got[0], dtype=torch.float64), torch.tensor(weights(net)).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(ranks, dtype):
    assert_equal(ranks(train_plain, 2, dtype, False))


def half_range(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False).half())
    (net.weight * 60000).sum().backward()
    return net.weight.grad.item()


def test_average_of_half_stays_in_range(ranks):
    assert ranks(half_range, 2) == [60000.0 - 60000 % 32] * 2  # the nearest float16


def start_equal(rank, size):
    net = ring.attach(make_net(seed=rank))
    keys = list(net.state_dict())
    ring.attach(net)
    net[2].running_mean.fill_(rank)
    ring.attach(net)
    x = torch.full((1, 4), float(rank + 1))
    net[0](x).sum().backward()
    return weights(net), keys, net[2].running_mean.tolist(), net[0].weight.grad.tolist(), type(net).__name__


def test_attach_broadcasts_and_leaves_the_model_itself(ranks):
    got = ranks(start_equal, 2)
    assert_equal(got)
    _, keys, running_mean, gradient, name = got[0]
    assert keys == list(make_net().state_dict())
    assert running_mean == [0.0] * 8
    assert gradient == [[1.5] * 4] * 8  # attached three times, averaged once
    assert name == "Sequential"


def detached(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    ring.detach(net)
    ring.detach(net)
    net(torch.full((1, 1), float(rank))).sum().backward()
    return net.weight.grad.item()


def test_detach_takes_it_off(ranks):
    assert ranks(detached, 2) == [0.0, 1.0]


def different(rank, size):
    with pytest.raises(Exception, match="on rank 1-2 than on rank 0") as told:
        ring.attach(nn.Linear(2 if rank else 1, 1))
    return type(told.value).__name__


def test_attach_refuses_unlike_models_on_every_rank(ranks):
    assert ranks(different, 3) == ["UsageError"] * 3


def copies(rank, size):
    import copy
    import io

    net = ring.attach(make_net())
    twin, thawed = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    torch.save(net, io.BytesIO())
    for other in (twin, thawed):
        other[0](torch.full((1, 4), float(rank))).sum().backward()
    return [other[0].weight.grad[0, 0].item() for other in (twin, thawed)], b"nbdist" in pickle.dumps(net)


def test_copies_are_plain_models(ranks):
    assert ranks(copies, 2) == [([0.0, 0.0], False), ([1.0, 1.0], False)]


def test_works_without_a_group():
    net = ring.attach(nn.Linear(1, 1))
    net(torch.ones(1, 1)).sum().backward()
    ring.join()
    ring.finish()
    assert net.weight.grad.item() == 1.0


# -- D07: uneven numbers of steps


def uneven(rank, size, batches, kind):
    net = ring.attach(make_net(seed=rank))
    make = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, 0.01),
    }
    optimizer = make[kind](net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    generator = torch.Generator().manual_seed(rank)
    for count in (batches[rank], 2):  # the second time round evenly, to show that nothing drifts
        for _ in range(count):
            optimizer.zero_grad()
            net(torch.randn(3, 4, generator=generator)).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
        ring.finish()
    ring.finish()
    buffers = [b.tolist() for b in net.buffers()]
    return weights(net), buffers, optimizer.param_groups[0]["lr"], schedule.last_epoch


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("batches", [(3, 1), (1, 3), (3, 3, 2, 2), (0, 2, 1)])
def test_uneven_steps_end_equal(ranks, batches, kind):
    got = ranks(uneven, len(batches), batches, kind)
    assert_equal(got)
    assert got[0][3] == max(batches) + 2


def over_those_that_train(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    seen = []
    for step in range(rank + 1):
        net.weight.grad = None
        net(torch.full((1, 1), float(rank + step))).sum().backward()
        seen.append(net.weight.grad.item())
    ring.join()
    return seen


def test_average_is_over_the_ranks_that_have_data(ranks):
    assert ranks(over_those_that_train, 3) == [[1.0], [1.0, 2.5], [1.0, 2.5, 4.0]]


def join_meets_finish(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(3):
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        if rank == 1 and epoch == 0:
            break  # ends its cell early, without a join
        ring.join()
    ring.finish()
    return weights(net)


def test_a_rank_that_ends_early_serves_later_epochs(ranks):
    assert_equal(ranks(join_meets_finish, 3))


# -- D08: parameters without a gradient


class TwoHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = (nn.Linear(4, k) for k in (4, 1, 1))

    def forward(self, x, use_b):
        return (self.b if use_b else self.a)(self.body(x))


def two_heads(rank, size):
    net = ring.attach(TwoHead())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    history, b = [], []
    for step in range(6):
        optimizer.zero_grad()
        net(torch.full((2, 4), rank + 1.0), step < 3 and rank % 2 == 1).sum().backward()
        optimizer.step()
        history.append(weights(net))
        b.append((net.b.weight.tolist(), net.b.bias.tolist(), net.b.weight.grad is None))
    ring.finish()
    return history, b


@pytest.mark.parametrize("size", [2, 4])
def test_missing_gradient_counts_as_zero(ranks, size):
    got = ranks(two_heads, size)
    assert_equal(got)
    b = got[0][1]
    assert b[0] != b[1] != b[2]
    assert [untouched for *_, untouched in b] == [False] * 3 + [True] * 3
    assert b[3][:2] == b[4][:2] == b[5][:2] == b[2][:2]


def one_sided(rank, size):
    net = ring.attach(TwoHead())
    net.b.bias.grad = torch.tensor([5.0])  # accumulated earlier, touched by nobody now
    net(torch.ones(1, 4), use_b=False).sum().backward()
    kept = net.b.bias.grad.item()
    net.zero_grad()
    net(torch.ones(1, 4), use_b=rank == 1).sum().backward()
    return kept, net.b.bias.grad.item(), net.a.bias.grad.item()


def test_missing_on_some_ranks_and_on_all(ranks):
    assert ranks(one_sided, 2) == [(5.0, 0.5, 0.5)] * 2


# -- backward in all its forms


def accumulated(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    for micro in range(3):
        net(torch.full((1, 1), float(rank + 10 * micro))).sum().backward()
    return net.weight.grad.item()


def test_accumulation_over_several_backwards(ranks):
    assert ranks(accumulated, 2) == [0.5 + 10.5 + 20.5] * 2


def retained(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    loss = net(torch.full((1, 1), float(rank))).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return net.weight.grad.item()


def test_retained_graph(ranks):
    assert ranks(retained, 2) == [1.0, 1.0]


def unrelated(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    other = nn.Parameter(torch.ones(1))
    if rank == 0:
        (other * 2).sum().backward()
    with torch.no_grad():
        net(torch.ones(1, 1))
    net(torch.full((1, 1), float(rank))).sum().backward()
    return net.weight.grad.item()


def test_a_loss_without_the_model_exchanges_nothing(ranks):
    assert ranks(unrelated, 2) == [0.5, 0.5]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def tied_and_frozen(rank, size):
    net = ring.attach(Tied())
    with torch.no_grad():
        net.a.weight.copy_(torch.eye(2))
    net(torch.full((1, 2), float(rank))).sum().backward()
    tied = net.a.weight.grad.tolist()
    pair = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    pair[0].requires_grad_(False)
    ring.attach(pair)
    seen = []
    for frozen in (0, 1, None):
        for i in (0, 1):
            pair[i].requires_grad_(i != frozen)
        pair.zero_grad()
        pair(torch.full((1, 1), float(rank))).sum().backward()
        seen.append(grads(pair))
    return tied, seen


def test_tied_once_and_frozen_not_at_all(ranks):
    got = ranks(tied_and_frozen, 2)
    assert_equal(got)
    tied, (first, second, third) = got[0]
    assert tied == [[1.0, 1.0], [1.0, 1.0]]
    assert first[:2] == [None, None]
    assert None not in first[2:]
    assert second[2:] == [None, None]
    assert None not in second[:2]
    assert None not in third


def two_models(rank, size):
    a, b = ring.attach(nn.Linear(1, 1, bias=False)), ring.attach(nn.Linear(1, 1, bias=False))
    x = torch.full((1, 1), float(rank))
    pair = (a, b) if rank else (b, a)  # reached in another order on each rank
    (pair[0](x) + pair[1](x)).sum().backward()
    both = a.weight.grad.item(), b.weight.grad.item()
    for model in (a, b, a):  # and one at a time, as in adversarial training
        model.weight.grad = None
        model(x).sum().backward()
    ring.finish()
    return both, a.weight.grad.item(), b.weight.grad.item()


def test_two_models(ranks):
    assert ranks(two_models, 2) == [((0.5, 0.5), 0.5, 0.5)] * 2


def unlike_models(rank, size):
    a, b = ring.attach(nn.Linear(1, 1)), ring.attach(nn.Linear(1, 1))
    with pytest.raises(Exception, match=r"rank 0,2 against rank 1.*same models in the same order") as told:
        (b if rank == 1 else a)(torch.ones(1, 1)).sum().backward()
    a.zero_grad()
    a(torch.full((1, 1), float(rank))).sum().backward()
    return type(told.value).__name__, a.weight.grad.item()


def test_stepping_different_models_is_told_on_every_rank(ranks):
    assert ranks(unlike_models, 3) == [("MismatchError", 1.0)] * 3


def unlike_frozen(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    net.bias.requires_grad_(rank == 0)
    with pytest.raises(Exception, match="freeze and unfreeze the same") as told:
        net(torch.ones(1, 1)).sum().backward()
    net.bias.requires_grad_(True)
    net.zero_grad()
    net(torch.full((1, 1), float(rank))).sum().backward()
    return type(told.value).__name__, net.weight.grad.item()


def test_freezing_unlike_parameters_is_told_on_every_rank(ranks):
    assert ranks(unlike_frozen, 2) == [("MismatchError", 0.5)] * 2


class Explode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("boom")


def raising(rank, size, everywhere):
    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    x = torch.full((1, 1), float(rank))
    if everywhere or rank == 0:
        with pytest.raises(ArithmeticError, match="boom"):
            net[1](Explode.apply(net[0](x))).sum().backward()
    else:
        with pytest.raises(Exception, match="raised on rank 0") as told:
            net(x).sum().backward()
        assert type(told.value).__name__ == "GroupError"
    net.zero_grad()
    with torch.no_grad():
        net[1].weight.fill_(1.0)
    net(x).sum().backward()
    ring.finish()
    return net[0].weight.grad.item(), net[1].bias.grad.item()


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_backward_that_raises_does_not_poison_the_next(ranks, everywhere):
    assert ranks(raising, 2, everywhere) == [(0.5, 1.0)] * 2


def rebuilt(rank, size):
    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    net[1] = nn.Linear(1, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net(torch.ones(1, 1)).sum().backward()
    with pytest.raises(Exception, match=r"new parameter, 1\.weight"):
        optimizer.step()


def test_a_rebuilt_model_is_refused(ranks):
    ranks(rebuilt, 2)


def checkpointed(rank, size, reentrant):
    from torch.utils.checkpoint import checkpoint

    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    x = torch.full((2, 1), float(rank), requires_grad=True)
    for part in net:
        x = checkpoint(part, x, use_reentrant=reentrant)
    x.sum().backward()
    return grads(net), net[1].weight.item()


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpoints(ranks, reentrant):
    got = ranks(checkpointed, 2, reentrant)
    assert_equal(got)
    assert got[0][0][1] == [pytest.approx(2 * got[0][1])]


def sparse(rank, size):
    net = ring.attach(nn.Embedding(3, 2, sparse=True))
    with pytest.raises(Exception, match="sparse=False"):
        net(torch.tensor([rank])).sum().backward()


def test_sparse_gradients_are_refused(ranks):
    ranks(sparse, 2)


def channels_last(rank, size):
    net = ring.attach(nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last))
    x = torch.arange(2 * 2 * 5 * 5.0).reshape(2, 2, 5, 5) * (rank + 1)
    net(x.to(memory_format=torch.channels_last)).sum().backward()
    alone = nn.Conv2d(2, 3, 3)
    alone(x / (rank + 1) * 1.5).sum().backward()
    torch.testing.assert_close(net.weight.grad, alone.weight.grad)
    assert net.weight.grad.stride() == net.weight.stride()


def test_channels_last(ranks):
    ranks(channels_last, 2)


# -- D16, D18, D19


def saved(rank, size, path):
    net = ring.attach(nn.Linear(1, 1))
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    net(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    ring.finish()
    if rank == 0:
        torch.save(net.state_dict(), path)
        torch.save(optimizer.state_dict(), path + ".optimizer")
    return weights(net)


def test_state_opens_anywhere(ranks, tmp_path):
    path = str(tmp_path / "m.pt")
    got = ranks(saved, 2, path)
    fresh = nn.Linear(1, 1)
    fresh.load_state_dict(torch.load(path, weights_only=True), strict=True)
    assert weights(fresh) == got[0] == got[1]
    torch.optim.Adam(fresh.parameters()).load_state_dict(torch.load(path + ".optimizer", weights_only=True))


def batch_norm(rank, size):
    import torch.distributed as dist

    net = ring.attach(nn.BatchNorm1d(3, momentum=1.0))
    x = torch.full((8, 3), 10.0 * (size - rank), requires_grad=True)
    net.train()
    net(x).sum().backward()
    if rank == 0:
        net.eval()
        net(torch.zeros(2, 3))
    dist.barrier()
    ring.finish()
    return net.running_mean.tolist()


def test_buffers_are_rank_0s_at_the_end_of_a_cell(ranks):
    assert ranks(batch_norm, 4) == [[40.0] * 3] * 4


def average(rank, size):
    net = nn.Module()
    net.w = nn.Parameter(torch.tensor([1.0]))
    ring.attach(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.zero_grad()
    (net.w * (rank + 1)).sum().backward()
    optimizer.step()
    return net.w.item(), optimizer.param_groups[0]["lr"]


def test_average_is_the_default_and_no_rate_changes(ranks):
    for value, rate in ranks(average, 4):
        assert value == pytest.approx(0.75, abs=1e-6)
        assert rate == 0.1


# -- when the group ends


def aborted(rank, size, store, in_hook):
    import os

    import torch.distributed as dist

    from nbdist.errors import GroupAborted

    os.environ["NBDIST_BUCKET_MIB"] = "0"
    net = ring.attach(nn.Linear(1, 1))
    del os.environ["NBDIST_BUCKET_MIB"]
    x = torch.full((1, 1), float(rank))
    all_reduce, calls = dist.all_reduce, []

    def abort(*args, **options):
        calls.append(args)
        if len(calls) == (2 if in_hook else 4):  # header, two buckets, presence
            raise GroupAborted("released by rank 1", rank=1, operation="all_reduce")
        return all_reduce(*args, **options)

    dist.all_reduce = abort
    try:
        net(x).sum().backward()
    except GroupAborted as error:
        told = error.rank, error.operation
    finally:
        dist.all_reduce = all_reduce
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    net.zero_grad()
    net(x).sum().backward()
    ring.finish()
    return told, net.weight.grad.item()


@pytest.mark.parametrize("in_hook", [True, False])
def test_an_abort_leaves_backward_as_it_is_and_the_next_generation_works(all_ranks, tmp_path, in_hook):
    got = all_ranks(aborted, 2, f"file://{tmp_path}/next", in_hook)
    assert got == [((1, "all_reduce"), 0.5)] * 2


def collected(rank, size):
    import gc
    import weakref

    net = ring.attach(make_net())
    net(torch.randn(4, 4)).sum().backward()
    ring.finish()
    gone = weakref.ref(net[0].weight)
    del net
    gc.collect()
    ring.finish()
    return gone() is None


def test_a_model_that_is_dropped_is_freed(ranks):
    assert ranks(collected, 2) == [True, True]
