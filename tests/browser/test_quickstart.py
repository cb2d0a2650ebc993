"""The quickstart as a reader runs it: in JupyterLab, on real ranks."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "01_quickstart.ipynb"
TRAIN = 5
"""The training cell's place among the code cells."""


@pytest.mark.timeout(600)
def test_the_curve_moves_while_the_ranks_train(open_notebook, screenshots: Path) -> None:
    source = nbformat.read(NOTEBOOK, as_version=4)
    source.cells = [cell for cell in source.cells if cell.cell_type == "code"]
    assert "nbdist.loop" in source.cells[TRAIN].source
    notebook = open_notebook("quickstart.ipynb", notebook=source, height=1100)
    notebook.wait_for_kernel()
    for cell in range(TRAIN):
        notebook.run(cell)

    notebook.start(TRAIN)
    step = notebook.output(TRAIN).get_by_text("step").first
    step.wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(6000)
    assert not notebook.ended(TRAIN)
    seen = notebook.output(TRAIN).inner_text()
    notebook.cell(TRAIN).scroll_into_view_if_needed()
    notebook.page.screenshot(path=screenshots / "quickstart-live-light.png")
    notebook.cell(TRAIN).locator(".jp-OutputArea").screenshot(path=screenshots / "quickstart-cell.png")
    notebook.use_theme("JupyterLab Dark")
    notebook.page.wait_for_timeout(1500)
    notebook.page.screenshot(path=screenshots / "quickstart-live-dark.png")
    notebook.use_theme("JupyterLab Light")
    assert notebook.output(TRAIN).inner_text() != seen, "the figures go on"

    notebook.wait_for_end(TRAIN, timeout=300)
    for cell in range(TRAIN + 1, len(source.cells)):
        notebook.run(cell)
    notebook.page.screenshot(path=screenshots / "quickstart-done-light.png")
    saved = notebook.save()
    (result,) = [o for o in saved.cells[TRAIN].outputs if "image/svg+xml" in o.get("data", {})]
    assert not [mime for mime in result.data if "widget" in mime]
    assert "examples/s" in result.data["text/plain"]
