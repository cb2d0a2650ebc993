"""The stop button, as a fact to look at rather than an exception out of nowhere; and who does not heed it."""

from __future__ import annotations

import signal
import textwrap
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from ..cluster import Cluster, describe, locate
from ..errors import rank_list


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


def tell_stuck(cluster: Cluster, ranks: Sequence[int]) -> str:
    """Say where ranks are that did not answer an interrupt, with their stacks, and what can be done."""
    seen = locate(cluster, ranks)
    places = seen.answers()
    stacks: dict[str, list[int]] = {}
    for rank, where in places.items():
        stacks.setdefault(where.stack, []).append(rank)
    shown = "".join(
        f"Stack of rank {rank_list(alike)}, most recent call last:\n{textwrap.indent(stack, '  ')}"
        for stack, alike in stacks.items()
    )
    others = sorted(set(cluster.alive()).difference(ranks))
    rescue = (
        f" Until then `--ranks {rank_list(others)}` reaches the others, to save what they hold."
        if others
        else ""
    )
    return (
        f"The interrupt was not answered: {describe(places, seen.silent())}.\n{shown}"
        f"Code that is no Python may never answer; `%nbdist restart` starts the ranks afresh.{rescue}"
    )
