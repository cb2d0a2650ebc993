"""The magics themselves: thin, each hands over to the part that does the work."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from . import options
from .cell import run_cell
from .logs import show_log
from .session import Session
from .status import show_status


@magics_class
class NbdistMagics(Magics):
    """`%nbdist` steers the notebook's cluster, `%%distributed` runs a cell on its ranks."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.session = Session(shell)

    @line_magic
    def nbdist(self, line: str) -> None:
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
            show_log(self.session, command.rank, command.last)
        else:
            self.session.say(options.HELP)

    @cell_magic
    def distributed(self, line: str, cell: str) -> None:
        """Run the cell on all ranks, or on those of `--ranks`."""
        run_cell(self.session, options.parse_cell(line), cell)


def load(shell: Any) -> None:
    """Register the magics once; loading again keeps a running cluster."""
    if getattr(shell, "_nbdist", None) is None:
        shell._nbdist = NbdistMagics(shell)
    shell.register_magics(shell._nbdist)


def unload(shell: Any) -> None:
    """Take the magics off; a running cluster is there again when they are loaded again."""
    for kind, name in (("line", "nbdist"), ("cell", "distributed")):
        shell.magics_manager.magics[kind].pop(name, None)
