"""What may follow `%nbdist` and `%%distributed`."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import NoReturn

from ..errors import UsageError

HELP = """\
%nbdist start [-n N]   start N ranks (default: one a GPU, else one a core up to 4)
%nbdist status         show the ranks
%nbdist restart        start the ranks afresh; their variables are lost
%nbdist stop           stop the ranks
%nbdist logs RANK [--last N]
                       show the last lines (default: 100) of all that a rank has put out
%nbdist push NAME ...  give every rank the notebook's value
%nbdist pull NAME [--rank R | --all]
                       bring rank 0's value to the notebook, or rank R's, or a list of all
%nbdist who            show the ranks' variables, and where they differ
%nbdist interrupt      interrupt a cell that was not waited for
%nbdist debug [RANK]   look into the exception of the last cell that failed on a rank
%nbdist cluster        return the cluster: cluster = %nbdist cluster
%%distributed [--ranks 0,2-3] [--model NAME ...] [--shard NAME ...] [--compression bf16] [--no-wait]
                       run the cell on the ranks
%%rank [0,2]           the same as %%distributed --ranks 0,2
%autodistributed on    run every cell on the ranks that begins with no magic; or off"""

COMMANDS = (
    "start",
    "status",
    "restart",
    "stop",
    "logs",
    "push",
    "pull",
    "who",
    "interrupt",
    "debug",
    "cluster",
    "help",
)

COMPRESSIONS = ("none", "fp16", "bf16", "powersgd")

CELL_OPTIONS = ("--ranks", "--model", "--shard", "--compression", "--no-wait")

_TAKES = {
    "start": "-n N",
    "debug": "a rank",
    "logs": "a rank and --last N",
    "push": "names of the notebook",
    "pull": "one name and --rank R or --all",
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A `%nbdist` line."""

    name: str
    n: int | None = None
    names: tuple[str, ...] = ()
    rank: int | None = None
    last: int = 100


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """What a `%%distributed` line asks for; `ranks` is None for all of them."""

    ranks: str | None = None
    models: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    compression: str | None = None
    """What the models' gradients travel as, where the line says so."""
    wait: bool = True

    def chosen(self, size: int) -> list[int]:
        """Return the ranks to run on.

        Raises:
            UsageError: the list is malformed or names a rank the cluster does not have.
        """
        return list(range(size)) if self.ranks is None else parse_ranks(self.ranks, size)


_RANKS = re.compile(r"\s*(\[[^\]]*\]|[\d,-]+)(?=\s|$)")

_WORDING = {
    "unrecognized arguments:": "it does not know",
    "expected one argument": "needs a value",
    "the following arguments are required: rank": "it needs a rank",
    "expected at least one argument": "needs a name",
    "argument rank: ": "",
    "argument -": "-",
    "the following arguments are required: names": "needs a name",
}
"""What argparse says, and what we say."""


class _Parser(argparse.ArgumentParser):
    """Parse a magic's line; a mistake is one sentence, not an exit."""

    def __init__(self, what: str, takes: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._what = what
        self._takes = takes

    def error(self, message: str) -> NoReturn:
        for theirs, ours in _WORDING.items():
            message = message.replace(theirs, ours)
        raise UsageError(f"{self._what}: {message}; it takes {self._takes}.")


def parse_command(line: str) -> Command:
    """Read the line after `%nbdist`.

    Raises:
        UsageError: it is not understood; the message says what is.
    """
    words = _words(line)
    name = words[0] if words and words[0] not in ("-h", "--help") else "help"
    if name not in COMMANDS:
        raise UsageError(f"%nbdist has no command {name!r}; it has {', '.join(COMMANDS)}.")
    parser = _Parser(f"%nbdist {name}", _TAKES.get(name, "no options"))
    if name == "start":
        parser.add_argument("-n", type=_positive)
    elif name == "debug":
        parser.add_argument("rank", type=_rank, nargs="?")
    elif name == "logs":
        parser.add_argument("rank", type=_rank)
        parser.add_argument("--last", type=_positive, default=Command.last)
    elif name == "push":
        parser.add_argument("names", nargs="+", type=_name)
    elif name == "pull":
        parser.add_argument("names", nargs=1, type=_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--rank", type=_rank, default=0)
        which.add_argument("--all", dest="rank", action="store_const", const=None)
    read = vars(parser.parse_args(words[1:]))
    return Command(name=name, **{**read, "names": tuple(read.get("names", ()))})


def parse_cell(line: str) -> CellOptions:
    """Read the line after `%%distributed`.

    Raises:
        UsageError: it is not understood; the message says what is.
    """
    takes = "--ranks 0,2-3, --model NAMES, --shard NAMES, --compression NAME and --no-wait"
    parser = _Parser("%%distributed", takes)
    parser.add_argument("--ranks")
    parser.add_argument("--no-wait", dest="wait", action="store_false")
    parser.add_argument("--model", nargs="+", type=_name, action="extend", default=[])
    parser.add_argument("--shard", nargs="+", type=_name, action="extend", default=[])
    parser.add_argument("--compression", choices=COMPRESSIONS)
    read = parser.parse_args(_words(line))
    if read.compression and not read.model:
        raise UsageError("--compression is for the gradients of a model; name one after --model.")
    twice = set(read.model) & set(read.shard)
    if twice:
        raise UsageError(f"{min(twice)} cannot be both a model and a shard; name it after one of the two.")
    return CellOptions(
        ranks=read.ranks,
        models=tuple(read.model),
        shards=tuple(read.shard),
        compression=read.compression,
        wait=read.wait,
    )


def parse_rank_cell(line: str) -> CellOptions:
    """Read the line after `%%rank`: ranks as in `0`, `0,2-3` or `[0, 2]`, then what `%%distributed` takes.

    Raises:
        UsageError: it is not understood; the message says what is.
    """
    found = _RANKS.match(line)
    if found is None:
        raise UsageError("%%rank needs ranks; write %%rank 0 or %%rank [0,2].")
    ranks = re.sub(r"[\[\]\s]", "", found[1])
    return parse_cell(f"--ranks {ranks} {line[found.end() :]}")


def parse_ranks(text: str, size: int) -> list[int]:
    """Read a list of ranks such as `0,2-3`.

    Raises:
        UsageError: the list is malformed or names a rank the cluster does not have.
    """
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--ranks {text}: {part!r} is no rank; write ranks as in --ranks 0,2-3.")
        low, high = int(first), int(last or first)
        if high < low:
            raise UsageError(f"--ranks {text}: {part} runs backwards; write {high}-{low}.")
        if high >= size:
            raise UsageError(f"--ranks {text}: the cluster has ranks 0 to {size - 1}.")
        ranks.update(range(low, high + 1))
    return sorted(ranks)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as problem:
        raise UsageError(f"{line!r} cannot be read: {problem}; close the quotation.") from None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no rank")
    return int(text)


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name")
    return text
