"""Run PyTorch's suite in processes of its own, for so long and no longer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .suite import PREFIX

LEFT_OUT = Path(__file__).with_name("left_out.txt")
SMALL = "Skipped due to small world size."


@dataclass(frozen=True)
class Outcome:
    """How a test ended: passed, failed, skipped or, when time was up before it, missing."""

    outcome: str
    why: str = ""


def run(world_size: int, tests: Sequence[str] = (), timeout: float = 900.0) -> dict[str, Outcome]:
    """Run tests, or all of them, in worlds of this size."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.suite", folder, str(world_size), *tests],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        finally:
            # With all its ranks: they are of its process group, which is its alone.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [json.loads(line.removeprefix(PREFIX)) for line in output.splitlines() if line.startswith(PREFIX)]
    outcomes = {line["test"]: Outcome(line["outcome"], line["why"]) for line in lines}
    return {name: Outcome("missing", "time was up") for name in tests} | outcomes


def run_all() -> dict[str, Outcome]:
    """Run every test with 4 ranks, and those that want more with 8."""
    outcomes = run(4)
    small = [name for name, each in outcomes.items() if each.why == SMALL]
    return outcomes | run(8, small)


def left_out() -> dict[str, str]:
    """Read the table of tests that are left out: each with its reason."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in LEFT_OUT.read_text().splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            assert line not in reasons, f"{line} is listed twice"
            reasons[line] = reason
    return reasons
