"""Ordinary models trained as one: gradients are averaged round the ring during backward.

`attach` puts a hook on each parameter; the model, the loss, the optimizer and the loop stay the user's.
Every rank that calls backward makes a step (see `step.py`); a rank without data serves the steps of the
others: in `join` at the end of an epoch, in `meet` before a mean over all ranks, and in `finish` at the
end of a cell.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ..errors import GroupError, MismatchError, UsageError, rank_list
from ..settings import Settings
from .bucket import MIB, broadcast
from .compression import NAMES, NONE, check
from .member import Member, has_sparse_layer
from .settle import settle
from .step import Intent, Role, Step, announce
from .world import World, current, tell


class Ring:
    """The models attached in this process, and where the exchange with the other ranks stands."""

    def __init__(self) -> None:
        self._members: weakref.WeakKeyDictionary[nn.Module, Member] = weakref.WeakKeyDictionary()
        self._world: World | None = None
        self._used = False
        """Whether there was ever a model: what decides to talk must not depend on garbage collection."""
        self._next_index = 1
        self._reset()

    def _reset(self) -> None:
        self._backward: weakref.ref[Callable[[], None]] | None = None
        self._reached: dict[Member, list[int]] = {}
        """What the running backward has produced so far, as long as the model's step is not open."""
        self._open: dict[Member, Step] = {}
        self._overlaps = False
        self._steps: dict[int, list[int]] = {}
        """How many steps each rank made with each model since all met; the headers tell all of them."""

    # -- attaching

    def attach(self, model: nn.Module, compression: str = NONE) -> None:
        """Begin with equal weights everywhere and average gradients from now on."""
        check(compression)
        world = self._enter()
        self._abandon()
        self.detach(model)
        member = Member(model, Settings.from_environment().bucket_mib * MIB, compression)
        if not self._used:
            # Before the ranks talk: one that is interrupted here must not differ from the others in this.
            register_optimizer_step_pre_hook(self._before_optimizer)
            register_optimizer_step_post_hook(self._after_optimizer)
            self._used = True
        if world is not None:
            choice = NAMES.index(compression)
            rows = tell(world, self._next_index, member.structure(), has_sparse_layer(model), choice)
            self._next_index = max(row[0] for row in rows)
            if sparse := [rank for rank, row in enumerate(rows) if row[2]]:
                raise UsageError(
                    f"{member.name} has a layer built with sparse=True on rank {rank_list(sparse)}, whose "
                    "gradients cannot be averaged; build the layer with sparse=False."
                )
            odd = [rank for rank, row in enumerate(rows) if row[1] != rows[0][1]]
            if odd:
                raise UsageError(
                    f"{member.name} has other parameters or buffers on rank {rank_list(odd)} than on rank 0; "
                    "build the same model on every rank."
                )
            if len({row[3] for row in rows}) > 1:
                told = ", ".join(f"{NAMES[row[3]]} on rank {rank}" for rank, row in enumerate(rows))
                raise UsageError(f"the compression of {member.name} is {told}; choose one for all ranks.")
            broadcast(member.tensors(), 0, limit=member.limit)
        member.index, self._next_index = self._next_index, self._next_index + 1
        member.note_buffers()
        member.watch(self._arrived)
        self._members[model] = member

    def compression(self, model: nn.Module) -> str:
        """Return what a model's gradients travel as."""
        member = self._members.get(model)
        return member.compression if member is not None else NONE

    def resume(self) -> None:
        """Give every rank rank 0's state, at the start of a generation.

        The one before may have ended between two ranks' optimizer steps.
        """
        world = self._enter()
        if world is None:
            return
        try:
            for _, member, _ in self._common(world):
                rows = tell(world, member.structure())
                if any(row != rows[0] for row in rows):
                    raise UsageError(f"{member.name} has other buffers on some ranks than on others")
                settle(world, member, 0)
                member.stepped.clear()
                member.note_buffers()
        except Exception as error:
            # Kept attached, the same model would fail every later generation in the same way.
            for model in list(self._members):
                self.detach(model)
            if isinstance(error, GroupError):
                raise
            raise UsageError(
                f"The models cannot be brought into step after what ended the last group ({error}); "
                "from now on each rank has its own. Name them after --model again."
            ) from error

    def detach(self, model: nn.Module) -> None:
        """Take everything off a model."""
        member = self._members.pop(model, None)
        if member is not None:
            member.unwatch()

    def trains(self) -> bool:
        """Say whether a model is attached and in training mode, and say the same on every rank."""
        training = [member for member in self._members.values() if member.is_training()]
        if training and not any(member.index in self._steps for member in training):
            # One that nobody trained may only be left over, on this rank and not on others.
            gc.collect()
            return any(member.is_training() for member in self._members.values())
        return bool(training)

    # -- while backward runs

    def _arrived(self, member: Member, position: int) -> None:
        if not self._is_running():
            if self._enter() is None:
                return
            self._abandon()
            # With several models one backward may reach two of them, in any order on any rank: then
            # each has its step at the end, in order of index, and nothing overlaps.
            self._overlaps = len(self._members) == 1
            self._backward = _call_after_backward(self._complete)
        step = self._open.get(member)
        if step is None:
            self._reached.setdefault(member, []).append(position)
            if not self._overlaps:
                return
            assert self._world is not None
            step = self._open[member] = Step(self._world, member)
        try:
            step.arrive(position)
        except GroupError:
            self._reset()  # the exchange is over on every rank
            raise

    def _is_running(self) -> bool:
        # The engine alone holds the callback. If it is gone, uncalled, that backward raised.
        return self._backward is not None and self._backward() is not None

    def _complete(self, *, failed: bool = False) -> None:
        assert self._world is not None
        reached, opened = self._reached, self._open
        self._backward, self._reached, self._open = None, {}, {}
        for member in sorted(reached, key=lambda member: member.index):
            step = opened.get(member)
            if step is None:
                step = Step(self._world, member)
                for position in () if failed else reached[member]:
                    step.arrive(position)
            self._count(step.complete(failed=failed))

    def _abandon(self) -> None:
        """Complete the step of a backward that raised, since the other ranks may be in it."""
        if self._reached and not self._is_running():
            self._complete(failed=True)

    def _count(self, intent: Intent) -> None:
        assert self._world is not None
        steps = self._steps.setdefault(intent.model, [0] * self._world.size)
        for rank in intent.trainers:
            steps[rank] += 1

    # -- where all ranks meet

    # Evaluation may call this in inference mode, yet buckets and gradients made here are used later.
    @torch.inference_mode(False)
    def serve(self, role: Role) -> None:
        """Serve the steps of the other ranks until none trains any more, then agree on one state.

        Ranks at the end of an epoch and ranks at the end of the cell may meet: the former go on to
        their next epoch, and the latter go on serving.
        """
        world = self._enter()
        if world is None or not self._used:
            return
        self._abandon()
        while True:
            changed = any(member.changed_buffers() for member in self._members.values())
            intent = announce(world, role, changed=changed)
            if intent.trainers:
                self._count(Step(world, self._member(intent), intent).complete())
                continue
            self._settle(world, intent.changed_buffers)
            if intent.lets_go(role):
                return

    def _settle(self, world: World, changed_buffers: bool) -> None:
        """Give all ranks the state of the one that made most steps; if all made as many, rank 0's buffers."""
        steps, self._steps = self._steps, {}
        leaders = {index: made.index(max(made)) for index, made in steps.items() if min(made) < max(made)}
        if leaders or changed_buffers:
            for _, member, changed in self._common(world):
                if member.index in leaders:
                    settle(world, member, leaders[member.index])
                elif changed:
                    broadcast(member.buffers(), 0, limit=member.limit)
                member.note_buffers()
        for member in self._members.values():
            member.stepped.clear()
            member.checked = 0

    def _common(self, world: World) -> list[tuple[nn.Module, Member, bool]]:
        """Return, in order, the models that all ranks have, and whether their buffers changed on any.

        A model that was dropped, but hangs in a reference cycle, lives until each rank's collector comes
        by. So ranks ask each other, and what is returned holds the models until it was acted upon.
        """
        here = {member.index: (model, member) for model, member in self._members.items()}
        told: list[dict[int, bool]] = [{}] * world.size
        dist.all_gather_object(told, {i: member.changed_buffers() for i, (_, member) in here.items()})
        common = set.intersection(*(set(alive) for alive in told))
        return [(*here[i], any(alive[i] for alive in told)) for i in sorted(common)]

    def _member(self, intent: Intent) -> Member:
        for member in self._members.values():
            if member.index == intent.model:
                return member
        raise MismatchError(
            f"rank {rank_list(intent.trainers)} trains a model that this rank has dropped or never had; "
            "keep it on every rank until all are done with it."
        )

    def _enter(self) -> World | None:
        """Return the world; whatever was under way in an earlier generation is over."""
        world = current()
        if world is not self._world:
            self._reset()
            self._world = world
        return world

    # -- what optimizers do

    def _before_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if current() is not None:
            for member in self._members.values():
                member.check_parameters()

    def _after_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        for member in self._members.values():
            if optimizer not in member.stepped and _touches(optimizer, member):
                member.stepped[optimizer] = None


def _touches(optimizer: Optimizer, member: Member) -> bool:
    return any(id(p) in member.position for group in optimizer.param_groups for p in group["params"])


class _Callback:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __call__(self) -> None:
        self._call()


def _call_after_backward(call: Callable[[], None]) -> weakref.ref[Callable[[], None]]:
    """Have the autograd engine call `call` when the running backward is complete.

    The engine drops the callback when backward raises. Only a weak reference leaves this function, so
    that no traceback keeps it alive.
    """
    callback = _Callback(call)
    Variable._execution_engine.queue_callback(callback)
    return weakref.ref(callback)


_ring = Ring()

M = TypeVar("M", bound=nn.Module)


def attach(model: M, compression: str = NONE) -> M:
    """Make an ordinary model one model over all ranks, and return it.

    Parameters and buffers become rank 0's; from now on every backward averages gradients over the ranks
    that called one. The object stays as it is: no wrapper, no `module.` in its state. Attaching again
    broadcasts again. All ranks must call this together.

    With `compression` gradients travel as "fp16" or "bf16", or, by torch's "powersgd", as approximations
    of low rank, exact for the first ten steps. That pays between hosts; within one it only costs. Models in
    DistributedDataParallel take torch's own hooks for the same.

    Raises:
        UsageError: the model or the compression is not the same on all ranks, there is no such
            compression, or the model has layers with sparse gradients.
    """
    _ring.attach(model, compression)
    return model


def compression(model: nn.Module) -> str:
    """Return what a model's gradients travel as."""
    return _ring.compression(model)


def detach(model: nn.Module) -> None:
    """Make a model this rank's own again."""
    _ring.detach(model)


def resume() -> None:
    """Make all attached models rank 0's again; all ranks call this when they have formed a new group."""
    _ring.resume()


def join() -> None:
    """Serve the other ranks until all are at the end of their epoch; then all hold the same state.

    That is the state of the rank that made most steps; if all made as many, buffers become rank 0's.
    """
    _ring.serve(Role.JOINS)


def meet() -> None:
    """Do the same until all ranks are at a mean; it costs one small exchange if they are already."""
    _ring.serve(Role.AVERAGES)


def finish() -> None:
    """Do the same until all ranks are at the end of the cell."""
    _ring.serve(Role.FINISHES)


def trains() -> bool:
    """Say whether a model is attached and in training mode."""
    return _ring.trains()
