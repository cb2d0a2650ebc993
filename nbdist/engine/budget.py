"""How much of a cell's text a rank sends to the notebook."""

from __future__ import annotations

from collections import deque

_LINE = 24
"""What a line costs beside its text: its rank, and its place in a saved notebook."""


class Budget:
    """Let the beginning of a flood pass as it comes and keep its end; what lies between is only counted."""

    def __init__(self, head: int, tail: int) -> None:
        self._left = head
        self._tail = tail
        self._kept: deque[tuple[str, str]] = deque()
        self._kept_size = 0
        self._lines = self._size = 0
        self._last = ""
        self.note = ""
        """What was left out, known at the end, for the place where it was told of before."""

    def admit(self, stream: str, text: str) -> str:
        """Return as much of `text` as may be shown now."""
        if self._left > 0:
            cost = _cost(text)
            if cost <= self._left:
                self._left -= cost
                return text
            shown, text = self._split(text)
            self._left = 0
        else:
            shown = ""
        self._lines += text.count("\n")
        self._size += len(text)
        self._last = text.rstrip("\n").rpartition("\n")[2][-200:] or self._last
        self._kept.append((stream, text))
        self._kept_size += len(text)
        while self._kept_size - len(self._kept[0][1]) >= self._tail:
            self._kept_size -= len(self._kept.popleft()[1])
        return shown

    def notice(self) -> str:
        """Say, while the cell runs, what is not shown; empty if nothing is."""
        return f"… {_amount(self._lines, self._size)} more, the latest: {self._last}" if self._kept else ""

    def finish(self) -> list[tuple[str, str]]:
        """Return the end of it all, under a note of what was left out."""
        kept, room = deque[tuple[str, str]](), self._tail
        while self._kept and room > 0:
            stream, text = self._kept.pop()
            if _cost(text) > room:
                # Whole lines, but at least something of a line without an end.
                text = text[-max(1, room // 2) :] if "\n" not in text[-room:] else _last_lines(text, room)
                room = 0
            room -= _cost(text)
            kept.appendleft((stream, text))
        size = self._size - sum(len(text) for _, text in kept)
        lines = self._lines - sum(text.count("\n") for _, text in kept)
        if size > 0:
            self.note = f"… {_amount(lines, size)} left out below; `%nbdist logs RANK` shows all"
            here = self.note.replace("below", "here")
            kept.appendleft((kept[0][0] if kept else "stdout", f"{here}\n"))
        return list(kept)

    def _split(self, text: str) -> tuple[str, str]:
        at = 0
        for line in text.splitlines(keepends=True):
            self._left -= _cost(line)
            if self._left < 0:
                break
            at += len(line)
        return text[:at], text[at:]


def _amount(lines: int, size: int) -> str:
    if lines:
        return f"{lines:,} line{'s' if lines > 1 else ''}"
    return f"{size:,} characters"


def _cost(text: str) -> int:
    return len(text.encode("utf-8", "replace")) + _LINE * text.count("\n") + 5 * text.count("\x1b")


def _last_lines(text: str, room: int) -> str:
    lines: list[str] = []
    for line in reversed(text[-room:].splitlines(keepends=True)[1:]):
        room -= _cost(line)
        if room < 0:
            break
        lines.append(line)
    return "".join(reversed(lines))
