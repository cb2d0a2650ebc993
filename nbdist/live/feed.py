"""Where the ranks' figures arrive in the notebook."""

from __future__ import annotations

import logging
import threading

import zmq

from .message import GarbledError, decode
from .store import Run

_log = logging.getLogger(__name__)

_LARGEST_FRAME = 64 << 20
"""Anyone on this host may connect, so a frame has a limit; ten seconds of figures need far less."""

_KEPT_RUNS = 16
"""Runs of earlier cells that late messages may still reach."""


class Feed:
    """Receive the figures of all ranks on a socket of our own and sort them into runs."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._runs: dict[int, Run] = {}
        self._lock = threading.Lock()
        self._dropped = 0
        self._failed = 0
        # A context of its own: closing it cannot disturb the kernel's sockets.
        self._context = zmq.Context()
        self._figures = self._context.socket(zmq.PULL)
        self._figures.setsockopt(zmq.LINGER, 0)
        self._figures.setsockopt(zmq.MAXMSGSIZE, _LARGEST_FRAME)
        self.endpoint = f"tcp://127.0.0.1:{self._figures.bind_to_random_port('tcp://127.0.0.1')}"
        self._bell = self._context.socket(zmq.PAIR)
        self._bell.bind("inproc://bell")
        self._thread = threading.Thread(target=self._receive_until_told, name="nbdist-feed", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many messages were forged or garbled."""
        return self._dropped

    @property
    def failed(self) -> int:
        """How many messages were good and yet could not be taken."""
        return self._failed

    def run(self, number: int) -> Run:
        """Return the run of that number; it is empty until its first figures arrive."""
        with self._lock:
            if number not in self._runs:
                self._runs[number] = Run()
                while len(self._runs) > _KEPT_RUNS:
                    del self._runs[next(iter(self._runs))]
            return self._runs[number]

    def close(self) -> None:
        """Stop receiving and give the socket back; the runs stay readable."""
        if self._context.closed:
            return
        self._bell.send(b"")
        self._thread.join()
        self._bell.close()
        self._context.term()

    def _receive_until_told(self) -> None:
        bell = self._context.socket(zmq.PAIR)
        bell.connect("inproc://bell")
        poller = zmq.Poller()
        poller.register(self._figures, zmq.POLLIN)
        poller.register(bell, zmq.POLLIN)
        while bell not in (ready := dict(poller.poll())):
            if self._figures in ready:
                self._take(self._figures.recv_multipart())
        bell.close()
        self._figures.close()

    def _take(self, frames: list[bytes]) -> None:
        """Sort a message in; one that cannot be must cost its own figures only, not all that follow."""
        try:
            batch = decode(frames, self._key)
            self.run(batch.run).add(batch)
        except GarbledError as error:
            self._dropped += 1
            if self._dropped == 1:
                _log.warning("A metrics message was dropped: %s. More of them are dropped silently.", error)
        except Exception:  # noqa: BLE001  (told, and counted)
            self._failed += 1
            if self._failed == 1:
                _log.exception("A metrics message could not be taken; the rest goes on. Please report this.")
