"""The live view as a front end hears it, in a real kernel, and as a terminal shows it."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from nbdist.live import LiveView
from nbdist.live.message import decode
from nbdist.live.store import Run
from nbdist.live.terminal import TerminalFace

from .ranks import KEY, encode

SETUP = f"""
import sys, threading
sys.path.insert(0, {str(Path(__file__).parent)!r})
import ranks
from nbdist.live import Feed, LiveView
feed = Feed(ranks.KEY)

def follow(run, **options):
    training = threading.Thread(target=ranks.train, args=(feed.endpoint,), kwargs=dict(run=run, **options))
    training.start()
    view = LiveView(feed.run(run), title="4 ranks")
    while training.is_alive():
        view.update()
        training.join(0.05)
    view.finish(range(options.get("ranks", 4)))
"""

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    run(client, SETUP)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


def run(client: BlockingKernelClient, code: str) -> list[tuple[float, dict[str, Any]]]:
    """Run a cell; return when each message came and what it was."""
    heard: list[tuple[float, dict[str, Any]]] = []
    reply = client.execute_interactive(
        code, timeout=60, output_hook=lambda message: heard.append((time.monotonic(), message))
    )
    assert reply["content"]["status"] == "ok", "\n".join(reply["content"].get("traceback", []))
    return heard


def of_kind(heard: list[tuple[float, dict[str, Any]]], *kinds: str) -> list[dict[str, Any]]:
    return [message for _, message in heard if message["msg_type"] in kinds]


def test_messages_are_few_and_carry_only_new_rows(kernel: BlockingKernelClient) -> None:
    heard = run(kernel, "follow(1, seconds=3.5)")
    comms = [(at, m) for at, m in heard if m["msg_type"] == "comm_msg"]
    assert len(comms) > 15
    for at, _ in comms:
        assert sum(at <= other < at + 1 for other, _ in comms) <= 10

    ticks = [m for _, m in comms if m["content"]["data"]["method"] == "custom"]
    received: dict[str, int] = {}
    for message in ticks:
        content = message["content"]["data"]["content"]
        assert len(message["buffers"]) == len(content["tables"])
        for head, buffer in zip(content["tables"], message["buffers"], strict=True):
            assert len(buffer) == 8 * head["rows"] * (len(head["columns"]) + 1)
            received[head["name"]] = received.get(head["name"], 0) + head["rows"]
    assert set(received) == {"loss", "accuracy", "examples/s"}
    assert received["loss"] < 2 * 140

    state = ticks[-1]["content"]["data"]["content"]["state"]
    assert state["facts"][0].endswith("of 140")
    assert [name for name, _ in state["values"]] == ["loss", "accuracy", "examples/s", "moved"]


def test_result_takes_the_place_of_the_widget(kernel: BlockingKernelClient) -> None:
    heard = run(kernel, "follow(2, seconds=1, ranks=2)")
    (shown,) = of_kind(heard, "display_data")
    assert WIDGET in shown["content"]["data"]
    (result,) = of_kind(heard, "update_display_data")
    assert set(result["content"]["data"]) == {"text/html", "image/svg+xml", "text/plain"}
    assert result["content"]["transient"] == shown["content"]["transient"]
    assert "40 of 40" in result["content"]["data"]["text/plain"]
    # The widget stays open for pages that were loaded again, with a short copy of the run.
    assert not of_kind(heard, "comm_close")
    last = of_kind(heard, "comm_msg")[-1]
    history = last["content"]["data"]["state"]["history"]
    assert history["state"]["status"] == "finished"
    assert sum(table["rows"] for table in history["tables"]) <= 1000


def test_widgets_do_not_pile_up(kernel: BlockingKernelClient) -> None:
    heard = run(
        kernel,
        "from ipywidgets import Widget\n"
        "from ipywidgets.widgets.widget import _instances\n"
        "for number in range(10, 18):\n"
        "    follow(number, seconds=0.4, ranks=1)\n"
        "print(len([w for w in _instances.values() if type(w).__name__ == 'ChartWidget']))",
    )
    assert int(of_kind(heard, "stream")[-1]["content"]["text"]) <= 4


def test_a_run_that_logs_nothing_shows_nothing(kernel: BlockingKernelClient) -> None:
    heard = run(kernel, "view = LiveView(feed.run(3), title='x'); view.update(); view.finish()")
    assert not of_kind(heard, "display_data", "update_display_data", "comm_open", "stream")


def test_figures_that_came_too_late_to_be_followed_are_still_shown(kernel: BlockingKernelClient) -> None:
    heard = run(
        kernel,
        "view = LiveView(feed.run(4), title='x')\n"
        "ranks.train(feed.endpoint, run=4, seconds=0.3)\n"
        "view.finish()",
    )
    (result,) = of_kind(heard, "display_data")
    assert WIDGET not in result["content"]["data"]


def test_a_view_that_cannot_be_drawn_is_told_and_costs_nothing(kernel: BlockingKernelClient) -> None:
    heard = run(
        kernel,
        "from nbdist.live.stream import Stream\n"
        "kept = Stream.patch\n"
        "Stream.patch = lambda *_: 1 / 0\n"
        "try:\n"
        "    follow(5, seconds=1)\n"
        "finally:\n"
        "    Stream.patch = kept\n"
        "print('after')",
    )
    told = "".join(m["content"]["text"] for m in of_kind(heard, "stream") if m["content"]["name"] == "stderr")
    assert told.count("The live view cannot be drawn") == 1
    assert "ZeroDivisionError" in told
    assert of_kind(heard, "update_display_data")
    assert of_kind(heard, "stream")[-1]["content"]["text"] == "after\n"


def test_a_picture_that_cannot_be_drawn_leaves_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nbdist.live.picture.draw", lambda _: 1 / 0)
    LiveView(short_run(), "2 ranks").finish()
    assert "loss" in capsys.readouterr().out
    assert "ZeroDivisionError" in caplog.text


def short_run() -> Run:
    made = Run()
    columns = {"time": [1.0, 2.0], "step": [0.0, 1.0], "loss": [2.0, 1.0], "total_steps": [2.0, 2.0]}
    made.add(decode(encode(columns), KEY))
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_shows_one_line_and_then_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    view = LiveView(short_run(), "2 ranks")
    for _ in range(50):
        view.update()
    line = screen.getvalue()
    assert line.count("\r") == 1
    assert "\n" not in line
    assert "step 2 of 2" in line
    assert "loss 1.000" in line
    view.finish()
    assert "metric   last    min" in screen.getvalue()


def test_a_file_gets_only_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView(short_run(), "2 ranks")
    view.update()
    assert capsys.readouterr().out == ""
    view.finish()
    assert capsys.readouterr().out.startswith("2 ranks\nmetric")


def test_terminal_line_is_cut_to_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "20")
    TerminalFace(short_run(), "a long title that does not fit", time.monotonic()).update()
    assert len(screen.getvalue().strip("\r")) == 19


def test_updating_is_cheap() -> None:
    made = Run()
    steps = np.arange(8000.0)
    for rank in range(32):
        columns = {name: steps.tolist() for name in ("time", "step", "examples", "loss", "accuracy")}
        made.add(decode(encode(columns, rank=rank), KEY))
    from nbdist.live import state

    began = time.thread_time()  # of this thread alone, whatever else runs here
    for _ in range(10):
        state.describe(made, "x", "running", 1.0)
        made.line_since("loss", 10**9, 7990)
        made.rates_since(10**9, 4000)
    assert (time.thread_time() - began) / 10 < 0.05
