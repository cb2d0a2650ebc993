"""Where gradients lie: in memory that is reduced in place, and never under a tensor the user kept."""

import copy
import os
import pickle

import pytest
import torch
from torch import nn

from nbdist.train import ring

from ..comm.ranks import spawn
from .nets import assert_equal, grads, make_net


def place_of(net, name="weight"):
    member = ring._ring._members[net]
    (layout,) = member._layouts.values()
    return layout.place_of[member.names.index(name)]


def in_place(rank, size):
    net = ring.attach(nn.Linear(3, 2))
    seen = []
    for step in range(3):
        net.zero_grad()
        net(torch.full((1, 3), float(rank + step))).sum().backward()
        place = place_of(net)
        seen.append((place.holds(net.weight.grad), place._address, net.weight.grad.tolist()))
    return [
        (held, address == seen[0][1], grad) for held, address, grad in seen
    ], not net.weight.grad._is_view()


def test_gradients_lie_where_they_are_reduced(ranks):
    got = ranks(in_place, 2)
    assert got == [([(True, True, [[step + 0.5] * 3] * 2) for step in range(3)], True)] * 2


# -- what the user keeps


def kept(rank, size, keep):
    net = ring.attach(nn.Linear(1, 2, bias=False))
    keeps = {
        "itself": lambda g: g,
        "a view": lambda g: g[:1],
        "detached": lambda g: g.detach(),
        "data": lambda g: g.data,
        "numpy": lambda g: g.numpy(),
        "dlpack": lambda g: torch.from_dlpack(g),
        "graph": lambda g: g * nn.Parameter(torch.ones(1)),
    }
    history = []
    for step in range(6):
        net.zero_grad()
        net(torch.full((1, 1), float(rank + step))).sum().backward()
        assert net.weight.grad.tolist() == [[step + 0.5]] * 2
        if rank == 1 and step != 1:
            history.append((step, keeps[keep](net.weight.grad)))
    return [(step, torch.as_tensor(g).flatten()[0].item()) for step, g in history]


@pytest.mark.parametrize("keep", ["itself", "a view", "detached", "data", "numpy", "dlpack", "graph"])
def test_what_is_kept_of_a_gradient_stays(ranks, keep):
    assert ranks(kept, 2, keep)[1] == [(step, step + 0.5) for step in (0, 2, 3, 4, 5)]


def kept_too_often(rank, size):
    import warnings

    from nbdist.train import layout

    layout._warned.clear()
    net = ring.attach(nn.Linear(1, 1, bias=False))
    history = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in range(8):
            net.zero_grad()
            net(torch.full((1, 1), float(rank + step))).sum().backward()
            history.append(net.weight.grad)
    return [g.item() for g in history], [str(w.message) for w in told]


def test_gradients_kept_at_every_step_are_copied_and_that_is_said_once(ranks):
    told = (
        "gradients of Linear are kept from one step to the next, so from now on they are copied to where "
        "they are averaged and back; keep p.grad.clone() instead."
    )
    assert ranks(kept_too_often, 2) == [([step + 0.5 for step in range(8)], [told])] * 2


def accumulates_into_kept(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    net(torch.full((1, 1), float(rank))).sum().backward()
    gradient = net.weight.grad
    net(torch.full((1, 1), float(rank))).sum().backward()
    same = gradient is net.weight.grad
    net.zero_grad(set_to_none=False)
    net(torch.full((1, 1), float(rank + 3))).sum().backward()
    return same, gradient is net.weight.grad, gradient.item()


def test_accumulates_into_one_tensor(ranks):
    assert ranks(accumulates_into_kept, 2) == [(True, True, 3.5)] * 2


def own_memory(rank, size):
    """Lay gradients into one flat tensor of the user's, which must go on to show them."""
    net = ring.attach(nn.Linear(2, 1))
    flat, single = torch.zeros(2), torch.zeros(1)
    net.weight.grad, net.bias.grad = flat[:].view(1, 2), single
    seen = []
    for step in range(2):
        flat.zero_()
        single.zero_()
        net(torch.full((1, 2), float(rank + step))).sum().backward()
        seen.append((flat.tolist(), single.item()))
    return seen


def test_memory_of_the_users_stays_where_it_is(ranks):
    assert ranks(own_memory, 2) == [[([0.5, 0.5], 1.0), ([1.5, 1.5], 1.0)]] * 2


# -- what moves gradients elsewhere


def moved(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    x, seen = torch.full((1, 1), float(rank)), []
    for change in (nn.Module.double, nn.Module.half, nn.Module.bfloat16, nn.Module.float):
        net(x.to(net.weight.dtype)).sum().backward()
        seen.append(net.weight.grad.item())
        change(net)
        net(x.to(net.weight.dtype)).sum().backward()  # over the gradient that moved along
        seen.append(net.weight.grad.item())
        net.zero_grad()
    net(x).sum().backward()
    net.weight.grad.data = torch.full((1, 1), 7.0)
    net(x).sum().backward()
    seen.append(net.weight.grad.item())
    return seen


def test_a_change_of_dtype(ranks):
    assert ranks(moved, 2) == [[0.5, 1.0] * 4 + [7.5]] * 2


def empty_and_scalar(rank, size):
    net = nn.Module()
    net.none, net.one = nn.Parameter(torch.ones(0, 3)), nn.Parameter(torch.tensor(2.0))
    net.complex = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    ring.attach(net)
    (net.none.sum() + net.one * rank + (net.complex * (rank + 1j)).sum().real).backward()
    return grads(net)


def test_odd_shapes(ranks):
    assert ranks(empty_and_scalar, 2) == [[[], 0.5, [0.5 - 1j, 0.5 - 1j]]] * 2


def untouched(rank, size):
    """A gradient of an earlier step that lies in a bucket which travels again."""
    net = nn.Module()
    net.a, net.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    ring.attach(net)
    (net.a.sum() * rank + net.b.sum() * 0.1).backward()
    net.b.grad.mul_(rank + 1)  # each rank's own doing stays its own
    net.a.grad = None
    (net.a.sum() * rank).backward()
    return net.a.grad.tolist(), [round(g, 6) for g in net.b.grad.tolist()]


def test_a_gradient_that_nobody_adds_to_stays(ranks):
    got = ranks(untouched, 3)
    assert [b for _, b in got] == [[round(0.1 * (rank + 1), 6)] * 3 for rank in range(3)]
    assert [a for a, _ in got] == [[1.0] * 3] * 3


def second_derivative(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        net.weight.fill_(2.0)
    x = torch.full((1, 1), rank + 1.0)
    (net(x) ** 3).sum().backward(create_graph=True)  # 3 w² x³
    first = net.weight.grad.item()
    (penalty,) = torch.autograd.grad(net.weight.grad.sum(), net.weight)  # 6 w x³, of this rank alone
    net.zero_grad()
    (net(x) ** 2).sum().backward()
    return first, penalty.item(), net.weight.grad.item()


@pytest.mark.filterwarnings("ignore:Using backward")
def test_second_derivatives(ranks):
    assert ranks(second_derivative, 2) == [(54.0, 12.0, 10.0), (54.0, 96.0, 10.0)]


def thawed_in_turns(rank, size):
    net = ring.attach(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(1.0)
    seen = []
    for step in range(8):
        for i in (0, 1):
            net[i].requires_grad_(step % 2 == i)
        net.zero_grad()
        net(torch.full((1, 1), float(rank + step))).sum().backward()
        seen.append(net[step % 2].weight.grad.item())
    return seen, len(ring._ring._members[net]._layouts)


def test_halves_thawed_in_turns(ranks):
    assert ranks(thawed_in_turns, 2) == [([s + 0.5 + s % 2 for s in range(8)], 2)] * 2


# -- with what trains


def trains(rank, size, kind, set_to_none):
    torch.manual_seed(0)
    net = ring.attach(make_net()[:2].append(nn.Linear(8, 2)))
    make = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
        "adam": lambda p: torch.optim.Adam(p, 0.01, fused=True),
        "adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
        "lbfgs": lambda p: torch.optim.LBFGS(p, 0.1, max_iter=3),
    }
    optimizer = make[kind](net.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(rank))

    def closure():
        optimizer.zero_grad(set_to_none=set_to_none)
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(x).float().pow(2).mean()
        loss.backward()
        return loss.item()

    for _ in range(4):
        if kind == "lbfgs":
            optimizer.step(closure)
            continue
        optimizer.zero_grad(set_to_none=set_to_none)
        for part in x.chunk(2):
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(part).float().pow(2).mean() / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
        scaler.step(optimizer)
        scaler.update()
    ring.finish()
    return [p.tolist() for p in net.parameters()], kind == "lbfgs" or norm.item()


@pytest.mark.parametrize("kind", ["sgd", "adam", "adagrad"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_optimizers_scaler_and_clipping(ranks, kind, set_to_none):
    assert_equal(ranks(trains, 2, kind, set_to_none))


def copied(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    net(torch.full((1, 1), float(rank))).sum().backward()
    twin, thawed = copy.deepcopy(net.weight.grad), pickle.loads(pickle.dumps(net.weight.grad))
    stored = len(pickle.dumps(net.weight.grad))
    net.zero_grad()
    net(torch.full((1, 1), float(rank + 1))).sum().backward()
    net.share_memory()
    net(torch.full((1, 1), float(rank))).sum().backward()
    return twin.item(), thawed.item(), net.weight.grad.item(), stored < 2000


def test_copies_of_gradients_are_their_own(ranks):
    assert ranks(copied, 2) == [(0.5, 0.5, 2.0, True)] * 2


def child_writes(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    net(torch.full((1, 1), float(rank))).sum().backward()
    child = os.fork()
    if child == 0:
        right = net.weight.grad.item() == 0.5
        net.weight.grad.fill_(9)
        os._exit(0 if right and net.weight.grad.item() == 9 else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, net.weight.grad.item()


def test_a_child_changes_no_gradient_of_its_parent(ranks):
    assert ranks(child_writes, 2) == [(0, 0.5)] * 2


# -- where it cannot be


def no_memory(rank, size):
    import warnings

    from nbdist.comm import arena

    make = arena.make
    if rank == 1:
        arena.make = lambda length: f"reserving {length} bytes: no room"
    try:
        net, other = ring.attach(nn.Linear(1, 1, bias=False)), ring.attach(nn.Linear(1, 1, bias=False))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for step in range(3):
                net.zero_grad()
                net(torch.full((1, 1), float(rank + step))).sum().backward()
        other(torch.full((1, 1), float(rank))).sum().backward()
    finally:
        arena.make = make
    return net.weight.grad.item(), [str(w.message) for w in told]


def test_without_memory_gradients_are_copied_and_that_is_said_once(all_ranks):
    got = all_ranks(no_memory, 2, backend="cpu:nbdist")
    told = (
        "gradients of Linear are not averaged in shared memory: rank 1: reserving 64 bytes: no room; "
        "free memory, or take fewer ranks on this host."
    )
    assert got == [(2.5, [told])] * 2


def renewed(rank, size, store):
    """A gradient kept over the end of a generation, and a group of another backend in between."""
    import torch.distributed as dist

    net, kept = ring.attach(nn.Linear(1, 1, bias=False)), []
    for generation, backend in enumerate(("cpu:nbdist", "gloo", "cpu:nbdist")):
        if generation:
            dist.destroy_process_group()
            dist.init_process_group(backend, init_method=f"{store}{generation}", rank=rank, world_size=size)
            ring.resume()
        for step in range(2):
            net.zero_grad()
            net(torch.full((1, 1), float(rank + step + generation))).sum().backward()
        kept.append(net.weight.grad)
    return [g.item() for g in kept]


def test_generations(all_ranks, tmp_path):
    got = all_ranks(renewed, 2, f"file://{tmp_path}/store", backend="cpu:nbdist")
    assert got == [[1.5, 2.5, 3.5]] * 2


def over_hosts(rank, size):
    net = ring.attach(nn.Linear(1, 1))
    seen = []
    for step in range(3):
        net.zero_grad()
        net(torch.full((1, 1), float(rank + step))).sum().backward()
        seen.append((net.weight.grad.item(), place_of(net).holds(net.weight.grad)))
    return seen


def test_ranks_on_several_hosts():
    assert spawn(3, over_hosts, hosts=[0, 0, 1]) == [[(step + 1.0, True) for step in range(3)]] * 3


def served(rank, size):
    net = ring.attach(nn.Linear(1, 1, bias=False))
    seen = []
    for step in range(3 - rank):
        net.zero_grad()
        net(torch.full((1, 1), float(rank + step))).sum().backward()
        seen.append(net.weight.grad)
    ring.join()
    return [g.item() for g in seen[:-1]]


def test_who_serves_keeps_what_it_has(ranks):
    assert ranks(served, 3) == [[1.0, 1.5], [1.0], []]
