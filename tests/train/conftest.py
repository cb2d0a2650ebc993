"""Real ranks for the tests: a few processes, started once, that form a fresh group for every call.

Run as a program, this file is such a rank.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

BACKENDS = ["gloo"]
with contextlib.suppress(ImportError):  # the compiled module may not be built yet
    import nbdist.comm  # noqa: F401  (registers the backend)

    BACKENDS.append("cpu:nbdist")


class RankError(AssertionError):
    """A call raised on some ranks; the message holds their tracebacks."""


class Ranks:
    """Run functions on rank processes, and end those processes when a call takes too long."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[tuple[subprocess.Popen[bytes], Connection]] = []
        self._calls = 0

    def __call__(
        self, call: Callable[..., Any], size: int, *args: Any, backend: str = "gloo", timeout: float = 40
    ) -> list[Any]:
        """Return what `call(rank, size, *args)` returns on each of `size` ranks."""
        while len(self._processes) < size:
            self._start()
        self._calls += 1
        from . import nets

        for module in (nets, sys.modules[call.__module__]):
            cloudpickle.register_pickle_by_value(module)
        job = cloudpickle.dumps((call, size, args, backend, f"file://{self._folder}/{self._calls}"))
        for rank, (_, connection) in enumerate(self._processes[:size]):
            connection.send((rank, job))
        deadline = time.monotonic() + timeout
        answers = []
        for rank, (_, connection) in enumerate(self._processes[:size]):
            if not connection.poll(max(0.0, deadline - time.monotonic())):
                self.stop()
                raise TimeoutError(f"rank {rank} did not answer within {timeout} s")
            answers.append(connection.recv())
        failed = [f"[rank {r}] {told}" for r, (good, told) in enumerate(answers) if not good]
        if failed:
            raise RankError("\n".join(failed))
        return [pickle.loads(told) for _, told in answers]

    def _start(self) -> None:
        ours, theirs = Pipe()
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self._processes.append((process, ours))

    def stop(self) -> None:
        """End the processes this object started."""
        for process, connection in self._processes:
            process.kill()
            process.wait()
            connection.close()
        self._processes.clear()


@pytest.fixture(scope="session")
def all_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    ranks = Ranks(tmp_path_factory.mktemp("stores"))
    yield ranks
    ranks.stop()


@pytest.fixture(params=BACKENDS)
def ranks(all_ranks: Ranks, request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """Run `call(rank, size, *args)` on ranks over each backend there is."""

    def run(call: Callable[..., Any], size: int, *args: Any, **options: Any) -> list[Any]:
        return all_ranks(call, size, *args, backend=request.param, **options)

    return run


def _serve(connection: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    gc.freeze()  # what was imported need not be searched at every call
    while True:
        rank, job = connection.recv()
        call, size, args, backend, store = pickle.loads(job)
        gc.collect()  # models of earlier calls would keep this one's gradients from overlapping backward
        try:
            dist.init_process_group(backend, init_method=store, rank=rank, world_size=size)
            torch.manual_seed(0)
            answer = True, cloudpickle.dumps(call(rank, size, *args))
        except BaseException:  # noqa: BLE001  (told to the test)
            answer = False, traceback.format_exc()
        if dist.is_initialized():
            dist.destroy_process_group()
        connection.send(answer)


if __name__ == "__main__":
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        _serve(Connection(int(sys.argv[1])))
