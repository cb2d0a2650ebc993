"""The memory in which a gradient lies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nbdist.train.places import Place


def test_a_place_outlives_an_interrupt_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    memory = np.zeros(4, np.float32)
    place = Place(0, parameter, torch.float32, 0)
    place.lie(lambda: torch.from_numpy(memory))

    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, "_renew", interrupt)
        with pytest.raises(KeyboardInterrupt):
            place.is_free()

    assert not place.holds(parameter.grad)
    assert place.is_free()
    (parameter * 2).sum().backward()
    assert place.take()
    assert place.holds(parameter.grad)
    assert memory.tolist() == [2.0] * 4
