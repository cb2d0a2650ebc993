"""The live view in a terminal: one line while the cell runs, the table afterwards."""

from __future__ import annotations

import shutil
import sys
import time

from . import state
from .store import Run

_PERIOD = 1.0


class TerminalFace:
    """Show a run as text; where the text goes to a file, only its result."""

    def __init__(self, run: Run, title: str, began: float) -> None:
        self._run = run
        self._title = title
        self._began = began
        self._written = began - _PERIOD
        self._width = 0

    def update(self) -> None:
        """Rewrite the line, at most once a second."""
        now = time.monotonic()
        if now - self._written < _PERIOD or not sys.stdout.isatty():
            return
        self._written = now
        line = state.one_line(state.describe(self._run, self._title, "running", now - self._began))
        room = shutil.get_terminal_size().columns - 1
        line = line if len(line) <= room else line[: room - 1] + "…"
        sys.stdout.write("\r" + line.ljust(self._width))
        sys.stdout.flush()
        self._width = len(line)

    def finish(self, bundle: dict[str, str]) -> None:
        """Write the table in the line's place."""
        if self._width:
            sys.stdout.write("\r" + " " * self._width + "\r")
        sys.stdout.write(bundle["text/plain"] + "\n")
