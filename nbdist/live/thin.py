"""Fewer points, the same look."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BUCKETS = 900
"""As many as a chart is wide in pixels; each keeps two points."""


def thin(x: Floats, columns: Floats, buckets: int = BUCKETS) -> tuple[Floats, Floats]:
    """Keep the extremes of every column in each of `buckets` stretches of rows.

    All columns keep sharing `x` (two rows a stretch), so lines and bands stay aligned. At most
    `2 * buckets` rows come back; fewer rows than that are returned as they are.
    """
    rows = len(x)
    if rows <= 2 * buckets:
        return x, columns
    edges = np.linspace(0, rows, buckets + 1).astype(np.intp)
    starts, ends = edges[:-1], edges[1:] - 1
    low = np.fmin.reduceat(columns, starts, axis=0)
    high = np.fmax.reduceat(columns, starts, axis=0)
    # Which extreme comes first follows the stretch's own direction.
    rising = columns[starts] <= columns[ends]
    thinned = np.empty((2 * buckets, columns.shape[1]))
    thinned[0::2] = np.where(rising, low, high)
    thinned[1::2] = np.where(rising, high, low)
    return np.stack([x[starts], x[ends]], axis=1).reshape(-1), thinned


def finite(values: Floats) -> Floats:
    """Turn what cannot be drawn into gaps."""
    return np.where(np.isfinite(values), values, np.nan)
