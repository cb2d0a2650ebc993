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
LAST_WORDS = 4000
"""So many characters of what the suite wrote are told."""


@dataclass(frozen=True)
class Outcome:
    """How a test ended: passed, failed, skipped or, when the suite ended before it, missing."""

    outcome: str
    why: str = ""


class SuiteFailed(Exception):
    """The suite ended before it had said which tests it has."""


def run(world_size: int, tests: Sequence[str] = (), timeout: float = 900.0) -> dict[str, Outcome]:
    """Run tests, or all of them, in worlds of this size.

    Raises:
        SuiteFailed: it could not even begin; what it wrote is in the message.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as spoken:
        said, complaints = Path(spoken, "output"), Path(spoken, "errors")
        # Files, not pipes: a rank that outlives the suite would keep a pipe open.
        with said.open("wb") as output, complaints.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.conformance.suite", folder, str(world_size), *tests],
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                end = f"it ended with {process.wait(timeout)}"
            except subprocess.TimeoutExpired:
                end = f"time was up after {timeout:g} s"
            finally:
                # With all its ranks: they are of its process group, which is its alone.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = said.read_text(errors="replace").splitlines()
        last_words = complaints.read_text(errors="replace")[-LAST_WORDS:]
    heard = [json.loads(line.removeprefix(PREFIX)) for line in lines if line.startswith(PREFIX)]
    if not heard:
        raise SuiteFailed(f"the suite did not begin, {end}; see what it wrote:\n{last_words}")
    plan, *told = heard
    missing = Outcome("missing", f"the suite did not come to it, {end}; see what it wrote:\n{last_words}")
    outcomes = dict.fromkeys(plan, missing)
    return outcomes | {line["test"]: Outcome(line["outcome"], line["why"]) for line in told}


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
