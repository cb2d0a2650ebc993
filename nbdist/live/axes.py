"""Which metric is drawn against which axis."""

from __future__ import annotations


def sides(metrics: list[str]) -> tuple[list[str], list[str]]:
    """Part metrics into those of the left axis and those of the right.

    Losses go left and everything else right, so that an accuracy is not flattened by a loss; with no
    loss among them, or nothing else, all share the left axis.
    """
    losses = [name for name in metrics if "loss" in name.lower()]
    others = [name for name in metrics if name not in losses]
    return (losses, others) if losses and others else (metrics, [])
