"""The curves of a run as one SVG, drawn by hand: no plotting library, no fonts, no ground."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from .axes import reach
from .numbers import figure, rate, tick_labels, ticks
from .palette import INK, colour, dash
from .panels import BAND, Curve, Panel, metric_panel, panels_of
from .store import Run
from .thin import Floats

PANEL = 400
"""Two of these fit side by side into a notebook's output."""

_GAP = 24
_PLOT = 190
_BELOW = 42
_ROW = 18
_LETTER = 6.5
"""About the width of a letter at this size; fonts differ, so everything measured by it has some air."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"


def draw(run: Run) -> str:
    """Return the picture of a run: metrics to the left, throughput to the right.

    It is empty where there is nothing to draw, as when all was over before a rate could be told.
    """
    panels = panels_of(run)
    return _sheet(panels, 0, len(panels), describe(run)) if panels else ""


def draw_apart(run: Run) -> list[tuple[str, str]]:
    """Return a picture of each panel and its description, for pages that may be too narrow for both."""
    panels = panels_of(run)
    told = {"step": describe_metrics(run), "seconds": describe_rates(run)}
    return [
        (_sheet(panels, i, i + 1, told[panel.x_label]), told[panel.x_label]) for i, panel in enumerate(panels)
    ]


def _sheet(panels: list[Panel], first: int, end: int, about: str) -> str:
    """Draw some of the panels; all of them count for the height, so that they fit beside each other."""
    width = PANEL if len(panels) > 1 else 1.5 * PANEL
    legends = [_legend(panel, (i - first) * (width + _GAP), width) for i, panel in enumerate(panels)]
    top = max((rows for _, rows in legends), default=0) * _ROW + 12
    height = top + _PLOT + _BELOW
    across = (end - first) * (width + _GAP) - _GAP
    body = "".join(
        legends[i][0] + _axes(panels[i], (i - first) * (width + _GAP), width, top) for i in range(first, end)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {height}" '
        f'width="{across:.0f}" height="{height}" role="img" aria-label={quoteattr(about)} '
        f'font-family="{_FONT}" font-size="12" fill="{INK}"><title>{escape(about)}</title>{body}</svg>'
    )


def describe(run: Run) -> str:
    """Say in a sentence what the picture shows, for readers who cannot see it."""
    return " ".join(part for part in (describe_metrics(run), describe_rates(run)) if part)


def describe_metrics(run: Run) -> str:
    """Say how each metric went."""
    said = []
    for name in run.metrics():
        line = run.line(name)
        y = line.mean[np.isfinite(line.mean)]
        if len(y) == 1:
            said.append(f"{name} {figure(float(y[0]))}")
        elif len(y):
            last = f"{int(line.step[-1]):,}"
            said.append(f"{name} from {figure(float(y[0]))} to {figure(float(y[-1]))} at step {last}")
        else:
            said.append(f"{name} without a finite value")
    band = f" {BAND[0].upper()}{BAND[1:]}." if metric_panel(run).has_band else ""
    return f"Curves of {_count(run)}: {'; '.join(said)}.{band}" if said else ""


def describe_rates(run: Run) -> str:
    """Say how fast it went."""
    average = run.average_rate()
    return f"Throughput of {_count(run)}: {rate(average)} examples/s." if np.isfinite(average) else ""


@dataclass(frozen=True)
class _Scale:
    """Where values of an axis lie on the picture."""

    low: float
    high: float
    start: float
    end: float
    whole: bool = False
    """Whether only whole numbers are values."""

    def __call__(self, value: Floats) -> Floats:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def marks(self) -> list[tuple[float, str]]:
        """Return position and label of each tick."""
        values = ticks(self.low, self.high, whole=self.whole)
        places = self(np.array(values))
        return list(zip(places.tolist(), tick_labels(values), strict=True))


def _axes(panel: Panel, x0: float, width: float, top: float) -> str:
    bottom = top + _PLOT
    on_left = [curve for curve in panel.curves if not curve.right]
    on_right = [curve for curve in panel.curves if curve.right]
    left = _scale(_heights(on_left), bottom, top, from_zero=panel.from_zero)
    right = _scale(_heights(on_right), bottom, top)
    start, end = x0 + _label_room(left), x0 + width - (_label_room(right) if on_right else 12)
    across = _along([curve.x for curve in panel.curves], start, end, whole=panel.x_label == "step")
    parts = []
    for y, label in left.marks():
        parts.append(f'<path d="M{start:.1f} {y:.1f}H{end:.1f}" stroke="{INK}" stroke-opacity=".22"/>')
        parts.append(_text(start - 7, y + 4, label, "end"))
    if on_right:
        parts += [_text(end + 7, y + 4, label, "start") for y, label in right.marks()]
    parts.append(f'<path d="M{start:.1f} {bottom}H{end:.1f}" stroke="{INK}" stroke-opacity=".7"/>')
    for x, label in across.marks():
        parts.append(f'<path d="M{x:.1f} {bottom}v4" stroke="{INK}" stroke-opacity=".7"/>')
        parts.append(_text(x, bottom + 18, label, "middle"))
    parts.append(_text((start + end) / 2, bottom + 36, panel.x_label, "middle"))
    # Each panel lies at its own place, so that names it apart in a page of many pictures, too.
    frame = f"frame-{start:.0f}-{top:.0f}-{end - start:.0f}"
    outline = f"M{start - 2:.1f} {top - 2}H{end + 2:.1f}V{bottom + 2}H{start - 2:.1f}Z"
    parts.append(f'<clipPath id="{frame}"><path d="{outline}"/></clipPath><g clip-path="url(#{frame})">')
    for curve in sorted(panel.curves, key=lambda curve: curve.strong):
        parts.append(_curve(curve, across, right if curve.right else left))
    return "".join([*parts, "</g>"])


def _curve(curve: Curve, across: _Scale, up: _Scale) -> str:
    paint = colour(curve.index)
    x = across(curve.x)
    parts = []
    if curve.low is not None and curve.high is not None:
        low, high = up(curve.low), up(curve.high)
        for there in _stretches(np.isfinite(low) & np.isfinite(high)):
            outline = _points(x[there], high[there]) + _points(x[there], low[there])[::-1]
            parts.append(f'<path d="M{"L".join(outline)}Z" fill="{paint}" fill-opacity=".22"/>')
    style = f'stroke-width="{1.9 if curve.strong else 1.2}"'
    if pattern := curve.dash or dash(curve.index):
        style += f' stroke-dasharray="{pattern}"'
    y = up(curve.y)
    for there in _stretches(np.isfinite(y)):
        points = _points(x[there], y[there])
        if len(points) == 1:
            parts.append(f'<circle cx="{x[there][0]:.1f}" cy="{y[there][0]:.1f}" r="2.5" fill="{paint}"/>')
        else:
            line = f'<path d="M{"L".join(points)}" fill="none" stroke="{paint}"'
            parts.append(f'{line} stroke-linejoin="round" {style}/>')
    return "".join(parts)


def _legend(panel: Panel, start: float, width: float) -> tuple[str, int]:
    """Name the curves above the panel in at most two rows; the table below has all of them."""
    parts, x, row = [], start, 1
    if panel.title:
        parts.append(_text(x, _ROW - 4, panel.title, "start", bold=True))
        x += 7.5 * len(panel.title) + 14
    for curve in panel.curves:
        before, after = ("", " →") if curve.right else ("← ", "")
        label = before + curve.label + after if panel.two_sided else curve.label
        room = 22 + _LETTER * len(label) + 12
        if x > start and x + room > start + width + 12:
            if row == 2:
                parts.append(_text(x, row * _ROW - 4, "…", "start"))
                break
            x, row = start, row + 1
        y = row * _ROW - 4
        pattern = dash(curve.index)
        dashes = f' stroke-dasharray="{pattern}"' if pattern else ""
        line = f'<path d="M{x:.1f} {y - 4}h16" stroke="{colour(curve.index)}" stroke-width="2.5"{dashes}/>'
        parts.append(line + _text(x + 22, y, label, "start"))
        x += room
    if panel.has_band and (row == 1 or x + _LETTER * len(BAND) <= start + width + 12):
        if x + _LETTER * len(BAND) > start + width + 12:
            x, row = start, row + 1
        parts.append(_text(x, row * _ROW - 4, BAND, "start"))
    return "".join(parts), row


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def _heights(curves: list[Curve]) -> list[Floats]:
    return [values for curve in curves for values in curve.heights()]


def _scale(values: list[Floats], start: float, end: float, *, from_zero: bool = False) -> _Scale:
    """Leave a margin above and below, so that no line touches the frame."""
    known = np.concatenate([*values, np.empty(0)])
    low, high = (min(0.0, _extent(values)[0]), _extent(values)[1]) if from_zero else reach(known)
    room = 0.06 * (high - low) or abs(low) * 0.5 or 1.0
    return _Scale(low if from_zero else low - room, high + room, start, end)


def _along(values: list[Floats], start: float, end: float, *, whole: bool) -> _Scale:
    low, high = _extent(values)
    return (
        _Scale(low, high, start, end, whole) if low < high else _Scale(low - 1, high + 1, start, end, whole)
    )


def _extent(values: list[Floats]) -> tuple[float, float]:
    known = np.concatenate([*values, np.empty(0)])
    known = known[np.isfinite(known)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def _label_room(scale: _Scale) -> float:
    return max(_LETTER * max((len(label) for _, label in scale.marks()), default=1), 14) + 10


def _points(x: Floats, y: Floats) -> list[str]:
    return [f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _stretches(there: NDArray[np.bool_]) -> list[slice]:
    """Return the unbroken stretches of true values."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]])))
    return [slice(int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True)]


def _count(run: Run) -> str:
    count = len(run.ranks())
    return f"{count} rank" + ("s" if count != 1 else "")
