"""What is packed arrives whole, writable, and apart from where it came from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from nbdist.freight import load, pack

MANY = 1 << 18


def back(value: object) -> object:
    return load(pack("x", value).flat())


@pytest.mark.parametrize(
    "made",
    [
        np.arange(MANY),
        np.arange(MANY)[::2],
        np.asfortranarray(np.ones((512, 512))),
        np.arange(3),
        np.zeros((0, 3)),
        np.array(["a", None], dtype=object),
    ],
    ids=["large", "strided", "fortran", "small", "empty", "objects"],
)
def test_arrays_arrive_writable(made: np.ndarray) -> None:
    there = back(made)
    assert isinstance(there, np.ndarray)
    assert np.array_equal(there, made)
    assert there.flags.writeable
    assert not np.shares_memory(there, made)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
@pytest.mark.parametrize("count", [0, 3, MANY])
def test_tensors_arrive_as_they_are(kind: torch.dtype, count: int) -> None:
    made = torch.arange(count).to(kind)
    there = back(made)
    assert isinstance(there, torch.Tensor)
    assert there.dtype == kind
    assert torch.equal(there, made)
    there.zero_()
    assert count == 0 or bool(made[-1])


def test_tensors_that_share_memory_still_do() -> None:
    whole = torch.arange(MANY)
    there = back([whole, whole[:2], whole.view(2, -1)])
    assert isinstance(there, list)
    there[0][0] = 7
    assert there[1][0] == there[2][0, 0] == 7


def test_models_keep_what_they_are() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(256, 256)
            self.tied = self.fc.weight
            self.norm = torch.nn.BatchNorm1d(256)

    net = Net().eval()
    net.fc.bias.requires_grad_(False)
    there = back(net)
    assert there.tied is there.fc.weight  # type: ignore[attr-defined]
    assert isinstance(there, Net)
    assert not there.training
    assert not there.fc.bias.requires_grad
    assert isinstance(there.fc.weight, torch.nn.Parameter)
    there.norm(there.fc(torch.ones(2, 256))).sum().backward()
    assert there.fc.weight.grad is not None


def test_a_frame_travels() -> None:
    frame = pd.DataFrame({"a": np.arange(MANY), "b": "text"})
    pd.testing.assert_frame_equal(back(frame), frame)


def test_equal_objects_make_equal_parcels() -> None:
    value = {"net": torch.nn.Linear(300, 300), "x": np.arange(MANY)}
    before = pack("x", value).digest()
    assert pack("x", value).digest() == before
    value["x"][3] = 0
    assert pack("x", value).digest() != before


def test_a_class_that_comes_back_stays_as_it_is() -> None:
    # As if the module was a notebook's: such classes travel by value.
    names: dict[str, object] = {"__name__": "__main__"}
    exec("scale = 2\nclass Double:\n    def of(self, x): return x * scale\nmade = Double()", names)
    kind = names["Double"]
    assert isinstance(kind, type)
    flat = pack("made", names["made"]).flat()
    before = vars(kind)["of"]
    assert type(load(flat, keep_classes=True)) is kind
    assert vars(kind)["of"] is before
    names["scale"] = 5
    assert names["made"].of(1) == 5  # type: ignore[attr-defined]
