"""The C++ tests of the native code (tests/comm/native), built and run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .native import build


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder with the programs, built anew where a source has changed."""
    tool = build.missing()
    if tool:
        pytest.skip(f"the C++ tests need {tool}")
    return build.build("plain")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", build.SOURCES, ids=lambda source: source.stem)
def test_native(programs: Path, source: Path) -> None:
    done = subprocess.run([programs / source.stem], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
