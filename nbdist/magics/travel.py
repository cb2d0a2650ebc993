"""Carry parcels to the ranks and back, and remember what they have."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..cluster import Cluster
from ..freight import Address, Parcel, Shipment, load, reach, ship

Copy = Shipment | bytes
"""What is kept of a parcel: the shipment, which its ranks read from anyway, or a digest."""


class Consignment:
    """One parcel for each of some ranks, which may be the same for all.

    A large one goes through memory that the ranks of this host map; whoever cannot reach it, and
    everybody where it is small, gets it through the ordinary channel.
    """

    def __init__(self, parcels: Mapping[int, Parcel]) -> None:
        self.parcels = dict(parcels)
        self._shipped: dict[int, Shipment] = {}

    @property
    def nbytes(self) -> int:
        """How much memory it takes on its way, beside the objects themselves."""
        return sum({id(parcel): parcel.nbytes for parcel in self.parcels.values()}.values())

    def letters(self, cluster: Cluster) -> dict[int, Address | bytes]:
        """Return what to hand each rank: where its parcel is, or the parcel itself."""
        distinct = {id(parcel): parcel for parcel in self.parcels.values()}
        shipped = {key: shipment for key, parcel in distinct.items() if (shipment := ship(parcel))}
        self._shipped = {
            rank: shipped[id(parcel)] for rank, parcel in self.parcels.items() if id(parcel) in shipped
        }
        each = {rank: (shipment.address,) for rank, shipment in self._shipped.items()}
        reached = dict(zip(sorted(each), cluster.call("reach", each=each) if each else (), strict=True))
        unreached = {id(parcel) for rank, parcel in self.parcels.items() if not reached.get(rank)}
        flat = {key: parcel.flat() for key, parcel in distinct.items() if key in unreached}
        return {
            rank: self._shipped[rank].address if reached.get(rank) else flat[id(parcel)]
            for rank, parcel in self.parcels.items()
        }

    def copies(self, *, keep: bool) -> list[Copy]:
        """Return what tells later whether the parcels have changed.

        With `keep` that may be the shipments: the ranks live on their memory, so that they cost none,
        and comparing them costs less than a digest.
        """
        kept = self._shipped if keep else {}
        return [kept.get(rank) or parcel.digest() for rank, parcel in self.parcels.items()]


def fetch(cluster: Cluster, name: str, ranks: Sequence[int]) -> list[Any]:
    """Return what each of `ranks` has under `name`.

    Raises:
        TravelError: it cannot be sent; the message names what in it cannot.
    """
    try:
        letters = cluster.call("send", each=dict.fromkeys(ranks, (name, True)))
        values = []
        for rank, letter in zip(ranks, letters, strict=True):
            there = reach(letter) if isinstance(letter, Address) else letter
            if there is None:
                (there,) = cluster.call("send", each={rank: (name, False)})
            values.append(load(there, keep_classes=True))
        return values
    finally:
        cluster.call("send", each=dict.fromkeys(ranks, (None, False)))


class Sent:
    """Remember what was sent under which name.

    Running a cell again sends nothing that is still the same object with the same content: the ranks
    keep theirs, trained as it is, exactly as a rerun in a plain notebook would. An object made anew is
    sent again even where it equals the old one.
    """

    def __init__(self) -> None:
        self._objects: dict[str, tuple[Callable[[], object], list[Copy]]] = {}
        self._theirs: dict[str, object] = {}

    def is_new(self, name: str, value: object, parcels: Sequence[Parcel]) -> bool:
        """Tell whether `value` has to be sent."""
        if not self.has(name, value):
            return True
        copies = self._objects[name][1]
        return not all(_holds(copy, parcel) for copy, parcel in zip(copies, parcels, strict=True))

    def has(self, name: str, value: object) -> bool:
        """Tell whether this very object was sent before, whatever has become of it."""
        before = self._objects.get(name)
        return before is not None and before[0]() is value

    def note(self, name: str, value: object, copies: list[Copy]) -> None:
        """Count `value` as sent."""
        self._objects[name] = (self._remember(name, value), copies)
        self._theirs.pop(name, None)

    def leave(self, name: str, value: object) -> None:
        """Leave `name` to the ranks, whose cell assigns it, until the notebook has another than `value`."""
        self._objects.pop(name, None)
        self._theirs[name] = value

    def is_theirs(self, name: str, value: object) -> bool:
        """Tell whether the ranks assigned `name` after the notebook did."""
        return name in self._theirs and self._theirs[name] is value

    def forget(self, name: str) -> None:
        """Count `name` as never sent."""
        self._objects.pop(name, None)

    def _remember(self, name: str, value: object) -> Callable[[], object]:
        """Return what gives `value`; when the notebook drops it, what is kept of it goes too."""

        def dropped(reference: weakref.ref[object]) -> None:
            before = self._objects.get(name)
            if before is not None and before[0] is reference:
                del self._objects[name]

        try:
            return weakref.ref(value, dropped)
        except TypeError:  # a list, say
            return lambda: value


def _holds(copy: Copy, parcel: Parcel) -> bool:
    return copy.holds(parcel) if isinstance(copy, Shipment) else copy == parcel.digest()
