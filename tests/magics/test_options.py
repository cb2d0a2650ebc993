"""What may follow the magics."""

from __future__ import annotations

import pytest

from nbdist.errors import UsageError
from nbdist.magics import options


def test_commands() -> None:
    assert options.parse_command("start -n 4") == options.Command(name="start", n=4)
    assert options.parse_command("start") == options.Command(name="start")
    assert options.parse_command("logs 2 --last 5") == options.Command(name="logs", rank=2, last=5)
    assert options.parse_command("push a b") == options.Command(name="push", names=("a", "b"))
    assert options.parse_command("pull a") == options.Command(name="pull", names=("a",), rank=0)
    assert options.parse_command("pull a --rank 2") == options.Command(name="pull", names=("a",), rank=2)
    assert options.parse_command("pull a --all") == options.Command(name="pull", names=("a",), rank=None)
    assert options.parse_command("") == options.Command(name="help")


def test_cells() -> None:
    read = options.parse_cell("--model net head --shard train --ranks 0,2-3")
    assert read.models == ("net", "head")
    assert read.shards == ("train",)
    assert read.chosen(4) == [0, 2, 3]
    assert options.parse_cell("").chosen(2) == [0, 1]
    assert options.parse_cell("--model a --model b").models == ("a", "b")


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "4", "0,,1", "0 1", "3-2", "0-3000000000"])
def test_bad_ranks(text: str) -> None:
    with pytest.raises(UsageError, match="--ranks"):
        options.parse_ranks(text, 4)


@pytest.mark.parametrize(
    "line",
    [
        "start -n -1",
        "start -n 1.5",
        "start 'open",
        "stop -n 2",
        "status now",
        "logs",
        "logs x",
        "push",
        "push 1",
        "pull",
        "pull a b",
        "pull a --rank -1",
        "pull a --rank 1 --all",
    ],
)
def test_bad_commands_say_what_is_taken(line: str) -> None:
    with pytest.raises(UsageError, match=r"takes|close the quotation"):
        options.parse_command(line)


def test_a_comment_is_no_option() -> None:
    assert options.parse_cell("--model net  # the big one").models == ("net",)


def test_a_model_needs_a_name() -> None:
    with pytest.raises(UsageError, match=r"'net\.fc' is not a name"):
        options.parse_cell("--model net.fc")
