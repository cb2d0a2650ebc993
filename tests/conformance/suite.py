"""PyTorch's own tests of a distributed backend, from the installed wheel, run on ours.

`python -m tests.conformance.suite FOLDER WORLD_SIZE [TEST...]` runs tests (all, when none is named) and
prints a line of JSON with all their names, and then one for each: its name, its outcome, and why. `run.py`
starts it, and bounds it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

BACKEND = "nbdist"
PREFIX = "conformance "


class AnyName(str):
    """A backend's name which equals those of the two CPU backends that the suite knows by name.

    Where tests are defined, some of what any CPU backend can do is switched off for all but those two.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other in ("gloo", "mpi") or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash("gloo")  # for sets of names


def define(folder: Path, world_size: int) -> type[unittest.TestCase]:
    """Import the suite for worlds of this size; return its test case."""
    for name in ("barrier", "test_dir", "init_dir"):
        (folder / name).mkdir(exist_ok=True)
    os.environ.update(
        BACKEND=BACKEND,
        WORLD_SIZE=str(world_size),
        TEMP_DIR=str(folder),
        INIT_METHOD=f"file://{folder}/init_dir/again",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60",  # for one test
    )

    import torch
    from torch.testing._internal.common_distributed import DistTestCases

    import nbdist.comm  # noqa: F401 - registers the backend

    torch.set_num_threads(1)
    for feature in ("plugin", "ddp", "subgroup"):
        DistTestCases.backend_feature[feature].add(BACKEND)

    look_up = os._Environ.__getitem__

    def look_up_name(self: os._Environ[str], key: str) -> str:
        return AnyName(BACKEND) if key == "BACKEND" else look_up(self, key)

    with mock.patch.object(os._Environ, "__getitem__", look_up_name):
        from torch.testing._internal.distributed import distributed_test

    class TestNbdist(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            # Forked, for a fresh interpreter takes seconds to import torch. No thread of ours runs here.
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return TestNbdist


def say(line: object) -> None:
    """Tell `run.py`."""
    print(PREFIX + json.dumps(line), file=sys.__stdout__, flush=True)


class Reporter(unittest.TestResult):
    """Prints each outcome as it comes."""

    def tell(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        say({"test": test.id().split(".")[-1], "outcome": outcome, "why": why})

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.tell(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.tell(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.tell(test, "failed", "".join(traceback.format_exception(*err)))

    addError = addFailure


def main() -> None:
    folder, world_size, *names = sys.argv[1:]
    case = define(Path(folder), int(world_size))
    names = names or list(unittest.TestLoader().getTestCaseNames(case))
    say(names)
    unittest.TestSuite(map(case, names)).run(Reporter())


if __name__ == "__main__":
    main()
