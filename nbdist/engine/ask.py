"""What waits for a reader's answer is refused: a rank has nobody to ask."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import ipykernel.zmqshell

from ..errors import UsageError


def refuse(what: str) -> NoReturn:
    """Refuse a question in one sentence.

    Raises:
        UsageError: always.
    """
    raise UsageError(
        f"{what} in a distributed cell has nobody to ask; ask in a cell of the notebook, "
        "and look into a rank that failed with `%nbdist debug RANK`."
    )


def install() -> None:
    """Give this process, and the programs it starts, an input that is at its end."""
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    # `!cat` runs on a pseudo-terminal of its own, which would never come to an end.
    run = ipykernel.zmqshell.system
    ipykernel.zmqshell.system = lambda command: run(f"exec </dev/null\n{command}")


def refuse_breakpoints() -> None:
    """Refuse `breakpoint()`; called last, since debugpy puts a hook of its own in place."""
    sys.breakpointhook = _no_breakpoint


def _no_breakpoint(*args: Any, **kwargs: Any) -> NoReturn:
    refuse("breakpoint()")
