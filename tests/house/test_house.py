"""The house rules: what may import what, how long a file may be, what the package shows."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nbdist"

ARROWS = {
    "magics": {"cluster", "live", "data"},
    "server": {"cluster", "live"},
    "engine": {"comm", "train", "data"},
    "train": {"comm"},
    "horovod": {"train", "comm"},
    "cli": {"cluster"},
}
"""Who may import whom; errors, freight, gpus and settings are open to all, and nothing else crosses."""

OPEN = {"errors", "freight", "gpus", "settings"}
LIMIT = 400
MEDIAN = 120


def _sources() -> list[Path]:
    kept = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.h"), *PACKAGE.rglob("*.ts")]
    return sorted(p for p in kept if "node_modules" not in p.parts and "static" not in p.parts)


def _room(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def _imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the room of each import of our own package, also of those inside functions."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level >= depth:
            base = "nbdist." + (f"{node.module}." if node.module else "")
            names = [base + alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "nbdist" and len(parts) > 1:
                yield node.lineno, parts[1]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_run_one_way(path: Path) -> None:
    room = _room(path)
    if room == "__init__":
        return  # the front door opens every room, lazily
    allowed = {room} | OPEN | ARROWS.get(room, set())
    imported = list(_imported_rooms(path))
    assert not [f"line {line}: {room} -> {other}" for line, other in imported if other not in allowed]


def test_files_are_short() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in _sources()}
    longest = sorted(lengths.items(), key=lambda item: -item[1])
    table = "\n".join(f"{n:5} {p.relative_to(ROOT)}" for p, n in longest[:15])
    assert longest[0][1] <= LIMIT, table
    assert statistics.median(lengths.values()) <= MEDIAN, table


def test_all_names_what_is_there() -> None:
    import nbdist

    hooks = {name for name in vars(nbdist) if name.endswith("_ipython_extension")}
    public = hooks | set(nbdist._HOMES)
    assert set(nbdist.__all__) == public
    assert nbdist.__all__ == sorted(nbdist.__all__)
    for name in nbdist.__all__:
        assert getattr(nbdist, name).__doc__, f"{name} has no docstring"


def test_importing_the_package_is_light() -> None:
    heavy = "torch", "IPython", "mpi4py", "ipyparallel", "numpy"
    code = f"import sys, nbdist; print([m for m in {heavy!r} if m in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == "[]"


def test_top_level_is_as_agreed() -> None:
    for name in ("pyproject.toml", "nbdist", "labextension", "notebooks", "tests", "benchmarks", "README.md"):
        assert (ROOT / name).exists(), name


def test_public_functions_say_what_they_do() -> None:
    bare = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            bare.append(str(path.relative_to(ROOT)))
        for node in tree.body:
            defines = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if defines and not ast.get_docstring(node):
                bare.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not bare
