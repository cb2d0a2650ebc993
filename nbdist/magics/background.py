"""A cell that the notebook does not wait for."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable

from ..errors import NbdistError
from .interrupt import Presses


class Background:
    """Follow a cell in a thread; what it puts out goes on under the cell it came from."""

    def __init__(self, follow: Callable[[Presses], None], ranks: str) -> None:
        """Call `follow` in the cell's own context, in which output finds its place."""
        self._follow = follow
        self._ranks = ranks
        self._presses = Presses()
        self._problem: BaseException | None = None
        self._told = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name="nbdist-cell", daemon=True
        )
        self._thread.start()

    def done(self) -> bool:
        """Tell whether the cell has ended on every rank."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the cell's end, at most `timeout` seconds; tell whether it has ended.

        Raises:
            RankError: a rank failed.
            KeyboardInterrupt: the cell was interrupted.
        """
        self._thread.join(timeout)
        if self.done() and self._problem is not None:
            self._told = True
            raise self._problem
        return self.done()

    def tell(self) -> None:
        """Raise, once, how the cell failed, if nobody has waited for it: nothing may go on as if it had not.

        Raises:
            RankError: a rank failed.
        """
        self._thread.join()
        if not self._told and isinstance(self._problem, NbdistError):
            self._told = True
            raise self._problem

    def interrupt(self) -> None:
        """Interrupt the cell on every rank; once more leaves those that do not answer."""
        self._presses.count += 1

    def __repr__(self) -> str:
        if not self.done():
            return (
                f"The cell runs on {self._ranks}; a name for this (cell = _) gives "
                "cell.done(), cell.wait() and cell.interrupt()."
            )
        how = "has ended" if self._problem is None else f"has failed ({type(self._problem).__name__})"
        return f"The cell {how} on {self._ranks}."

    def _work(self) -> None:
        try:
            self._follow(self._presses)
        except (NbdistError, KeyboardInterrupt) as problem:
            self._problem = problem
            sys.stderr.write("\n".join(problem._render_traceback_()) + "\n")  # type: ignore[union-attr]
        except BaseException as problem:
            self._problem = problem
            raise
