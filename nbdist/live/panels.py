"""What the picture of a run shows: curves, and the axes they are drawn against."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .axes import sides
from .palette import interleave
from .store import Run
from .thin import Floats, finite, thin

MOST_RANKS = 8
"""More ranks than these are drawn as one band, since nobody could tell the lines apart."""

BAND = "band: range of the ranks"

_BUCKETS = 300
"""Stretches of a picture's curve; enough for its width, and the notebook's file stays small."""


@dataclass
class Curve:
    """What is drawn in one colour: a strong line, with a band or thin companions."""

    label: str
    x: Floats
    y: Floats
    index: int
    strong: bool = True
    low: Floats | None = None
    high: Floats | None = None
    right: bool = False
    dash: str | None = None

    def heights(self) -> list[Floats]:
        """Return all its values, which the axis has to hold."""
        return [values for values in (self.y, self.low, self.high) if values is not None]


@dataclass
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    curves: list[Curve] = field(default_factory=list)
    from_zero: bool = False

    @property
    def two_sided(self) -> bool:
        """Whether some curves are read off an axis to the right."""
        return any(curve.right for curve in self.curves)

    @property
    def has_band(self) -> bool:
        """Whether some line runs in a band that wants to be explained."""
        return any(curve.low is not None and curve.strong for curve in self.curves)


def panels_of(run: Run) -> list[Panel]:
    """Return what there is to draw: metrics, throughput, or both."""
    return [panel for panel in (metric_panel(run), rate_panel(run)) if panel.curves]


def metric_panel(run: Run) -> Panel:
    """Return all metrics against the step: the mean over ranks in the band they span."""
    names = run.metrics()
    _, right = sides(names)
    panel = Panel("", "step")
    for index, name in enumerate(names):
        line = run.line(name)
        x, columns = thin(line.step, finite(np.column_stack([line.mean, line.low, line.high])), _BUCKETS)
        curve = Curve(name, x, columns[:, 0], index, right=name in right)
        if np.any(line.low < line.high):
            curve.low, curve.high = columns[:, 1], columns[:, 2]
        panel.curves.append(curve)
    return panel


def rate_panel(run: Run) -> Panel:
    """Return the throughput, total and by rank, against time."""
    panel = Panel("examples/s", "seconds", from_zero=True)
    rates = run.rates(final=True)
    if not np.isfinite(rates.total).any():
        return panel
    x, columns = thin(rates.time, finite(np.column_stack([rates.total, rates.each])), _BUCKETS)
    total, each = columns[:, 0], columns[:, 1:]
    several = len(rates.ranks) > 1
    panel.curves.append(Curve("total" if several else f"rank {rates.ranks[0]}", x, total, 0))
    if several and len(rates.ranks) <= MOST_RANKS:
        for column, rank in enumerate(rates.ranks):
            dash = interleave(column, len(rates.ranks))
            panel.curves.append(
                Curve(f"rank {rank}", x, each[:, column], column + 1, strong=False, dash=dash)
            )
    elif several:
        band = Curve("range of ranks", x, np.full(len(x), np.nan), 1, strong=False)
        there = np.isfinite(each)
        band.low = finite(np.where(there, each, np.inf).min(axis=1))
        band.high = finite(np.where(there, each, -np.inf).max(axis=1))
        panel.curves.append(band)
    return panel
