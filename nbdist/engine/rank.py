"""A rank as the notebook sees it: what can be asked of it between, before and after cells."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import GroupError, UsageError
from ..freight import Address, Shipment, load, pack, reach, ship
from . import device, lookup, workers
from .postmortem import Postmortem
from .where import where

if TYPE_CHECKING:
    from .tap import Tap


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """What the notebook says about a cell: its number and what becomes of the names it assigns."""

    number: int
    whole: bool
    """Whether every rank runs the cell."""
    models: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    compression: str | None = None
    """None: as before."""


class _Exit:
    """Stands for `exit` and `quit`, which would end the rank with all of its variables."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: object) -> None:
        raise UsageError(
            f"{self._name}() in a distributed cell would end the rank; "
            "raise an exception to end the cell, or use `%nbdist stop`."
        )

    def __repr__(self) -> str:
        return f"`%nbdist stop` ends the ranks; {self._name} does nothing here."


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What ended a cell on this rank, and whether the rank was only released from a wait."""

    error: BaseException
    host: str
    released: bool


class Rank:
    """Serve the notebook's calls and keep the process group in step with the cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        workers.allow_spawn()
        for name in ("exit", "quit"):
            shell.user_ns[name] = shell.user_ns_hidden[name] = _Exit(name)
        self._tap: Tap | None = None
        self._last_error: BaseException | None = None
        self._postmortem: Postmortem | None = None
        self._reached: dict[Address, mmap.mmap] = {}
        self._sent: Shipment | None = None

    def __call__(self, name: str, *args: Any) -> Any:
        """Run one of the calls below; the notebook reaches this through a reference."""
        calls: dict[str, Callable[..., Any]] = {
            "about": self.about,
            "connect_metrics": self.connect_metrics,
            "open_endpoint": self.open_endpoint,
            "listen": self.listen,
            "form_group": self.form_group,
            "resume_models": self.resume_models,
            "missing": self.missing,
            "reach": self.reach,
            "receive": self.receive,
            "send": self.send,
            "receive_model": self.receive_model,
            "receive_shard": self.receive_shard,
            "distribute": self.distribute,
            "in_step": self.in_step,
            "debug": self.debug,
            "who": lambda: lookup.who(self._shell),
            "complete": lambda *args: lookup.complete(self._shell, *args),
            "inspect": lambda *args: lookup.inspect(self._shell, *args),
        }
        return calls[name](*args)

    def in_step(self, number: int, name: str, *args: Any) -> Any:
        """Run a call in which the ranks talk to each other, as if it were cell `number`.

        A rank that fails in it releases the others, as one that fails in a cell does.
        """
        from .. import comm

        comm.enter_cell(number)
        try:
            return self(name, *args)
        except BaseException as error:
            _abort_unless_released(error)
            raise
        finally:
            comm.leave_cell(number)

    # -- what the notebook may call between cells

    def about(self) -> dict[str, Any]:
        """Say who and where this rank is."""
        import torch
        from mpi4py import MPI

        return {
            "rank": MPI.COMM_WORLD.rank,
            "size": MPI.COMM_WORLD.size,
            "local_rank": device.local_rank(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "device": _device_name(),
            "threads": torch.get_num_threads(),
            "folder": os.getcwd(),
        }

    def connect_metrics(self, endpoint: str, key: bytes, rate_hz: float) -> None:
        """Send this rank's figures to the notebook's socket from now on."""
        from .tap import Tap

        if self._tap is not None:
            self._tap.close()
        self._tap = Tap(endpoint, key, self._world().rank, rate_hz)

    def open_endpoint(self) -> tuple[str, bytes]:
        """Open this rank's end of the next generation, and name the host it is on."""
        from .. import comm

        comm.leave_world()
        return comm.host_identity(), comm.open_endpoint()

    def listen(self) -> bytes:
        """Let ranks on other hosts call this one while the group is formed."""
        from .. import comm

        return comm.listen()

    def form_group(
        self,
        endpoints: list[bytes],
        listeners: list[bytes],
        secret: bytes,
        generation: int,
        master_port: int,
    ) -> None:
        """Form a generation over the endpoints of all ranks and set up the names of a cell."""
        import torch.distributed as dist

        from .. import comm

        world = self._world()
        os.environ.update(
            RANK=str(world.rank),
            WORLD_SIZE=str(world.size),
            LOCAL_RANK=str(device.local_rank()),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(master_port),
        )
        comm.form_world(endpoints, world.rank, secret, generation, listeners)
        names = self._shell.user_ns
        for name, value in (
            ("rank", world.rank),
            ("size", world.size),
            ("local_rank", device.local_rank()),
            ("device", device.device()),
            ("dist", dist),
        ):
            names.setdefault(name, value)

    def resume_models(self) -> None:
        """Bring the models of an earlier generation into step again."""
        from ..train import ring

        ring.resume()

    def missing(self, names: list[str]) -> list[str]:
        """Return those of `names` that this rank does not have."""
        return [name for name in names if name not in self._shell.user_ns]

    def reach(self, address: Address) -> bool:
        """Map what the notebook is about to name, if it is on this host."""
        self._reached.clear()  # of a cell that was interrupted
        memory = reach(address)
        if memory is not None:
            self._reached[address] = memory
        return memory is not None

    def receive(self, name: str, letter: Address | bytes) -> None:
        """Take a value as it is."""
        value = load(self._open(letter))
        self._forget(name, value)
        self._shell.user_ns[name] = value

    def send(self, name: str | None, near: bool) -> Address | bytes | None:
        """Return a value, or where the notebook finds it if it is `near`; let go of the one before."""
        self._sent = None
        if name is None:
            return None
        parcel = pack(name, self._shell.user_ns[name], "to the notebook", f"take it off {name} first")
        self._sent = ship(parcel) if near else None
        return parcel.flat() if self._sent is None else self._sent.address

    def receive_model(self, name: str, letter: Address | bytes | None, compression: str | None) -> None:
        """Take a model that rank 0 was sent, hand it round, and make it one over all ranks."""
        model = load(self._share(None if letter is None else self._open(letter)))
        self._attach(name, model, compression)

    def receive_shard(self, name: str, letter: Address | bytes) -> None:
        """Take this rank's part of a data set."""
        self._shell.user_ns[name] = load(self._open(letter))

    def distribute(self, models: list[str], shards: list[str], compression: str | None) -> None:
        """Make names that live on the ranks one model, or cut them to this rank's shard."""
        from ..data import Shard, Stream, cut

        world = self._world()
        for name in models:
            self._attach(name, self._shell.user_ns[name], compression)
        for name in shards:
            value = self._shell.user_ns[name]
            if not isinstance(value, Shard | Stream):
                self._shell.user_ns[name] = cut(value, world.rank, world.size, whole=True)

    def debug(self, command: str | None) -> tuple[str, bool]:
        """Answer a pdb command about the last cell that failed here; None begins a session."""
        if command is None or self._postmortem is None:
            self._postmortem = Postmortem(self._last_error, self._shell.compile.format_code_name)
        said, over = self._postmortem.answer(command or "")
        if over:
            self._postmortem = None
        return said, over

    # -- the hooks around a cell

    def begin_cell(self, cell: CellSpec) -> None:
        """Tell the other ranks that this one is in the cell."""
        from .. import comm
        from ..train import metrics

        metrics.begin_run()
        if self._tap is not None:
            self._tap.begin_run(cell.number)
        comm.enter_cell(cell.number)

    def end_cell(self, cell: CellSpec, error: BaseException | None) -> Failure | None:
        """Leave the cell in step with the others and return what failed, if anything did.

        A rank that failed releases the others at once; one that is done serves the steps of those
        that still train, and then takes part in distributing what the cell defined.
        """
        from .. import comm
        from ..train import ring

        try:
            if error is None and cell.whole:
                comm.end_lines()
                ring.finish()
                self._check_assigned(cell)
                self.distribute(list(cell.models), list(cell.shards), cell.compression)
        except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001  (reported as the cell's error)
            error = problem
        failure = None
        if error is not None:
            released = _abort_unless_released(error)
            self._last_error, self._postmortem = error, None
            failure = Failure(error=error, host=socket.gethostname(), released=released)
        comm.leave_cell(cell.number)
        if error is not None:
            workers.release(error)
        if self._tap is not None:
            self._tap.end_run()
        return failure

    @staticmethod
    def group_is_over() -> bool:
        """Whether the group has ended, or the cell took it down, though the cell itself may be fine."""
        import torch.distributed as dist

        from .. import comm

        return comm.is_aborted() or not dist.is_initialized()

    # -- what is answered while a cell runs, on the control thread

    def control(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Carry out a request that must not wait for the main thread."""
        from .. import comm

        if action == "where":
            return where(self._shell.compile.format_code_name)
        if action == "abort":
            comm.abort(arguments["reason"])
        elif action == "skip_cell":
            comm.skip_cell(arguments["number"])
        return {}

    # -- helpers

    @staticmethod
    def _world() -> Any:
        from mpi4py import MPI

        return MPI.COMM_WORLD

    def _attach(self, name: str, model: object, compression: str | None) -> None:
        import torch

        from ..train import ring

        if not isinstance(model, torch.nn.Module):
            raise UsageError(
                f"--model {name}: {name} is a {type(model).__name__}, not a torch.nn.Module; "
                "name a model, or use --shard for data."
            )
        self._forget(name, model)
        how = compression or ring.compression(model)
        self._shell.user_ns[name] = ring.attach(model.to(device.device()), how)

    def _forget(self, name: str, value: object) -> None:
        """Make the model that `value` replaces this rank's own again."""
        import torch

        from ..train import ring

        before = self._shell.user_ns.get(name)
        if isinstance(before, torch.nn.Module) and before is not value:
            # Something may keep the old model alive; attached, it would only slow the new one down.
            ring.detach(before)

    def _open(self, letter: Address | bytes) -> mmap.mmap | bytes:
        return self._reached.pop(letter) if isinstance(letter, Address) else letter

    def _check_assigned(self, cell: CellSpec) -> None:
        # The cell was read before it ran; a name it assigns only under a condition may be missing.
        for name in (*cell.models, *cell.shards):
            if name not in self._shell.user_ns:
                raise UsageError(f"The cell ended without defining {name}; define it on every rank.")

    def _share(self, payload: mmap.mmap | bytes | None) -> memoryview:
        """Broadcast bytes from rank 0 over the ring."""
        import torch
        import torch.distributed as dist

        length = torch.tensor([len(payload or b"")])
        dist.broadcast(length, src=0)
        # frombuffer would alias immutable bytes; the broadcast writes into this tensor.
        buffer = torch.empty(int(length), dtype=torch.uint8)
        if payload is not None:
            buffer.numpy()[:] = memoryview(payload)
        dist.broadcast(buffer, src=0)
        return buffer.numpy().data


def _abort_unless_released(error: BaseException) -> bool:
    """Release the ranks that wait for this one, which has failed, or return True if it was itself released.

    It was if its group was over and that is what it raised. A rank that found the fault itself has to
    tell the others.
    """
    from .. import comm

    if comm.is_aborted() and _stems_from_group(error):
        return True
    comm.abort(f"{type(error).__name__}: {_first_line(error)}")
    return False


def _stems_from_group(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, GroupError):
        error = error.__cause__
    return error is not None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _device_name() -> str:
    import torch

    if torch.cuda.is_available():
        return f"cuda:{os.environ.get('CUDA_VISIBLE_DEVICES', '0')} ({torch.cuda.get_device_name(0)})"
    return "cpu"
