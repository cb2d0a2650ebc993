"""Colours that colour-blind readers tell apart, on white and on dark."""

from __future__ import annotations

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933", "#888888")
"""Okabe and Ito's eight; their yellow and black, each lost on one of the two grounds, are toned down."""

DASH = "5 3"
_PERIOD = 24
INK = "#7A7A7A"
"""Text that is legible on white and on a dark theme alike, for pictures that cannot know where they are."""


def colour(index: int) -> str:
    """Return the colour of a series."""
    return COLOURS[index % len(COLOURS)]


def interleave(place: int, count: int) -> str | None:
    """Return the dashes with which lines that lie on each other all show; the first is solid.

    Ranks that train in step are equally fast, so their lines mostly coincide.
    """
    if place == 0:
        return None
    on = _PERIOD * (count - place) / count
    return f"{on:g} {_PERIOD - on:g}"


def dash(index: int) -> str | None:
    """Return the dash pattern that sets series apart once the colours come round again."""
    return DASH if index >= len(COLOURS) else None
