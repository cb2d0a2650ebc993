"""The live view's place in the browser."""

from __future__ import annotations

import pathlib
import uuid
from collections import deque

import anywidget
import traitlets

_STATIC = pathlib.Path(__file__).parent / "static"

_KEPT = 4


class ChartWidget(anywidget.AnyWidget):
    """Carry figures to `static/chart.js`.

    Ticks are custom messages and leave no trace here. `history` is a short copy of the run that the
    browser gets back when the page is loaded again.
    """

    _esm = _STATIC / "chart.js"
    _css = _STATIC / "chart.css"

    key = traitlets.Unicode().tag(sync=True)
    """Tells the browser which of its runs a view belongs to."""

    history = traitlets.Dict().tag(sync=True, echo_update=False)

    @traitlets.default("key")
    def _make_key(self) -> str:
        return uuid.uuid4().hex

    def __repr__(self) -> str:
        # Front ends without widgets show this, until the result takes its place.
        return "The live view needs a notebook front end with widgets; the result follows as a picture."


_finished: deque[ChartWidget] = deque()


def keep_for_reload(widget: ChartWidget) -> None:
    """Leave a finished widget open for pages that were loaded again during its run.

    Such a page did not get the picture and still asks for the widget. Only the latest ones stay.
    """
    _finished.append(widget)
    while len(_finished) > _KEPT:
        old = _finished.popleft()
        old.layout.close()
        old.close()
