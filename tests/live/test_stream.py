"""The browser has the run's rows, and is sent only those it lacks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nbdist.live.message import decode
from nbdist.live.store import Run
from nbdist.live.stream import Patch, Reader, Stream, metric_reader, read_rates
from nbdist.live.thin import BUCKETS, thin

from .ranks import KEY, encode


class Browser:
    """What the chart's table does with patches."""

    def __init__(self) -> None:
        self.version = -1
        self.rows = np.empty((0, 0))
        self.received = 0

    def take(self, patch: Patch) -> None:
        data = np.frombuffer(patch.data(), "<f8").reshape(len(patch.columns) + 1, -1).T
        assert patch.at == 0 or (patch.version == self.version and patch.at <= len(self.rows))
        self.rows = data if patch.at == 0 else np.vstack([self.rows[: patch.at], data])
        self.version = patch.version
        self.received += len(data)


def log(run: Run, rank: int, steps: range, loss: float = 1.0) -> None:
    """Let a rank log these steps, ten a second."""
    if not steps:
        return
    columns = {
        "time": [100 + s / 10 for s in steps],
        "step": [float(s) for s in steps],
        "examples": [32.0] * len(steps),
        "loss": [loss + s for s in steps],
    }
    run.add(decode(encode(columns, rank=rank), KEY))


def tick(stream: Stream, run: Run, browser: Browser, now: float) -> Patch | None:
    patch = stream.patch(run, now)
    if patch is not None:
        browser.take(patch)
        stream.sent()
    return patch


def test_only_new_rows_are_sent() -> None:
    run, stream, browser = Run(), Stream("loss", "metric", metric_reader("loss")), Browser()
    for start in range(0, 100, 10):
        log(run, 0, range(start, start + 10))
        patch = tick(stream, run, browser, float(start))
        assert patch is not None
        assert len(patch.x) == 10
    assert tick(stream, run, browser, 100.0) is None
    assert browser.received == 100


@pytest.mark.parametrize("read", [metric_reader("loss"), read_rates])
def test_little_is_sent_twice_while_ranks_keep_step(read: Reader) -> None:
    run, stream, browser = Run(), Stream("x", "x", read), Browser()
    for start in range(0, 400, 4):
        for rank in range(4):
            # The later ranks' batches of a tick are under way while the earlier ones are shown.
            log(run, rank, range(max(0, start - rank), max(0, start + 4 - rank)), loss=rank)
        tick(stream, run, browser, start / 40)
    assert browser.received < 2.2 * len(browser.rows)


def test_a_patch_that_was_not_sent_comes_again() -> None:
    run, stream = Run(), Stream("loss", "metric", metric_reader("loss"))
    log(run, 0, range(10))
    first, second = stream.patch(run, 0.0), stream.patch(run, 0.1)
    assert first is not None
    assert second is not None
    assert first.data() == second.data()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["metric", "rate"])
def test_browser_and_run_agree_however_ranks_report(seed: int, kind: str) -> None:
    pick = random.Random(seed)
    read = metric_reader("loss") if kind == "metric" else read_rates
    run, stream, browser = Run(), Stream("x", kind, read), Browser()
    done = [0, 0, 0]
    for now in range(60):
        for rank in range(3):
            if pick.random() < 0.6 and (rank < 2 or now > 20):
                count = pick.randrange(1, 9)
                log(run, rank, range(done[rank], done[rank] + count), loss=rank)
                done[rank] += count
        if pick.random() < 0.8 and not run.empty and run.has_rates:
            tick(stream, run, browser, float(now))
    tick(stream, run, browser, 100.0)
    block = read(run, -1, 0)
    np.testing.assert_array_equal(browser.rows, np.column_stack([block.x, block.values]))


def test_long_runs_are_thinned_for_the_browser() -> None:
    run, stream, browser = Run(), Stream("loss", "metric", metric_reader("loss")), Browser()
    largest = 0
    for start in range(0, 40_000, 200):
        log(run, 0, range(start, start + 200))
        patch = tick(stream, run, browser, start / 200)
        if patch is not None:
            largest = max(largest, len(patch.x))
            assert len(browser.rows) <= 4 * BUCKETS
    assert largest <= 2 * BUCKETS
    assert browser.rows[0, 0] < 40
    assert browser.rows[-1, 0] == 39_999
    assert np.all(np.diff(browser.rows[:, 0]) > 0)


def test_columns_that_appear_replace_the_table() -> None:
    run, stream, browser = Run(), Stream("loss", "metric", metric_reader("loss")), Browser()
    log(run, 0, range(5))
    tick(stream, run, browser, 0.0)
    log(run, 1, range(5), loss=3.0)
    patch = tick(stream, run, browser, 5.0)
    assert patch is not None
    assert patch.columns == ("mean", "low", "high", "rank 0", "rank 1")
    assert browser.rows[:, 1].tolist() == [2, 3, 4, 5, 6]


def test_short_history_fits_later_patches() -> None:
    run, stream = Run(), Stream("loss", "metric", metric_reader("loss"))
    log(run, 0, range(10))
    tick(stream, run, Browser(), 0.0)
    browser = Browser()
    browser.take(stream.whole(run, 1000))
    log(run, 0, range(10, 20))
    tick(stream, run, browser, 1.0)
    assert len(browser.rows) == 20
    assert len(stream.whole(run, 10).x) <= 10
    assert stream.whole(run, 10).version == -1


def test_thinning_keeps_extremes() -> None:
    x = np.arange(100_000.0)
    y = np.sin(x / 1000)
    y[1234], y[98_765] = 50.0, -50.0
    y[5000:5100] = np.nan
    thinned, columns = thin(x, np.column_stack([y, -y]), 900)
    assert columns.shape == (1800, 2)
    assert np.nanmax(columns[:, 0]) == 50.0
    assert np.nanmin(columns[:, 1]) == -50.0
    assert np.all(np.diff(thinned) > 0)
    assert thinned[0] == 0
    assert thinned[-1] == 99_999
