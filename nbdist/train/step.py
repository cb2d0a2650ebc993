"""One averaging of one model's gradients: the same collectives in the same order on every rank."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import torch
import torch.distributed as dist

from ..errors import GroupError, MismatchError, UsageError, rank_list
from .member import Member
from .places import Place
from .world import World, tell


class Role(IntEnum):
    """What a rank is about to do, in the header that starts every exchange: role, model, digest of its
    layout, whether buffers changed, and whether it has opened the other ranks' arenas."""

    TRAINS = 1
    JOINS = 2
    """Has no batch left in this epoch, and serves those that have."""
    FINISHES = 3
    """Is at the end of the cell, and serves those that are not."""
    AVERAGES = 4
    """Waits for all ranks to be at a mean over them, and serves those that still train."""


def announce(
    world: World, role: Role, *, model: int = 0, digest: int = 0, changed: bool = False, state: int = 0
) -> Intent:
    """Tell all ranks what this one is about to do, and return what they all said.

    Raises:
        MismatchError: ranks train different models, or other parameters of one.
    """
    return Intent(tell(world, role, model, digest, changed, state))


class Intent:
    """What all ranks said they are about to do."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.by_role = {role: [r for r, row in enumerate(rows) if row[0] == role] for role in Role}
        self.trainers = self.by_role[Role.TRAINS]
        self.changed_buffers = any(row[3] for row in rows)
        models = {rows[rank][1] for rank in self.trainers}
        digests = {rows[rank][2] for rank in self.trainers}
        if len(models) > 1:
            raise MismatchError(
                f"ranks train different models ({self._who(rows, 1)}); "
                "call backward on the same models in the same order on every rank."
            )
        if len(digests) > 1:
            raise MismatchError(
                f"ranks train other parameters of the same model ({self._who(rows, 2)}); "
                "freeze and unfreeze the same ones on every rank, before the same step."
            )
        self.model = models.pop() if models else 0
        self.digest = digests.pop() if digests else 0
        self._states = {rows[rank][4] for rank in self.trainers}
        self._size = len(rows)

    @property
    def state(self) -> int:
        """The state all trainers' arenas are in; 0 if they have yet to open one another's."""
        return next(iter(self._states)) if len(self._states) == 1 else 0

    @property
    def next_state(self) -> int:
        """A figure for a state that no rank has known."""
        return max(self._states) // 2 + 1

    def lets_go(self, role: Role) -> bool:
        """Say whether a rank that serves in `role` may go on; call it where nobody trains.

        Raises:
            MismatchError: some ranks are at a mean and all others at the end of the cell.
        """
        averaging, finishing = self.by_role[Role.AVERAGES], self.by_role[Role.FINISHES]
        if averaging and finishing and len(averaging) + len(finishing) == self._size:
            raise MismatchError(
                f"rank {rank_list(averaging)} waits in nbdist.mean while rank {rank_list(finishing)} is at "
                "the end of the cell; call mean equally often on every rank."
            )
        # Who is at the end of an epoch goes on to the next one, which the others then serve.
        return role is Role.JOINS or len(self.by_role[role]) == self._size

    def _who(self, rows: list[list[int]], column: int) -> str:
        groups: dict[int, list[int]] = {}
        for rank in self.trainers:
            groups.setdefault(rows[rank][column], []).append(rank)
        return " against ".join(f"rank {rank_list(ranks)}" for ranks in groups.values())


class Step:
    """Average one model's gradients over the ranks that have any.

    1. Header: every rank says what it is about to do. That waits until the first bucket is full, so ranks
       need not start backward together.
    2. Each bucket in order, averaged over the ranks that train, in place. A gradient that is missing counts
       as zeros; a rank that serves takes part in the order alone, or adds zeros.
    3. Presence: how many ranks had a gradient for each parameter, and which ranks failed. Where nobody
       had one, `.grad` stays as it was.

    What travels is the whole accumulated `.grad`, not what this backward added. After an earlier step
    it holds the same g on all k trainers, and the mean of (g + new) is g + the mean of the new.
    """

    def __init__(self, world: World, member: Member, intent: Intent | None = None) -> None:
        """Begin a step of this rank's own, or serve the one the other ranks announced in `intent`."""
        self._world = world
        self._member = member
        self._layout = member.layout()
        self._gives = intent is None
        self._intent = intent
        self._layout.renew(world)
        if intent is None:
            self._layout.clear()
        elif intent.digest != self._layout.digest:
            raise MismatchError(
                f"rank {world.rank} ran out of data with other parameters of {member.name} trainable than "
                "the ranks that go on; freeze and unfreeze the same ones on every rank, before the same step."
            )
        else:
            self._connect(intent)
        self._arrived: set[int] = set()
        self._missing = [len(bucket.places) for bucket in self._layout.buckets]
        self._sent: list[Callable[[], None]] = []
        self._away: list[Place] = []
        """Places whose gradient is elsewhere, or missing on this rank."""
        self._before: list[tuple[Place, torch.Tensor]] = []
        """Gradients from an earlier step that lie in their places, none having come in this one."""

    def arrive(self, position: int) -> None:
        """Take note that a parameter's gradient is there, and send the buckets that are full."""
        bucket = self._layout.bucket_of.get(position)
        if bucket is None:
            return  # frozen between forward and backward
        if bucket < len(self._sent):
            raise UsageError(
                f"{self._member.names[position]} got a gradient twice in one backward, after its first "
                "was sent; checkpoint with use_reentrant=False."
            )
        early = self._layout.early.get(position)
        if early is not None:
            early.take()
        if position in self._arrived:
            return
        self._arrived.add(position)
        self._missing[bucket] -= 1
        # In order of bucket, whatever order they fill in: it must be the same on every rank.
        while len(self._sent) < len(self._missing) and not self._missing[len(self._sent)]:
            self._send()

    def complete(self, *, failed: bool = False) -> Intent:
        """Send what is left, wait for everything, and set the averaged gradients.

        A rank whose backward raised completes its step with `failed`: it gives and takes nothing more,
        and the other ranks learn that they stepped without it.

        Raises:
            GroupError: another rank failed in this step.
        """
        self._gives = self._gives and not failed
        intent = self._agree()
        while len(self._sent) < len(self._layout.buckets):
            self._send()
        count = len(self._member.parameters)
        presence = torch.zeros(count + self._world.size, dtype=torch.int32)
        presence[list(self._arrived)] = 1
        presence[count + self._world.rank] = failed
        dist.all_reduce(presence)
        present = presence.tolist()
        for finish in self._sent:
            finish()
        lost = [rank for rank in range(self._world.size) if present[count + rank]]
        if lost and not failed:
            raise GroupError(
                f"backward of {self._member.name} raised on rank {rank_list(lost)}, so this step has no "
                "average; let the error end the cell there, or skip the step on every rank."
            )
        if self._gives:
            self._settle(present)
        return intent

    def _agree(self) -> Intent:
        if self._intent is None:
            self._intent = announce(
                self._world,
                Role.TRAINS,
                model=self._member.index,
                digest=self._layout.digest,
                state=self._layout.state_in(self._world),
            )
            self._connect(self._intent)
        return self._intent

    def _connect(self, intent: Intent) -> None:
        if not intent.state:
            self._layout.connect(self._world, intent.next_state)
            self._shared = self._layout.state_in(self._world) % 2 == 1
        else:
            self._shared = intent.state % 2 == 1

    @torch.no_grad()
    def _send(self) -> None:
        intent = self._agree()
        bucket = self._layout.buckets[len(self._sent)]
        for place in bucket.places if self._gives else ():
            self._lay(place)
        self._sent.append(
            self._layout.average(bucket, self._world, intent.trainers, shared=self._shared, gives=self._gives)
        )

    def _lay(self, place: Place) -> None:
        parameter = self._member.parameters[place.position]
        if place.holds(parameter.grad):
            if place.position not in self._arrived:
                self._before.append((place, place.view.clone()))
            return
        if self._layout.places_gradients and place.position in self._arrived and place.take():
            return
        self._away.append(place)
        if parameter.grad is None:
            place.view.zero_()
        elif parameter.grad.layout is torch.strided:
            place.view.copy_(parameter.grad)
        else:
            raise UsageError(
                f"{self._member.names[place.position]} has a sparse gradient, which cannot be averaged; "
                "build its layer with sparse=False."
            )

    @torch.no_grad()
    def _settle(self, present: list[int]) -> None:
        """Set the gradients that the exchange has not set where they lie."""
        for place, before in self._before:
            if not present[place.position]:
                place.view.copy_(before)
        for place in self._away:
            parameter = self._member.parameters[place.position]
            if not present[place.position]:
                continue
            if parameter.grad is not None:
                parameter.grad.copy_(place.view)
            elif self._layout.places_gradients and place.view.dtype is parameter.dtype:
                parameter.grad = place.view
            else:
                parameter.grad = place.view.to(parameter.dtype, copy=True)
