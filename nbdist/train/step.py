"""One averaging of one model's gradients: the same collectives in the same order on every rank."""

from __future__ import annotations

from enum import IntEnum

import torch
import torch.distributed as dist

from ..errors import GroupError, MismatchError, UsageError, rank_list
from .bucket import Bucket
from .member import Member
from .world import Table, World


class Role(IntEnum):
    """What a rank is about to do, in the header that starts every exchange."""

    TRAINS = 1
    JOINS = 2
    """Has no batch left in this epoch, and serves those that have."""
    FINISHES = 3
    """Is at the end of the cell, and serves those that are not."""
    AVERAGES = 4
    """Waits for all ranks to be at a mean over them, and serves those that still train."""


class Header:
    """What every rank is about to do: (role, model, layout digest, whether buffers changed)."""

    def __init__(
        self, world: World, role: Role, *, model: int = 0, digest: int = 0, changed: bool = False
    ) -> None:
        self._table = Table(world, role, model, digest, changed)

    def wait(self) -> Intent:
        """Return what all ranks said.

        Raises:
            MismatchError: ranks train different models, or other parameters of one.
        """
        return Intent(self._table.wait())


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
        self._size = len(rows)

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

    1. Header: every rank says what it is about to do. It is waited for only when the first bucket is
       full, so that ranks need not start backward together.
    2. Each bucket in order, summed over all ranks. A rank that serves, and a gradient that is missing,
       add zeros.
    3. Presence: how many ranks had a gradient for each parameter, and which ranks failed. Where nobody
       had one, `.grad` stays as it was; elsewhere it becomes the sum over the number of trainers.

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
        self._header: Header | None = None
        if intent is None:
            self._header = Header(world, Role.TRAINS, model=member.index, digest=self._layout.digest)
        elif intent.digest != self._layout.digest:
            raise MismatchError(
                f"rank {world.rank} ran out of data with other parameters of {member.name} trainable than "
                "the ranks that go on; freeze and unfreeze the same ones on every rank, before the same step."
            )
        self._arrived: set[int] = set()
        self._missing = [len(bucket.positions) for bucket in self._layout.buckets]
        self._sent: list[dist.Work | None] = []

    def arrive(self, position: int) -> None:
        """Take note that a parameter's gradient is there, and send the buckets that are full."""
        bucket = self._layout.bucket_of.get(position)
        if bucket is None:
            return  # frozen between forward and backward
        if position in self._arrived:
            if bucket < len(self._sent):
                raise UsageError(
                    f"{self._member.names[position]} got a gradient twice in one backward, after its first "
                    "was sent; checkpoint with use_reentrant=False."
                )
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
        for work in self._sent:
            if work is not None:
                work.wait()
        lost = [rank for rank in range(self._world.size) if present[count + rank]]
        if lost and not failed:
            raise GroupError(
                f"backward of {self._member.name} raised on rank {rank_list(lost)}, so this step has no "
                "average; let the error end the cell there, or skip the step on every rank."
            )
        if self._gives:
            for bucket in self._layout.buckets:
                self._take(bucket, present, len(intent.trainers))
        return intent

    def _agree(self) -> Intent:
        if self._intent is None:
            assert self._header is not None
            self._intent = self._header.wait()
        return self._intent

    def _send(self) -> None:
        trainers = len(self._agree().trainers)
        bucket = self._layout.buckets[len(self._sent)]
        with torch.no_grad():
            for view, position in zip(bucket.views, bucket.positions, strict=True):
                gradient = self._member.parameters[position].grad if self._gives else None
                if gradient is None:
                    view.zero_()
                elif gradient.layout is not torch.strided:
                    raise UsageError(
                        f"{self._member.names[position]} has a sparse gradient, which cannot be averaged; "
                        "build its layer with sparse=False."
                    )
                else:
                    view.copy_(gradient)
            if _divides_first(bucket):
                bucket.flat.div_(trainers)
        self._sent.append(dist.all_reduce(bucket.flat, async_op=True))

    @torch.no_grad()
    def _take(self, bucket: Bucket, present: list[int], trainers: int) -> None:
        divisor = 1 if _divides_first(bucket) else trainers
        for view, position in zip(bucket.views, bucket.positions, strict=True):
            if not present[position]:
                continue
            parameter = self._member.parameters[position]
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            torch.div(view, divisor, out=parameter.grad)


def _divides_first(bucket: Bucket) -> bool:
    # The sum of half-precision gradients may leave their range where the average does not.
    return bucket.flat.dtype is torch.float16
