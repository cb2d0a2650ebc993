"""D14: what waits for a reader's answer ends at once; `%nbdist debug` is where a reader may answer."""

from __future__ import annotations

import pytest

from ..notebook import Notebook

ASKING = {
    "input()": "name = input('who? ')",
    "breakpoint()": "breakpoint()",
    "getpass()": "import getpass; getpass.getpass()",
}


@pytest.mark.parametrize("what", ASKING)
def test_a_question_is_refused_in_one_sentence(notebook: Notebook, what: str) -> None:
    result = notebook.run(f"%%distributed\n{ASKING[what]}", timeout=30)
    assert result.evalue == (
        f"rank 0-3: UsageError: {what} in a distributed cell has nobody to ask; ask in a cell of the "
        "notebook, and look into a rank that failed with `%nbdist debug RANK`."
    )


@pytest.mark.parametrize(
    "reads",
    ["!cat; echo over", "%%bash\ncat; echo over", "import os\nif os.system('cat') == 0: print('over')"],
)
def test_programs_that_read_find_the_end(notebook: Notebook, reads: str) -> None:
    assert notebook.ok(f"%%distributed\n{reads}", timeout=30).stdout == "[0-3] over\n"


def test_the_input_is_at_its_end(notebook: Notebook) -> None:
    said = notebook.ok("%%distributed\nimport sys\nprint(repr(sys.stdin.read()))", timeout=30).stdout
    assert said == "[0-3] ''\n"
    assert "[0-3] 7 $" in notebook.ok("%%distributed\ndef f():\n    x = 7\n    !echo {x} '$$'\nf()").stdout


def test_a_ranks_exception_is_looked_into(notebook: Notebook) -> None:
    failing = (
        "%%distributed\ndef half(number):\n    kept = number * 3\n    return kept / 0\nif rank == 1: half(5)"
    )
    notebook.run(failing, timeout=30)
    sent = notebook.send("%nbdist debug")
    for command in ("p kept", "up", "p rank", "q"):
        assert notebook.answer(command) == "rank 1> "
    result = notebook.collect(sent)
    assert result.status == "ok", result.traceback
    assert "> Cell In[" in result.stdout
    assert "(3)half()" in result.stdout
    assert "return kept / 0" in result.stdout
    assert "\n15\n" in result.stdout
    assert "\n1\n" in result.stdout


def test_where_nothing_failed_and_where_nobody_answers(notebook: Notebook) -> None:
    notebook.run("%%distributed\nif rank == 2: 1 / 0", timeout=30)
    alone = notebook.collect(notebook.send("%nbdist debug 2", asked=False))
    assert alone.evalue.endswith("run the notebook where you can type an answer.")
    assert notebook.run("%nbdist debug 9").evalue == "There is no rank 9; name one of 0-3."


def test_the_last_error_is_there_for_code(notebook: Notebook) -> None:
    notebook.run("%%distributed\nif rank == 3: raise KeyError('k')", timeout=30)
    notebook.ok("%%distributed\n1")
    said = notebook.ok(
        "cluster = %nbdist cluster\nfailure = cluster.last_error.failures[0]\n"
        "print(failure.ranks, failure.name, failure.message, bool(failure.traceback))"
    ).stdout
    assert said == "(3,) KeyError 'k' True\n"
