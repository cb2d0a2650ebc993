"""Complete magics' words and the ranks' variables, and show help on those."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
from IPython.utils.tokenutil import token_at_cursor

from ..errors import NbdistError
from .options import CELL_OPTIONS, COMMANDS
from .session import Session

_CELL = re.compile(r"(?:\s*#.*\n|\s*\n)*%%(distributed|rank)\b")


class Completion:
    """Answer the Tab and help keys in cells of ours; in all others IPython does so alone."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shell = session.shell
        self._matcher = context_matcher()(
            lambda context: self._match(context)
        )  # a method takes no attributes
        self._inspect: Any = None

    def install(self) -> None:
        """Answer from now on."""
        self._shell.Completer.custom_matchers.append(self._matcher)
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None:
            self._inspect, kernel.do_inspect = kernel.do_inspect, self._help

    def remove(self) -> None:
        """Leave the answers to IPython."""
        self._shell.Completer.custom_matchers.remove(self._matcher)
        if self._inspect is not None:
            self._shell.kernel.do_inspect = self._inspect

    def _match(self, context: CompletionContext) -> dict[str, Any]:
        fragment, words = self._words(context)
        return {
            "completions": [SimpleCompletion(word, type="nbdist") for word in words],
            "matched_fragment": fragment,
            "suppress": bool(words),
        }

    def _words(self, context: CompletionContext) -> tuple[str, list[str]]:
        """Return the end of the line that may be replaced, and what by."""
        line, token = context.text_until_cursor, context.token
        known: Iterable[str] = ()
        if line.startswith("%nbdist "):
            known = COMMANDS if len(line.split(" ")) == 2 else ()
        elif line.startswith(("%%distributed ", "%%rank")):
            names = [name for name in self._shell.user_ns if name.isidentifier() and name[0] != "_"]
            known = CELL_OPTIONS if token.startswith("-") else names
        elif _CELL.match(context.full_text):
            fragment, words = self._ask("complete", line) or (token, [])
            return fragment, words
        return token, [word for word in known if word.startswith(token)]

    def _help(self, code: str, cursor_pos: int, *args: Any, **kwargs: Any) -> Any:
        detail = args[0] if args else kwargs.get("detail_level", 0)
        if _CELL.match(code):
            found = self._ask("inspect", token_at_cursor(code, cursor_pos), detail)
            if found:
                return {"status": "ok", "found": True, "data": found, "metadata": {}}
        return self._inspect(code, cursor_pos, *args, **kwargs)

    def _ask(self, name: str, *args: Any) -> Any:
        """Return what the first rank alive answers; nothing while ranks are busy: a key must not wait."""
        cluster = self._session.cluster
        if cluster is None or not cluster.running or cluster.busy() or not cluster.alive():
            return None
        try:
            return cluster.call(name, each={cluster.alive()[0]: args})[0]
        except NbdistError:
            return None
