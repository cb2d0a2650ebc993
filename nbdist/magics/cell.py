"""Run a `%%distributed` cell: send what it names, follow it, and tell how it ended."""

from __future__ import annotations

import sys
import time

from ..cluster import CellRun, Cluster
from ..errors import UsageError, rank_list
from ..live import LiveView
from . import source
from .background import Background
from .interrupt import Presses, tell_stuck
from .names import bring
from .options import CellOptions
from .output import Merger
from .session import Session
from .session import count as _count
from .waits import WaitLine

_PATIENCE = 1.0
"""How long the other ranks may take to end a cell before a failure is told without them, in seconds."""

_TICK = 0.05
"""How long at most between two looks at the output; the live view is offered new figures as often."""


def run_cell(session: Session, options: CellOptions, cell: str) -> Background | None:
    """Run a cell on the ranks and show what it puts out; return when every rank has ended it.

    With `--no-wait` it returns at once, with a handle on the cell.

    Raises:
        UsageError: the line or the names on it are wrong; no rank ran a line then.
        TravelError: a named object cannot be sent; no rank ran a line then.
        RankError: a rank failed.
        KeyboardInterrupt: the reader interrupted the cell.
    """
    assigned = source.assigned_names(session.shell, cell)
    cluster = session.started()
    session.settle()
    ranks = options.chosen(cluster.n)
    if len(ranks) < cluster.n and (options.models or options.shards):
        raise UsageError("--model and --shard need all ranks; leave --ranks out of this cell.")
    cluster.prepare(ranks)
    bring(session, cluster, options, assigned)
    with Presses() as presses:
        run = cluster.run(
            cell,
            ranks,
            models=[name for name in options.models if name in assigned],
            shards=[name for name in options.shards if name in assigned],
            compression=options.compression,
        )
        for name in assigned:
            session.sent.forget(name)  # some rank may have another by now
        left = assigned.intersection((*options.models, *options.shards))
        if options.wait:
            _finish(session, cluster, run, presses, left)
            return None
    session.background = Background(
        lambda presses: _finish(session, cluster, run, presses, left), _count(len(ranks))
    )
    return session.background


def _finish(session: Session, cluster: Cluster, run: CellRun, presses: Presses, left: set[str]) -> None:
    """Follow a cell to its end and raise how it failed; names in `left` are the ranks' own from then on."""
    _follow(session, cluster, run, presses)
    error = run.error()
    if presses.count:
        raise _interrupt(run)
    if error is not None:
        raise error
    for name in left:
        session.sent.leave(name, session.shell.user_ns.get(name))


def _follow(session: Session, cluster: Cluster, run: CellRun, presses: Presses) -> None:
    """Show a cell's output and figures until it has ended; a first press of the stop button interrupts it.

    A second press leaves without the ranks, and so does the end of the grace they have to answer the first.
    """
    assert session.feed is not None
    live = getattr(session.shell, "kernel", None) is not None
    merger = Merger(run.ranks, cluster.settings.merge_window, live)
    view = LiveView(session.feed.run(run.number), title=f"Training on {_count(len(run.ranks))}")
    early = _EarlyFailures()
    waits = WaitLine(cluster, run, live)
    give_up = float("inf")
    try:
        while not run.done() and time.monotonic() < give_up and presses.count < 2:
            if presses.count and give_up == float("inf"):
                give_up = time.monotonic() + cluster.settings.interrupt_grace
                cluster.interrupt(run)
            run.wait(_TICK)
            early.look(run)
            waits.look()
            ended = run.ended()  # asked first: what they put out is waiting by then
            merger.feed_all(run.outputs, ended)
            merger.flush()
            view.update()
    finally:
        merger.feed_all(run.outputs)
        merger.flush(final=True)
        waits.end(keep=presses.count > 0)
        run.release()
        view.finish([reply.rank for reply in run.replies() if not reply.died])
    if run.pending():
        session.say(tell_stuck(cluster, run.pending()))


class _EarlyFailures:
    """Tell of a rank that failed while others go on, which may take them long."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._told: set[int] = set()

    def look(self, run: CellRun) -> None:
        """Tell, once, of each rank that failed `_PATIENCE` ago and has not ended the cell by that."""
        now, pending = time.monotonic(), run.pending()
        for reply in run.replies() if pending else ():
            if reply.ok or reply.name == "KeyboardInterrupt" or reply.rank in self._told:
                continue
            if now - self._seen.setdefault(reply.rank, now) >= _PATIENCE:
                self._told.add(reply.rank)
                first, *_ = [*reply.message.splitlines(), ""]
                still = f"rank {rank_list(pending)} still runs"
                sys.stderr.write(f"[{reply.rank}] {reply.name}: {first} ({still})\n")


def _interrupt(run: CellRun) -> KeyboardInterrupt:
    """Return what an interrupted cell raises; shown as one line, like all that a reader brings about."""
    still = run.pending()
    but = f"; rank {rank_list(still)} still runs" if still else " on every rank"
    error = KeyboardInterrupt(f"the cell was interrupted{but}")
    error._render_traceback_ = lambda: [f"KeyboardInterrupt: {error}"]  # type: ignore[attr-defined]
    return error
