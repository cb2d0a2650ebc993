"""Catch all that a rank puts out, whoever writes it, and send the notebook what it can show."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .budget import Budget
from .screen import Screen
from .streams import NAMES, Descriptor, RankStream
from .transcript import Transcript

_HEAD, _TAIL = 430_000, 40_000
"""How much text all ranks together put into each of the notebook's streams in a cell, in bytes of the saved
file: what is shown as it comes, and the end of what was not."""

_LATE = 20_000
"""How much of what comes between two cells is kept for the next one, in characters."""

_FIRST, _PERIOD, _BAR_PERIOD = 0.01, 0.05, 0.2
"""How long text waits, when none came before and when some did, and how often bars are sent, in seconds."""

_WAIT = 10.0
_IDLE = 1.0


class Capture:
    """Put what a rank writes into its log, and send the notebook the cell's share of it.

    The descriptors 1 and 2 lead to files, not to pipes: C code that holds Python's lock may write any amount,
    and what a crashing process says last is kept. Everything is taken in one thread, the kernel's IOPub.
    """

    def __init__(self, rank: int, size: int, folder: Path, session: Any, thread: Any, topic: bytes) -> None:
        self._session, self._thread, self._topic = session, thread, topic
        self._share = (_HEAD // size, _TAIL // size)
        transcript = Transcript(folder / f"rank-{rank}.log")
        self._transcript: Transcript | None = transcript
        # A rank that crashes in C code leaves its stacks there.
        faulthandler.enable(transcript.file, all_threads=False)
        self._files = [Descriptor(name, folder / f"rank-{rank}.{name}") for name in NAMES]
        self._screens = {name: Screen() for name in NAMES}
        self.pending: deque[tuple[str, str]] = deque()
        self._outgoing: list[tuple[str, str]] = []
        self._late: deque[tuple[str, str]] = deque()
        self._late_size = 0
        self._cell = "before the first cell"
        self._parent: dict[str, Any] | None = None
        """The cell's message; None between cells."""
        self._began = False
        self._budgets = {name: Budget(*self._share) for name in NAMES}
        self.scheduled = False
        self._sent = self._bars_sent = 0.0
        self._bars: list[str] = []
        self._noticed = False
        self._running = threading.Event()
        self.forked = False
        os.register_at_fork(after_in_child=self._note_fork)
        self.streams = [RankStream(session, thread, name, self) for name in NAMES]
        self._libc = ctypes.CDLL(None)
        self._c_stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
        self._libc.setvbuf(self._c_stdout, None, 1, 0)  # _IOLBF: printf shows its lines as they come
        threading.Thread(target=self._watch, name="nbdist-output", daemon=True).start()

    # -- what the rank's threads call

    def put(self, name: str, text: str) -> None:
        """Take text from any thread."""
        self.pending.append((name, text))
        self.schedule()

    def save(self) -> None:
        """Return when all that was put is in the log."""
        if self.pending:
            self._ask(self._drain)

    def send(self) -> None:
        """Send what was put, before something that is sent otherwise."""
        if self.forked:
            return
        self._read_files()
        if self.pending or self._outgoing:
            self._ask(self._send_all)

    def begin_cell(self, code: str, parent: dict[str, Any]) -> None:
        """Send what comes from now on as output of a cell."""
        self._read_files()
        self._ask(lambda: self._begin(code, parent))
        self._running.set()

    def end_cell(self) -> None:
        """Send the rest of the cell's output; what comes later waits for the next cell."""
        self._running.clear()
        self._libc.fflush(self._c_stdout)
        self._read_files()
        self._ask(self._end)

    def _note_fork(self) -> None:
        self.forked = True

    def _ask(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def do() -> None:
            try:
                what()
            finally:
                done.set()

        if threading.current_thread() is self._thread.thread:
            do()
            return
        self._thread.schedule(do)
        done.wait(_WAIT)

    def schedule(self) -> None:
        """Have what is pending taken soon."""
        if not self.scheduled:
            self.scheduled = True
            wait = max(_FIRST, self._sent + _PERIOD - time.monotonic())
            self._thread.schedule(lambda: self._thread.io_loop.call_later(wait, self._tick))

    def _watch(self) -> None:
        """Look after what is written past Python."""
        while True:
            if self._running.wait(_IDLE):
                time.sleep(_PERIOD)
            self._read_files()

    def _read_files(self) -> None:
        for file in self._files:
            file.read(self.put)

    # -- in the IOPub thread

    def _begin(self, code: str, parent: dict[str, Any]) -> None:
        self._drain()
        self._finish_screens()
        first = next((line for line in code.splitlines() if line.strip()), "")
        self._cell, self._parent = first.strip()[:60], parent
        self._budgets = {name: Budget(*self._share) for name in NAMES}
        self._bars, self._noticed = [], False
        for name, text in self._late if self._began else ():
            for line in text.splitlines():
                self._outgoing.append((name, f"(between cells) {line}\n"))
        self._began = True  # what the start of a rank put out is in the log only
        self._late.clear()
        self._late_size = 0

    def _end(self) -> None:
        self._drain()
        bars = self._current_bars()
        self._finish_screens()
        for budget in self._budgets.values():
            self._outgoing += budget.finish()
            bars += [budget.note] * (self._noticed and bool(budget.note))
        self._send()
        self._send_bars(bars)
        self._cell, self._parent = f"after {self._cell}", None

    def _send_all(self) -> None:
        self._drain()
        if self._parent is not None:
            self._send()

    def _tick(self) -> None:
        self.scheduled = False
        self._send_all()
        self._tell_bars()

    def _drain(self) -> None:
        """Take what is pending, in order; stretches of one stream go in one piece."""
        texts: list[str] = []
        name = ""
        for _ in range(len(self.pending)):  # no more: who floods could keep this going for ever
            stream, text = self.pending.popleft()
            if stream != name and texts:
                self._take(name, "".join(texts))
                texts = []
            name = stream
            texts.append(text)
        if texts:
            self._take(name, "".join(texts))

    def _take(self, name: str, text: str) -> None:
        self._keep(name, self._screens[name].feed(text))

    def _keep(self, name: str, pieces: list[Any]) -> None:
        for text, bar in pieces:
            self._write_down(name, text)
            if bar and self._parent is not None:
                continue
            if self._parent is None:
                self._late.append((name, text[-_LATE:]))
                self._late_size += len(self._late[-1][1])
                while self._late_size > _LATE:
                    self._late_size -= len(self._late.popleft()[1])
            elif shown := self._budgets[name].admit(name, text):
                self._outgoing.append((name, shown))

    def _write_down(self, name: str, text: str) -> None:
        if self._transcript is None:
            return
        try:
            self._transcript.append(self._cell, name, text)
        except OSError as problem:  # a full disk, say: the notebook still shows its share
            self._transcript = None
            self._outgoing.append(
                ("stderr", f"The log of this rank ends here; make room on its disk: {problem}\n")
            )

    def _finish_screens(self) -> None:
        for name, screen in self._screens.items():
            self._keep(name, screen.finish())

    def _send(self) -> None:
        self._sent = time.monotonic()
        outgoing, self._outgoing = self._outgoing, []
        texts: list[str] = []
        for i, (name, text) in enumerate(outgoing):
            texts.append(text)
            if i + 1 == len(outgoing) or outgoing[i + 1][0] != name:
                self._message("stream", {"name": name, "text": "".join(texts)})
                texts = []

    def _current_bars(self) -> list[str]:
        return [bar for screen in self._screens.values() for bar in screen.bars()]

    def _tell_bars(self) -> None:
        if self._parent is None:
            return
        bars = self._current_bars()
        for budget in self._budgets.values():
            if notice := budget.notice():
                self._noticed = True
                bars.append(notice)
        if bars != self._bars and time.monotonic() - self._bars_sent < _BAR_PERIOD:
            self.schedule()
        else:
            self._send_bars(bars)

    def _send_bars(self, bars: list[str]) -> None:
        if bars != self._bars:
            self._bars, self._bars_sent = bars, time.monotonic()
            self._message("nbdist_bars", {"bars": bars})

    def _message(self, kind: str, content: dict[str, Any]) -> None:
        self._session.send(self._thread, kind, content, parent=self._parent, ident=self._topic)
