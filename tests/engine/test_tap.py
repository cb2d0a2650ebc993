"""What a rank logs arrives in the notebook: the tap's message is what the feed reads."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from nbdist.engine.tap import Tap
from nbdist.live import Feed
from nbdist.train import log, metrics

KEY = b"k" * 32


@pytest.fixture
def feed() -> Iterator[Feed]:
    metrics.drain()
    feed = Feed(KEY)
    yield feed
    feed.close()


def test_what_is_logged_arrives(feed: Feed) -> None:
    tap = Tap(feed.endpoint, KEY, rank=3, rate_hz=100)
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


def test_a_diverged_loss_is_no_gap(feed: Feed) -> None:
    tap = Tap(feed.endpoint, KEY, rank=0, rate_hz=100)
    metrics.begin_run()
    tap.begin_run(1)
    for value in (1.0, math.nan):
        log(loss=value)
    tap.end_run()
    run = feed.run(1)
    assert run.wait_for_end([0], at_most=10)
    assert math.isnan(run.series("loss", 0)[2][-1])


def test_another_key_is_refused(feed: Feed) -> None:
    tap = Tap(feed.endpoint, b"x" * 32, rank=0, rate_hz=100)
    metrics.begin_run()
    tap.begin_run(1)
    log(loss=1.0)
    tap.end_run()
    assert not feed.run(1).wait_for_end([0], at_most=1)
    assert feed.run(1).empty
