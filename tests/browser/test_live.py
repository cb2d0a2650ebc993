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


def training(run: int, title: str = "Training on 4 ranks", count: int = 4, **options: object) -> str:
    """Return a cell that follows a run."""
    told = ", ".join(f"{name}={value!r}" for name, value in {"ranks": count, **options}.items())
    return TRAIN.format(run=run, options=told, title=title, count=count)


def values(notebook, cell: int) -> dict[str, str]:
    """Return the figures in the header of the live view."""
    pairs = notebook.output(cell).locator(".nbd-pair").all()
    return {pair.locator(".nbd-name").inner_text(): pair.locator(".nbd-value").inner_text() for pair in pairs}


def ink(notebook, cell: int) -> int:
    """Return a number that changes whenever the left chart is drawn differently."""
    return (
        notebook.output(cell)
        .locator(".nbd-plot canvas")
        .first.evaluate(
            "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            " let h = 0; for (let i = 0; i < d.length; i++) h = (h * 31 + d[i]) | 0; return h; }"
        )
    )


def loaded_pictures(notebook, cell: int) -> int:
    """Count the pictures of a result that really show."""
    images = notebook.output(cell).get_by_role("img").all()
    return sum(image.evaluate("i => i.decode().then(() => i.naturalWidth > 0)") for image in images)


@pytest.mark.timeout(240)
def test_curve_moves_and_a_picture_remains(open_notebook, screenshots: Path) -> None:
    notebook = open_notebook("live.ipynb", [SETUP, training(1, seconds=6)])
    errors: list[str] = []
    notebook.page.on("pageerror", lambda error: errors.append(str(error)))
    notebook.run(0)
    notebook.start(1)
    view = notebook.output(1).get_by_role("figure", name="Live curves: Training on 4 ranks")
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
    assert loaded_pictures(notebook, 1) == 2
    assert "loss from" in (notebook.output(1).get_by_role("img").first.get_attribute("alt") or "")
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
    notebook.output(1).get_by_role("img").first.wait_for()
    assert loaded_pictures(notebook, 1) == 2
    assert "model not found" not in notebook.cell(1).inner_text()

    # Changed from outside, it is not trusted any more, and Lab cleans what it shows.
    saved.cells[0].source += "# changed"
    stranger = open_notebook("stranger.ipynb", notebook=saved)
    stranger.output(1).get_by_role("img").first.wait_for()
    assert loaded_pictures(stranger, 1) == 2
    assert stranger.output(1).locator("table tbody tr").count() == 2
    stranger.page.screenshot(path=screenshots / "untrusted-light.png")


@pytest.mark.timeout(240)
def test_page_loaded_again_during_the_run(open_notebook, screenshots: Path) -> None:
    notebook = open_notebook("reload.ipynb", [SETUP, training(1, seconds=12)])
    notebook.run(0)
    notebook.start(1)
    notebook.output(1).locator(".nbd-plot canvas").nth(1).wait_for()
    notebook.save()
    notebook.open()
    notebook.wait_for_kernel()
    # The widget comes back when the kernel has time for it, with the whole curve.
    view = notebook.output(1).get_by_role("figure", name="Live curves: Training on 4 ranks")
    view.wait_for(timeout=10_000)
    notebook.output(1).get_by_text("step 480 of 480").wait_for()
    notebook.output(1).locator(".nbd-plot canvas").nth(1).wait_for()
    notebook.page.wait_for_timeout(300)
    notebook.page.screenshot(path=screenshots / "reloaded-light.png")


@pytest.mark.timeout(240)
def test_many_ranks_and_metrics_on_a_narrow_page(open_notebook, screenshots: Path) -> None:
    cell = training(
        1, title="Training on 32 ranks", count=32, seconds=7, more=("lr", "grad_norm", "val_loss")
    )
    notebook = open_notebook("many.ipynb", [SETUP, cell], width=900, height=1000)
    notebook.run(0)
    notebook.start(1)
    plots = notebook.output(1).locator(".nbd-plot canvas")
    plots.nth(1).wait_for()
    notebook.page.wait_for_timeout(2000)
    notebook.output(1).locator(".u-over").first.hover(position={"x": 200, "y": 100})
    for theme in ("Light", "Dark"):
        notebook.use_theme(f"JupyterLab {theme}")
        notebook.page.wait_for_timeout(400)
        notebook.page.screenshot(path=screenshots / f"many-{theme.lower()}.png")
    notebook.wait_for_end(1)
    for theme in ("Light", "Dark"):
        notebook.use_theme(f"JupyterLab {theme}")
        notebook.page.wait_for_timeout(400)
        notebook.page.screenshot(path=screenshots / f"many-result-{theme.lower()}.png")


@pytest.mark.timeout(240)
def test_lines_can_be_hidden_and_a_stretch_looked_at(open_notebook) -> None:
    notebook = open_notebook("zoom.ipynb", [SETUP, training(1, seconds=8)])
    notebook.run(0)
    notebook.start(1)
    page, output = notebook.page, notebook.output(1)
    output.locator(".nbd-plot canvas").nth(1).wait_for()
    page.wait_for_timeout(1500)

    legend = output.get_by_role("button", name="accuracy")
    legend.click()
    assert legend.get_attribute("aria-pressed") == "false"

    frame = output.locator(".u-over").first.bounding_box()
    assert frame is not None
    height = frame["y"] + frame["height"] / 2
    page.mouse.move(frame["x"] + 80, height)
    page.mouse.down()
    page.mouse.move(frame["x"] + 160, height, steps=4)
    page.mouse.up()
    reset = output.get_by_role("button", name="Reset zoom")
    reset.wait_for()
    page.wait_for_timeout(500)  # rows that arrive meanwhile must not end the look
    assert reset.is_visible()
    reset.click()
    reset.wait_for(state="hidden")
    assert output.get_by_role("progressbar").get_attribute("aria-valuenow") is not None
    assert not notebook.ended(1)
    notebook.wait_for_end(1)
