"""Fixtures for tests that watch a notebook in a browser."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from .lab import NotebookPage

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"


def _missing() -> str | None:
    if CHROMIUM is None:
        return "there is no chromium on PATH (apt-get install chromium)"
    for module in ("jupyterlab", "playwright", "nbformat"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed (pip install 'nbdist[test]')"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder, and skip it with a reason where it cannot run."""
    why = _missing()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A JupyterLab server, ended when the tests are."""
    from .lab import LabServer

    server = LabServer(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    from .lab import FLAGS

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_notebook(lab, browser) -> Iterator[Callable[..., object]]:  # type: ignore[no-untyped-def]
    """Return a function that opens a notebook: `open_notebook("name.ipynb", ["code", ...])`.

    Instead of cells it takes a whole notebook; one that lies in `lab.root` is opened by its name alone.
    """
    from .lab import NotebookPage, new_notebook

    contexts = []

    def open_it(
        name: str,
        cells: list[str] | None = None,
        *,
        notebook: NotebookNode | None = None,
        width: int = 1280,
        height: int = 900,
    ) -> NotebookPage:
        if cells is not None:
            notebook = new_notebook(cells)
        if notebook is not None:
            lab.write(name, notebook)
        context = browser.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        opened = NotebookPage(page, lab, name)
        opened.wait_for_kernel()
        # The theme is a setting of the server and outlives a test.
        opened.use_theme("JupyterLab Light")
        return opened

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where pictures for human eyes go; git ignores it."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return SCREENSHOTS
