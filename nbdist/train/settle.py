"""After ranks made unequal numbers of steps: all take the state of the one that made most."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .bucket import broadcast
from .member import Member
from .world import World


def settle(world: World, member: Member, leader: int) -> None:
    """Make parameters, gradients, buffers, optimizers and their schedules those of rank `leader`.

    The ranks that ran out of data served the last steps without taking them. Without this, weights would
    differ at once, and momentum and learning rates from the next step on.
    """
    leads = world.rank == leader
    box: list[Any] = [None]
    if leads:
        box = [([_has_plain_gradient(p) for p in member.parameters], list(_told(member)))]
    dist.broadcast_object_list(box, src=leader)
    has_gradient, optimizers = box[0]
    for parameter, has in zip(member.parameters, has_gradient, strict=True):
        if not has:
            parameter.grad = None
        elif not _has_plain_gradient(parameter):
            parameter.grad = torch.empty_like(parameter)
    gradients = [p.grad for p in member.parameters if p.grad is not None]
    broadcast([*member.tensors(), *gradients], leader, limit=member.limit)
    if not leads:
        for key, nth, state, schedules in optimizers:
            for optimizer in _counterparts(member, key, nth):
                optimizer.load_state_dict(state)
                _load_schedules(optimizer, schedules)


def _has_plain_gradient(parameter: torch.Tensor) -> bool:
    """Say whether there is a gradient that can travel; a sparse one, or one of another shape, is dropped.

    To raise instead, on the one rank that has it, would leave the others waiting.
    """
    gradient = parameter.grad
    return (
        gradient is not None
        and gradient.layout is torch.strided
        and (gradient.shape, gradient.dtype) == (parameter.shape, parameter.dtype)
        and 0 not in gradient.stride()  # expanded, so that nothing can be copied into it
    )


def _told(member: Member) -> Iterator[tuple[str, int, dict[str, Any], list[tuple[str, dict[str, Any]]]]]:
    """Describe the optimizers that stepped `member`: which, the nth such, state, schedules."""
    seen: dict[str, int] = {}
    for optimizer in list(member.stepped):
        key = _key(member, optimizer)
        nth = seen[key] = seen.get(key, -1) + 1
        schedules = [(type(s).__qualname__, s.state_dict()) for s in _schedules(optimizer)]
        yield key, nth, optimizer.state_dict(), schedules


def _key(member: Member, optimizer: Optimizer) -> str:
    """Name an optimizer by its class and the parameters in its groups, which are the same on every rank."""
    groups = [[member.position.get(id(p), -1) for p in group["params"]] for group in optimizer.param_groups]
    return f"{type(optimizer).__qualname__} {groups}"


def _counterparts(member: Member, key: str, nth: int) -> list[Optimizer]:
    """Return this rank's optimizer for the one the leader told of."""
    own = [optimizer for optimizer in member.stepped if _key(member, optimizer) == key]
    if nth < len(own):
        return [own[nth]]
    # A rank without a single batch never stepped its optimizer, so nothing has shown it to us yet.
    return [optimizer for optimizer in _alive(Optimizer) if _key(member, optimizer) == key]


def _schedules(optimizer: Optimizer) -> list[LRScheduler]:
    # A scheduler marks the step method it counts; no optimizer knows its schedulers.
    if not hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return []
    return [s for s in _alive(LRScheduler) if getattr(s, "optimizer", None) is optimizer]


def _load_schedules(optimizer: Optimizer, told: list[tuple[str, dict[str, Any]]]) -> None:
    states = dict(told)
    for schedule in _schedules(optimizer):
        if type(schedule).__qualname__ in states:
            schedule.load_state_dict(states[type(schedule).__qualname__])


def _alive(kind: type[Any]) -> list[Any]:
    # By type, not isinstance: that would run the __class__ of every lazy proxy in the process.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
