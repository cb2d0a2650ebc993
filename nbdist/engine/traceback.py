"""What a reader is shown of a traceback: their own lines."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import nbdist

_OURS = f"{Path(nbdist.__file__).parent}/"
_LIBRARIES = (_OURS, "/torch/distributed/")


def readers_part(trace: TracebackType | None) -> TracebackType | None:
    """Cut off, where nbdist itself has raised, what lies between the reader's last line and there.

    Those frames, torch's and ours, say nothing that the message does not. A traceback that ends elsewhere,
    or that no line of the reader's is in, stays whole.
    """
    frames = []
    rest = trace
    while rest is not None:
        frames.append(rest)
        rest = rest.tb_next
    if not frames or not _file(frames[-1]).startswith(_OURS):
        return trace
    while frames and any(library in _file(frames[-1]) for library in _LIBRARIES):
        frames.pop()
    part: TracebackType | None = None
    for each in reversed(frames):
        part = TracebackType(part, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return part or trace


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename
