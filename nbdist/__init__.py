"""nbdist: the notebook that is a cluster.

In a notebook::

    %load_ext nbdist
    %nbdist start -n 4

    %%distributed
    print(f"rank {rank} of {size} on {device}")

In a `%%distributed` cell, `nbdist.loop` iterates a loader with progress and throughput, `nbdist.log`
draws figures live, and `nbdist.mean` averages exactly over all ranks. `nbdist.Cluster` starts ranks
from a script.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster import Cluster as Cluster
    from .train import log as log
    from .train import loop as loop
    from .train import mean as mean

__version__ = "0.1.0"

_HOMES = {"Cluster": ".cluster", "log": ".train", "loop": ".train", "mean": ".train"}
"""Where each public name lives; loaded when it is first used, so that `import nbdist` stays light."""

__all__ = ["Cluster", "load_ipython_extension", "log", "loop", "mean", "unload_ipython_extension"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nbdist' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; `%load_ext nbdist` calls this."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics off; `%unload_ext nbdist` calls this. A running cluster ends with the kernel."""
    from .magics import unload

    unload(shell)
