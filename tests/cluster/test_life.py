"""A cluster starts whole and leaves nothing, however its notebook ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from nbdist.cluster.janitor import members

from ..notebook import Notebook

WAIT = 30.0


def _mark(notebook: Notebook) -> str:
    return notebook.ok("print(get_ipython()._nbdist.session.cluster._folder)").stdout.strip()


def _gone(folder: str, kernel: int) -> None:
    mark = Path(folder).name
    _, left = psutil.wait_procs(members(mark), timeout=WAIT)
    assert not left, [process.cmdline() for process in left]
    janitors = [p for p in psutil.process_iter(["cmdline"]) if folder in (p.info["cmdline"] or [])]
    psutil.wait_procs(janitors, timeout=WAIT)
    assert not Path(folder).exists()
    assert not psutil.pid_exists(kernel) or psutil.Process(kernel).children(recursive=True) == []


ENDINGS: dict[str, Callable[[Notebook], object]] = {
    "stop": lambda notebook: notebook.ok("%nbdist stop"),
    "shutdown": lambda notebook: notebook.close(),
    "kill -9": lambda notebook: notebook.kill(),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_left(tmp_path: Path, ending: str) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 2", timeout=90)
        notebook.ok("%%distributed\nx = 5")
        folder, kernel = _mark(notebook), notebook.pid
        assert len(members(Path(folder).name)) >= 4, "two ranks, the controller, mpiexec"
        ENDINGS[ending](notebook)
        _gone(folder, kernel)


def test_the_first_cell_after_start_is_never_lost(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("%load_ext nbdist")
        for _ in range(3):
            said = notebook.ok(
                "%nbdist start -n 2\nget_ipython().run_cell_magic('distributed', '', 'print(1)')"
            )
            assert "[0-1] 1" in said.stdout
            notebook.ok("%nbdist stop")


def test_start_twice_is_one_cluster(notebook: Notebook) -> None:
    before = {p.pid for p in psutil.Process(notebook.pid).children(recursive=True)}
    notebook.ok("%nbdist start -n 4\n%nbdist start")
    assert {p.pid for p in psutil.Process(notebook.pid).children(recursive=True)} == before


def test_two_notebooks_do_not_meet(tmp_path: Path) -> None:
    with Notebook(tmp_path) as one, Notebook(tmp_path) as two:
        for notebook, value in ((one, 1), (two, 2)):
            notebook.ok(f"%load_ext nbdist\n%nbdist start -n 2\nvalue = {value}", timeout=90)
        cell = (
            "%%distributed\nimport torch\nt = torch.ones(1) * {value}\n"
            "for _ in range(100): dist.all_reduce(t, op=dist.ReduceOp.MAX)\nprint(int(t))"
        )
        sent = [(n, n.send(cell.format(value=v))) for n, v in ((one, 1), (two, 2))]
        assert [n.collect(s).stdout.strip() for n, s in sent] == ["[0-1] 1", "[0-1] 2"]


def test_files_are_private(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.ok("import os; os.umask(0)")
        notebook.ok("%load_ext nbdist\n%nbdist start -n 2", timeout=90)
        folder = Path(_mark(notebook))
        for path in [folder, folder.parent, *folder.rglob("*")]:
            if path.is_dir() or "security" in path.parts:
                assert path.stat().st_mode & 0o077 == 0, path
        listening = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=False).stdout
        # Open MPI's own daemon listens on all interfaces and cannot be told not to; all else is ours.
        ours = {p.pid for p in members(folder.name) if "prterun" not in p.name()} | {notebook.pid}
        for line in listening.splitlines():
            if any(f"pid={pid}," in line for pid in ours):
                assert line.split()[3].startswith(("127.0.0.1:", "[::1]:")), line
