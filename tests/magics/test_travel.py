"""What was sent is not sent again, unless it changed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import torch

from nbdist.freight import Address, load, pack, ship
from nbdist.magics.travel import Consignment, Sent


def test_only_what_changed_is_sent_again() -> None:
    sent, value = Sent(), torch.nn.Linear(1, 1)
    assert sent.is_new("net", value, [pack("net", value)])
    sent.note("net", value, [pack("net", value).digest()])
    assert not sent.is_new("net", value, [pack("net", value)])
    with torch.no_grad():
        value.bias += 1
    assert sent.is_new("net", value, [pack("net", value)]), "it has changed"
    sent.note("net", value, [pack("net", value).digest()])
    twin = load(pack("net", value).flat())
    assert sent.is_new("net", twin, [pack("net", twin)]), "it was made anew"
    sent.note("net", twin, [pack("net", twin).digest()])
    sent.forget("net")
    assert sent.is_new("net", twin, [pack("net", twin)])


def test_a_shipment_tells_what_changed() -> None:
    sent, value = Sent(), np.arange(1 << 18)
    shipment = ship(pack("x", value))
    assert shipment is not None
    sent.note("x", value, [shipment])
    assert not sent.is_new("x", value, [pack("x", value)])
    value[-1] = 0
    assert sent.is_new("x", value, [pack("x", value)])
    assert sent.is_new("x", value, [pack("x", value[1:])])


def test_what_the_notebook_drops_is_not_kept() -> None:
    sent, value = Sent(), np.arange(1 << 18)
    shipment = ship(pack("x", value))
    assert shipment is not None
    kept = weakref.ref(shipment)
    sent.note("x", value, [shipment])
    del shipment, value
    gc.collect()
    assert kept() is None
    items = [1]
    sent.note("items", items, [pack("items", items).digest()])
    assert sent.has("items", items)


class _Ranks:
    """Stands for a cluster of which only some ranks are on this host."""

    def __init__(self, near: set[int]) -> None:
        self._near = near

    def call(self, name: str, *, each: dict[int, tuple[Address]]) -> list[bool]:
        assert name == "reach"
        return [rank in self._near for rank in sorted(each)]


def letters(parcels: Any, near: set[int]) -> dict[int, Address | bytes]:
    return Consignment(parcels).letters(_Ranks(near))  # type: ignore[arg-type]


def test_ranks_elsewhere_get_it_through_the_channel() -> None:
    array = np.arange(1 << 18)
    parcel = pack("x", array)
    given = letters(dict.fromkeys(range(3), parcel), near={0, 2})
    assert given[0] == given[2]
    assert isinstance(given[0], Address)
    assert isinstance(given[1], bytes)
    there = load(given[1])
    assert np.array_equal(there, array)
    there[0] = 1  # may be changed, as what comes any other way


def test_a_small_parcel_asks_nobody() -> None:
    assert load(letters({0: pack("x", 3)}, near={0})[0]) == 3  # type: ignore[arg-type]
