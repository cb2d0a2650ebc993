"""Build the C++ tests, plain or under sanitizers, and run them.

python tests/comm/native/build.py [--run] [plain | address,undefined | thread] ...
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted(Path(__file__).parent.glob("test_*.cpp"))

# The environment's own tools first: ninja and a new cmake come with the build requirements.
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))

LIMIT = 900.0
"""Seconds that a build may take."""


def missing() -> str:
    """Name a tool that the build needs and that is not there, or nothing."""
    compiler = os.environ.get("CXX", "c++")
    return next((tool for tool in ("cmake", compiler) if shutil.which(tool, path=PATH) is None), "")


def build(kind: str) -> Path:
    """Build every program in a folder of its own; return the folder they lie in."""
    folder = ROOT / "build" / f"tests-{kind.replace(',', '-')}"
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=PATH) else []
    sanitize = "" if kind == "plain" else kind
    configure = ["-S", ROOT, "-B", folder, *generator, "-DNBDIST_TESTS=ON", f"-DNBDIST_SANITIZE={sanitize}"]
    for command in (["cmake", *configure], ["cmake", "--build", folder, "--parallel", "2"]):
        _call(command)
    return folder / "tests" / "comm" / "native"


def _call(command: list[str | Path]) -> None:
    tool, *rest = command
    program = shutil.which(str(tool), path=PATH)
    assert program is not None, f"{tool} is not there"
    environment = os.environ | {"PATH": PATH}
    done = subprocess.run([program, *rest], env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if not line.startswith("[")]  # ninja's progress
        raise RuntimeError("\n".join([" ".join(map(str, command)), *said, done.stderr]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the C++ tests, plain or under sanitizers.")
    parser.add_argument("kinds", nargs="+", help="plain, address,undefined or thread")
    parser.add_argument("--run", action="store_true", help="run them, too")
    options = parser.parse_args()
    failures = 0
    for kind in options.kinds:
        print(f"building with {kind}", flush=True)
        folder = build(kind)
        for source in SOURCES if options.run else []:
            print(f"{source.stem} ({kind})", flush=True)
            failures += subprocess.run([folder / source.stem], timeout=LIMIT).returncode != 0
    print(f"{failures} programs failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
