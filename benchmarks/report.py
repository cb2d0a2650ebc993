"""Hold what was measured against bars, and show it: tables, pictures, and what was missed."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .race import RunFailed, Times


@dataclass(frozen=True)
class Bar:
    """What a figure is held against: `rival` must take at least `factor` times as long as `ours`."""

    ours: str
    rival: str
    factor: float

    def ratios(self, runs: Sequence[Times]) -> list[float]:
        """Return, for each run in which both were measured, how many times faster we were."""
        return [run[self.rival] / run[self.ours] for run in runs if {self.ours, self.rival} <= run.keys()]

    def verdict(self, runs: Sequence[Times]) -> tuple[str, bool]:
        """Say how the best run stands to the bar. What was not measured misses nothing."""
        ratios = self.ratios(runs)
        if not ratios:
            return f"{self.rival} / {self.ours} >= {self.factor:g}x: not measured", True
        best, met = max(ratios), max(ratios) >= self.factor
        spread = f"{min(ratios):.2f}-{best:.2f}x" if len(ratios) > 1 else f"{best:.2f}x"
        word = "met" if met else "MISSED"
        return f"{self.rival} / {self.ours} {spread}, bar {self.factor:g}x: {word}", met


@dataclass(frozen=True)
class Row:
    """One thing that all contestants did, over several runs."""

    name: str
    runs: Sequence[Times]
    bars: Sequence[Bar] = ()


class Scene(Protocol):
    """What is measured in one go: a name, and the bars of each thing that is done."""

    @property
    def name(self) -> str: ...

    @property
    def bars(self) -> Mapping[str, Sequence[Bar]]: ...


S = TypeVar("S", bound=Scene)
T = TypeVar("T")


class Report:
    """What one benchmark finds: shown as it comes, kept in files, and with a list of the bars it misses."""

    def __init__(self, name: str, out: Path | None) -> None:
        """Write OUT.md, OUT.json and a picture of each scene, OUT-SCENE.png, where `out` is given."""
        self._name = name
        self._out = out
        self._texts: list[str] = []
        self._figures: dict[str, Any] = {}
        self.missed: list[str] = []

    def compare(
        self, scenes: Iterable[S], runs: int, once: Callable[[S], Mapping[str, Times]], title: str
    ) -> None:
        """Run each scene so often and add it; `title` has a place for its name."""
        for scene in scenes:
            figures = self.repeat(scene.name, runs, lambda scene=scene: once(scene))
            rows = [Row(what, [run[what] for run in figures], bars) for what, bars in scene.bars.items()]
            if figures:
                self.add(scene.name, f"{title.format(scene.name)}, median of {len(figures)} runs", rows)

    def repeat(self, what: str, runs: int, once: Callable[[], T]) -> list[T]:
        """Run something so often, telling how far it is; a run that fails is a miss, and the last."""
        figures: list[T] = []
        for number in range(runs):
            print(f"{self._name}, {what}: run {number + 1} of {runs}", file=sys.stderr, flush=True)
            try:
                figures.append(once())
            except RunFailed as error:
                self.missed.append(f"{self._name}, {what}: {error}")
                break
        return figures

    def add(self, scene: str, title: str, rows: Sequence[Row], scale: float = 1e6, unit: str = "us") -> None:
        """Show and keep the rows of a scene."""
        for row in rows:
            verdicts = [bar.verdict(row.runs) for bar in row.bars]
            missed = [text for text, met in verdicts if not met]
            self.missed += [f"{self._name}, {scene}, {row.name}: {text}" for text in missed]
        if self._out is not None:
            picture = "-".join([self._out.name, *scene.replace(",", "").split()]) + ".png"
            draw(title, rows, self._out.with_name(picture), scale, unit)
        self.say(table(title, rows, scale, unit), {scene: {row.name: row.runs for row in rows}})

    def say(self, text: str, figures: Mapping[str, Any]) -> None:
        """Show and keep a text with its figures."""
        print(text, "\n", flush=True)
        self._texts.append(text)
        self._figures.update(figures)
        if self._out is not None:
            self._out.parent.mkdir(parents=True, exist_ok=True)
            self._out.with_suffix(".md").write_text("\n\n".join(self._texts) + "\n")
            self._out.with_suffix(".json").write_text(json.dumps(self._figures, indent=1) + "\n")


def tell(missed: Sequence[str]) -> int:
    """Print a line for each bar that was missed; return the exit code."""
    for line in missed:
        print(line)
    print(f"{len(missed)} bars were missed." if missed else "Every bar that was measured is met.")
    return 1 if missed else 0


def table(title: str, rows: Sequence[Row], scale: float = 1e6, unit: str = "us") -> str:
    """Draw rows as a Markdown table of medians over runs."""
    names = list(dict.fromkeys(name for row in rows for run in row.runs for name in run))
    lines = [title, "", f"| {unit} | {' | '.join(names)} | bars |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        cells = []
        for name in names:
            values = [run[name] for run in row.runs if name in run]
            cells.append(f"{statistics.median(values) * scale:.1f}" if values else "")
        verdicts = "; ".join(bar.verdict(row.runs)[0] for bar in row.bars)
        lines.append(f"| {row.name} | {' | '.join(cells)} | {verdicts} |")
    return "\n".join(lines)


def draw(title: str, rows: Sequence[Row], path: Path, scale: float = 1e6, unit: str = "us") -> None:
    """Draw the same as a picture: bars on a logarithmic scale, one group a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(name for row in rows for run in row.runs for name in run))
    figure, axes = plt.subplots(figsize=(1.8 + 1.6 * len(rows), 4.2), layout="constrained")
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        places, heights = [], []
        for j, row in enumerate(rows):
            values = [run[name] for run in row.runs if name in run]
            if values:
                places.append(j + (i - (len(names) - 1) / 2) * width)
                heights.append(statistics.median(values) * scale)
        axes.bar(places, heights, width * 0.92, label=name)
    axes.set_yscale("log")
    axes.set_ylabel(f"{unit}, lower is better")
    axes.set_xticks(range(len(rows)), [row.name for row in rows])
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=len(names), loc="upper left")
    axes.set_ylim(top=axes.get_ylim()[1] * 4)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
