"""What people write in cells beside plain statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..notebook import Notebook, who_said


def test_await(notebook: Notebook) -> None:
    said = notebook.ok("%%distributed\nimport asyncio\nasync def f(): return 5\nprint(await f())").stdout
    assert said == "[0-3] 5\n"
    result = notebook.run("%%distributed\nif rank == 1: raise ValueError('no')\nawait asyncio.sleep(0.1)")
    assert result.evalue == "rank 1: ValueError: no"


def test_magics_and_shell_lines(notebook: Notebook) -> None:
    assert who_said(notebook.ok("%%distributed\n!echo hello").stdout) == {"hello": [0, 1, 2, 3]}
    assert "[0-3] 2" in notebook.ok("%%distributed\n# a comment first\n%time x = 2\nx").stdout


def test_a_model_assigned_under_a_magic(notebook: Notebook) -> None:
    notebook.ok("%%distributed --model m\n%%time\nimport torch\nm = torch.nn.Linear(2, 2)")
    assert notebook.ok("%%distributed\nm.weight.sum().item()").stdout.startswith("[0-3]")


def test_an_empty_cell(notebook: Notebook) -> None:
    assert notebook.ok("%%distributed\n\n").stdout == ""


def test_exit_is_refused(notebook: Notebook) -> None:
    result = notebook.run("%%distributed\nif rank == 1: quit()", timeout=15)
    assert result.evalue.startswith("rank 1: UsageError: quit() in a distributed cell would end the rank")


def test_a_rank_that_leaves_by_itself_is_told(notebook: Notebook) -> None:
    result = notebook.run("%%distributed\nimport sys\nif rank == 1: sys.exit(3)", timeout=15)
    assert result.evalue == "rank 1: SystemExit: 3"


def test_an_early_failure_is_told_while_others_go_on(notebook: Notebook, tmp_path: Path) -> None:
    told = tmp_path / "told"
    sent = notebook.send(
        "%%distributed\nimport os, time\nif rank == 0: raise ValueError('early')\n"
        f"while not os.path.exists({str(told)!r}): time.sleep(0.05)"
    )
    notebook.await_text(sent, "[0] ValueError: early (rank 1-3 still runs)", timeout=20)
    told.touch()
    result = notebook.collect(sent, timeout=20)
    assert result.evalue == "rank 0: ValueError: early"


def test_a_group_the_cell_used_up_is_formed_anew(notebook: Notebook) -> None:
    for last in (
        "dist.destroy_process_group()",
        "try:\n    if rank == 1: raise ValueError\n    dist.barrier()\nexcept Exception: pass",
        "try:\n    dist.all_reduce(torch.ones(rank))\nexcept Exception: pass",
    ):
        notebook.run(f"%%distributed\nimport torch\n{last}", timeout=20)
        notebook.alive()


def test_a_refused_cell_leaves_names_as_they_were(notebook: Notebook) -> None:
    notebook.ok("numbers = [1, 2, 3, 4]")
    refused = notebook.run("%%distributed --shard nowhere\nnumbers = None", timeout=15)
    assert refused.status == "error"
    assert notebook.ok("%%distributed --shard numbers\nlen(numbers)").stdout == "[0-3] 1\n"


def test_models_that_differ_after_a_failure_are_told_once(notebook: Notebook) -> None:
    notebook.ok("%%distributed --model net\nimport torch\nnet = torch.nn.Linear(1, 1)")
    failed = notebook.run(
        "%%distributed\nif rank == 1: raise ValueError\n"
        "net.register_buffer('late', torch.zeros(3)); dist.barrier()"
    )
    assert failed.status == "error"
    told = notebook.run("%%distributed\n1", timeout=30)
    assert "Name them after --model again" in told.evalue
    notebook.alive()


def test_what_the_ranks_assigned_last_is_kept(notebook: Notebook) -> None:
    notebook.ok("import torch; net = torch.nn.Linear(2, 2)")
    notebook.ok("%%distributed --model net\nimport torch\nnet = torch.nn.Linear(3, 3)")
    shape = "%%distributed --model net\ntuple(net.weight.shape)"
    assert notebook.ok(shape).stdout == "[0-3] (3, 3)\n"
    notebook.ok("net = torch.nn.Linear(4, 4)")
    assert notebook.ok(shape).stdout == "[0-3] (4, 4)\n", "made anew in the notebook since"


def test_the_gradients_of_a_model_travel_as_its_line_says(notebook: Notebook) -> None:
    notebook.ok("import torch; net = torch.nn.Linear(1, 1, bias=False)")
    learn = (
        "net.weight.grad = None\nnet(torch.tensor([[1.0 + rank / 1000]])).sum().backward()\n"
        "float(net.weight.grad)"
    )
    exact = notebook.ok(f"%%distributed --model net\nimport torch\n{learn}").stdout
    rounded = notebook.ok(f"%%distributed --model net --compression bf16\n{learn}").stdout
    assert exact.split()[-1] != rounded.split()[-1] == "1.0"
    notebook.ok("%%distributed --model other --compression fp16\nother = torch.nn.Linear(1, 1)")
    assert "after --model" in notebook.run("%%distributed --compression bf16\n1").evalue
    assert "powersgd" in notebook.run("%%distributed --model net --compression zip\n1").evalue


@pytest.mark.parametrize("line", ["%%rank 0,2", "%%rank [0, 2]", "%%rank[0,2]", "# first\n\n%%rank[0,2]"])
def test_ranks_as_others_spell_them(notebook: Notebook, line: str) -> None:
    assert notebook.ok(f"{line}\nprint('here')").stdout == "[0,2] here\n"


def test_time_and_comments_above(notebook: Notebook) -> None:
    said = notebook.ok("%%time\n# another\n%%distributed\nprint('here')").stdout
    assert said.startswith("[0-3] here\n")
    assert "Wall time" in said


def test_a_collective_among_some_ranks(notebook: Notebook) -> None:
    notebook.ok("%%distributed\npair = dist.new_group([0, 2])\nimport torch")
    said = notebook.ok("%%rank [0,2]\nt = torch.ones(1)\ndist.all_reduce(t, group=pair)\nprint(t.item())")
    assert said.stdout == "[0,2] 2.0\n"
    refused = notebook.run("%%rank [0,2]\ndist.all_reduce(t)", timeout=20)
    assert "does not run this cell; leave --ranks out, or use torch.distributed.new_group" in refused.evalue


def test_a_cell_that_is_not_waited_for(notebook: Notebook) -> None:
    notebook.ok("%%distributed\nfrom pathlib import Path\ngate = Path('gate')\ngate.unlink(missing_ok=True)")
    sent = notebook.send(
        "%%distributed --no-wait\nimport time\nprint('begun', flush=True)\n"
        "while not gate.exists(): time.sleep(0.02)\nprint('over')"
    )
    first = notebook.collect(sent)
    assert first.status == "ok"
    notebook.ok("cell = _; assert not cell.done()")
    busy = notebook.run("%%distributed\n1")
    assert busy.evalue.startswith("An earlier cell still runs: rank 0-3 in user code, line ")
    last = notebook.send("open('gate', 'w').close(); assert cell.wait(30); print('waited')")
    notebook.await_text(sent, "[0-3] over")
    notebook.ok("assert cell.done()")
    assert last


def test_a_cell_that_is_not_waited_for_is_interrupted(notebook: Notebook) -> None:
    notebook.ok("%%distributed --no-wait\nimport time\nwhile True: time.sleep(0.02)")
    assert notebook.ok("%nbdist interrupt").stdout == "The cell was interrupted on rank 0-3.\n"
    assert notebook.ok("%nbdist interrupt").stdout == "No cell is running on the ranks.\n"
    notebook.ok("%%distributed --no-wait\nif rank == 1: raise ValueError('no')")
    failed = notebook.run("_.wait()")
    assert failed.evalue == "rank 1: ValueError: no"


def test_a_failure_nobody_waited_for_stops_the_next_cell_once(notebook: Notebook) -> None:
    notebook.ok("%%distributed --no-wait\nif rank == 1: raise ValueError('no')")
    notebook.ok("import time\nwhile not _.done(): time.sleep(0.02)")
    stopped = notebook.run("%%distributed\nprint('went on')")
    assert stopped.evalue == "rank 1: ValueError: no"
    assert stopped.stdout.startswith("This cell did not run")
    assert notebook.ok("%%distributed\nprint('went on')").stdout == "[0-3] went on\n"


def test_every_cell_goes_to_the_ranks(notebook: Notebook) -> None:
    notebook.ok("%autodistributed on")
    try:
        assert notebook.ok("print('there')").stdout == "[0-3] there\n"
        assert notebook.ok("# here\n%time print('here')").stdout.startswith("here\n")
    finally:
        notebook.ok("%autodistributed off")
    assert notebook.ok("print('here')").stdout == "here\n"


def test_names_and_whether_ranks_agree(notebook: Notebook) -> None:
    notebook.ok(
        "%%distributed\nimport torch\nsame_w, own_w = torch.ones(2, 3), rank\nif rank == 3: last_w = 'x'"
    )
    rows = [line.split() for line in notebook.ok("%nbdist who").displays[0]["text/plain"].splitlines()]
    assert ["same_w", "Tensor", "(2,", "3)", "float32", "0-3,", "equal"] in rows
    assert ["own_w", "int", "0-3,", "values", "differ"] in rows
    assert ["last_w", "str", "length", "1", "3"] in rows


def test_completion_and_help(notebook: Notebook) -> None:
    notebook.ok(
        "%%distributed\nclass Apple:\n    'A fruit.'\n    colour_of_it = 'red'\napple_of_ranks = Apple()"
    )
    assert notebook.complete("%%distributed\nprint(apple_of_r") == ["apple_of_ranks"]
    assert notebook.complete("%%rank 1\napple_of_ranks.col") == [".colour_of_it"]
    assert notebook.complete("apple_of_r") == []
    assert notebook.complete("%nbdist inter") == ["interrupt"]
    assert notebook.complete("%%distributed --mo") == ["--model"]
    assert "A fruit." in notebook.help("%%distributed\napple_of_ranks")
    assert "A fruit." in str(notebook.ok("%%distributed\napple_of_ranks?").messages)
