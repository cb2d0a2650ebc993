"""Drive a real Jupyter kernel as a notebook would."""

from __future__ import annotations

import os
import queue
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jupyter_client.manager import KernelManager

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

ALIVE = """\
%%distributed
import torch, torch.distributed as dist
t = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(t)
n = dist.get_world_size()
assert t.tolist() == [n * (n + 1) / 2] * 3
"""
"""Passes only if a fresh collective over all ranks gives the right sum."""


def who_said(text: str) -> dict[str, list[int]]:
    """Return the ranks that put out each line, whether they were shown together or not."""
    ranks: dict[str, list[int]] = {}
    for line in text.splitlines():
        tag, said = line[1:].split("]", 1)
        for part in tag.split(","):
            first, _, last = part.partition("-")
            ranks.setdefault(said.strip(), []).extend(range(int(first), int(last or first) + 1))
    return {said: sorted(who) for said, who in ranks.items()}


@dataclass
class Result:
    """What a cell put into the notebook, with the time at which each message arrived."""

    status: str = ""
    ename: str = ""
    evalue: str = ""
    traceback: str = ""
    messages: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    seconds: float = 0.0

    def stream(self, name: str) -> str:
        """Return all text of stdout or stderr."""
        return "".join(c["text"] for _, kind, c in self.messages if kind == "stream" and c["name"] == name)

    @property
    def stdout(self) -> str:
        return self.stream("stdout")

    @property
    def stderr(self) -> str:
        return self.stream("stderr")

    @property
    def displays(self) -> list[dict[str, Any]]:
        """List the data bundles that stay in the saved notebook, updates applied."""
        shown: list[list[Any]] = []
        for _, kind, content in self.messages:
            identity = content.get("transient", {}).get("display_id")
            if kind == "update_display_data":
                for entry in shown:
                    if entry[0] == identity:
                        entry[1] = content["data"]
            elif kind in ("display_data", "execute_result"):
                shown.append([identity, content["data"]])
        return [data for _, data in shown]

    def first_seen(self, text: str) -> float:
        """Return when a stream first contained `text`."""
        for when, kind, content in self.messages:
            if kind == "stream" and text in content["text"]:
                return when
        raise AssertionError(f"{text!r} was never put out")


class Notebook:
    """A kernel of this Python, started as Jupyter starts one, with no environment activated."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None, python: str | None = None) -> None:
        self._manager = KernelManager(kernel_name="python3")
        assert self._manager.kernel_spec is not None
        self._manager.kernel_spec.argv[0] = python or sys.executable
        clean = {
            k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PRTE_", "OMP_", "NBDIST"))
        }
        # A kernel's PATH is the server's, which often lacks the environment's bin.
        clean["PATH"] = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
        self._manager.start_kernel(cwd=str(folder), env={**clean, **(env or {})})
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    @property
    def pid(self) -> int:
        """The kernel's process id."""
        return int(self._manager.provisioner.pid)  # type: ignore[union-attr]

    def send(self, code: str, asked: bool = True) -> str:
        """Send a cell without waiting for it; `asked` is whether it may ask the reader."""
        return self._client.execute(code, allow_stdin=asked)

    def answer(self, text: str, timeout: float = 60.0) -> str:
        """Answer the next question and return what it was."""
        prompt: str = self._client.get_stdin_msg(timeout=timeout)["content"]["prompt"]
        self._client.input(text)
        return prompt

    def complete(self, code: str) -> list[str]:
        """Press Tab at the end of `code`."""
        return list(self._client.complete(code, reply=True, timeout=60)["content"]["matches"])

    def help(self, code: str) -> str:
        """Ask for help on what `code` ends with."""
        content = self._client.inspect(code, reply=True, timeout=60)["content"]
        return _COLOUR.sub("", content["data"].get("text/plain", ""))

    def run(self, code: str, timeout: float = 60.0) -> Result:
        """Run a cell to its end."""
        return self.collect(self.send(code), timeout)

    def collect(
        self, sent: str, timeout: float = 60.0, look: Callable[[Result], None] = lambda _: None
    ) -> Result:
        """Gather what a sent cell puts out, until the kernel is idle again; `look` at it as it comes."""
        result = Result()
        began = time.monotonic()
        while True:
            left = began + timeout - time.monotonic()
            try:
                message = self._client.get_iopub_msg(timeout=max(left, 0.01))
            except queue.Empty:
                raise AssertionError(f"no end within {timeout} s; so far: {result.messages}") from None
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            result.messages.append((time.monotonic(), kind, content))
            look(result)
            if kind == "error":
                result.ename, result.evalue = content["ename"], content["evalue"]
                result.traceback = _COLOUR.sub("", "\n".join(content["traceback"]))
            if kind == "status" and content["execution_state"] == "idle":
                break
        while True:
            reply = self._client.get_shell_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == sent:
                break
        result.status = reply["content"]["status"]
        result.seconds = time.monotonic() - began
        return result

    def await_text(self, sent: str, text: str, timeout: float = 60.0) -> None:
        """Wait until a cell that still runs has put out `text`; what it put out so far is taken."""
        deadline = time.monotonic() + timeout
        while True:
            message = self._client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.01))
            if message["parent_header"].get("msg_id") != sent:
                continue
            assert message["content"].get("execution_state") != "idle", "the cell has ended already"
            if text in message["content"].get("text", ""):
                return

    def await_ranks(self, sent: str, line: str, size: int = 4) -> None:
        """Wait until all ranks of a cell that still runs have put out `line`, together or one by one."""
        missing = set(range(size))
        deadline = time.monotonic() + 60.0
        while missing:
            message = self._client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.01))
            if message["parent_header"].get("msg_id") == sent and message["msg_type"] == "stream":
                missing.difference_update(who_said(message["content"]["text"]).get(line, ()))

    def ok(self, code: str, timeout: float = 60.0) -> Result:
        """Run a cell that has to succeed."""
        result = self.run(code, timeout)
        assert result.status == "ok", result.traceback
        return result

    def interrupt(self) -> None:
        """Press the stop button."""
        self._manager.interrupt_kernel()

    def alive(self) -> None:
        """Check that the ranks still work together."""
        self.ok(ALIVE)

    def close(self) -> None:
        """Shut the kernel down as the notebook's menu does."""
        self._client.stop_channels()
        if self._manager.is_alive():
            self._manager.shutdown_kernel(now=False)
        self._manager.cleanup_resources()

    def kill(self) -> None:
        """Kill the kernel without a warning."""
        self._manager.signal_kernel(9)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
