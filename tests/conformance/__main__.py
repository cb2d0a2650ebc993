"""`python -m tests.conformance` runs the whole suite and prints how much of it passes."""

from __future__ import annotations

import sys
from collections import Counter

import torch

from .run import left_out, run_all


def main() -> int:
    reasons, outcomes = left_out(), run_all()
    attainable = [name for name in outcomes if name not in reasons]
    wrong = [name for name in attainable if outcomes[name].outcome != "passed"]
    stale = [name for name in reasons if name not in outcomes or outcomes[name].outcome == "passed"]
    for name in wrong:
        print(f"{name}: {outcomes[name].outcome}\n{outcomes[name].why}")
    for name in stale:
        print(f"{name} is listed as left out, but it passes or is no more; strike it off the list")
    print(f"\nPyTorch {torch.__version__} has {len(outcomes)} tests of a distributed backend. Left out:")
    for reason, number in Counter(reasons.values()).items():
        print(f"{number:5}  {reason}")
    print(f"{len(attainable) - len(wrong)} of {len(attainable)} attainable pass.")
    return 1 if wrong or stale or not attainable else 0


if __name__ == "__main__":
    sys.exit(main())
