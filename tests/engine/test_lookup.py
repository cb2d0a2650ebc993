"""Values are described, and compared where that says something."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import torch

from nbdist.engine import lookup


class Unwilling:
    """Has a shape and a length, and gives neither."""

    @property
    def shape(self) -> None:
        raise RuntimeError

    def __len__(self) -> int:
        raise TypeError


def seen(value: Any) -> lookup.Seen:
    shell = types.SimpleNamespace(user_ns={"name": value, "_hidden": 1, "rank": 0}, user_ns_hidden={})
    described = lookup.who(shell)
    assert list(described) == ["name"]
    return described["name"]


@pytest.mark.parametrize(
    ("value", "kind", "shape"),
    [
        (torch.ones(2, 3, dtype=torch.bfloat16), "Tensor", "(2, 3) bfloat16"),
        (torch.tensor(1), "Tensor", "() int64"),
        (np.ones((2, 0)), "ndarray", "(2, 0) float64"),
        (torch.nn.Linear(2, 3), "Linear", "9 parameters"),
        ([1, 2], "list", "length 2"),
        (7, "int", ""),
        (Unwilling, "type", ""),
        (Unwilling(), "Unwilling", ""),
    ],
)
def test_a_value_is_described(value: Any, kind: str, shape: str) -> None:
    assert seen(value)[:2] == (kind, shape)


@pytest.mark.parametrize(
    ("one", "equal", "other"),
    [
        (torch.ones(3), torch.ones(3), torch.zeros(3)),
        (torch.ones(2, 2).T, torch.ones(2, 2), torch.ones(4)),
        (np.arange(3), np.arange(3), np.arange(3)[::-1]),
        ({"a": [1]}, {"a": [1]}, {"a": [2]}),
        (float("nan"), float("nan"), 0.0),
        (True, True, 1),
        (None, None, "None"),
    ],
)
def test_values_are_compared(one: Any, equal: Any, other: Any) -> None:
    assert seen(one)[2] == seen(equal)[2] != ""
    assert seen(one)[2] != seen(other)[2]


@pytest.mark.parametrize("value", [object(), [object()], np.array([object()]), Unwilling(), torch.ones])
def test_what_cannot_be_compared_is_not(value: Any) -> None:
    assert seen(value)[2] == ""


def test_a_large_value_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_LARGE", 100)
    assert seen(torch.ones(100))[2] == ""
