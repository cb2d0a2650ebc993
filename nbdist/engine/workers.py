"""The worker processes of a rank's DataLoaders: what they can be given, and when they go."""

from __future__ import annotations

import threading
import time
import traceback
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

import cloudpickle

_GRACE = 0.2
"""How long workers may take to see that their loader goes, in seconds."""

_LOADER = "torch.utils.data.dataloader"


def allow_spawn() -> None:
    """Let spawned processes have classes and functions that were written in a cell."""
    ForkingPickler.reducer_override = _reduce  # type: ignore[method-assign]


def _reduce(pickler: Any, value: Any) -> Any:
    # Only on the way to a new process: one that was forked has the class itself, and answers with it.
    written_here = isinstance(value, type | FunctionType) and value.__module__ == "__main__"
    if written_here and get_spawning_popen() is not None:
        return cloudpickle.loads, (cloudpickle.dumps(value),)
    return NotImplemented


def _hurry(loading: Any) -> None:
    """End the workers of a loader that goes, should they be busy: torch gives each of them five seconds."""
    event, workers = getattr(loading, "_workers_done_event", None), getattr(loading, "_workers", ())
    if event is None:
        return

    def end() -> None:
        if event.wait(_GRACE):  # it does go: nothing else holds it
            time.sleep(_GRACE)
            for worker in workers:
                worker.terminate()  # torch's workers take that, from their parent, for an orderly end

    threading.Thread(target=end, name="nbdist-loader", daemon=True).start()


def release(error: BaseException) -> None:
    """Drop the loaders that only the traceback of `error` keeps, and with them their workers.

    IPython keeps the last traceback for a post-mortem, which loses no more than torch's own frames. A
    loader that has a name besides lives on.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        problem = pending.pop()
        if problem is None or id(problem) in seen:
            continue
        seen.add(id(problem))
        pending += [problem.__cause__, problem.__context__]
        for frame, _ in traceback.walk_tb(problem.__traceback__):
            if frame.f_globals.get("__name__") == _LOADER:
                _hurry(frame.f_locals.get("self"))
                frame.clear()
                # Up to Python 3.12 a frame keeps what was shown of it until it is looked at again.
                _ = frame.f_locals
