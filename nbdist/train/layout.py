"""How a model's gradients travel: in which buckets, in what memory, over which collective."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist

from ..comm import arena
from .bucket import deal
from .compression import NONE, POWER_SGD, PowerSGD, travels_as
from .places import LINE, Place
from .world import World

_ELSEWHERE = "its gradients are not in this host's memory"
_LARGE = 64 << 10
_MOVES = 3
"""How often a model whose gradients are kept gets fresh memory before they are copied instead."""


class Bucket:
    """Places behind one another that are reduced together."""

    def __init__(
        self, parameters: Sequence[torch.Tensor], members: Sequence[int], dtype: torch.dtype, offset: int
    ) -> None:
        self.offset = offset
        """In the arena."""
        self.dtype = dtype
        self.device = parameters[members[0]].device
        self.places: list[Place] = []
        end = offset
        for position in members:
            place = Place(position, parameters[position], dtype, -(-end // LINE) * LINE)
            self.places.append(place)
            end = place.end
        self.end = -(-end // LINE) * LINE
        self.flat = torch.empty(0, dtype=dtype, device=self.device)

    def lie_in(self, memory: arena.Arena | None) -> None:
        """Take the bucket's stretch of an arena, or, without one, memory of its own."""
        count = (self.end - self.offset) // self.dtype.itemsize
        if memory is not None and count:
            self.flat = arena.tensor(memory, self.offset, count, self.dtype)
        else:
            self.flat = torch.zeros(count, dtype=self.dtype, device=self.device)
        for place in self.places:
            if memory is not None and place.count:
                place.lie(partial(arena.tensor, memory, place.offset, place.count, place.dtype))
            else:
                begin = (place.offset - self.offset) // self.dtype.itemsize
                place.lie(partial(_part, self.flat, begin, place.count))


class Layout:
    """A model's buckets, as long as the same parameters are trainable and stay what they are."""

    def __init__(
        self,
        model: str,
        named: Sequence[tuple[str, torch.Tensor]],
        limit: int,
        compression: str = NONE,
    ) -> None:
        self._model = model
        self._parameters = [parameter for _, parameter in named]
        trainable = [i for i, p in enumerate(self._parameters) if p.requires_grad]
        self.buckets: list[Bucket] = []
        offset = 0
        for members in deal(self._parameters, trainable, limit):
            dtype = travels_as(self._parameters[members[0]].dtype, compression)
            self.buckets.append(Bucket(self._parameters, members, dtype, offset))
            offset = self.buckets[-1].end
        self.bucket_of = {
            place.position: n for n, bucket in enumerate(self.buckets) for place in bucket.places
        }
        self.place_of = {place.position: place for bucket in self.buckets for place in bucket.places}
        told = [
            (named[place.position][0], str(place.dtype), place.offset, place.stride)
            for place in self.place_of.values()
        ]
        self.digest = zlib.crc32(repr(told).encode())
        """Equal on ranks whose layouts are."""
        self._bytes = offset
        self._on_cpu = all(bucket.device.type == "cpu" for bucket in self.buckets)
        self._same = all(b.dtype is self._parameters[b.places[0].position].dtype for b in self.buckets)
        self._compression = compression
        self._power_sgd: PowerSGD | None = None
        self._moves = 0
        self._take_memory()

    # -- memory

    def _take_memory(self) -> None:
        made = arena.make(self._bytes) if self._on_cpu and self._bytes else _ELSEWHERE
        self._arena: arena.Arena | str = made
        self._window: arena.Window | None = None
        self._world: World | None = None
        self._state = 0
        self.places_gradients = self._same and not isinstance(made, str) and self._moves < _MOVES
        """Whether gradients stay in their places; else they are copied there and back."""
        large = {
            position: place for position, place in self.place_of.items() if place.end - place.offset >= _LARGE
        }
        self.early = large if self.places_gradients else {}
        """Places to be taken as soon as the gradient is there, while it is in the cache.

        The small ones are taken together: Python between two layers of a net runs from cold caches.
        """
        for bucket in self.buckets:
            bucket.lie_in(None if isinstance(made, str) else made)

    def renew(self, world: World) -> None:
        """Take other memory if a group that is over reduced in it: whoever is late may yet write there."""
        if self._window is not None and self._world is not world:
            self._take_memory()

    def clear(self) -> None:
        """Take other memory if the user kept something that lies where the next gradients will."""
        if not self.places_gradients:
            return
        kept = False
        for place in self.place_of.values():
            if not place.holds(self._parameters[place.position].grad):
                kept = not place.is_free() or kept
        if kept:
            self._moves += 1
            self._take_memory()
            if self._moves == _MOVES:
                _warn(
                    f"gradients of {self._model} are kept from one step to the next, so from now on they "
                    "are copied to where they are averaged and back; keep p.grad.clone() instead."
                )

    # -- how it is reduced

    def state_in(self, world: World) -> int:
        """Return a figure that is equal on ranks which have opened one another's arenas, and else 0.

        It is odd where buckets are reduced in arenas.
        """
        return self._state if self._world is world else 0

    def connect(self, world: World, state: int) -> None:
        """Open the arenas of all ranks; they all call this together. `state` is a figure not used before."""
        group = world.group()
        self._window, self._world, self._state = None, world, 2 * state
        self._power_sgd = PowerSGD() if self._compression == POWER_SGD else None  # alike on all ranks
        if self._power_sgd is not None or not arena.serves(group):
            return
        window = arena.open_window(self._arena)
        if not isinstance(window, str):
            self._window, self._state = window, self._state + 1
        elif not window.endswith(_ELSEWHERE):
            _warn(
                f"gradients of {self._model} are not averaged in shared memory: {window}; "
                "free memory, or take fewer ranks on this host."
            )

    def average(
        self, bucket: Bucket, world: World, trainers: Sequence[int], *, shared: bool, gives: bool
    ) -> Callable[[], None]:
        """Begin to average a bucket over the trainers, in place; return what waits for the end of it.

        All ranks call this. With `shared` the arenas of the others stay as they are; else who does not
        give adds zeros.
        """
        group = world.group()
        if shared:
            window = self._window if world.rank in trainers else None
            shared_work = arena.average(group, window, bucket.offset, bucket.flat, trainers)
            return lambda: _wait(shared_work)
        flat = bucket.flat if gives else torch.zeros_like(bucket.flat)
        if self._power_sgd is not None and flat.dtype is torch.float32:
            parts = [place.on(flat, bucket.offset) for place in bucket.places]
            index = self.buckets.index(bucket)
            self._power_sgd.average(flat, parts, index, index == len(self.buckets) - 1)
            flat.mul_(world.size / len(trainers))  # it has divided by all ranks
            return lambda: None
        # The sum of half-precision gradients may leave their range where the average does not.
        first = flat.dtype is torch.float16
        fused = not first and len(trainers) == world.size and arena.averages(group)
        if first:
            flat.div_(len(trainers))
        op = dist.ReduceOp.AVG if fused else dist.ReduceOp.SUM
        work = dist.all_reduce(flat, op, async_op=True)

        def finish() -> None:
            _wait(work)
            if gives and not first and not fused:
                flat.div_(len(trainers))

        return finish


def _wait(work: dist.Work | None) -> None:
    if work is not None:
        work.wait()


def _part(flat: torch.Tensor, begin: int, count: int) -> torch.Tensor:
    return flat[begin : begin + count].detach()


_warned: set[str] = set()


def _warn(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=2)
