"""Bring a cell into the form IPython knows, before it looks for magics."""

from __future__ import annotations

import re
from typing import Any

_OURS = re.compile(r"%%(distributed|rank)\b")

_TIGHT = re.compile(r"%%rank\[")


class Spelling:
    """Rewrite the lines of a cell: `%%rank[0]`, comments above `%%distributed`, and `%autodistributed`."""

    def __init__(self, shell: Any) -> None:
        self.auto = False
        """Whether every cell goes to the ranks that begins with no magic."""
        self._shell = shell
        self._running = False

    def install(self) -> None:
        """Look at every cell from now on."""
        self._shell.input_transformers_cleanup.append(self.rewrite)
        self._shell.events.register("pre_execute", self._begin)
        self._shell.events.register("post_execute", self._end)

    def remove(self) -> None:
        """Leave cells alone."""
        self._shell.input_transformers_cleanup.remove(self.rewrite)
        self._shell.events.unregister("pre_execute", self._begin)
        self._shell.events.unregister("post_execute", self._end)

    def rewrite(self, lines: list[str]) -> list[str]:
        """Return the lines as IPython should read them."""
        first = next((i for i, line in enumerate(lines) if line.strip() and line[0] != "#"), None)
        if first is None:
            return lines
        if _OURS.match(lines[first]):
            begin = _TIGHT.sub("%%rank [", lines[first])
            return [begin if begin.endswith("\n") else begin + "\n", *lines[:first], *lines[first + 1 :]]
        if self.auto and self._is_for_ranks(lines[first]):
            return ["%%distributed\n", *lines]
        return lines

    def _is_for_ranks(self, line: str) -> bool:
        # While a cell runs, its parts are looked at, too; and front ends run cells that no reader sees.
        kernel = getattr(self._shell, "kernel", None)
        content = (kernel.get_parent() or {}).get("content", {}) if kernel is not None else {}
        return not self._running and not content.get("silent") and not line.lstrip().startswith(("%", "?"))

    def _begin(self) -> None:
        self._running = True

    def _end(self) -> None:
        self._running = False
