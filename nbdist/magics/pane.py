"""What a rank shows after it has called `clear_output`: places of its own, filled anew each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .place import Place

_NOTHING: dict[str, Any] = {"text/plain": ""}


@dataclass
class _Slot:
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    place: Place = field(default_factory=Place)
    changed: bool = True
    lines: list[str] | None = None
    """Of text: its lines so far."""


class Pane:
    """Give one rank's output places in the cell that are used again after each `clear_output`.

    The other ranks' output stays as it is, which the front end's own way to clear would take away too.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._slots: list[_Slot] = []
        self._used = 0

    def clear(self) -> None:
        """Begin at the first place again; what is there stays until something else comes."""
        for slot in self._slots[self._used :]:
            self._fill(slot, _NOTHING)
        self._used = 0

    def add_text(self, text: str) -> None:
        """Add text below what came since the last clear."""
        last = self._slots[self._used - 1] if self._used else None
        if last is None or last.lines is None:
            last = self._next()
            last.lines = []
        assert last.lines is not None
        last.lines += text.splitlines()
        self._fill(last, {"text/plain": "\n".join(f"{self._tag} {line}" for line in last.lines)})

    def add_bundle(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Add a figure or a table below what came since the last clear."""
        slot = self._next()
        slot.lines = None
        self._fill(slot, data, metadata)

    def show(self, final: bool = False) -> None:
        """Show what has changed, as often as places may change."""
        if final:
            for slot in self._slots[self._used :]:
                self._fill(slot, _NOTHING)
        for slot in self._slots:
            if slot.changed and slot.place.put(slot.data, slot.metadata, final):
                slot.changed = False

    def _next(self) -> _Slot:
        self._used += 1
        if self._used > len(self._slots):
            self._slots.append(_Slot(_NOTHING))
        return self._slots[self._used - 1]

    def _fill(self, slot: _Slot, data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
        slot.changed = slot.changed or data != slot.data
        slot.data, slot.metadata = data, metadata or {}
