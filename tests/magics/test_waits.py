"""The line that says which ranks wait in what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.cluster import Where, describe

from ..notebook import Notebook, Result


def test_ranks_at_one_place_share_a_clause_and_those_that_wait_come_first() -> None:
    reduce = Where(operation="all_reduce", number=17, size=25_000_000, line="line 8")
    places = {0: Where(line="line 12"), 1: reduce, 2: reduce, 3: reduce}
    assert describe(places, silent=[4, 5], ended=[6]) == (
        "rank 1-3 in all_reduce #17 of 25 MB, line 8; rank 0 in user code, line 12; "
        "rank 4-5 in code that lets no other Python run, so it cannot say where; rank 6 has ended the cell"
    )


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (Where(operation="barrier", number=3, line="line 2"), "in barrier #3, line 2"),
        (Where(operation="recv", line="In[4] line 2"), "in recv, In[4] line 2"),
        (Where(operation="all_reduce", number=3, size=160), "at the end of the cell"),
        (
            Where(operation="all_reduce", number=1, size=999, line="line 1"),
            "in all_reduce #1 of 999 B, line 1",
        ),
        (
            Where(operation="broadcast", number=1, size=2_500_000_000, line="line 1"),
            "in broadcast #1 of 2.5 GB, line 1",
        ),
    ],
)
def test_a_place_is_told_in_a_readers_words(where: Where, said: str) -> None:
    assert describe({0: where}, [], []) == f"rank 0 {said}"


# In a kernel -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(tmp_path_factory.mktemp("waits")) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 3", timeout=90)
        notebook.ok(
            "%%distributed\nimport time, ctypes, torch, torch.distributed as dist\nx = torch.ones(250)"
        )
        yield notebook


def lines(result: Result) -> list[str]:
    """Return each state of the line, in order."""
    return [
        content["data"].get("text/plain", "")
        for _, kind, content in result.messages
        if kind in ("display_data", "update_display_data")
    ]


def test_a_cell_that_gets_no_further_says_who_waits_where(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed\nfor i in range(4):\n    dist.all_reduce(x)\n"
        "if rank == 1:\n    time.sleep(7)\ndist.all_reduce(x)\nprint('ok')"
    )
    first, *_, last = lines(result)
    assert first == "Waiting for 2 s: rank 0,2 in all_reduce #5 of 1 kB, line 5; rank 1 in user code, line 4"
    assert last == "", "the line goes when the cell has ended well"
    assert result.stdout.splitlines()[-1] == "[0-2] ok"


def test_a_rank_that_cannot_answer_is_named(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed\nif rank == 2:\n    ctypes.PyDLL(None).sleep(7)      # holds the GIL\ndist.barrier()"
    )
    assert lines(result)[0] == (
        "Waiting for 2 s: rank 0-1 in barrier #1, line 3; "
        "rank 2 in code that lets no other Python run, so it cannot say where"
    )


def test_what_is_slow_but_goes_on_has_no_line(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed\nfor i in range(4):\n    time.sleep(1.5 * (rank == 0))\n    dist.barrier()\n"
        "time.sleep(2)"
    )
    assert lines(result) == []


def test_the_line_names_the_cell_a_function_came_from(notebook: Notebook) -> None:
    notebook.ok("%%distributed\ndef meet():\n    dist.barrier()")
    result = notebook.ok("%%distributed\nif rank == 0:\n    time.sleep(6)\nmeet()")
    cell, rest = lines(result)[0].split(" line 2; ")
    assert cell.startswith("Waiting for 2 s: rank 1-2 in barrier #1, In[")
    assert rest == "rank 0 in user code, line 2"


def test_the_line_stays_when_the_reader_had_to_interrupt(notebook: Notebook) -> None:
    sent = notebook.send("%%distributed\nif rank == 0:\n    time.sleep(60)\ndist.barrier()")
    result = notebook.collect(sent, look=stop_when_told(notebook))
    assert result.ename == "KeyboardInterrupt"
    assert "rank 1-2 in barrier #1, line 3; rank 0 in user code, line 2" in lines(result)[-1]
    notebook.alive()


def stop_when_told(notebook: Notebook):
    def look(result: Result) -> None:
        if result.messages[-1][1] == "display_data":
            notebook.interrupt()

    return look


# What failed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["%%distributed", "%%distributed --model m"])
def test_a_collective_only_some_call_is_told_by_its_own_line(notebook: Notebook, line: str) -> None:
    notebook.ok("%%distributed --model m\nm = torch.nn.Linear(2, 2)")
    result = notebook.run(f"{line}\nif rank == 1:\n    dist.all_reduce(x)", timeout=30)
    assert result.ename == "RankError"
    assert "rank 1 waits in all_reduce(sum, 250 x float32), but rank" in result.evalue
    assert "has come to the end of the cell without it" in result.evalue
    assert "----> 2     dist.all_reduce(x)" in result.traceback
    notebook.alive()


def test_a_crash_leaves_its_stack_in_the_log(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 2", timeout=90)
        result = notebook.run(
            "%%distributed\nimport ctypes\n"
            "def read_nothing():\n    ctypes.string_at(0)\n"
            "if rank == 1: read_nothing()\ndist.barrier()",
            timeout=30,
        )
        assert "`%nbdist logs 1`" in result.evalue
        log = notebook.ok("%nbdist logs 1").stdout
        assert "Segmentation fault" in log
        assert "in read_nothing" in log
