"""The chart that is shipped is the one its sources make."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import nbdist.live

LIVE = Path(nbdist.live.__file__).parent


def test_lock_file_names_no_host_and_no_path() -> None:
    lock = (LIVE / "js" / "package-lock.json").read_text()
    assert "http" not in lock
    assert "resolved" not in lock
    assert str(Path.home()) not in lock


def test_license_of_what_is_bundled_is_beside_it() -> None:
    assert "MIT" in (LIVE / "static" / "uPlot.LICENSE").read_text()


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm to build the chart with")
@pytest.mark.timeout(200)
def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    sources, out = tmp_path / "js", tmp_path / "static"
    shutil.copytree(LIVE / "js", sources, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"]
    installed = subprocess.run(install, cwd=sources, capture_output=True, text=True, timeout=150, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install here: {installed.stderr.strip().splitlines()[-1]}")
    subprocess.run(["npm", "run", "check"], cwd=sources, timeout=60, check=True, capture_output=True)
    environ = {**os.environ, "OUT": str(out)}
    subprocess.run(
        ["npm", "run", "build"], cwd=sources, env=environ, timeout=60, check=True, capture_output=True
    )
    for built in sorted(out.iterdir()):
        assert built.read_bytes() == (LIVE / "static" / built.name).read_bytes(), (
            f"run npm run build: {built.name}"
        )
    assert {p.name for p in out.iterdir()} == {p.name for p in (LIVE / "static").iterdir()}
