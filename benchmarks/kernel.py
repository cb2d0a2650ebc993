"""A real kernel that runs cells and is timed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

_LEAVE_OUT = ("OMPI_", "PRTE_", "OMP_", "NBDIST")


class CellFailed(Exception):
    """A cell of a benchmark failed; tells its traceback."""


@dataclass(frozen=True)
class Cell:
    """What one cell put into the notebook, and how long it took."""

    seconds: float
    messages: list[dict[str, Any]]

    @property
    def size(self) -> int:
        """Bytes of all messages' contents as JSON."""
        return sum(len(json.dumps(content)) for content in self.messages)

    @property
    def text(self) -> str:
        """All text put out to stdout."""
        return "".join(c["text"] for c in self.messages if c.get("name") == "stdout")


class Kernel:
    """A kernel of this Python, with no environment activated, as Jupyter starts one."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client

    @property
    def pid(self) -> int:
        """The kernel's process id."""
        return int(self._manager.provisioner.pid)  # type: ignore[union-attr]

    def send(self, code: str) -> str:
        """Send a cell without waiting for it; return its id for `collect`."""
        return self._client.execute(code, allow_stdin=False)

    def interrupt(self) -> None:
        """Press the stop button."""
        self._manager.interrupt_kernel()

    def collect(self, sent: str, timeout: float = 600.0) -> Cell:
        """Wait for a sent cell's end, whatever that is; its seconds count from this call."""
        messages: list[dict[str, Any]] = []
        began = time.perf_counter()
        while True:
            message = self._client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") == sent:
                messages.append(message["content"])
                if messages[-1].get("execution_state") == "idle":
                    break
        while self._client.get_shell_msg(timeout=timeout)["parent_header"].get("msg_id") != sent:
            pass
        return Cell(time.perf_counter() - began, messages)

    def run(self, code: str, timeout: float = 600.0) -> Cell:
        """Run a cell to its end; raises CellFailed where it failed."""
        cell = self.collect(self.send(code), timeout)
        for content in cell.messages:
            if "traceback" in content:
                raise CellFailed("\n".join(content["traceback"]))
        return cell


@contextmanager
def kernel() -> Iterator[Kernel]:
    """Run a kernel for as long as the context lasts."""
    manager = KernelManager(kernel_name="python3")
    if manager.kernel_spec is not None:
        manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(env={k: v for k, v in os.environ.items() if not k.startswith(_LEAVE_OUT)})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
        manager.cleanup_resources()
