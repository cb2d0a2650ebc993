"""Where a rank is in its cell, as another of its threads sees it."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from .postmortem import is_machinery

_DEPTH = 60
"""How many frames of a stack are sent at most: the innermost ones of an endless recursion."""


def where(label: Callable[[str], tuple[str, str] | None]) -> dict[str, Any]:
    """Say what the main thread waits in, at which line of a cell, and its stack; never waits itself.

    `label` gives the name a reader knows a cell's file by.
    """
    from .. import comm

    operation, number, size = comm.step() or ("", 0, 0)
    frames = _frames()
    return {
        "operation": operation,
        "number": number,
        "size": size,
        "line": _line(frames, label),
        "stack": _stack(frames, label),
    }


def _frames() -> list[FrameType]:
    """Return the main thread's frames, outermost first."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _line(frames: list[FrameType], label: Callable[[str], tuple[str, str] | None]) -> str:
    """Name the innermost line of a cell, and its cell where that is not the one that runs."""
    cells = [frame for frame in frames if label(frame.f_code.co_filename)]
    if not cells:
        return ""
    first, last = cells[0], cells[-1]
    text = f"line {last.f_lineno}"
    if last.f_code.co_filename == first.f_code.co_filename:
        return text
    known = label(last.f_code.co_filename)
    return f"{known[1]} {text}" if known else text


def _stack(frames: list[FrameType], label: Callable[[str], tuple[str, str] | None]) -> str:
    """Write the frames below the machinery that runs cells, as a traceback has them."""
    outermost = next((i for i, frame in enumerate(frames) if label(frame.f_code.co_filename)), None)
    if outermost is None:
        outermost = next((i for i, f in enumerate(frames) if not is_machinery(f.f_code.co_filename)), 0)
    summary = traceback.StackSummary.extract(
        ((frame, frame.f_lineno) for frame in frames[outermost:][-_DEPTH:]), lookup_lines=True
    )
    text = "".join(summary.format())
    for file in {frame.f_code.co_filename for frame in frames[outermost:]}:
        if known := label(file):
            text = text.replace(f'File "{file}"', " ".join(known))
    return text
