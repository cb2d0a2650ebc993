"""The stop button, as a fact to look at rather than an exception out of nowhere."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Presses:
    """Count SIGINTs while a cell is followed.

    A KeyboardInterrupt may come up between any two instructions, also between sending a cell and
    remembering that it runs; ranks would then go on unseen. Counted, it is dealt with at the next tick.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1
