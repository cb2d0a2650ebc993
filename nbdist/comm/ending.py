"""How a rank takes leave of its groups: in order, or with the reason why not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from ..errors import GroupError
from ._native import Group, leave_cell

_FOR_GOOD = 2**63 - 1  # the cell that a rank leaves when it leaves a group: no other comes after it


def finish(groups: Sequence[Group]) -> None:
    """Bring to its end what this rank has issued in the groups, as far as its peers take part."""
    with suppress(GroupError):  # a forked child is no rank: it has nothing to finish
        leave_cell(groups, _FOR_GOOD)


def finish_unless_failing(groups: Sequence[Group]) -> None:
    """Do the same, but not on the way of an exception: then peers may wait for what will never come."""
    if sys.exception() is None:
        finish(groups)


def abort(groups: Sequence[Group], reason: str) -> None:
    """End the groups on every rank."""
    with suppress(GroupError):  # as above
        for group in groups:
            group.abort(reason)


def reason_of_exit() -> str:
    """Say what has ended the interpreter; nothing where that is in order."""
    # A session that is typed in remembers errors that have ended nothing.
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    if error is None:
        return ""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}".removesuffix(": ")
