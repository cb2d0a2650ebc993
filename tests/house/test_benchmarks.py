"""The benchmarks' own rules: a missed bar or a failed run stops nothing, and is told at the end."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import benchmarks.__main__ as everything
from benchmarks import hosts
from benchmarks.race import RunFailed, Times
from benchmarks.report import Bar, Report, tell

FOLDER = Path(hosts.__file__).parent


@dataclass(frozen=True)
class Scene:
    name: str
    bars: dict[str, tuple[Bar, ...]] = field(default_factory=lambda: {"1 MB": (Bar("ours", "theirs", 2),)})


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_need_no_tests(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert not [module for module in modules if module.split(".")[0] == "tests"]


def test_every_scene_runs_and_each_missed_bar_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = {"slow": iter([1.0, 1.5]), "fast": iter([3.0, 1.0])}

    def once(scene: Scene) -> dict[str, Times]:
        if scene.name == "broken":
            raise RunFailed("a rank failed")
        return {"1 MB": {"ours": 1.0, "theirs": next(taken[scene.name])}}

    report = Report("race", tmp_path / "figures")
    report.compare([Scene("slow"), Scene("broken"), Scene("fast")], 2, once, "race, {}")
    assert report.missed == [
        "race, slow, 1 MB: theirs / ours 1.00-1.50x, bar 2x: MISSED",
        "race, broken: a rank failed",
    ]
    assert "race, broken: run 1 of 2" in capsys.readouterr().err
    assert tell(report.missed) == 1
    assert tell([]) == 0
    kept = (tmp_path / "figures.md").read_text()
    assert "race, slow" in kept
    assert "theirs / ours 1.00-3.00x, bar 2x: met" in kept
    assert (tmp_path / "figures-fast.png").exists()


def test_all_benchmarks_run_whatever_one_misses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--runs", "1"])
    for name in ("allreduce", "network", "step", "abort", "transfer"):
        monkeypatch.setattr(
            getattr(everything, name),
            "compare",
            lambda arguments, name=name: [f"{name} {' '.join(arguments)}"],
        )
    assert everything.main() == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "allreduce --runs 1 --out out/allreduce"
    assert told[4:] == ["transfer --runs 1 --out out/transfer", "5 bars were missed."]
