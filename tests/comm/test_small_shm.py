"""A container's small /dev/shm and limit of locked memory are no obstacle: nothing of ours lies there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ..notebook import Notebook

SMALL = 64  # MB, what a container has unless told otherwise

WRAPPER = f"""\
#!/bin/sh
exec unshare --mount sh -c '
    mount -t tmpfs -o size={SMALL}m tmpfs /dev/shm && ulimit -l 64 && exec "$0" "$@"' {sys.executable} "$@"
"""

USE = """\
%%distributed
import os, torch, torch.distributed as dist
room = os.statvfs("/dev/shm")
assert room.f_blocks * room.f_frsize == {small} << 20
free = room.f_bavail * room.f_frsize
big = torch.ones(50_000_000)                     # 200 MB
dist.all_reduce(big)
assert (big == size).all()
groups = [dist.new_group() for _ in range(50)]   # a segment each
for group in groups:
    dist.all_reduce(torch.ones(1_000_000), group=group)
for group in groups:
    dist.destroy_process_group(group)
room = os.statvfs("/dev/shm")
assert room.f_bavail * room.f_frsize == free, "something was left there"
print("worked")
"""

TRAIN = """\
%%distributed --model net
import torch
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad(); net(torch.randn(4, 3000)).square().mean().backward(); optimizer.step()
print("trained")
"""

FILL = """\
%%distributed
if rank == 0:
    open("/dev/shm/full", "wb").write(bytes(free))
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python with a small /dev/shm of its own."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a /dev/shm of one's own needs root and unshare")
    wrapper = tmp_path / "python"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(stat.S_IRWXU)
    tried = subprocess.run([wrapper, "-c", ""], capture_output=True, text=True, timeout=60)
    if tried.returncode != 0:
        pytest.skip(f"no /dev/shm of one's own can be had here: {tried.stderr.strip()}")
    return wrapper


def test_a_small_shm_is_enough(tmp_path: Path, python: Path) -> None:
    with Notebook(tmp_path, python=str(python)) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 2", timeout=90)
        assert notebook.ok(USE.format(small=SMALL)).stdout.splitlines() == ["[0-1] worked"]
        # 36 MB of gradient on each rank.
        notebook.ok("import torch\nnet = torch.nn.Sequential(*[torch.nn.Linear(3000, 3000)])")
        assert notebook.ok(TRAIN).stdout.splitlines() == ["[0-1] trained"]

        notebook.ok(FILL)
        notebook.ok("%%distributed\ndist.all_reduce(torch.ones(10_000_000)); dist.new_group()")
        assert notebook.ok(TRAIN).stdout.splitlines() == ["[0-1] trained"]
        notebook.alive()
