"""D01: live, rank-labelled output; nothing lost on an error; equal errors shown once."""

from __future__ import annotations

import re

import pytest

from ..notebook import Notebook, Result

CELL = """\
%%distributed
import os, sys, time, torch.distributed as dist
r = dist.get_rank()
print("begin", r)
while not os.path.exists({seen!r}): time.sleep(0.05)
print("warn", r, file=sys.stderr)
for _ in range(200): print(str(r) * 200)
if r < 3: undefined_name
raise KeyError("only-three")
"""


@pytest.fixture(scope="module")
def result(shared_notebook: Notebook, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """What the cell puts out; it goes on only when all ranks' first lines have been seen."""
    seen = tmp_path_factory.mktemp("d01") / "seen"
    sent = shared_notebook.send(CELL.format(seen=str(seen)))

    def look(result: Result) -> None:
        if all(f"begin {rank}" in result.stdout for rank in range(4)):
            seen.touch()

    return shared_notebook.collect(sent, look=look)


def test_lines_come_while_the_cell_runs(result: Result) -> None:
    begun = [result.first_seen(f"begin {rank}") for rank in range(4)]
    assert max(begun) < result.first_seen("warn")


def test_lines_name_their_rank(result: Result) -> None:
    for rank in range(4):
        assert re.search(rf"^\[{rank}\]\s+begin {rank}$", result.stdout, re.MULTILINE)
        assert re.search(rf"^\[{rank}\]\s+warn {rank}$", result.stderr, re.MULTILINE)


def test_no_line_is_torn_or_lost(result: Result) -> None:
    long = re.findall(r"^\[(\d)\]\s+(\d+)$", result.stdout, re.MULTILINE)
    for rank in "0123":
        assert [text for tag, text in long if tag == rank] == [rank * 200] * 200


def test_equal_errors_are_shown_once(result: Result) -> None:
    assert result.traceback.count("[0-2] NameError") == 1
    assert result.traceback.count("[3] KeyError") == 1
    assert result.traceback.count("name 'undefined_name' is not defined") == 1
    assert "----> 7 if r < 3: undefined_name" in result.traceback
    assert "KeyError: 'only-three'" in result.traceback


def test_the_cell_has_failed(result: Result) -> None:
    assert result.status == "error"


def test_equal_lines_are_shown_once(notebook: Notebook) -> None:
    shown = notebook.ok("%%distributed\nprint('same')\nprint(f'mine {rank}')\n1 + 1").stdout.splitlines()
    assert shown == ["[0-3] same", *(f"[{rank}]   mine {rank}" for rank in range(4)), "[0-3] 2"]
