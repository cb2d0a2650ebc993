"""The live view of a run, wherever it is watched."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Protocol

from . import result, summary
from .store import Run
from .terminal import TerminalFace

_log = logging.getLogger(__name__)

_LAST_FIGURES = 1.0
"""How long `finish` waits at most for figures that are still under way."""


class _Face(Protocol):
    def update(self) -> None: ...
    def finish(self, bundle: dict[str, str]) -> None: ...


class LiveView:
    """Show a run while it lasts and leave its result; a run that logs nothing shows nothing.

    A view that cannot be drawn must not cost the reader a training run: the first error is logged with
    its traceback and ends the view, never the cell.
    """

    def __init__(self, run: Run, title: str) -> None:
        self._run = run
        self._title = title
        self._face: _Face | None = None
        self._began = time.monotonic()
        self._failed = False

    def update(self) -> None:
        """Show what is new. Cheap; call it as often as you like from the main thread."""
        if self._failed or self._run.empty:
            return
        try:
            self._shown().update()
        except Exception:  # noqa: BLE001  (told, and the view is given up; see the class)
            self._give_up()

    def finish(self, ranks: Collection[int] = ()) -> None:
        """Replace the view by the picture and the table.

        With `ranks`, first wait for the last message of each of them; without, until no more comes.
        """
        self._run.wait_for_end(ranks, _LAST_FIGURES)
        if self._run.empty:
            return
        try:
            bundle = result.bundle(self._run, self._title)
        except Exception:  # noqa: BLE001  (as above; the figures themselves are still worth having)
            self._give_up()
            bundle = {"text/plain": f"{self._title}\n{summary.as_text(self._run)}"}
        try:
            self._shown().finish(bundle)
        except Exception:  # noqa: BLE001  (as above)
            self._give_up()

    def _shown(self) -> _Face:
        if self._face is None:
            self._face = _choose_face(self._run, self._title, self._began)
        return self._face

    def _give_up(self) -> None:
        self._failed = True
        _log.exception("The live view cannot be drawn and ends here; the cell goes on. Please report this.")


def _choose_face(run: Run, title: str, began: float) -> _Face:
    from IPython import get_ipython

    if getattr(get_ipython(), "kernel", None) is None:
        return TerminalFace(run, title, began)
    from .notebook import NotebookFace

    return NotebookFace(run, title, began)
