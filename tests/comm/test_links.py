"""Connections between hosts: made among whatever else calls, closed when somebody gives up."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from nbdist.comm import links
from nbdist.comm.hello import GREETING, Hello, Purpose
from nbdist.comm.hosts import choose_places
from nbdist.comm.links import Link, Listener, link
from nbdist.errors import GroupAborted, GroupError

SIZE = 3


class Over(Exception):
    """The test is."""


class Meeting:
    """Ranks that link in threads of this process."""

    def __init__(self) -> None:
        self.listeners = [Listener(choose_places("127.0.0.1", None)) for _ in range(SIZE)]
        self._pool = ThreadPoolExecutor()
        self._links: list[Link] = []
        self._over = threading.Event()

    def check(self) -> None:
        if self._over.is_set():
            raise Over

    def port(self, rank: int) -> tuple[str, int]:
        host, port = json.loads(self.listeners[rank].announcement())[0]
        return host, port

    def join(
        self,
        rank: int,
        secret: bytes = b"secret",
        patience: float = 20.0,
        check: Callable[[], None] | None = None,
        **announced: str,
    ) -> Future[list[Link]]:
        calls = {
            peer: announced.get(f"rank{peer}", self.listeners[peer].announcement())
            for peer in range(SIZE)
            if peer != rank
        }
        hello = Hello(secret, 0, SIZE, rank)

        def run() -> list[Link]:
            links = link(self.listeners[rank], hello, calls, patience, check or self.check)
            self._links += links
            return links

        return self._pool.submit(run)

    def close(self) -> None:
        self._over.set()
        self._pool.shutdown()
        for listener in self.listeners:
            listener.close()
        for each in self._links:
            each.close()


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meeting]:
    monkeypatch.setattr(links, "_REPLY", 1.0)
    with contextlib.closing(Meeting()) as made:
        yield made


def check_links(outcomes: list[Future[list[Link]]]) -> None:
    """See that each link ends where it says, control with control and data with data."""
    rows = [outcome.result(timeout=20) for outcome in outcomes]
    for rank, row in enumerate(rows):
        assert [each.peer for each in row] == [peer for peer in range(SIZE) if peer != rank]
        for each in row:
            for name, connection in (("control", each.control), ("data", each.data)):
                connection.sendall(f"{name} {rank}{each.peer}".encode())
    for rank, row in enumerate(rows):
        for each in row:
            for name, connection in (("control", each.control), ("data", each.data)):
                connection.settimeout(20)
                assert connection.recv(99) == f"{name} {each.peer}{rank}".encode()


def test_every_pair_is_linked_twice(meeting):
    check_links([meeting.join(rank) for rank in range(SIZE)])


def call(meeting: Meeting, rank: int, words: bytes) -> socket.socket:
    stranger = socket.create_connection(meeting.port(rank))
    stranger.sendall(words)
    return stranger


def test_strangers_are_dropped_and_logged_once(meeting, caplog):
    chance = random.Random(1)
    with contextlib.ExitStack() as strangers:
        for _ in range(50):  # some say too little and keep quiet, some too much
            words = chance.randbytes(chance.choice([0, 1, 50, 90, 5000]))
            strangers.enter_context(call(meeting, 0, words))
        first = meeting.join(0)
        # Those of before and after are in the middle of it when the ranks come.
        for _ in range(50):
            strangers.enter_context(call(meeting, 0, chance.randbytes(chance.choice([0, 1, 500]))))
        check_links([first, meeting.join(1), meeting.join(2)])
    reports = [record for record in caplog.records if record.name == "nbdist.comm"]
    assert {record.levelno for record in reports} == {logging.WARNING}
    assert [record.getMessage() for record in reports] == [
        "dropped a connection from 127.0.0.1 while a group was formed: it does not know the group's secret"
    ]


def test_a_rank_that_keeps_quiet_holds_up_nobody_else(meeting, caplog):
    with call(meeting, 0, b"") as quiet:
        first, second = meeting.join(0), meeting.join(1)
        quiet.settimeout(20)
        assert len(quiet.recv(GREETING)) == GREETING
        assert quiet.recv(1) == b""  # it is hung up on
        check_links([first, second, meeting.join(2)])
    assert "it did not answer" in caplog.text


def test_a_recorded_hello_opens_nothing(meeting, caplog):
    with socket.create_server(("127.0.0.1", 0)) as tap:
        calls = json.dumps([tap.getsockname()])
        victim = meeting.join(2, rank0=calls)
        first = meeting.join(0)
        with tap.accept()[0] as caught, socket.create_connection(meeting.port(0)) as again:
            caught.sendall(again.recv(GREETING, socket.MSG_WAITALL))
            words = caught.recv(4096)
            with socket.create_connection(meeting.port(0)) as replay:
                replay.recv(GREETING, socket.MSG_WAITALL)
                replay.sendall(words)
                replay.settimeout(20)
                assert replay.recv(1) == b""
    assert "does not know the group's secret" in caplog.text
    assert not victim.done()
    assert not first.done()


def test_a_wrong_secret_never_gets_in(meeting, caplog):
    outcomes = [meeting.join(0, patience=2), meeting.join(1, secret=b"guess", patience=2)]
    with pytest.raises(GroupError, match=r"rank 1-2 has not called rank 0 at 127\.0\.0\.1 port"):
        outcomes[0].result(timeout=20)
    with pytest.raises(GroupError, match=r"rank 1 cannot reach rank 0 \(127\.0\.0\.1 port .*closed the conn"):
        outcomes[1].result(timeout=20)
    assert caplog.text.count("does not know the group's secret") == 1


def test_addresses_are_tried_in_turn(meeting):
    with socket.create_server(("127.0.0.1", 0)) as mute, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        other = meeting.port(1)  # a rank, but another one
        places = [deaf.getsockname(), mute.getsockname(), other, meeting.port(0)]
        check_links([meeting.join(0), meeting.join(1), meeting.join(2, rank0=json.dumps(places))])


def test_a_rank_that_gives_up_releases_the_others(meeting, monkeypatch):
    made: dict[int, int] = {}
    plain = links._Linking.is_done

    def is_done(linking: links._Linking) -> bool:
        made[linking._hello.rank] = len(linking._made)
        return plain(linking)

    def give_up() -> None:
        if made.get(0) == len(Purpose):
            raise Over

    monkeypatch.setattr(links._Linking, "is_done", is_done)
    outcomes = [meeting.join(0), meeting.join(1, check=give_up)]
    with pytest.raises(Over):
        outcomes[1].result(timeout=20)
    with pytest.raises(GroupAborted, match="rank 1 died or gave up") as caught:
        outcomes[0].result(timeout=20)
    assert caught.value.rank == 1


def test_an_interrupt_is_answered(meeting):
    hello = Hello(b"secret", 0, SIZE, 0)
    announcements = {peer: meeting.listeners[peer].announcement() for peer in (1, 2)}
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        link(meeting.listeners[0], hello, announcements, 20, meeting.check)
    timer.join()


def test_a_peer_of_another_family_is_given_up_at_once(meeting, monkeypatch):
    monkeypatch.setattr(links, "callable_at", lambda _: [])  # as when it has but link-local ones and we none
    outcome = meeting.join(2, patience=1000)
    with pytest.raises(GroupError, match=r"rank 2 cannot reach rank 0 \(there is no kind of address"):
        outcome.result(timeout=20)


def test_more_strangers_than_are_heard_at_once_queue(meeting, monkeypatch):
    monkeypatch.setattr(links, "_STRANGERS", 4)
    rounds = 0
    plain = links._Linking.step

    def step(linking: links._Linking) -> None:
        nonlocal rounds
        rounds += linking._hello.rank == 0
        plain(linking)
        assert len(linking._conversations) <= 4 + 2 * SIZE

    monkeypatch.setattr(links._Linking, "step", step)
    with contextlib.ExitStack() as strangers:
        for _ in range(10):
            strangers.enter_context(call(meeting, 0, b""))
        check_links([meeting.join(rank) for rank in range(SIZE)])
    assert rounds < 200, "it runs in circles while nobody more can be heard"


@pytest.mark.parametrize("where", ["accept", "socket"])
def test_a_lack_of_descriptors_is_told(meeting, monkeypatch, where):
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    stranger = call(meeting, 0, b"")
    outcome = None
    with monkeypatch.context() as patch, contextlib.closing(stranger):
        patch.setattr(socket.socket, where if where == "accept" else "__init__", fail)
        outcome = meeting.join(0 if where == "accept" else 2)
        with pytest.raises(GroupError, match=r"Too many open files.*ulimit -n"):
            outcome.result(timeout=20)


def test_each_purpose_has_a_connection():
    assert [purpose.name for purpose in Purpose] == list(Link._fields[1:])
