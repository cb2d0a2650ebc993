"""The metrics tap: carries what a rank logs to the notebook, and never makes the rank wait or fail."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import threading

import numpy as np
import zmq

from .. import comm
from ..train import metrics

_log = logging.getLogger(__name__)

_QUEUE = 1000
"""Messages kept while the notebook does not read (100 s at 10 Hz); after that new ones are dropped."""


class Tap:
    """Send the figures logged on this rank in signed batches.

    A message has three frames: HMAC-SHA256 over the other two, a JSON header, and the columns as
    little-endian float64, one after the other. `nbdist.live.feed` reads them.
    """

    def __init__(self, endpoint: str, key: bytes, rank: int, rate_hz: float) -> None:
        self._key = key
        self._rank = rank
        self._run = 0
        self._bytes_before = 0
        self._dropped_before = 0
        self._unsent = 0
        """Rows of this run that could not be sent."""
        self._failed = False
        self._lock = threading.Lock()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, _QUEUE)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(endpoint)
        self._period = 1.0 / rate_hz
        self._closing = threading.Event()
        self._timer = threading.Thread(target=self._send_until_closed, name="nbdist-tap", daemon=True)
        self._timer.start()

    def begin_run(self, run: int) -> None:
        """Count the figures that follow to a new run."""
        self.flush()
        self._run, self._unsent = run, 0
        self._bytes_before = comm.bytes_moved()
        self._dropped_before = metrics.dropped()

    def end_run(self) -> None:
        """Send what is left, marked as the last of this run."""
        self.flush(end=True)

    def flush(self, *, end: bool = False) -> None:
        """Send what was logged since the last batch, now; what cannot be sent is counted and given up."""
        with self._lock:  # the socket is shared by the timer and the end of a cell
            rows = metrics.drain()
            if not rows and not end:
                return
            try:
                self._send(rows, end)
            except zmq.Again:
                self._unsent += len(rows)
            except Exception:  # noqa: BLE001  (told; figures must not cost the reader a training run)
                self._unsent += len(rows)
                if not self._failed:
                    self._failed = True
                    _log.exception(
                        "Figures of rank %d could not be sent and are lost; the cell goes on. "
                        "Please report this.",
                        self._rank,
                    )

    def close(self) -> None:
        """Leave the figures that follow to somebody else."""
        self._closing.set()
        self._timer.join()
        self._socket.close()

    def _send_until_closed(self) -> None:
        while not self._closing.wait(self._period):
            self.flush()

    def _send(self, rows: list[metrics.Row], end: bool) -> None:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = np.array([[row.get(name, math.nan) for row in rows] for name in columns], dtype="<f8")
        # In the table NaN stands for "not logged", so figures that are no number are listed apart.
        nan = {
            name: there
            for name in columns
            if (there := [i for i, row in enumerate(rows) if math.isnan(row.get(name, 0.0))])
        }
        header = json.dumps(
            {
                "rank": self._rank,
                "run": self._run,
                "rows": len(rows),
                "columns": columns,
                "bytes": comm.bytes_moved() - self._bytes_before,
                "dropped": metrics.dropped() - self._dropped_before + self._unsent,
                "end": end,
                "nan": nan,
            }
        ).encode()
        body = table.tobytes()
        signature = hmac.digest(self._key, header + body, hashlib.sha256)
        self._socket.send_multipart([signature, header, body], flags=zmq.DONTWAIT)
