"""A rank's text as a terminal would show it: finished lines, and lines that still rewrite themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_CONTROL = re.compile(r"\r|\n|\x08|\x1b\[[0-9;?]*[A-Za-ln-z]")
"""What moves the cursor; colours (`m`) are text."""

_MOVES = re.compile(r"\r|\x08|\x1b(?:\Z|\[[0-9;?]*(?:[A-Za-ln-z]|\Z))")
"""The same, and the beginning of what may become it."""

_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?]*)?\Z")

_KEPT_ROWS = 8
_LONG = 65_536


class Piece(NamedTuple):
    """Text that will not change any more; `bar` tells that it had rewritten itself."""

    text: str
    bar: bool


@dataclass
class _Row:
    text: str = ""
    rewritten: bool = False


class Screen:
    """Follow one stream of a rank as far as progress bars need it: returns, erasures, and cursors that go up.

    A bar begins with a carriage return (tqdm) or goes on while the cursor is hidden (rich). Where a cursor
    has gone up, what lies above can't change any more.
    """

    def __init__(self) -> None:
        self._rows = [_Row()]
        self._at = 0
        self._returned = False
        """The cursor is at the row's start: what comes replaces the row."""
        self._climbed = 0
        """The row to which the cursor has gone up since something was written."""
        self._top = 0
        """The first row that is shown: a new bar takes the place of those that have ended."""
        self._hidden = False
        self._rest = ""
        self._last_bars: tuple[str, ...] = ()

    def feed(self, text: str) -> list[Piece]:
        """Take text and return what is finished."""
        text = self._rest + text
        self._rest = ""
        if self._is_plain() and not _MOVES.search(text):
            text = self._rows[0].text + text
            done = len(text) if len(text) > _LONG else 0  # nobody waits for the end of such a line
            done = text.rfind("\n") + 1 or done
            self._rows[0].text = text[done:]
            return [Piece(text[:done], False)] if done else []
        if cut := _UNFINISHED.search(text):
            text, self._rest = text[: cut.start()], cut[0]
        pieces: list[Piece] = []
        start = 0
        for found in _CONTROL.finditer(text):
            if found.start() > start:
                self._write(text[start : found.start()], pieces)
            self._obey(found[0], pieces)
            start = found.end()
        if start < len(text):
            self._write(text[start:], pieces)
        return pieces

    def bars(self) -> tuple[str, ...]:
        """Return the lines that rewrite themselves as they are now, or as they were last."""
        rows = self._rows[self._top :]
        now = tuple(row.text for row in rows if row.text.strip() and (row.rewritten or self._hidden))
        self._last_bars = now or self._last_bars
        return self._last_bars

    def finish(self) -> list[Piece]:
        """Return what is left at the end of a cell; the next one begins on a fresh screen."""
        pieces: list[Piece] = []
        self._drop(len(self._rows), pieces)
        fresh = Screen()
        self.__dict__.update(fresh.__dict__)
        return pieces

    def _is_plain(self) -> bool:
        row = self._rows[-1]
        return len(self._rows) == 1 and not (row.rewritten or self._hidden or self._returned)

    def _write(self, text: str, pieces: list[Piece]) -> None:
        if self._climbed:
            self._drop(self._climbed, pieces)
        row = self._rows[self._at]
        if self._returned:
            # What follows on blanks is no bar, but what a bar has made room for (tqdm.write).
            row.rewritten = not (row.text and row.text.isspace())
            if not row.text and self._at == len(self._rows) - 1:
                self._top = self._at
            row.text, self._returned = "", False
        row.text += text

    def _obey(self, control: str, pieces: list[Piece]) -> None:
        row, kind = self._rows[self._at], control[-1]
        count = int(control[2:-1]) if control[2:-1].isdigit() else 1
        if kind == "\r":
            self._returned = True
        elif kind == "\n":
            self._end_row(pieces)
        elif kind == "\b":
            row.text, row.rewritten = row.text[:-1], True
        elif kind == "A":
            self._at = self._climbed = max(0, self._at - count)
            self._top = min(self._top, self._at)
        elif kind == "B":
            self._at = min(len(self._rows) - 1, self._at + count)
        elif kind == "K" and (self._returned or control == "\x1b[2K"):
            row.text, row.rewritten, self._returned = "", False, False
        elif control == "\x1b[?25l":
            self._hidden = True
        elif control == "\x1b[?25h" and self._hidden:
            self.bars()
            for shown in self._rows:
                shown.rewritten = bool(shown.text)
            self._hidden = False

    def _end_row(self, pieces: list[Piece]) -> None:
        self._returned = False
        row = self._rows[self._at]
        if self._at < len(self._rows) - 1:
            self._at += 1
            return
        self._rows.append(_Row())
        self._at += 1
        if not row.rewritten and not self._hidden:
            self.bars()
            self._drop(self._at, pieces)
        elif len(self._rows) > _KEPT_ROWS:
            self._drop(self._at - _KEPT_ROWS + 1, pieces)

    def _drop(self, count: int, pieces: list[Piece]) -> None:
        """Finish the first `count` rows."""
        for row in self._rows[:count]:
            end = "" if row is self._rows[-1] and not row.rewritten else "\n"
            if row.text.strip() or (end and not row.rewritten):
                pieces.append(Piece(row.text + end, row.rewritten))
        del self._rows[:count]
        self._at, self._top = max(0, self._at - count), max(0, self._top - count)
        self._climbed = 0
