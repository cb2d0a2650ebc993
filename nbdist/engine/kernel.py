"""The IPython kernel of a rank, with hooks before and after each cell."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any, NoReturn

from ipyparallel.engine.kernel import IPythonParallelKernel
from IPython.core import page
from traitlets import Type

from . import ask
from .capture import Capture
from .plain import RankShell
from .rank import CellSpec, Rank

Message = dict[str, Any]


class _NoSubshells:
    """What ipykernel asks for its main thread when a cell awaits; ipyparallel's engines have no subshells."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


class RankKernel(IPythonParallelKernel):
    """Run cells as IPython does, and tell the other ranks how each one ended."""

    _supports_kernel_subshells = False

    shell_class = Type(RankShell)

    capture: Capture
    """Set before the first cell."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shell_channel_thread = _NoSubshells()
        self.rank = Rank(self.shell)
        ask.refuse_breakpoints()
        # Shown among the rank's output, `name?` reaches the reader; a pager's payload does not.
        self.shell.set_hook("show_in_pager", page.as_hook(page.display_page), 90)
        self.control_handlers["nbdist_request"] = self.nbdist_request

    async def do_execute(self, code: str, silent: bool, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Execute a cell between the rank's begin and end hooks; whatever happens, there is a reply."""
        parent = self.get_parent("shell") or {}
        described = parent.get("metadata", {}).get("nbdist")
        if described is None:
            return await super().do_execute(code, silent, *args, **kwargs)  # type: ignore[no-any-return]
        cell = CellSpec(**described)
        self.shell.last_execution_result = None
        reply: dict[str, Any] = {"status": "ok", "execution_count": self.shell.execution_count}
        error: BaseException | None = None
        try:
            self.capture.begin_cell(code, parent)
            self.rank.begin_cell(cell)
            reply = await super().do_execute(code, silent, *args, **kwargs)
            if reply["status"] == "error":
                error = self._raised() or RuntimeError(reply["evalue"])
        except (Exception, KeyboardInterrupt, asyncio.CancelledError) as problem:  # noqa: BLE001  (lost here, it would lose the reply)
            error = problem
        # From here on an interrupt must not cost the reply; the abort that comes with it ends any wait.
        signal.signal(signal.SIGINT, lambda *_: None)
        failure = self.rank.end_cell(cell, error)
        if failure is not None:
            if reply["status"] == "ok":
                name = type(failure.error).__name__
                text = f"{name}: {failure.error}"
                reply.update(status="error", ename=name, evalue=str(failure.error), traceback=[text])
            about = {"host": failure.host, "released": failure.released}
            reply["engine_info"] = {**self.get_engine_info(method="execute"), "nbdist": about}
        reply["nbdist"] = {"group_over": self.rank.group_is_over()}
        self.capture.end_cell()
        return reply

    def nbdist_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Act on the control channel, which is heard while the main thread is blocked."""
        content = parent["content"]
        answer = self.rank.control(content["action"], **content.get("arguments", {}))
        reply = {"status": "ok", "answer": answer}
        self.session.send(stream, "nbdist_reply", reply, parent=parent, ident=ident)

    def raw_input(self, prompt: str = "") -> NoReturn:
        """Refuse `input()`."""
        ask.refuse("input()")

    def getpass(self, prompt: str = "", *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse `getpass.getpass()`."""
        ask.refuse("getpass()")

    def _raised(self) -> BaseException | None:
        result = self.shell.last_execution_result
        return None if result is None else result.error_before_exec or result.error_in_exec
