"""The tutorials run from top to bottom and show what they promise; so does the README's example."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from ..notebook import Notebook

ROOT = Path(__file__).resolve().parents[2]
FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(scope="module")
def quickstart() -> nbformat.NotebookNode:
    notebook = nbformat.read(ROOT / "notebooks" / "01_quickstart.ipynb", as_version=4)
    resources = {"metadata": {"path": str(ROOT / "notebooks")}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    return notebook


def _is_made(page: Path) -> bool:
    made = {".venv", "node_modules", "build", "out", ".pytest_cache"}
    return bool(made.intersection(page.relative_to(ROOT).parts))


def _text(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") + "\n" for o in outputs)


@pytest.mark.slow
@pytest.mark.timeout(700)
class TestQuickstart:
    def test_it_learns(self, quickstart: nbformat.NotebookNode) -> None:
        accuracy = re.search(r"^\[0-1\] Test accuracy (\d+\.\d)%$", _text(quickstart), re.MULTILINE)
        assert accuracy is not None, "one line for both ranks"
        assert float(accuracy[1]) >= (85 if FASHION.is_dir() else 90)

    def test_the_ranks_hold_the_same_model(self, quickstart: nbformat.NotebookNode) -> None:
        assert re.search(r"^\[0-1\] weights [0-9a-f]{16}$", _text(quickstart), re.MULTILINE)

    def test_the_run_stays_as_picture_and_table(self, quickstart: nbformat.NotebookNode) -> None:
        shown = [
            output.data
            for cell in quickstart.cells
            for output in cell.get("outputs", [])
            if "image/svg+xml" in output.get("data", {})
        ]
        assert len(shown) == 1
        assert not [mime for mime in shown[0] if "widget" in mime]
        for promised in ("loss", "examples/s", "moved"):
            assert promised in shown[0]["text/plain"]

    def test_the_ring_moved_the_gradients(self, quickstart: nbformat.NotebookNode) -> None:
        moved = re.search(r"moved +([\d.,]+) (\w?B)", _text(quickstart))
        assert moved is not None
        assert float(moved[1].replace(",", "")) > 0


@pytest.mark.timeout(300)
@pytest.mark.skipif(not FASHION.is_dir(), reason="the example reads Fashion-MNIST, which is not installed")
def test_the_readmes_example(tmp_path: Path) -> None:
    cells = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(cells) == 3
    with Notebook(tmp_path) as notebook:
        for cell in cells:
            result = notebook.ok(cell, timeout=200)
        assert "examples/s" in result.displays[0]["text/plain"]


PAGES = [page for page in (*ROOT.glob("*.md"), *ROOT.glob("*/**/*.md")) if not _is_made(page)]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
