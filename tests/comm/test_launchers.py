"""Plain scripts, started as their users start them."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbdist.cluster.local import LocalLauncher, find_mpiexec

SCRIPT = """
import os
import torch, torch.distributed as dist
import nbdist.comm
{init}
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.full((1000,), rank + 1.0)
dist.all_reduce(tensor)
assert tensor[0] == size * (size + 1) / 2, tensor
half = dist.new_group(list(range(size // 2)))
if rank < size // 2:
    dist.barrier(half)
parts = [None] * size
dist.all_gather_object(parts, os.getpid())
assert len(set(parts)) == size
dist.destroy_process_group()
open(f"{folder}/done-{{rank}}-of-{{size}}", "w").close()
"""

ENV = 'dist.init_process_group("nbdist")'
FILE = """
rank, size = int(os.environ["{rank}"]), int(os.environ["{size}"])
dist.init_process_group("nbdist", init_method="file://{folder}/store", rank=rank, world_size=size)
"""


def write(folder: Path, init: str) -> str:
    script = folder / "script.py"
    script.write_text(SCRIPT.format(init=init, folder=folder))
    return str(script)


def run(*commands: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Run commands side by side; all must succeed."""
    processes = [
        subprocess.Popen(
            command,
            env=os.environ | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    try:
        for process in processes:
            output, _ = process.communicate(timeout=90)
            assert process.returncode == 0, output
    finally:
        for process in processes:
            process.terminate()  # launchers end what they have launched
            process.wait()


def done(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("done-*"))


def torchrun(*options: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *options]


def test_torchrun(tmp_path):
    run(torchrun("--standalone", "--nproc-per-node", "2", write(tmp_path, ENV)))
    assert done(tmp_path) == ["done-0-of-2", "done-1-of-2"]


def test_torchrun_on_two_hosts(network, tmp_path):
    hosts = network(2)
    script = write(tmp_path, ENV)
    options = ["--nproc-per-node", "2", "--nnodes", "2"]
    options += ["--master-addr", hosts.addresses(0)[0], "--master-port", "29400"]
    run(
        *(
            ["ip", "netns", "exec", name, *torchrun(*options, "--node-rank", str(number), script)]
            for number, name in enumerate(hosts.names)
        )
    )
    assert done(tmp_path) == [f"done-{rank}-of-4" for rank in range(4)]


def test_mpiexec(tmp_path):
    names = {"rank": "OMPI_COMM_WORLD_RANK", "size": "OMPI_COMM_WORLD_SIZE"}
    script = write(tmp_path, FILE.format(**names, folder=tmp_path))
    command = [find_mpiexec(), "-n", "2", sys.executable, script]
    run(command, environment=LocalLauncher(2).environment())
    assert done(tmp_path) == ["done-0-of-2", "done-1-of-2"]


def from_the_readme(launcher: str, script: str) -> list[str]:
    """What the README says to type, for two ranks."""
    readme = Path(__file__).parents[2] / "README.md"
    (line,) = (line for line in readme.read_text().splitlines() if line.startswith(launcher))
    words = shlex.split(line.replace("python script.py", f"{sys.executable} {script}"))
    return [words[0], "-n", "2", *words[3:]]


def test_mpiexec_by_the_environment(tmp_path):
    command = from_the_readme("mpiexec", write(tmp_path, ENV))
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    run([find_mpiexec(), *command[1:]], environment=LocalLauncher(2).environment() | address)
    assert done(tmp_path) == ["done-0-of-2", "done-1-of-2"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.skipif(shutil.which("srun") is None, reason="there is no Slurm here")
def test_srun(tmp_path):
    names = {"rank": "SLURM_PROCID", "size": "SLURM_NTASKS"}
    run(["srun", "-n", "2", sys.executable, write(tmp_path, FILE.format(**names, folder=tmp_path))])
    assert done(tmp_path) == ["done-0-of-2", "done-1-of-2"]
