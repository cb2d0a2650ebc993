"""Everything a rank puts out, on disk: what the notebook leaves out is there, and outlives the rank."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Transcript:
    """Append text to a rank's file, under a heading whenever the stream or the cell changes."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._under: tuple[str, str] | None = None
        self._open_line = False

    def append(self, cell: str, stream: str, text: str) -> None:
        """Write down what came on a stream in a cell, which is named by its first line."""
        if self._under != (cell, stream):
            self._under = cell, stream
            heading = f"── {time.strftime('%H:%M:%S')} · {stream} · {cell}\n"
            text = "\n" * self._open_line + heading + text
        self._open_line = not text.endswith("\n")
        left = memoryview(text.encode("utf-8", "replace"))
        while left:
            left = left[os.write(self.file, left) :]
