"""The magics themselves: thin, each hands over to the part that does the work."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from ..errors import UsageError
from . import options
from .background import Background
from .cell import run_cell
from .completion import Completion
from .debug import debug
from .logs import show_log
from .names import pull, push
from .session import Session
from .spelling import Spelling
from .status import show_status
from .who import show_names

_CELL_MAGICS = ("distributed", "rank")


@magics_class
class NbdistMagics(Magics):
    """`%nbdist` steers the notebook's cluster, `%%distributed` runs a cell on its ranks."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.session = Session(shell)
        self.spelling = Spelling(shell)
        self.completion = Completion(self.session)

    @line_magic
    def nbdist(self, line: str) -> Any:
        """Start, show, interrupt or stop the cluster: `%nbdist start -n 4`."""
        command = options.parse_command(line)
        if command.name == "start":
            self.session.start(command.n)
            show_status(self.session)
        elif command.name == "status":
            show_status(self.session)
        elif command.name == "restart":
            self.session.restart()
            show_status(self.session)
        elif command.name == "stop":
            self.session.stop()
        elif command.name == "logs":
            assert command.rank is not None  # it must be given
            show_log(self.session, command.rank, command.last)
        elif command.name == "push":
            push(self.session, command.names)
        elif command.name == "pull":
            return pull(self.session, command.names[0], command.rank)
        elif command.name == "who":
            show_names(self.session)
        elif command.name == "interrupt":
            self.session.interrupt()
        elif command.name == "debug":
            debug(self.session, command.rank)
        elif command.name == "cluster":
            return self.session.started()
        else:
            self.session.say(options.HELP)
        if command.name in ("start", "restart", "status") and (other := taken_by(self.shell)):
            self.session.say(f"%%distributed is {other}'s now; `%reload_ext nbdist` takes it back.")
        return None

    @line_magic
    def autodistributed(self, line: str) -> None:
        """Run every cell on the ranks that begins with no magic: `%autodistributed on`, or `off`."""
        if line.strip() not in ("on", "off"):
            raise UsageError("%autodistributed takes on or off; write %autodistributed on.")
        self.spelling.auto = line.strip() == "on"
        self.session.say(
            "Cells run on the ranks; one that begins with a magic runs in the notebook, "
            "and `%autodistributed off` brings all back."
            if self.spelling.auto
            else "Cells run in the notebook; %%distributed sends one to the ranks."
        )

    @cell_magic
    def distributed(self, line: str, cell: str) -> Background | None:
        """Run the cell on all ranks, or on those of `--ranks`."""
        return run_cell(self.session, options.parse_cell(line), cell)

    @cell_magic
    def rank(self, line: str, cell: str) -> Background | None:
        """Run the cell on some ranks: `%%rank 0`, `%%rank [0,2]`."""
        return run_cell(self.session, options.parse_rank_cell(line), cell)


def load(shell: Any) -> None:
    """Register the magics once; loading again keeps a running cluster."""
    ours = getattr(shell, "_nbdist", None)
    if ours is None:
        ours = shell._nbdist = NbdistMagics(shell)
    if other := taken_by(shell):
        ours.session.say(
            f"%%distributed and %%rank were {other}'s and are nbdist's from here on; "
            f"`%unload_ext nbdist` and `%reload_ext {other}` give them back."
        )
    if not _is_loaded(shell):
        ours.spelling.install()
        ours.completion.install()
    shell.register_magics(ours)


def unload(shell: Any) -> None:
    """Take the magics off; a running cluster is there again when they are loaded again."""
    shell._nbdist.spelling.remove()
    shell._nbdist.completion.remove()
    for kind, names in (("line", ("nbdist", "autodistributed")), ("cell", _CELL_MAGICS)):
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)


def taken_by(shell: Any) -> str:
    """Name the extension that has one of our cell magics, or return nothing."""
    for name in _CELL_MAGICS:
        owner = type(getattr(shell.magics_manager.magics["cell"].get(name), "__self__", None))
        if owner not in (type(None), NbdistMagics):
            return owner.__module__.split(".")[0]
    return ""


def _is_loaded(shell: Any) -> bool:
    return "nbdist" in shell.magics_manager.magics["line"]
