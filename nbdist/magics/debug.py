"""Look into a rank's exception from the notebook: `%nbdist debug RANK`."""

from __future__ import annotations

from IPython.core.error import StdinNotImplementedError

from ..errors import UsageError, rank_list
from .session import Session


def debug(session: Session, rank: int | None) -> None:
    """Pass a reader's pdb commands to the place where a rank's last failed cell raised.

    Raises:
        UsageError: no cell has failed there, or nobody can be asked for commands.
        NbdistError: a rank runs a cell.
    """
    cluster = session.idle()
    if rank is None:
        error = cluster.last_error
        rank = error.failures[0].ranks[0] if error is not None else 0
    if rank not in cluster.alive():
        raise UsageError(f"There is no rank {rank}; name one of {rank_list(cluster.alive())}.")

    def ask(command: str | None) -> bool:
        [(said, over)] = cluster.call("debug", each={rank: (command,)})
        session.say(said)
        return bool(over)

    ask(None)
    try:
        while not ask(input(f"rank {rank}> ")):
            pass
    except StdinNotImplementedError:
        raise UsageError(
            "%nbdist debug takes pdb's commands from a reader, and nobody can be asked here; "
            "run the notebook where you can type an answer."
        ) from None
    except (EOFError, KeyboardInterrupt):
        session.say("")
