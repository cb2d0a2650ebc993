"""What one notebook holds: its cluster, the feed of its figures, and what it has sent to the ranks."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from typing import Any

from ..cluster import Cluster
from ..errors import NbdistError, NoClusterError, UsageError, rank_list
from ..live import Feed
from ..settings import Settings
from .background import Background
from .interrupt import Presses, tell_stuck
from .travel import Sent

_PATIENCE = 1.0
"""How long a cell that was not waited for may take to end before the ranks are stopped, in seconds."""


class Session:
    """Hold the cluster of one notebook; at most one at a time."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cluster: Cluster | None = None
        self.feed: Feed | None = None
        self.sent = Sent()
        self.background: Background | None = None
        """The last cell that was not waited for."""

    def say(self, text: str) -> None:
        """Tell the reader something in plain text."""
        sys.stdout.write(text.rstrip("\n") + "\n")

    def start(self, n: int | None = None) -> Cluster:
        """Start the cluster, or return the one that runs.

        Raises:
            UsageError: one of another size runs already.
        """
        if self.cluster is not None and self.cluster.running:
            if n is not None and n != self.cluster.n:
                raise UsageError(
                    f"{self.cluster.n} ranks are running already; `%nbdist stop` first to start {n}."
                )
            if lost := self.cluster.lost():
                self.say(f"Rank {rank_list(lost)} is gone; `%nbdist restart` starts the ranks afresh.")
            return self.cluster
        cluster = Cluster(n)
        line = _ProgressLine(self.shell)
        began = time.monotonic()
        line.show(f"Starting {count(cluster.n)} …")
        key = secrets.token_bytes(32)
        feed = Feed(key)
        try:
            cluster.start(lambda stage: line.show(f"Starting {count(cluster.n)}: {stage} …"))
            cluster.call("connect_metrics", feed.endpoint, key, cluster.settings.metrics_hz)
        except BaseException:
            line.show(f"Starting {count(cluster.n)} failed.")
            feed.close()
            cluster.stop()
            raise
        self.cluster, self.feed, self.sent = cluster, feed, Sent()
        line.end(f"{count(cluster.n)} ready in {time.monotonic() - began:.1f} s.")
        return cluster

    def started(self) -> Cluster:
        """Return the running cluster, starting one, and saying so, if there is none."""
        if self.cluster is not None and self.cluster.running:
            return self.cluster
        self.say("No cluster is running, so one is started (`%nbdist start -n N` chooses its size).")
        return self.start()

    def idle(self) -> Cluster:
        """Return the running cluster, whose ranks run no cell.

        Raises:
            NoClusterError: there is none.
            NbdistError: a rank runs a cell.
        """
        if self.cluster is None or not self.cluster.running:
            raise NoClusterError("No cluster is running; `%nbdist start -n 4` starts one.")
        self.cluster.check_idle()
        return self.cluster

    def settle(self) -> None:
        """Let a cell that was not waited for and has ended on the ranks put out its last.

        Raises:
            RankError: it failed, and nobody has been told yet.
        """
        if self.background is not None and self.cluster is not None and not self.cluster.busy():
            background, self.background = self.background, None
            try:
                background.tell()
            except NbdistError:
                self.say(
                    "This cell did not run: an earlier one, which was not waited for, has failed as below; "
                    "run this one again to go on."
                )
                raise

    def interrupt(self) -> None:
        """Interrupt a cell that the notebook does not wait for."""
        cluster = self.cluster
        busy = cluster.busy() if cluster is not None else ()
        if cluster is None or not busy:
            self.say("No cell is running on the ranks.")
            return
        if self.background is not None and not self.background.done():
            self.background.interrupt()
        else:
            cluster.interrupt()
        end = time.monotonic() + cluster.settings.interrupt_grace
        with Presses() as presses:
            while (still := cluster.busy()) and time.monotonic() < end and not presses.count:
                cluster.wait(0.05)
        if still:
            self.say(tell_stuck(cluster, still))
        else:
            self.say(f"The cell was interrupted on rank {rank_list(busy)}.")

    def restart(self) -> None:
        """Start the ranks afresh, as many as there were."""
        n = self.cluster.n if self.cluster is not None else None
        Settings.from_environment()  # a misspelt variable must not cost the running ranks
        self.stop(quietly=True)
        self.start(n)

    def stop(self, quietly: bool = False) -> None:
        """Stop the cluster, if there is one."""
        cluster, self.cluster = self.cluster, None
        feed, self.feed = self.feed, None
        background, self.background = self.background, None
        if background is not None and not background.done():
            background.interrupt()  # its last output belongs under its own cell
            with contextlib.suppress(Exception, KeyboardInterrupt):
                background.wait(_PATIENCE)
        self.sent = Sent()  # what is kept of large objects takes memory
        with Presses():  # stopping is soon over; half of it would leave processes nobody can reach
            if feed is not None:
                feed.close()
            if cluster is not None:
                cluster.stop()
        if not quietly:
            self.say(f"{count(cluster.n)} stopped." if cluster is not None else "No cluster is running.")


class _ProgressLine:
    """One line of text that changes in place where the front end can do that."""

    def __init__(self, shell: Any) -> None:
        self._live = getattr(shell, "kernel", None) is not None
        self._handle: Any = None
        self._text = ""

    def show(self, text: str) -> None:
        """Put `text` in place of what the line said before."""
        if text == self._text or not self._live:
            return
        self._text = text
        self._publish(text)

    def end(self, text: str) -> None:
        """Put the line's last text, which stays."""
        if self._live:
            self._publish(text)
        else:
            sys.stdout.write(text + "\n")

    def _publish(self, text: str) -> None:
        from IPython.display import display

        bundle = {"text/plain": text}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def count(n: int) -> str:
    """Write a number of ranks as a reader would."""
    return "1 rank" if n == 1 else f"{n} ranks"
