"""The socket takes what is signed and nothing else."""

from __future__ import annotations

import logging
import pkgutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nbdist.live import Feed
from nbdist.live.message import GarbledError, decode

from .ranks import KEY, Sender, encode

ROWS = {"time": [10.0, 11.0], "step": [0.0, 1.0], "loss": [2.0, 1.5]}


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed(KEY)
    yield made
    made.close()


@pytest.fixture
def sender(feed: Feed) -> Iterator[Sender]:
    made = Sender(feed.endpoint)
    yield made
    made.close()


def test_signed_figures_arrive_in_their_run(feed: Feed, sender: Sender) -> None:
    sender.send(encode(ROWS, rank=1, run=7, moved=99))
    sender.send(encode(ROWS, rank=0, run=7, moved=1, end=True))
    assert feed.run(7).wait_for_end([0], 10)
    time, step, value = feed.run(7).series("loss", 1)
    assert (time.tolist(), step.tolist(), value.tolist()) == ([10.0, 11.0], [0.0, 1.0], [2.0, 1.5])
    assert feed.run(7).bytes_moved() == 100
    assert feed.run(8).empty


def broken() -> dict[str, list[bytes]]:
    signature, header, payload = encode(ROWS)
    return {
        "forged": encode(ROWS, key=b"x" * 32),
        "another header": [signature, header.replace(b'"rank": 0', b'"rank": 1'), payload],
        "another payload": [signature, header, payload[:-1] + b"!"],
        "one frame": [b"hello"],
        "four frames": [signature, header, payload, b""],
        "empty": [b"", b"", b""],
        "no rank": encode(ROWS, rank=None),
        "a rank that is true": encode(ROWS, rank=True),
        "a rank below zero": encode(ROWS, rank=-1),
        "rows that are not there": encode({}, rows=3, columns=["loss"]),
        "columns that are no names": encode({}, columns=[1]),
        "a NaN in no row": encode(ROWS, nan={"loss": [2]}),
        "NaNs that are no rows": encode(ROWS, nan=["loss"]),
        "a column twice": encode({}, columns=["loss", "loss"]),
    }


@pytest.mark.parametrize("name", broken())
def test_forged_and_garbled_messages_are_refused(name: str) -> None:
    with pytest.raises(GarbledError):
        decode(broken()[name], KEY)


def test_a_header_that_is_no_json_is_refused() -> None:
    import hashlib
    import hmac

    for header in (b"\xff\xfe", b"{", b"[]", b"3"):
        signature = hmac.new(KEY, header, hashlib.sha256).digest()
        with pytest.raises(GarbledError):
            decode([signature, header, b""], KEY)


def test_dropped_messages_are_counted_and_told_once(
    feed: Feed, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="nbdist"):
        for frames in broken().values():
            sender.send(frames)
        sender.send(encode(ROWS, end=True))
        assert feed.run(1).wait_for_end([0], 10)
    assert feed.dropped == len(broken())
    assert len(caplog.records) == 1
    assert "signature is wrong" in caplog.text


@pytest.mark.parametrize("place", ["nbdist.live.feed.decode", "nbdist.live.store.Run.add"])
def test_a_message_that_cannot_be_taken_costs_only_itself(
    feed: Feed,
    sender: Sender,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    module, name = place.rsplit(".", 1)
    owner = pkgutil.resolve_name(module)
    kept, calls = getattr(owner, name), []

    def fails_twice(*args: Any) -> Any:
        calls.append(args)
        if len(calls) <= 2:
            raise RecursionError("too deep")
        return kept(*args)

    monkeypatch.setattr(owner, name, fails_twice)
    for _ in range(3):
        sender.send(encode(ROWS, end=True))
    assert feed.run(1).wait_for_end([0], 10)
    assert feed.run(1).last("loss") == 1.5
    assert (feed.failed, feed.dropped) == (2, 0)
    assert caplog.text.count("RecursionError: too deep") == 1


def test_close_ends_the_thread_and_leaves_the_runs(feed: Feed, sender: Sender) -> None:
    sender.send(encode(ROWS, end=True))
    run = feed.run(1)
    assert run.wait_for_end([0], 10)
    feed.close()
    feed.close()
    assert "nbdist-feed" not in {thread.name for thread in threading.enumerate()}
    assert run.last("loss") == 1.5


def test_only_the_latest_runs_are_kept(feed: Feed) -> None:
    first = feed.run(1)
    for number in range(2, 40):
        feed.run(number)
    assert feed.run(39) is feed.run(39)
    assert feed.run(1) is not first
