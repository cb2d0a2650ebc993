"""The live view as a reader meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

LIVE_TESTS = Path(__file__).parents[1] / "live"

SETUP = f"""
import sys, threading, time
sys.path.insert(0, {str(LIVE_TESTS)!r})
import ranks
from nbdist.live import Feed, LiveView
feed = Feed(ranks.KEY)
"""

TRAIN = """
training = threading.Thread(target=ranks.train, args=(feed.endpoint,), kwargs=dict(run={run}, {options}))
training.start()
view = LiveView(feed.run({run}), title="{title}")
while training.is_alive():
    view.update()
    training.join(0.05)
view.finish(range({count}))
"""


def training(run: int, title: str = "4 ranks", count: int = 4, **options: object) -> str:
    """Return a cell that follows a run."""
    told = ", ".join(f"{name}={value!r}" for name, value in {"ranks": count, **options}.items())
    return TRAIN.format(run=run, options=told, title=title, count=count)


def values(notebook, cell: int) -> dict[str, str]:
    """Return the figures in the header of the live view."""
    pairs = notebook.output(cell).locator(".nbd-pair").all()
    return {pair.locator("dt").inner_text(): pair.locator("dd").inner_text() for pair in pairs}


def ink(notebook, cell: int) -> int:
    """Return a number that changes whenever the left chart is drawn differently."""
    return (
        notebook.output(cell)
        .locator(".nbd-plot canvas")
        .first.evaluate(
            "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            " let h = 0; for (let i = 0; i < d.length; i += 4) h = (h * 31 + d[i] + d[i + 3]) | 0; return h; }"
        )
    )


@pytest.mark.timeout(240)
def test_curve_moves_and_a_picture_remains(open_notebook, screenshots: Path) -> None:
    notebook = open_notebook("live.ipynb", [SETUP, training(1, seconds=6)])
    errors: list[str] = []
    notebook.page.on("pageerror", lambda error: errors.append(str(error)))
    notebook.run(0)
    notebook.start(1)
    view = notebook.output(1).get_by_role("figure", name="Live curves of 4 ranks")
    view.wait_for()
    notebook.output(1).locator(".nbd-plot canvas").nth(1).wait_for()
    first, drawn = values(notebook, 1), ink(notebook, 1)
    notebook.page.wait_for_timeout(1500)
    assert ink(notebook, 1) != drawn
    assert values(notebook, 1)["loss"] != first["loss"]
    assert not notebook.ended(1)
    notebook.page.wait_for_timeout(1000)
    view.scroll_into_view_if_needed()
    notebook.page.screenshot(path=screenshots / "live-light.png")
    notebook.use_theme("JupyterLab Dark")
    notebook.page.wait_for_timeout(500)
    notebook.page.screenshot(path=screenshots / "live-dark.png")
    notebook.wait_for_end(1)

    assert notebook.output(1).locator(".nbd-live").count() == 0
    picture = notebook.output(1).get_by_role("img")
    assert "loss from" in (picture.get_attribute("alt") or "")
    assert picture.evaluate("i => i.complete && i.naturalWidth") > 0
    assert notebook.output(1).locator("table tbody tr").count() == 2
    notebook.page.screenshot(path=screenshots / "result-dark.png")
    notebook.use_theme("JupyterLab Light")
    notebook.page.wait_for_timeout(300)
    notebook.page.screenshot(path=screenshots / "result-light.png")
    assert errors == []

    saved = notebook.save()
    kinds = {kind for output in saved.cells[1].outputs for kind in output.get("data", {})}
    assert kinds == {"text/html", "image/svg+xml", "text/plain"}
    notebook.open()
    picture = notebook.output(1).get_by_role("img")
    picture.wait_for()
    assert picture.evaluate("i => i.complete && i.naturalWidth") > 0
    assert "model not found" not in notebook.cell(1).inner_text()
