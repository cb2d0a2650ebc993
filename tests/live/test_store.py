"""What a run says of itself, against figures worked out by hand."""

from __future__ import annotations

import logging
import math
import threading
from typing import Any

import numpy as np
import pytest

from nbdist.live.message import decode
from nbdist.live.store import Run

from .ranks import KEY, encode


def add(run: Run, columns: dict[str, list[float]], **header: Any) -> None:
    """Let a rank's message arrive."""
    run.add(decode(encode(columns, **header), KEY))


def test_mean_over_ranks_per_step() -> None:
    run = Run()
    add(run, {"time": [1, 2, 3], "step": [0, 1, 2], "loss": [4.0, 3.0, 2.0]}, rank=0)
    add(run, {"time": [1, 2], "step": [0, 1], "loss": [2.0, 2.0]}, rank=1)
    line = run.line("loss")
    assert line.step.tolist() == [0, 1, 2]
    assert line.mean.tolist() == [3.0, 2.5, 2.0]
    assert line.low.tolist() == [2.0, 2.0, 2.0]
    assert line.high.tolist() == [4.0, 3.0, 2.0]
    assert run.last("loss") == 2.0
    assert run.account("loss").mean == pytest.approx(13 / 5)


def test_ranks_whose_steps_interleave() -> None:
    run = Run()
    add(run, {"time": [1, 2, 3], "step": [0, 2, 4], "loss": [0.0, 2.0, 4.0]}, rank=0)
    add(run, {"time": [1, 2], "step": [1, 3], "loss": [1.0, 3.0]}, rank=3)
    add(run, {"time": [4, 4], "step": [3, 9], "loss": [5.0, 9.0]}, rank=1)
    line = run.line("loss")
    assert line.step.tolist() == [0, 1, 2, 3, 4, 9]
    assert line.mean.tolist() == [0.0, 1.0, 2.0, 4.0, 4.0, 9.0]
    assert line.ranks == (0, 1, 3)
    assert run.ranks() == (0, 1, 3)


def test_rows_without_a_metric_do_not_count() -> None:
    run = Run()
    nan = math.nan
    add(run, {"time": [1, 2, 3], "step": [0, 1, 2], "loss": [1.0, 2.0, 3.0], "accuracy": [nan, 0.5, nan]})
    assert run.metrics() == ["loss", "accuracy"]
    assert run.series("accuracy", 0)[1].tolist() == [1.0]
    assert run.series("accuracy", 5)[1].tolist() == []


def test_rows_without_time_or_step_are_left_out() -> None:
    run = Run()
    add(run, {"time": [1, math.nan, 3], "step": [0, 1, math.inf], "loss": [1.0, 2.0, 3.0]})
    add(run, {"loss": [1.0]})
    assert run.series("loss", 0)[2].tolist() == [1.0]


def test_a_second_loop_goes_on_where_the_first_ended() -> None:
    run = Run()
    add(run, {"time": [1, 2, 3, 4], "step": [0, 1, 0, 1], "loss": [4.0, 3.0, 2.0, 1.0]})
    add(run, {"time": [5, 6], "step": [2, 0], "loss": [0.5, 0.25]})
    assert run.line("loss").step.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.line("loss").mean.tolist() == [4.0, 3.0, 2.0, 1.0, 0.5, 0.25]


def test_infinite_figures_are_kept_and_do_not_spoil_the_mean() -> None:
    run = Run()
    add(run, {"time": [1, 2, 3], "step": [0, 1, 2], "loss": [1.0, math.inf, 3.0]})
    assert run.line("loss").mean.tolist() == [1.0, math.inf, 3.0]
    assert run.account("loss").mean == 2.0


def test_a_loss_that_became_nan_is_told_apart_from_one_not_logged() -> None:
    run = Run()
    nan = math.nan
    add(run, {"time": [1, 2, 3, 4], "step": [0, 1, 2, 3], "loss": [1.0, nan, 3.0, nan]}, nan={"loss": [3]})
    assert run.line("loss").step.tolist() == [0, 2, 3]
    assert math.isnan(run.line("loss").mean[-1])
    assert math.isnan(run.last("loss"))
    assert run.account("loss").mean == 2.0


def test_throughput_of_one_rank() -> None:
    run = Run()
    # 10 examples every half second from t = 100 on; the first row only starts the clock.
    times = [100 + 0.5 * i for i in range(21)]
    add(run, {"time": times, "step": list(range(21)), "examples": [10.0] * 21})
    assert run.average_rate() == pytest.approx(20.0)
    assert run.rate(final=True) == pytest.approx(20.0)
    rates = run.rates(final=True)
    assert rates.time[0] == 0.0
    assert rates.time[-1] == pytest.approx(10.0)
    assert math.isnan(rates.total[0])
    np.testing.assert_allclose(rates.total[1:], 20.0)


def test_throughput_moves_with_the_window() -> None:
    run = Run()
    # 10/s for ten seconds, then 40/s for ten: two seconds behind the change all is new.
    times = [float(t) for t in range(21)]
    add(run, {"time": times, "step": list(range(21)), "examples": [0.0] + [10.0] * 10 + [40.0] * 10})
    rates = run.rates(final=True)
    at = {round(t, 1): v for t, v in zip(rates.time, rates.total, strict=True)}
    assert at[10.0] == pytest.approx(10.0)
    assert at[11.0] == pytest.approx(25.0)
    assert at[12.0] == pytest.approx(40.0)
    assert run.average_rate() == pytest.approx(25.0)


def test_throughput_is_the_sum_over_ranks() -> None:
    run = Run()
    times = [float(t) for t in range(11)]
    add(run, {"time": times, "step": list(range(11)), "examples": [8.0] * 11}, rank=0)
    add(run, {"time": times[:6], "step": list(range(6)), "examples": [4.0] * 6}, rank=1)
    rates = run.rates(final=True)
    at = {round(t, 1): (v, *each) for t, v, each in zip(rates.time, rates.total, rates.each, strict=True)}
    assert at[5.0] == pytest.approx((12.0, 8.0, 4.0))
    assert at[9.0][0] == pytest.approx(8.0)  # rank 1 has run out
    assert run.average_rate() == pytest.approx((10 * 8 + 5 * 4) / 10)
    # While the run lasts, the curve waits a while for the slower rank.
    assert run.rates().time[-1] == pytest.approx(8.0)


def test_grid_runs_out_without_losing_examples() -> None:
    run = Run()
    times = [10.0 * t for t in range(1001)]
    add(run, {"time": times, "step": list(range(1001)), "examples": [50.0] * 1001})
    rates = run.rates(final=True)
    assert len(rates.time) <= 4096
    np.testing.assert_allclose(rates.total[1:], 5.0)
    assert run.average_rate() == pytest.approx(5.0)


def test_one_row_says_nothing_about_speed() -> None:
    run = Run()
    add(run, {"time": [5.0], "step": [0], "examples": [64.0]})
    assert math.isnan(run.average_rate())
    assert math.isnan(run.rate(final=True))


def test_progress_and_time_left() -> None:
    run = Run()
    times = [100.0 + 2 * i for i in range(11)]
    add(run, {"time": times, "step": list(range(11)), "total_steps": [50.0] * 11, "epoch": [1.0] * 11})
    progress = run.progress()
    assert (progress.step, progress.total, progress.epoch) == (11, 50, 1.0)
    assert progress.elapsed == 20.0
    assert progress.remaining == pytest.approx(39 * 2.0)
    assert progress.fraction == pytest.approx(11 / 50)
    assert run.empty  # nothing to draw


def test_a_total_that_is_passed_is_not_shown() -> None:
    run = Run()
    add(run, {"time": [1, 2, 3], "step": [0, 1, 2], "total_steps": [2.0, 2.0, 2.0]})
    assert run.progress().step == 3
    assert run.progress().total is None
    assert run.progress().remaining is None


def test_progress_of_nothing() -> None:
    progress = Run().progress()
    assert progress.step is None
    assert progress.fraction is None


def test_memory_is_bounded_and_spikes_survive() -> None:
    run = Run(capacity=1000)
    count = 1_000_000
    losses = np.ones(count)
    losses[345_678] = 99.0
    for start in range(0, count, 50_000):
        rows = range(start, start + 50_000)
        block = {
            "time": [float(r) for r in rows],
            "step": list(rows),
            "loss": losses[start : start + 50_000].tolist(),
        }
        for rank in (0, 1):
            add(run, block, rank=rank)
    line = run.line("loss")
    assert 500 <= len(line.step) <= 1000
    assert line.step[-1] == count - 1
    assert np.all(np.diff(line.step) > 0)
    assert line.high.max() == 99.0
    assert line.mean.max() < 2.0  # the drawn line is thinned, what the table tells is not
    told = run.account("loss")
    assert (told.count, told.least, told.greatest) == (2 * count, 1.0, 99.0)
    assert told.mean == pytest.approx(1 + 98 / count)


def test_names_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    with caplog.at_level(logging.WARNING, logger="nbdist"):
        for i in range(100):
            add(run, {"time": [i], "step": [i], f"loss_{i}": [1.0]})
    assert len(run.metrics()) == 64
    assert len(caplog.records) == 1


def test_many_threads_at_once() -> None:
    run = Run()

    def log(rank: int) -> None:
        for i in range(0, 500, 10):
            steps = list(range(i, i + 10))
            add(
                run,
                {"time": steps, "step": steps, "loss": [float(rank)] * 10, "examples": [1] * 10},
                rank=rank,
            )

    threads = [threading.Thread(target=log, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for name in run.metrics():
            run.line(name)
        run.rates()
        threads[0].join(0.001)
    for thread in threads:
        thread.join()
    assert len(run.line("loss").step) == 500
    np.testing.assert_allclose(run.line("loss").mean, 1.5)
