"""Fixtures that several folders use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .notebook import Notebook


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
