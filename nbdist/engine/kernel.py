"""The IPython kernel of a rank, with hooks before and after each cell."""

from __future__ import annotations

import signal
from typing import Any

from ipyparallel.engine.kernel import IPythonParallelKernel

from .rank import CellSpec, Rank

Message = dict[str, Any]


class RankKernel(IPythonParallelKernel):
    """Run cells as IPython does, and tell the other ranks how each one ended."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rank = Rank(self.shell)
        self.control_handlers["nbdist_request"] = self.nbdist_request

    async def do_execute(self, code: str, silent: bool, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Execute a cell between the rank's begin and end hooks."""
        parent = self.get_parent("shell") or {}
        described = parent.get("metadata", {}).get("nbdist")
        if described is None:
            return await super().do_execute(code, silent, *args, **kwargs)  # type: ignore[no-any-return]
        cell = CellSpec(**described)
        self.rank.begin_cell(cell)
        self.shell.last_execution_result = None
        reply: dict[str, Any]
        error: BaseException | None = None
        try:
            reply = await super().do_execute(code, silent, *args, **kwargs)
        except KeyboardInterrupt as interrupt:  # it came after the cell's last line
            error, reply = interrupt, {"status": "ok", "execution_count": self.shell.execution_count}
        # From here on an interrupt must not cost the reply; the abort that comes with it ends any wait.
        signal.signal(signal.SIGINT, lambda *_: None)
        if reply["status"] == "error":
            result = self.shell.last_execution_result
            error = (result and (result.error_before_exec or result.error_in_exec)) or RuntimeError(
                reply["evalue"]
            )
        failure = self.rank.end_cell(cell, error)
        if failure is not None:
            if reply["status"] == "ok":
                reply.update(
                    status="error",
                    ename=type(failure).__name__,
                    evalue=str(failure),
                    traceback=[f"{type(failure).__name__}: {failure}"],
                )
            reply["engine_info"] = {
                **self.get_engine_info(method="execute"),
                "nbdist": self.rank.describe_failure(failure),
            }
        return reply

    def nbdist_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Answer on the control channel, which works while the main thread is blocked."""
        content = parent["content"]
        result = self.rank.control(content["action"], **content.get("arguments", {}))
        self.session.send(
            stream, "nbdist_reply", {"status": "ok", "result": result}, parent=parent, ident=ident
        )
