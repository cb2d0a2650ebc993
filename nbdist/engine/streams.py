"""Where a rank's text comes in: `sys.stdout` and `sys.stderr`, and the descriptors under them."""

from __future__ import annotations

import codecs
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipykernel.iostream import OutStream

if TYPE_CHECKING:
    from .capture import Capture

NAMES = ("stdout", "stderr")

_PENDING = 200_000
"""How many pieces of text may wait before whoever writes has to."""


class RankStream(OutStream):
    """A rank's `sys.stdout` or `sys.stderr`.

    What is written is handed to the capture. A forked child has none: it writes to the file that stands for
    the descriptor, as C code does.
    """

    def __init__(self, session: Any, thread: Any, name: str, capture: Capture) -> None:
        super().__init__(session, thread, name, watchfd=False)
        self._capture = capture
        self._put = capture.pending.append

    def write(self, text: str) -> int:
        """Take text; it is sent soon, from another thread."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._capture.forked:
            os.write(self.fileno(), text.encode("utf-8", "replace"))
        else:
            self._put((self.name, text))
            if not self._capture.scheduled:
                self._capture.schedule()
            if len(self._capture.pending) > _PENDING:
                self._capture.save()  # whoever floods waits, rather than fill the memory
        return len(text)

    def flush(self) -> None:
        """Return when what was written is in the rank's log."""
        if not self._capture.forked:
            self._capture.save()

    def fileno(self) -> int:
        """Return the descriptor that programs started by the cell inherit."""
        return NAMES.index(self.name) + 1


class Descriptor:
    """A file in the place of descriptor 1 or 2, read from where it was read last."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        number = NAMES.index(name) + 1
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        getattr(sys, name).flush()
        os.dup2(made, number)
        os.close(made)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def read(self, put: Callable[[str, str], None]) -> None:
        """Hand over what was written since; when this returns it has been."""
        with self._lock:
            while data := os.read(self._file, 1 << 20):
                put(self.name, self._decoder.decode(data))
