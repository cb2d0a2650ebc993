"""The wheel holds what a user needs and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(600)
def test_what_is_in_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60)
    for name in filter(None, tracked.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True, timeout=500)
    (wheel,) = tmp_path.glob("nbdist-*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    for needed in ("nbdist/live/static/chart.js", "nbdist/live/static/chart.css", "nbdist/py.typed"):
        assert needed in names
    assert [name for name in names if name.startswith("nbdist/comm/_native") and name.endswith(".so")]
    for unwanted in ("nbdist/comm/native/", "nbdist/live/js/", "tests/", "node_modules"):
        assert not [name for name in names if unwanted in name]
    metadata = next(name for name in names if name.endswith("METADATA"))
    assert "Requires-Dist: torch>=2.6" in zipfile.ZipFile(wheel).read(metadata).decode()
