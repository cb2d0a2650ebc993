"""Fixtures that several folders use."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

import pytest

from benchmarks import hosts

from .notebook import Notebook

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # from a shell's `&`; then nothing could be interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A notebook with four ranks, kept for the whole session; take `notebook` instead."""
    with Notebook(tmp_path_factory.mktemp("notebook")) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 4", timeout=90)
        yield notebook


@pytest.fixture
def notebook(shared_notebook: Notebook) -> Iterator[Notebook]:
    """A notebook with four ranks that still work together when the test is over."""
    yield shared_notebook
    shared_notebook.alive()


@pytest.fixture
def network() -> Iterator[Callable[..., hosts.Hosts]]:
    """Make hosts to run ranks on: `network(2)`, and the other arguments of `Hosts`."""
    if lack := hosts.why_not():
        pytest.skip(lack)
    with contextlib.ExitStack() as made:
        yield lambda *args, **options: made.enter_context(hosts.Hosts(*args, **options))
