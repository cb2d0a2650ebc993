"""D12: DataLoaders with worker processes inside the ranks, reading datasets written in a cell."""

from __future__ import annotations

import pytest

from ..notebook import Notebook

DEFINE = """\
%%distributed
import os, psutil, torch
from torch.utils.data import Dataset, DataLoader
class Sq(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i): return torch.tensor(i * i)
class Fails(Sq):
    def __getitem__(self, i):
        if i == 7: raise ValueError("item seven is bad")
        return super().__getitem__(i)
def together():
    t = torch.ones(3) * (rank + 1); dist.all_reduce(t); assert t.tolist() == [10.0] * 3
def children():
    # Python's own helper for spawned workers lasts as long as the rank.
    all = psutil.Process().children(recursive=True)
    return {p for p in all if "resource_tracker" not in str(p.cmdline())}
before = children()  # the engine's nanny
def done():
    together(); gone, left = psutil.wait_procs(children() - before, timeout=10); assert not left, left
"""

EPOCHS = """\
%%distributed
together()
for epoch in range({epochs}):
    dl = DataLoader(Sq(), batch_size=4, num_workers=2, collate_fn=lambda xs: torch.stack(xs){more})
    assert sum(b.sum().item() for b in dl) == 20540
del dl
done()
"""


@pytest.fixture
def loaders(notebook: Notebook) -> Notebook:
    notebook.ok(DEFINE)
    return notebook


@pytest.mark.parametrize(
    ("epochs", "more"),
    [
        pytest.param(3, "", id="fork"),
        pytest.param(3, ", persistent_workers=True", id="kept"),
        pytest.param(1, ", multiprocessing_context='spawn'", id="spawn"),  # each worker loads torch
    ],
)
def test_epochs_end_and_leave_nothing(loaders: Notebook, epochs: int, more: str) -> None:
    result = loaders.ok(EPOCHS.format(epochs=epochs, more=more), timeout=240)
    assert result.stderr == ""
    assert result.stdout == ""


def test_an_error_in_a_dataset_shows_where(loaders: Notebook) -> None:
    result = loaders.run("%%distributed\nfor b in DataLoader(Fails(), batch_size=4, num_workers=2): pass")
    assert result.status == "error"
    assert "ValueError" in result.ename + result.evalue
    assert "item seven is bad" in result.traceback
    assert "in __getitem__" in result.traceback
    loaders.ok("%%distributed\nimport gc; gc.collect(); done()")


def test_an_interrupt_leaves_no_worker(loaders: Notebook) -> None:
    sent = loaders.send(
        "%%distributed\nimport time\n"
        "for b in DataLoader(Sq(), batch_size=1, num_workers=2):\n"
        "    print('in', flush=True); time.sleep(0.5)"
    )
    loaders.await_text(sent, "[0-3] in")
    loaders.interrupt()
    result = loaders.collect(sent, timeout=20)
    assert result.ename == "KeyboardInterrupt"
    loaders.ok("%%distributed\nimport gc; gc.collect(); done()")
