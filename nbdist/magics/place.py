"""A place in a cell's output that may change."""

from __future__ import annotations

import time
import uuid
from typing import Any

_PERIOD = 0.2
"""How often a place changes at most, in seconds: front ends draw each state anew."""


class Place:
    """Show a bundle where the one before was; states that follow too fast are passed over."""

    def __init__(self, identity: str | None = None, shown: bool = False) -> None:
        self._identity = identity or f"nbdist-{uuid.uuid4().hex}"
        self._there = shown
        self._when = 0.0

    def put(self, data: dict[str, Any], metadata: dict[str, Any] | None = None, final: bool = False) -> bool:
        """Show `data` and tell whether it is there; not `final`, it is passed over soon after another."""
        from IPython.display import publish_display_data

        now = time.monotonic()
        if self._there and not final and now - self._when < _PERIOD:
            return False
        transient = {"display_id": self._identity}
        publish_display_data(data, metadata or {}, transient=transient, update=self._there)
        self._there, self._when = True, now
        return True
