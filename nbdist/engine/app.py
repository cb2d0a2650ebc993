"""The engine process: ipyparallel's, with our kernel in it."""

from __future__ import annotations

import signal
from types import FrameType

import ipyparallel.engine.app
from ipyparallel.engine.app import IPEngine

from .kernel import RankKernel

# IPEngine makes `Kernel.instance(...)` from its module's global and offers no trait for it.
ipyparallel.engine.app.Kernel = RankKernel


class RankApp(IPEngine):
    """Serve one rank to the controller, with its MPI rank as engine id."""

    init_mpi = ""  # the rank's names are set up by `Rank`, not by executed lines

    def init_signal(self) -> None:
        """Install our own SIGINT handler: a server started with `&` passes on an ignored one."""
        super().init_signal()
        signal.signal(signal.SIGINT, self._ignore_while_idle)

    def _ignore_while_idle(self, signum: int, frame: FrameType | None) -> None:
        # ipykernel puts the raising handler in place while a cell runs; between cells
        # there is nothing to interrupt.
        pass
