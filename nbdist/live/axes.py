"""Which metric is drawn against which axis, and how far the axis reaches."""

from __future__ import annotations

import numpy as np

from .thin import Floats

_FEW = 50
_FAR = 5.0


def sides(metrics: list[str]) -> tuple[list[str], list[str]]:
    """Part metrics into those of the left axis and those of the right.

    Losses go left and everything else right, so that an accuracy is not flattened by a loss; with no
    loss among them, or nothing else, all share the left axis.
    """
    losses = [name for name in metrics if "loss" in name.lower()]
    others = [name for name in metrics if name not in losses]
    return (losses, others) if losses and others else (metrics, [])


def reach(values: Floats) -> tuple[float, float]:
    """Return what an axis has to hold: all values, but for a few that lie far off.

    A loss that starts at 10 and then stays below 1 would otherwise leave a flat line. The far ones are
    cut off at the frame; the table names them.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    if len(known) < _FEW:
        return low, high
    usual_low, usual_high = (float(q) for q in np.quantile(known, (0.01, 0.99)))
    spread = usual_high - usual_low
    if high > usual_high + _FAR * spread > usual_high:
        high = usual_high + spread / 2
    if low < usual_low - _FAR * spread < usual_low:
        low = usual_low - spread / 2
    return low, high
