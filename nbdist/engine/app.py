"""The engine process: ipyparallel's, with our kernel in it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from io import FileIO, TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any

import ipyparallel.engine.app
from ipyparallel.engine.app import IPEngine

from .capture import Capture
from .kernel import RankKernel
from .plain import prefer_text

# IPEngine makes `Kernel.instance(...)` from its module's global and offers no trait for it.
ipyparallel.engine.app.Kernel = RankKernel


class RankApp(IPEngine):
    """Serve one rank to the controller, with its MPI rank as engine id."""

    init_mpi = ""  # the rank's names are set up by `Rank`, not by executed lines

    def init_signal(self) -> None:
        """Install our own SIGINT handler: a server started with `&` passes on an ignored one."""
        super().init_signal()
        signal.signal(signal.SIGINT, self._ignore_while_idle)

    def redirect_output(self, iopub_socket: Any) -> None:
        """Catch what the rank puts out, and keep the engine's own log apart from it."""
        from mpi4py import MPI

        topic = f"engine.{self.id}.stream".encode()
        world = MPI.COMM_WORLD
        log = TextIOWrapper(FileIO(os.dup(2), "w"), line_buffering=True)
        for handler in self.log.handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.stream = log
        folder = Path(self.profile_dir.log_dir)
        capture = Capture(world.rank, world.size, folder, self.session, iopub_socket, topic)
        sys.stdout, sys.stderr = capture.streams
        self.kernel.capture = capture
        prefer_text(self.kernel.shell.config)
        sys.displayhook = self.display_hook_factory(self.session, iopub_socket)
        sys.displayhook.topic = f"engine.{self.id}.execute_result".encode()  # type: ignore[attr-defined]

    def _ignore_while_idle(self, signum: int, frame: FrameType | None) -> None:
        # ipykernel puts the raising handler in place while a cell runs; between cells
        # there is nothing to interrupt.
        pass
