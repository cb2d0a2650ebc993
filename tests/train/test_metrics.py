"""Logged figures: what is taken, how rows come together, what is dropped."""

import threading
import time

import numpy as np
import pytest
import torch

from nbdist.errors import UsageError
from nbdist.train import metrics


@pytest.fixture(autouse=True)
def fresh():
    metrics.drain()
    metrics.begin_run()


def test_numbers_of_every_kind():
    before = time.time()
    metrics.log(a=1, b=2.5, c=torch.tensor(3.0, requires_grad=True), d=np.float32(4), e=np.int64(5), f=True)
    metrics.log(a=np.array(6.0), b=np.bool_(True), c=torch.tensor(7), d=10**400)
    first, second = metrics.drain()
    assert before <= first.pop("time") <= time.time()
    assert first == {"step": 0, "a": 1, "b": 2.5, "c": 3, "d": 4, "e": 5, "f": 1}
    assert all(type(value) is float for value in first.values())
    assert second["c"] == 7
    assert second["d"] == float("inf")
    assert metrics.drain() == []


@pytest.mark.parametrize(
    "value", ["0.5", None, [1.0], torch.zeros(2), torch.zeros(1), np.zeros(2), 1j, torch.tensor(1j)]
)
def test_anything_else_is_named(value):
    with pytest.raises(UsageError, match=rf"loss.*{type(value).__name__}"):
        metrics.log(loss=value)
    assert metrics.drain() == []


def test_time_is_taken():
    with pytest.raises(UsageError, match="another name"):
        metrics.log(time=1.0)


def test_a_clock_that_is_set_does_not_bend_the_time_axis(monkeypatch):
    metrics.log(a=1)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    metrics.log(a=2)
    first, second = metrics.drain()
    assert 0 <= second["time"] - first["time"] < 60
    metrics.begin_run()  # but a run starts at the time it is
    metrics.log(a=3)
    (row,) = metrics.drain()
    assert 0 <= row["time"] - 1e9 < 60


@pytest.mark.parametrize("step", [float("nan"), float("inf"), 1e300])
def test_a_step_is_a_count(step):
    with pytest.raises(UsageError, match="takes a count"):
        metrics.log(step=step, loss=1.0)


def test_steps_count_by_themselves_or_as_given():
    metrics.log(a=1)
    metrics.log(a=2)
    metrics.log(step=10, a=3)
    metrics.log(a=4)
    metrics.begin_run()
    metrics.log(a=5)
    assert [row["step"] for row in metrics.drain()] == [0, 1, 10, 11, 0]


def test_a_step_of_the_loop_is_one_row():
    for loss in (1.0, 2.0):
        step = metrics.begin_step()
        metrics.log(loss=loss)
        metrics.log(accuracy=0.5)
        metrics.record(step, examples=4, epoch=0, total_steps=2)
    metrics.record(metrics.begin_step(), examples=3, epoch=1, total_steps=None)
    rows = metrics.drain()
    for row in rows:
        row.pop("time")
    assert rows == [
        {"step": 0, "loss": 1, "accuracy": 0.5, "examples": 4, "epoch": 0, "total_steps": 2},
        {"step": 1, "loss": 2, "accuracy": 0.5, "examples": 4, "epoch": 0, "total_steps": 2},
        {"step": 2, "examples": 3, "epoch": 1},
    ]


def test_a_figure_logged_twice_in_a_step_is_kept_twice():
    metrics.begin_step()
    metrics.log(loss=1)
    metrics.log(loss=2)
    assert [(row["step"], row["loss"]) for row in metrics.drain()] == [(0, 1), (0, 2)]


def test_the_loops_figures_give_way_to_those_logged():
    step = metrics.begin_step()
    metrics.log(examples=100, epoch=7)
    metrics.drain()  # as the tap may, at any time
    metrics.record(step, examples=4, epoch=0, total_steps=2)
    (row,) = metrics.drain()
    assert row.keys() == {"time", "step", "total_steps"}


def test_a_step_that_an_earlier_cell_left_open_ends_unheard():
    left = metrics.begin_step()
    metrics.begin_run()
    metrics.record(left, examples=4, epoch=0, total_steps=None)
    metrics.log(loss=1)
    metrics.log(loss=2)
    assert [row["step"] for row in metrics.drain()] == [0, 1]


def test_the_collector_may_end_a_step_while_another_is_logged():
    buffer = metrics.Metrics()

    class Ends(dict):
        def items(self):
            buffer.end_step(step, {"examples": 1})
            return super().items()

    step, other = buffer.begin_step(), buffer.begin_step()
    buffer.end_step(other, Ends(examples=2))
    assert sum(row["examples"] for row in buffer.drain()) == 3


def test_the_oldest_are_dropped_and_counted():
    buffer = metrics.Metrics(capacity=3)
    for i in range(5):
        buffer.log(None, {"a": i})
    assert [row["a"] for row in buffer.drain()] == [2, 3, 4]
    assert buffer.dropped == 2


def test_many_threads_and_a_drain_lose_nothing():
    buffer, seen = metrics.Metrics(), []
    threads = [
        threading.Thread(target=lambda n=n: [buffer.log(i, {f"m{n}": i}) for i in range(500)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen += buffer.drain()
    seen += buffer.drain()
    for n in range(4):
        assert [row[f"m{n}"] for row in seen if f"m{n}" in row] == list(range(500))
