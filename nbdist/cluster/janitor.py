"""End a cluster whose notebook has gone: `python -m nbdist.cluster.janitor FOLDER`.

One runs beside each cluster. It holds the reading end of a pipe from the notebook's process: a byte
means the cluster was stopped in order, the end of the file that the process died without a word
(a kernel that ran out of memory, a kill -9). Either way nothing of the cluster is left behind.

Processes are found by an entry in their environment that only this cluster has, never by name.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from ..errors import NbdistError

MARK = "NBDIST__CLUSTER"
"""The environment variable by which a process is known to belong to a cluster."""

_GRACE = 3.0


class Janitor:
    """The notebook's handle on the janitor of one cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        read, self._write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nbdist.cluster.janitor", str(folder), str(os.getpid())],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt of the notebook is not for it
            )
        finally:
            os.close(read)

    def finish(self, timeout: float = 15.0) -> None:
        """Let the janitor clean up what an orderly stop may have left, and wait for it."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write, b"x")
        os.close(self._write)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise NbdistError(
                f"Some processes of the cluster did not end within {timeout:g} s and are still being ended; "
                f"look for those with {MARK}={self._folder.name} in their environment."
            ) from None


def members(mark: str) -> list[psutil.Process]:
    """List this user's processes that carry a cluster's mark."""
    found = []
    for process in psutil.process_iter():
        # A process that ended, is a zombie or belongs to someone else is none of ours.
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


def end(mark: str) -> None:
    """End all processes of a cluster: ask, and after a grace insist."""
    for process in members(mark):
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs(members(mark), timeout=_GRACE)
    while stubborn:
        for process in stubborn:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stubborn, timeout=_GRACE)
        stubborn = members(mark)  # one may have started another in between


def _wait_for_notebook(pid: int) -> None:
    """Return when the notebook's process writes, closes the pipe or is gone."""
    watched = [sys.stdin.fileno()]
    # A child the notebook forked may hold the pipe open after the notebook itself is dead.
    with contextlib.suppress(ProcessLookupError):
        watched.append(os.pidfd_open(pid))
        select.select(watched, [], [])


def main() -> None:
    """Wait for the notebook to finish or vanish, then leave nothing of its cluster."""
    folder, pid = Path(sys.argv[1]), int(sys.argv[2])
    _wait_for_notebook(pid)
    end(folder.name)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
