"""Step through the exception that ended a cell, one pdb command at a time."""

from __future__ import annotations

import io
import pdb
from collections.abc import Callable
from types import TracebackType

from ..errors import UsageError

_MACHINERY = ("/IPython/", "/ipykernel/", "/ipyparallel/", "/nbdist/engine/")


class Postmortem:
    """Answer pdb's commands about one exception; there is no prompt, for the reader is elsewhere."""

    def __init__(self, error: BaseException | None, label: Callable[[str], tuple[str, str] | None]) -> None:
        """Stand where `error` was raised; `label` gives the name a reader knows a cell's file by.

        Raises:
            UsageError: there is no exception, or it comes from no line of a cell.
        """
        if error is None:
            raise UsageError("No cell has failed on this rank since it started; name a rank that failed.")
        trace = _of_reader(error.__traceback__)
        if trace is None:
            raise UsageError(
                f"{type(error).__name__} on this rank was raised by no line of a cell; name another rank."
            )
        self._label = label
        self._said = io.StringIO()
        self._pdb = pdb.Pdb(stdin=io.StringIO(), stdout=self._said, nosigint=True, readrc=False)
        self._pdb.reset()
        self._pdb.setup(None, trace)
        self._pdb.print_stack_entry(self._pdb.stack[self._pdb.curindex])

    def answer(self, command: str) -> tuple[str, bool]:
        """Carry out a command; return what it says and whether it ends the session."""
        over = False
        if command:
            over = bool(self._pdb.onecmd(self._pdb.precmd(command)))
            while self._pdb.cmdqueue and not over:  # what followed `;;`
                over = bool(self._pdb.onecmd(self._pdb.precmd(self._pdb.cmdqueue.pop(0))))
        said = self._said.getvalue()
        self._said.seek(0)
        self._said.truncate()
        for file in {frame.f_code.co_filename for frame, _ in self._pdb.stack}:
            if known := self._label(file):
                said = said.replace(file, " ".join(known))
        return said, over


def is_machinery(file: str) -> bool:
    """Tell whether a file belongs to what runs cells."""
    return any(part in file for part in _MACHINERY)


def _of_reader(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and is_machinery(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace
