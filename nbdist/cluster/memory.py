"""How many ranks the memory holds."""

from __future__ import annotations

from pathlib import Path

import psutil

from ..errors import UsageError

_RANK_BYTES = 300 << 20
"""What a rank needs at least: an engine with torch loaded, and its nanny."""

_CGROUP = Path("/sys/fs/cgroup")


def refuse_too_many(n: int) -> None:
    """Stop a slip of the finger before it takes the machine down.

    Raises:
        UsageError: `n` ranks need more memory than is free.
    """
    free = _free()
    if n * _RANK_BYTES > free:
        raise UsageError(
            f"{n} ranks need about {n * _RANK_BYTES / 1e9:,.0f} GB of memory and {free / 1e9:,.0f} GB "
            f"are free; start at most {max(1, free // _RANK_BYTES)}."
        )


def refuse_too_large(names: str, nbytes: int) -> None:
    """Stop objects that would fill the memory on their way to the ranks.

    Raises:
        UsageError: `nbytes` more are not free.
    """
    free = _free()
    if nbytes > free:
        raise UsageError(
            f"{names}: {nbytes / 1e9:,.1f} GB more memory are needed on the way to the ranks and "
            f"{free / 1e9:,.1f} GB are free; make them on the ranks, in a %%distributed cell."
        )


def _free() -> int:
    free = int(psutil.virtual_memory().available)
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
    except OSError:  # no container, or an older kind of it
        return free
    return free if limit == "max" else max(0, min(free, int(limit) - used))
