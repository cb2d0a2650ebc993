"""The handles a collective returns."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..errors import GroupError
from ._native import Group, Ticket
from .untraced import untraced

FOREVER = timedelta(0)

# Whether this thread is running a future's callbacks. Were one of them to wait for another future, it would
# wait for the thread it holds up; so what it asks for is done before it gets it.
_telling = threading.local()

# torch's PowerSGD hook communicates from callbacks. For all ranks to do so in the same order, callbacks must
# run where they are attached: its futures, too, are done before it gets them.
_POWER_SGD = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook"


def _is_telling() -> bool:
    return getattr(_telling, "here", False)


@untraced
class Finished(dist.Work):
    """Work that was done before its handle was made."""

    def __init__(self, result: Any, source: int = -1) -> None:
        super().__init__()
        self._result = result
        self._source = source

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> BaseException | None:
        return None

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        pass

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self._result)
        return future


@untraced
class Pending(dist.Work):
    """Work on a native thread. It holds the tensors until they have been moved.

    `finish` runs once, after the data has arrived and before anybody sees the work completed.
    """

    def __init__(self, group: Group, result: Any, finish: Callable[[], None], keep: Any) -> None:
        super().__init__()
        self._group = group
        self._result = result
        self._finish = finish
        self._keep = keep
        self._source = -1
        self._lock = threading.Lock()
        self._completed = False
        self._error: BaseException | None = None
        self._done: threading.Event | None = None
        self._trigger: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future[Any] | None = None
        self.ticket: Ticket | None = None

    def complete(self, ticket: Ticket) -> None:
        """Take note that the native work is done; called by the native layer and by waiters."""
        with self._lock:
            if self._completed:
                return
            try:
                ticket.rethrow()
                self._finish()
            except Exception as error:  # noqa: BLE001 - it is kept, and raised to whoever waits
                self._error = error
            self._completed = True
            self._source = ticket.source
            trigger = self._trigger
            if self._done is not None:
                self._done.set()
        if trigger is not None:
            before = _is_telling()  # a callback may wait for this work, and so tell of it
            _telling.here = True
            try:
                trigger.set_result(None)
            finally:
                _telling.here = before

    def is_done_within(self, seconds: float) -> bool:
        """Wait so long, and tell whether the work is done, or has failed."""
        with self._lock:
            if self._completed:
                return True
            if self._done is None:
                self._done = threading.Event()
        return self._done.wait(seconds)

    def ignore(self, ticket: Ticket) -> None:
        """Stand for the earlier parts of a work of several: an error in one is one in the last, too."""

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        assert self.ticket is not None
        if timeout > FOREVER and not self.is_done_within(timeout.total_seconds()):
            seconds = f"{timeout.total_seconds():g} s"
            raise GroupError(f"the work was not done within a timeout of {seconds}; wait again, or longer")
        if not self._completed:
            try:
                self._group.wait(self.ticket)
            finally:
                if self.ticket.done:  # else a signal handler has raised
                    self.complete(self.ticket)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self._completed

    def is_success(self) -> bool:
        return self._completed and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        if _is_telling() or sys._getframe(1).f_globals.get("__name__") == _POWER_SGD:
            self._settle()
        # An exception set on a Future crashes the DDP reducer that waits for it in C++; one raised by a
        # callback becomes an error that it understands. Hence two futures.
        with self._lock:
            if self._future is None:
                self._trigger = torch.futures.Future()
                self._future = self._trigger.then(self._outcome)
                fire = self._completed
            else:
                fire = False
        if fire and self._trigger is not None:
            self._trigger.set_result(None)
        return self._future

    def _settle(self) -> None:
        """Wait for the work, but leave its error to the future."""
        with suppress(GroupError):  # not what a signal handler raises: that is nobody's result
            self.wait()

    def _outcome(self, _: torch.futures.Future[None]) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


@untraced
class Several(dist.Work):
    """Works that were started together."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        return all(work.wait(timeout) for work in self._works)

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> BaseException | None:
        errors = (work.exception() for work in self._works)
        return next((error for error in errors if error is not None), None)

    def result(self) -> Any:
        return [work.result() for work in self._works]

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        together = torch.futures.collect_all([work.get_future() for work in self._works])
        return together.then(lambda done: [future.value() for future in done.value()])
