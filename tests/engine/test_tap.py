"""What a rank logs arrives in the notebook: the tap's message is what the feed reads."""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nbdist import comm
from nbdist.engine.tap import Tap
from nbdist.live import Feed
from nbdist.train import log, metrics

KEY = b"k" * 32
SELDOM_HZ = 1e-6


@pytest.fixture
def feed() -> Iterator[Feed]:
    metrics.drain()
    feed = Feed(KEY)
    yield feed
    feed.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., Tap]]:
    """Make taps that are gone after the test, so that they take no figures of the next."""
    made: list[Tap] = []

    def connect(endpoint: str, key: bytes = KEY, rank: int = 0, rate_hz: float = 100) -> Tap:
        made.append(Tap(endpoint, key, rank, rate_hz))
        return made[-1]

    yield connect
    for tap in made:
        tap.close()


def test_what_is_logged_arrives(feed: Feed, connect: Callable[..., Tap]) -> None:
    tap = connect(feed.endpoint, rank=3)
    metrics.begin_run()
    tap.begin_run(7)
    for step in range(5):
        log(loss=1.0 / (step + 1), **({"accuracy": 0.5} if step == 4 else {}))
    tap.end_run()
    run = feed.run(7)
    assert run.wait_for_end([3], at_most=10)
    _, steps, losses = run.series("loss", 3)
    assert steps.tolist() == list(range(5))
    assert np.allclose(losses, [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert len(run.series("accuracy", 3)[0]) == 1, "a step that did not log it is no point"


def test_a_diverged_loss_is_no_gap(feed: Feed, connect: Callable[..., Tap]) -> None:
    tap = connect(feed.endpoint)
    metrics.begin_run()
    tap.begin_run(1)
    for value in (1.0, math.nan):
        log(loss=value)
    tap.end_run()
    run = feed.run(1)
    assert run.wait_for_end([0], at_most=10)
    assert math.isnan(run.series("loss", 0)[2][-1])


def test_another_key_is_refused(feed: Feed, connect: Callable[..., Tap]) -> None:
    tap = connect(feed.endpoint, b"x" * 32)
    metrics.begin_run()
    tap.begin_run(1)
    log(loss=1.0)
    tap.end_run()
    assert not feed.run(1).wait_for_end([0], at_most=1)
    assert feed.run(1).empty


def test_the_timer_sends_by_itself(feed: Feed, connect: Callable[..., Tap]) -> None:
    tap = connect(feed.endpoint)
    tap.begin_run(1)
    log(loss=1.0)
    assert not feed.run(1).wait_for_end([0], at_most=1)  # no end was sent
    assert feed.run(1).last("loss") == 1.0


def test_rows_that_nobody_took_in_time_are_told(
    feed: Feed, connect: Callable[..., Tap], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_metrics", metrics.Metrics(capacity=3))
    tap = connect(feed.endpoint, rate_hz=SELDOM_HZ)
    for number in (1, 2):
        tap.begin_run(number)
        for _ in range(8):
            log(loss=1.0)
        tap.end_run()
        assert feed.run(number).wait_for_end([0], at_most=10)
        assert feed.run(number).dropped() == 5, "those of this run"


def test_a_failure_costs_the_figures_and_is_told_once(
    feed: Feed,
    connect: Callable[..., Tap],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tap = connect(feed.endpoint, rate_hz=SELDOM_HZ)
    tap.begin_run(1)
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(comm, "bytes_moved", lambda: 1 / 0)
        for _ in range(3):
            log(loss=1.0)
            tap.flush()
        tap.end_run()
    assert caplog.text.count("ZeroDivisionError") == 1
    log(loss=2.0)
    tap.end_run()
    assert feed.run(1).wait_for_end([0], at_most=10)
    assert feed.run(1).dropped() == 3
    assert feed.run(1).last("loss") == 2.0


def test_the_timer_outlives_a_failure(
    feed: Feed, connect: Callable[..., Tap], monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = connect(feed.endpoint)
    tap.begin_run(1)
    failed = threading.Event()
    with monkeypatch.context() as broken:
        broken.setattr(tap, "_send", lambda *_: failed.set() or 1 / 0)
        log(loss=1.0)
        assert failed.wait(10)
    test_the_timer_sends_by_itself(feed, lambda _: tap)


def test_a_notebook_that_does_not_read_costs_only_figures(
    connect: Callable[..., Tap], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbdist.engine.tap._QUEUE", 2)
    metrics.drain()
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        tap = connect(f"tcp://127.0.0.1:{deaf.getsockname()[1]}", rate_hz=SELDOM_HZ)
        tap.begin_run(1)
        for _ in range(5):
            log(loss=1.0)
            tap.flush()
        tap.end_run()
        assert tap._unsent == 3
