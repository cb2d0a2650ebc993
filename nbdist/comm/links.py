"""Connections between ranks on different hosts, made while a group is formed."""

from __future__ import annotations

import errno
import json
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..errors import GroupAborted, GroupError, rank_list
from .hello import Hello, Line, Purpose, Refused, Talk
from .hosts import Place, SocketAddress, callable_at

_log = logging.getLogger("nbdist.comm")

_SLICE = 0.1  # how often deadlines, and the caller's `check`, are looked at
_REPLY = 5.0  # how long a stranger may take over its part of the hello, and a connection to be made
_PAUSE = 0.5  # between two rounds of calls to a peer's addresses
_GRACE = 2.0
_STRANGERS = 128  # callers not known yet that are heard at once; the others queue in the kernel
_REPORTS = 10  # lines in the log about refused callers, each of another host or for another reason


class Link(NamedTuple):
    """The two connections with a rank; whoever holds this closes them."""

    peer: int
    control: socket.socket
    data: socket.socket

    def close(self) -> None:
        """Close what nobody has taken over."""
        self.control.close()
        self.data.close()


class Listener:
    """Where ranks of other hosts call this one; open only while a group is formed."""

    def __init__(self, places: Sequence[Place]) -> None:
        """Listen at the places, each at a port of its own.

        Raises:
            GroupError: none of them can be listened at.
        """
        self.sockets: list[socket.socket] = []
        problems = []
        for place in places:
            six = place.address.version == 6
            address = (str(place.address), 0, 0, place.scope) if six else (str(place.address), 0)
            try:
                self.sockets.append(_listen(socket.AF_INET6 if six else socket.AF_INET, address))
            except OSError as error:
                _check_descriptors(error)
                problems.append(f"{place}: {error.strerror}")
        if not self.sockets:
            raise GroupError(
                f"host {socket.gethostname()} has no address at which ranks of other hosts could call "
                f"({'; '.join(problems) or 'no interface is up'}); set NBDIST_INTERFACE to one that is up"
            )

    def announcement(self) -> str:
        """Tell where to call."""
        names = [listener.getsockname() for listener in self.sockets]
        return json.dumps([[name[0].partition("%")[0], name[1]] for name in names])

    def close(self) -> None:
        """Answer nobody any more."""
        for listener in self.sockets:
            listener.close()
        self.sockets.clear()


def link(
    listener: Listener,
    hello: Hello,
    announcements: Mapping[int, str],
    patience: float,
    check: Callable[[], None],
) -> list[Link]:
    """Connect this rank with each that has announced where it listens; the higher one calls.

    `check` is called several times a second, and may raise.

    Raises:
        GroupError: some cannot be reached, or have not called, within `patience` seconds.
        GroupAborted: one has given up.
    """
    linking = _Linking(listener, hello, announcements, patience)
    checked = 0.0
    try:
        while not linking.is_done():
            if time.monotonic() - checked > _SLICE:
                check()
                checked = time.monotonic()
            linking.step()
        return linking.links()
    finally:
        linking.close()


class _Conversation:
    """A connection on which a hello is under way."""

    def __init__(self, connection: socket.socket, talk: Talk, name: str, call: _Call | None) -> None:
        self.socket = connection
        self.name = name
        self.call = call
        self.known = False
        self.deadline = time.monotonic() + _REPLY
        self._talk = talk
        self._out = b""
        self._in = b""
        self._need = 0
        self._begun = False

    def advance(self) -> Line | None:
        """Go on as far as possible; the line when the hello is complete."""
        try:
            while True:
                if self._out:
                    self._out = self._out[self.socket.send(self._out) :]
                elif len(self._in) < self._need:
                    piece = self.socket.recv(self._need - len(self._in))
                    if not piece:
                        raise Refused("it closed the connection")
                    self._in += piece
                else:
                    self._resume()
        except BlockingIOError:
            return None
        except StopIteration as end:
            line: Line = end.value
            return line

    def _resume(self) -> None:
        step = self._talk.send(self._in) if self._begun else next(self._talk)
        self._begun = True
        self._in, self._need = b"", 0
        if isinstance(step, bytes):
            self._out = step
        elif isinstance(step, int):
            self._need = step
        else:
            self.known = True  # and may be slow: it is one of us
            self.deadline = float("inf")

    def events(self) -> int:
        return selectors.EVENT_WRITE if self._out or not self._begun else selectors.EVENT_READ


class _Call:
    """What is known about calling a peer for one of the two connections."""

    def __init__(self, line: Line, announcement: str) -> None:
        self.line = line
        self.tried: dict[str, str] = {}
        self.due = 0.0
        self.busy = False
        self._addresses = callable_at(json.loads(announcement))
        self._left = list(self._addresses)

    def has_addresses(self) -> bool:
        return bool(self._addresses)

    def take_address(self) -> SocketAddress:
        self.busy = True
        return self._left.pop(0)

    def fail(self, where: str, why: str) -> None:
        self.busy = False
        self.tried[where] = why
        if not self._left:
            self._left = list(self._addresses)
            self.due = time.monotonic() + _PAUSE


class _Linking:
    def __init__(
        self, listener: Listener, hello: Hello, announcements: Mapping[int, str], patience: float
    ) -> None:
        self._listener = listener
        self._hello = hello
        self._announcements = announcements
        self._patience = patience
        self._deadline = time.monotonic() + patience
        self._selector = selectors.DefaultSelector()
        self._conversations: set[_Conversation] = set()
        self._made: dict[Line, socket.socket] = {}
        self._wanted = {(peer, purpose) for peer in announcements for purpose in Purpose}
        self._calls = [
            _Call(line, announcements[line[0]]) for line in sorted(self._wanted) if line[0] < hello.rank
        ]
        self._reported: set[tuple[str, str]] = set()
        self._listening = False

    def is_done(self) -> bool:
        return len(self._made) == len(self._wanted)

    def links(self) -> list[Link]:
        """Give the connections away."""
        links = []
        for peer in sorted(self._announcements):
            control, data = (self._made.pop((peer, purpose)) for purpose in Purpose)
            links.append(Link(peer, control, data))
        return links

    def close(self) -> None:
        self._selector.close()
        for connection in [*self._made.values(), *(each.socket for each in self._conversations)]:
            connection.close()

    def step(self) -> None:
        """Call who is due, wait for something to happen, and go on with it."""
        now = time.monotonic()
        # Who calls knows more of what is wrong than who waits to be called, so it speaks first.
        if now > self._deadline + (0.0 if self._calls else _GRACE):
            raise GroupError(self._what_is_missing())
        for call in self._calls:
            if not call.busy and call.due <= now:
                self._dial(call)
        for late in [each for each in self._conversations if each.deadline < now]:
            self._drop(late, "it did not answer")
        self._listen()
        for key, _ in self._selector.select(_SLICE):
            if isinstance(key.data, _Conversation):
                self._advance(key.data)
            elif key.data is not None:
                self._watch(key.data)
            else:
                self._accept(key.fileobj)  # type: ignore[arg-type]

    # -- beginnings

    def _listen(self) -> None:
        """Hear new callers, unless there are too many already: they would wake us for nothing."""
        strangers = sum(each.call is None and not each.known for each in self._conversations)
        if self._listening == (strangers < _STRANGERS):
            return
        self._listening = not self._listening
        for each in self._listener.sockets:
            if self._listening:
                self._selector.register(each, selectors.EVENT_READ)
            else:
                self._selector.unregister(each)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, address = listener.accept()
        except OSError as error:
            _check_descriptors(error)
            return  # it has gone already
        connection.setblocking(False)
        self._begin(_Conversation(connection, self._hello.answer(), address[0], None))

    def _dial(self, call: _Call) -> None:
        if not call.has_addresses():
            raise GroupError(_cannot_reach(self._hello.rank, call))
        address = call.take_address()
        try:
            connection = socket.socket(address[0], socket.SOCK_STREAM)
        except OSError as error:
            _check_descriptors(error)
            call.fail(str(address[1][0]), error.strerror or "no socket")
            return
        connection.setblocking(False)
        peer, purpose = call.line
        name = f"{address[1][0]} port {address[1][1]}"
        conversation = _Conversation(connection, self._hello.call(peer, purpose), name, call)
        failure = connection.connect_ex(address[1])
        if failure in (0, errno.EINPROGRESS):
            self._begin(conversation)
        else:
            self._drop(conversation, os.strerror(failure))

    def _begin(self, conversation: _Conversation) -> None:
        conversation.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._conversations.add(conversation)
        self._selector.register(conversation.socket, conversation.events(), conversation)

    # -- what becomes of them

    def _advance(self, conversation: _Conversation) -> None:
        try:
            line = conversation.advance()
        except Refused as refusal:
            self._drop(conversation, str(refusal))
        except OSError as error:
            self._drop(conversation, error.strerror or "connection lost")
        else:
            if line is None:
                self._selector.modify(conversation.socket, conversation.events(), conversation)
            elif line not in self._wanted or line in self._made:
                self._drop(conversation, f"rank {line[0]} has no reason to call")
            else:
                self._conversations.discard(conversation)
                self._made[line] = conversation.socket
                self._selector.modify(conversation.socket, selectors.EVENT_READ, line)
                if conversation.call is not None:
                    self._calls.remove(conversation.call)

    def _drop(self, conversation: _Conversation, why: str) -> None:
        if conversation in self._conversations:
            self._conversations.discard(conversation)
            self._selector.unregister(conversation.socket)
        if conversation.call is not None:
            conversation.call.fail(conversation.name, why)
        elif not conversation.known:
            self._report(conversation.name, why)
        conversation.socket.close()  # last: whoever sees it closed finds the reason in the log

    def _report(self, host: str, why: str) -> None:
        if (host, why) not in self._reported and len(self._reported) < _REPORTS:
            self._reported.add((host, why))
            _log.warning("dropped a connection from %s while a group was formed: %s", host, why)

    def _watch(self, line: Line) -> None:
        """Look at a connection that is made: it ends when its rank gives up."""
        connection = self._made[line]
        try:
            ended = not connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            raise GroupAborted(
                f"rank {line[0]} died or gave up while the group was formed; form it anew",
                line[0],
                "init_process_group",
            )
        # Its side of the group is complete, and this is the first of what it sends there.
        self._selector.unregister(connection)

    def _what_is_missing(self) -> str:
        if self._calls:
            return _cannot_reach(self._hello.rank, self._calls[0])
        silent = sorted({peer for peer, _ in self._wanted - self._made.keys()})
        places = ", ".join(f"{name[0]} port {name[1]}" for name in self._names())
        return (
            f"rank {rank_list(silent)} has not called rank {self._hello.rank} at {places} within "
            f"{self._patience:g} s; set NBDIST_INTERFACE on all hosts to the network, such as 10.0.0.0/24, "
            "that joins them"
        )

    def _names(self) -> list[tuple[str, int]]:
        return [(where, port) for where, port in json.loads(self._listener.announcement())]


def _cannot_reach(rank: int, call: _Call) -> str:
    tried = "; ".join(f"{where}: {why}" for where, why in call.tried.items())
    if not call.has_addresses():
        tried = "there is no kind of address that both have"
    return (
        f"rank {rank} cannot reach rank {call.line[0]} ({tried or 'it was not called in time'}); set "
        "NBDIST_INTERFACE on all hosts to the network, such as 10.0.0.0/24, that joins them"
    )


def _check_descriptors(error: OSError) -> None:
    """Raise what no waiting mends: that this process, or its host, can open no more."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise GroupError(
            f"host {socket.gethostname()} can open no more connections ({error.strerror}); raise the limit "
            "of open files on all hosts, as `ulimit -n` does for a process"
        ) from error


def _listen(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
