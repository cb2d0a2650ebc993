"""Let contestants race: start the ranks, have them take turns, and bring back the medians of a run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Times = dict[str, float]
"""Median seconds in one run, by contestant."""


class RunFailed(Exception):
    """A run brought no figures; the other runs and scenes go on."""


def launch(module: str, arguments: Sequence[str], ranks: int, timeout: float) -> Any:
    """Run `python -m module --worker FOLDER` as MPI ranks; return what rank 0 left in FOLDER/figures.json.

    Raises:
        RunFailed: a rank failed, or the run took longer than `timeout` seconds.
    """
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_osc": "^ucx",  # says on every start that its own default is wrong
    }
    with tempfile.TemporaryDirectory() as folder:
        # Bound to one core, gloo's own thread would have to share it with ours.
        mpiexec = [Path(sys.executable).parent / "mpiexec", "-n", str(ranks), "--bind-to", "none"]
        command = [*mpiexec, sys.executable, "-m", module, "--worker", folder, *arguments]
        process = subprocess.Popen(command, env=environment)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"it took longer than {timeout:g} s") from error
        finally:
            end(process)
        if code != 0:
            raise RunFailed(f"a rank failed (mpiexec said {code}); see above")
        return json.loads((Path(folder) / "figures.json").read_text())


def end(process: subprocess.Popen[bytes]) -> None:
    """Have mpiexec end its ranks and itself; were it killed, they would live on."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def race(
    contestants: Mapping[str, Callable[[], object]],
    prepare: Callable[[], object],
    meet: Callable[[], object],
    clock: Callable[[], float],
    turns: int,
    in_a_row: int,
) -> dict[str, list[float]]:
    """Let contestants take turns; return this rank's seconds for each operation of each.

    A turn is several operations in a row, the first of which is not counted: it finds the code and the
    buffers of the contestant before it in the caches, and its own not. Before each operation the data
    are rewritten and the ranks meet.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, operation in contestants.items():
            for i in range(in_a_row + 1):
                prepare()
                meet()
                began = clock()
                operation()
                if i > 0:
                    times[name].append(clock() - began)
    return times


def slowest(of_ranks: Sequence[Mapping[str, Sequence[float]]]) -> Times:
    """Take each operation's time as that of its slowest rank, and return the medians."""
    return {
        name: statistics.median(map(max, zip(*(times[name] for times in of_ranks), strict=True)))
        for name in of_ranks[0]
    }
