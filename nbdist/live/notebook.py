"""The live view in a notebook: a widget while the cell runs, a picture and a table afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from IPython.display import display

from . import state
from .store import Run
from .stream import Stream, metric_reader, read_rates

if TYPE_CHECKING:
    from .widget import ChartWidget

PERIOD = 0.11
"""Between two messages; together they stay under ten a second whatever the ranks log."""

_STILL_PERIOD = 1.0
"""Between two messages that only carry the clock on."""

_HISTORY_ROWS = 1000
_HISTORY_PERIOD = 2.0
_EARLY_HISTORY = (1, 2, 4, 8, 16)
"""Messages that arrive while the browser still loads the chart are lost, so the first are kept as state."""


class NotebookFace:
    """Show a run through a Jupyter front end."""

    def __init__(self, run: Run, title: str, began: float) -> None:
        self._run = run
        self._title = title
        self._began = began
        self._fresh = time.monotonic()
        self._sent = self._recorded = self._fresh - PERIOD
        self._messages = 0
        self._revision = 0
        self._streams: list[Stream] = []
        self._widget: ChartWidget | None = None
        self._handle: Any = None

    def update(self) -> None:
        """Send what is new, if it is time."""
        now = time.monotonic()
        if now - self._sent < PERIOD:
            return
        if self._run.revision != self._revision:
            self._fresh = now
        elif now - self._sent < _STILL_PERIOD:
            return
        revision = self._run.revision
        self._add_streams()
        if self._widget is None:
            self._show()
        elif self._messages in _EARLY_HISTORY or now - self._recorded >= _HISTORY_PERIOD:
            self._record("running", now)
        else:
            self._tick(now)
        self._messages += 1
        self._sent, self._revision = now, revision

    def finish(self, bundle: dict[str, str]) -> None:
        """Put the result in the view's place."""
        if self._handle is None:
            display(bundle, raw=True)
            return
        self._handle.update(bundle, raw=True)
        if self._widget is not None:
            from .widget import keep_for_reload

            self._add_streams()
            self._record("finished", time.monotonic())
            keep_for_reload(self._widget)
            self._widget = None

    def _show(self) -> None:
        from .widget import ChartWidget  # only here: importing widgets takes a third of a second

        now = time.monotonic()
        self._widget = ChartWidget(history=self._history("running", now))
        self._recorded = now
        view = {"model_id": self._widget.model_id, "version_major": 2, "version_minor": 0}
        self._handle = display(
            {"application/vnd.jupyter.widget-view+json": view, "text/plain": repr(self._widget)},
            raw=True,
            display_id=True,
        )

    def _tick(self, now: float) -> None:
        assert self._widget is not None
        patches = [(stream, patch) for stream in self._streams if (patch := stream.patch(self._run, now))]
        content = {
            "state": self._state("running", now),
            "tables": [patch.describe(stream.name, stream.kind) for stream, patch in patches],
        }
        self._widget.send(content, [patch.data() for _, patch in patches])
        for stream, _ in patches:
            stream.sent()

    def _record(self, status: str, now: float) -> None:
        assert self._widget is not None
        self._widget.history = self._history(status, now)
        self._recorded = now

    def _history(self, status: str, now: float) -> dict[str, Any]:
        rows = _HISTORY_ROWS // max(1, len(self._streams))
        tables = []
        for stream in self._streams:
            patch = stream.whole(self._run, rows)
            tables.append({**patch.describe(stream.name, stream.kind), "data": patch.data()})
        return {"state": self._state(status, now), "tables": tables}

    def _state(self, status: str, now: float) -> dict[str, Any]:
        return state.describe(self._run, self._title, status, now - self._began, now - self._fresh)

    def _add_streams(self) -> None:
        known = {stream.name for stream in self._streams if stream.kind == "metric"}
        for name in self._run.metrics():
            if name not in known:
                self._streams.append(Stream(name, "metric", metric_reader(name)))
        if self._run.has_rates and not any(stream.kind == "rate" for stream in self._streams):
            self._streams.append(Stream("examples/s", "rate", read_rates))
