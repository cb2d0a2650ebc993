"""Objects travel by value; what can't is named."""

from __future__ import annotations

import io
import pickle
import threading

import pytest
import torch

from nbdist.errors import TravelError
from nbdist.magics.travel import Sent, pack


def test_closures_travel() -> None:
    factor = 3
    assert pickle.loads(pack("f", lambda x: x * factor))(2) == 6


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


def test_only_what_changed_is_sent_again() -> None:
    sent, value = Sent(), torch.nn.Linear(1, 1)
    assert sent.is_new("net", value, pack("net", value))
    sent.note("net", value, pack("net", value))
    assert not sent.is_new("net", value, pack("net", value))
    with torch.no_grad():
        value.bias += 1
    assert sent.is_new("net", value, pack("net", value)), "it has changed"
    sent.note("net", value, pack("net", value))
    twin = pickle.loads(pack("net", value))
    assert sent.is_new("net", twin, pack("net", twin)), "it was made anew"
    sent.note("net", twin, pack("net", twin))
    sent.forget("net")
    assert sent.is_new("net", twin, pack("net", twin))
