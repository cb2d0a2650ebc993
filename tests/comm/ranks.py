"""Run a function as n ranks, each a real process, and bring back what each returned or raised."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

import nbdist.comm
from benchmarks.hosts import enter

# Children fork from a server that has imported torch already: 30 ms each instead of 2 s.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed", "nbdist.comm", "tests.comm.ranks"])


class RanksFailed(AssertionError):
    """Some ranks raised, died, or did not come to an end."""


class Ranks:
    """Processes that form a group and run a function; whatever is left when the test ends is killed."""

    def __init__(
        self,
        size: int,
        function: Callable[..., Any],
        *args: Any,
        form: bool = True,
        hosts: Sequence[int | str] = (),
    ) -> None:
        """Start the ranks.

        With `hosts` each is on one of several: in a namespace of benchmarks.hosts, by its name, or merely
        believing to be on the host of a number.
        """
        self.size = size
        self._folder = tempfile.TemporaryDirectory()
        self._pipes: list[Connection] = []
        self.processes = []
        for rank in range(size):
            ours, theirs = _context.Pipe(duplex=False)
            process = _context.Process(
                target=_be_rank,
                args=(theirs, self._folder.name, form, function, rank, size, args, hosts),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process, pipe in zip(self.processes, self._pipes, strict=True):
            if process.is_alive():
                process.kill()
            process.join()
            process.close()
            pipe.close()
        self._folder.cleanup()

    def results(self, timeout: float = 30.0, of: Iterable[int] | None = None) -> list[Any]:
        """Wait for every rank, or those named: each is a Returned, a Raised, or None if it died."""
        deadline = time.monotonic() + timeout
        results: list[Any] = []
        for rank in range(self.size) if of is None else of:
            pipe = self._pipes[rank]
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                # It may wait in vain for one that has raised, and that is what one wants to read.
                raised = [result.text for result in results if isinstance(result, Raised)]
                late = f"rank {rank} of {self.size} did not end within {timeout} s"
                raise RanksFailed("\n".join([late, *raised]))
            try:
                results.append(pipe.recv())
            except EOFError:
                results.append(None)
        return results


def spawn(
    size: int,
    function: Callable[..., Any],
    *args: Any,
    timeout: float = 30.0,
    form: bool = True,
    hosts: Sequence[int | str] = (),
) -> list[Any]:
    """Call `function(rank, size, *args)` on every rank of a new group; return what each returned."""
    with Ranks(size, function, *args, form=form, hosts=hosts) as ranks:
        results = ranks.results(timeout)
    failures = [
        f"rank {rank}: " + ("died" if result is None else result.text)
        for rank, result in enumerate(results)
        if result is None or isinstance(result, Raised)
    ]
    if failures:
        raise RanksFailed("\n".join(failures))
    return [result.value for result in results]


def begin_together(rank: int, last: int) -> None:
    """Use the group, and let the last rank go on when all have: what ends it may overtake the last data."""
    dist.all_reduce(torch.ones(3))
    if rank != last:
        dist.send(torch.ones(1), last)
        return
    for peer in range(last):
        dist.recv(torch.ones(1), peer)


class Returned:
    """What a rank returned."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Raised:
    """What a rank raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.text = "".join(traceback.format_exception(error))


def _move_to(host: int | str) -> None:
    """Enter a network namespace, or merely believe to be on the host of that number."""
    if isinstance(host, str):
        enter(host)
    else:
        nbdist.comm.world.host_identity = lambda: f"host{host}"
        os.environ["NBDIST_INTERFACE"] = "127.0.0.1"


def _be_rank(
    pipe: Connection,
    folder: str,
    form: bool,
    function: Callable[..., Any],
    rank: int,
    size: int,
    args: Any,
    hosts: Sequence[int | str],
) -> None:
    if hosts:
        _move_to(hosts[rank])
    torch.set_num_threads(1)
    try:
        if form:
            store = dist.FileStore(os.path.join(folder, "store"), size)
            dist.init_process_group("cpu:nbdist", store=store, rank=rank, world_size=size)
        value = function(rank, size, *args)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send(Returned(value))
    except BaseException as error:  # noqa: BLE001 - it is the result
        pipe.send(Raised(error))
