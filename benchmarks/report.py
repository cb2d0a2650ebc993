"""What the benchmarks share: starting ranks, ratios of medians over runs, bars, a table and a picture."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Times = dict[str, float]
"""Median seconds in one run, by contestant."""


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


def launch(module: str, arguments: Sequence[str], ranks: int, timeout: float) -> object:
    """Run `python -m module --worker FOLDER` as MPI ranks; return what rank 0 left in FOLDER/figures.json."""
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_osc": "^ucx",  # says on every start that its own default is wrong
    }
    with tempfile.TemporaryDirectory() as folder:
        # Bound to one core, gloo's own thread would have to share it with ours.
        mpiexec = [Path(sys.executable).parent / "mpiexec", "-n", str(ranks), "--bind-to", "none"]
        command = [*mpiexec, sys.executable, "-m", module, "--worker", folder, *arguments]
        subprocess.run(command, env=environment, timeout=timeout, check=True)
        return json.loads((Path(folder) / "figures.json").read_text())


def race(
    contestants: Mapping[str, Callable[[], object]],
    prepare: Callable[[], object],
    meet: Callable[[], object],
    clock: Callable[[], float],
    turns: int,
    in_a_row: int,
) -> dict[str, list[float]]:
    """Let contestants take turns; return this rank's seconds for each operation of each.

    A turn is several operations in a row, the first of which is not counted: it finds the code and the
    buffers of the contestant before it in the caches, and its own not. Before each operation the data
    are rewritten and the ranks meet.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, operation in contestants.items():
            for i in range(in_a_row + 1):
                prepare()
                meet()
                began = clock()
                operation()
                if i > 0:
                    times[name].append(clock() - began)
    return times


def slowest(of_ranks: Sequence[Mapping[str, Sequence[float]]]) -> Times:
    """Take each operation's time as that of its slowest rank, and return the medians."""
    return {
        name: statistics.median(map(max, zip(*(times[name] for times in of_ranks), strict=True)))
        for name in of_ranks[0]
    }


def table(title: str, rows: Sequence[Row], scale: float = 1e6, unit: str = "us") -> tuple[str, bool]:
    """Draw rows as a Markdown table of medians over runs, and say whether every bar is met."""
    names = list(dict.fromkeys(name for row in rows for run in row.runs for name in run))
    lines = [title, "", f"| {unit} | {' | '.join(names)} | bars |", "|---" * (len(names) + 2) + "|"]
    all_met = True
    for row in rows:
        cells = []
        for name in names:
            values = [run[name] for run in row.runs if name in run]
            cells.append(f"{statistics.median(values) * scale:.1f}" if values else "")
        verdicts = [bar.verdict(row.runs) for bar in row.bars]
        all_met &= all(met for _, met in verdicts)
        lines.append(f"| {row.name} | {' | '.join(cells)} | {'; '.join(text for text, _ in verdicts)} |")
    return "\n".join(lines), all_met


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
