"""`python -m benchmarks [--runs N]` runs all comparisons, then tells which bars were missed."""

from __future__ import annotations

import sys

from . import abort, allreduce, network, step, transfer
from .report import tell


def main() -> int:
    missed = []
    for benchmark in (allreduce, network, step, abort, transfer):
        name = benchmark.__name__.rpartition(".")[2]
        missed += benchmark.compare([*sys.argv[1:], "--out", f"out/{name}"])
    return tell(missed)


if __name__ == "__main__":
    raise SystemExit(main())
