"""All errors nbdist raises.

::

    NbdistError
    ├── UsageError         a magic or a function was asked for something it cannot do
    ├── StartError         the ranks could not be started
    ├── NoClusterError     a command needs a running cluster and there is none
    ├── CellSyntaxError    a cell does not compile; no rank ran a line of it
    ├── TravelError        an object of the notebook cannot be sent to the ranks
    ├── RankError          ranks raised in a cell; carries every rank's own traceback
    └── GroupError         the process group cannot go on
        ├── GroupAborted   a waiting collective was released, because of what another rank did
        └── MismatchError  ranks issued different collectives

Every message ends with what to do. In a notebook an `NbdistError` shows as that message alone: the
frames of nbdist itself help no reader.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field


class NbdistError(Exception):
    """Base of every error nbdist raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        # IPython calls this instead of printing our frames.
        return [f"{type(self).__name__}: {self}"]


class UsageError(NbdistError):
    """A magic or a function was asked for something it cannot do."""


class StartError(NbdistError):
    """The ranks could not be started."""


class NoClusterError(NbdistError):
    """A command needs a running cluster and there is none."""


class CellSyntaxError(NbdistError):
    """A cell does not compile; no rank ran a line of it."""

    def __init__(self, problem: SyntaxError) -> None:
        super().__init__(str(problem))
        self._shown = traceback.format_exception_only(problem)

    def _render_traceback_(self) -> list[str]:
        return [line.rstrip("\n") for line in self._shown]


class TravelError(NbdistError):
    """An object of the notebook cannot be sent to the ranks."""


@dataclass(frozen=True, kw_only=True)
class RankFailure:
    """What ended the cell on the ranks that failed in the same way."""

    ranks: tuple[int, ...]
    host: str
    name: str
    message: str
    traceback: tuple[str, ...] = field(repr=False)


class RankError(NbdistError):
    """Ranks raised in a cell.

    `failures` holds the root causes, one entry per distinct error; `released` the ranks that were
    only waiting for them.
    """

    def __init__(self, failures: list[RankFailure], released: tuple[int, ...] = ()) -> None:
        self.failures = failures
        self.released = released
        first = failures[0]
        super().__init__(f"rank {rank_list(first.ranks)}: {first.name}: {first.message}")

    def _render_traceback_(self) -> list[str]:
        lines: list[str] = []
        for failure in self.failures:
            where = f" on {failure.host}" if failure.host else ""
            lines.append(f"[{rank_list(failure.ranks)}] {failure.name}{where}")
            lines.extend(failure.traceback or [f"{failure.name}: {failure.message}"])
        if self.released:
            lines.append(
                f"[{rank_list(self.released)}] stopped because of the above and kept "
                f"{'its' if len(self.released) == 1 else 'their'} variables."
            )
        return lines


class GroupError(NbdistError, RuntimeError):
    """The process group cannot go on; the next cell forms a new one.

    It is a RuntimeError too, because torch's own backends raise those.
    """


class GroupAborted(GroupError):
    """A waiting collective was released, because of what another rank did.

    `rank` is the rank that caused it, or None where no single rank did; `operation` names the
    collective that was waiting, as torch.distributed spells it.
    """

    def __init__(self, message: str, rank: int | None = None, operation: str = "") -> None:
        super().__init__(message)
        self.rank = rank
        self.operation = operation

    def __reduce__(self) -> tuple[type, tuple[str, int | None, str]]:
        return type(self), (str(self), self.rank, self.operation)


class MismatchError(GroupError):
    """Ranks issued different collectives."""


def rank_list(ranks: tuple[int, ...] | list[int]) -> str:
    """Write ranks as short as a reader would: `0-3,5`."""
    parts: list[str] = []
    ordered = sorted(ranks)
    start = 0
    for i, rank in enumerate(ordered):
        if i + 1 < len(ordered) and ordered[i + 1] == rank + 1:
            continue
        first = ordered[start]
        parts.append(f"{first}-{rank}" if rank > first else f"{rank}")
        start = i + 1
    return ",".join(parts)
