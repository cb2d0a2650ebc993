"""Objects travel by value; what can't is named."""

from __future__ import annotations

import functools
import io
import threading

import pytest
import torch

from nbdist.errors import TravelError
from nbdist.freight import load, pack


def test_closures_travel() -> None:
    factor = 3
    assert load(pack("f", lambda x: x * factor).flat())(2) == 6


def test_the_innermost_culprit_is_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    model[0].locks = {"one": [threading.Lock()]}
    with pytest.raises(TravelError, match=r"net\.0\.locks\['one'\]\[0\] is a lock and cannot travel"):
        pack("net", model)


def test_an_object_that_refuses_itself_is_named() -> None:
    class Stubborn:
        def __reduce__(self) -> str:
            raise TypeError("no thanks")

    with pytest.raises(TravelError, match=r"thing is a Stubborn and cannot travel .*no thanks"):
        pack("thing", Stubborn())


def test_a_cycle_ends() -> None:
    ring: list[object] = [io.StringIO(), threading.Lock()]
    ring.append(ring)
    with pytest.raises(TravelError, match=r"ring\[1\] is a lock"):
        pack("ring", ring)


def test_what_a_function_uses_is_named() -> None:
    lock = threading.Lock()

    def guarded() -> None:
        with lock:
            pass

    with pytest.raises(TravelError, match=r"jobs\[0\] -> lock is a lock and cannot travel"):
        pack("jobs", [guarded])
    with pytest.raises(TravelError, match=r"part\.func -> lock is a lock"):
        pack("part", functools.partial(guarded))


def test_what_a_class_or_a_slot_holds_is_named() -> None:
    class Holder:
        lock = threading.Lock()

    class Slotted:
        __slots__ = ("lock",)

        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(TravelError, match=r"thing\.lock is a lock"):
        pack("thing", Holder())
    with pytest.raises(TravelError, match=r"thing\.lock is a lock"):
        pack("thing", Slotted())


def test_the_remedy_fits_the_way_back() -> None:
    with pytest.raises(TravelError, match=r"cannot travel to the notebook \(.*\); take it off x first\.$"):
        pack("x", threading.Lock(), "to the notebook", "take it off x first")
