"""The curves of a run as one SVG, drawn by hand: no plotting library, no fonts, no ground."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from .axes import sides
from .numbers import figure, rate, tick_label, ticks
from .palette import INK, colour, dash
from .store import Run
from .thin import Floats, finite, thin

WIDTH, HEIGHT = 880, 290
_TOP, _BOTTOM, _LEFT, _RIGHT = 46, 40, 50, 14
_BUCKETS = 300
MOST_RANKS = 8
"""More ranks than these are drawn as one band, since nobody could tell the lines apart."""


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
    legend: bool = True


@dataclass
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    curves: list[Curve] = field(default_factory=list)
    from_zero: bool = False


def draw(run: Run) -> str:
    """Return the picture of a run: metrics to the left, throughput to the right."""
    panels = [panel for panel in (metric_panel(run), rate_panel(run)) if panel.curves]
    width = WIDTH / max(1, len(panels))
    body = "".join(_panel(panel, i * width, width) for i, panel in enumerate(panels))
    about = escape(describe(run))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label={quoteattr(describe(run))} '
        f"font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif\" "
        f'font-size="12" fill="{INK}"><title>{about}</title>{body}</svg>'
    )


def describe(run: Run) -> str:
    """Say in a sentence what the picture shows, for readers who cannot see it."""
    said = []
    for name in run.metrics():
        line = run.line(name)
        y = line.mean[np.isfinite(line.mean)]
        if len(y):
            steps = f"{len(line.step):,} step" + ("s" if len(line.step) != 1 else "")
            said.append(f"{name} from {figure(float(y[0]))} to {figure(float(y[-1]))} over {steps}")
    if run.has_rates:
        said.append(f"{rate(run.average_rate())} examples/s on average")
    return f"Curves of {len(run.ranks())} ranks: " + "; ".join(said) + "."


def metric_panel(run: Run) -> Panel:
    """Return all metrics against the step."""
    names = run.metrics()
    _, right = sides(names)
    panel = Panel(", ".join(names), "step")
    for index, name in enumerate(names):
        line = run.line(name)
        several = len(line.ranks) > 1 or bool(np.any(line.low < line.high))
        x, columns = thin(line.step, finite(np.column_stack([line.mean, line.low, line.high])), _BUCKETS)
        mean, low, high = columns.T
        curve = Curve(name, x, mean, index, right=name in right)
        if several:
            curve.low, curve.high = low, high
        panel.curves.append(curve)
    return panel


def rate_panel(run: Run) -> Panel:
    """Return the throughput, total and by rank, against time."""
    panel = Panel("examples/s", "seconds", from_zero=True)
    if not run.has_rates:
        return panel
    rates = run.rates(final=True)
    if not np.isfinite(rates.total).any():
        return panel
    x, columns = thin(rates.time, finite(np.column_stack([rates.total, rates.each])), _BUCKETS)
    total, each = columns[:, 0], columns[:, 1:]
    several = len(rates.ranks) > 1
    panel.curves.append(Curve("total" if several else "rank " + str(rates.ranks[0]), x, total, 0))
    if several and len(rates.ranks) <= MOST_RANKS:
        for column, rank in enumerate(rates.ranks):
            panel.curves.append(Curve(f"rank {rank}", x, each[:, column], column + 1, strong=False))
    elif several:
        band = Curve(f"{len(rates.ranks)} ranks, least to most", x, np.full(len(x), np.nan), 1)
        there = np.isfinite(each)
        band.low = finite(np.where(there, each, np.inf).min(axis=1))
        band.high = finite(np.where(there, each, -np.inf).max(axis=1))
        panel.curves.append(band)
    return panel


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def _panel(panel: Panel, x0: float, width: float) -> str:
    curves = panel.curves
    right = [c for c in curves if c.right]
    start, end = x0 + _LEFT, x0 + width - (_LEFT if right else _RIGHT) - 8
    top, bottom = _TOP, HEIGHT - _BOTTOM
    across = _scale([c.x for c in curves], start, end, margin=0.0)
    left_scale = _scale(_heights([c for c in curves if not c.right]), bottom, top, from_zero=panel.from_zero)
    right_scale = _scale(_heights(right), bottom, top)
    parts = [_legend(panel, x0 + _LEFT, end, bool(right))]
    marks = ticks(left_scale.low, left_scale.high)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    for value in marks:
        y = left_scale(value)
        parts.append(f'<path d="M{start:.1f} {y:.1f}H{end:.1f}" stroke="{INK}" stroke-opacity=".22"/>')
        parts.append(_text(start - 7, y + 4, tick_label(value, step), "end"))
    if right:
        marks = ticks(right_scale.low, right_scale.high)
        step = marks[1] - marks[0] if len(marks) > 1 else 1.0
        parts += [_text(end + 7, right_scale(v) + 4, tick_label(v, step), "start") for v in marks]
    marks = ticks(across.low, across.high)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    parts.append(f'<path d="M{start:.1f} {bottom}H{end:.1f}" stroke="{INK}" stroke-opacity=".7"/>')
    for value in marks:
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {bottom}v4" stroke="{INK}" stroke-opacity=".7"/>')
        parts.append(_text(x, bottom + 17, tick_label(value, step), "middle"))
    parts.append(_text((start + end) / 2, HEIGHT - 6, panel.x_label, "middle"))
    for curve in sorted(curves, key=lambda c: c.strong):
        parts.append(_curve(curve, across, right_scale if curve.right else left_scale))
    return "".join(parts)


def _curve(curve: Curve, across: _Scale, up: _Scale) -> str:
    paint = colour(curve.index)
    parts = []
    if curve.low is not None and curve.high is not None:
        for run in _stretches(np.isfinite(curve.low) & np.isfinite(curve.high)):
            there = [
                f"{across(x):.1f} {up(y):.1f}" for x, y in zip(curve.x[run], curve.high[run], strict=True)
            ]
            back = [f"{across(x):.1f} {up(y):.1f}" for x, y in zip(curve.x[run], curve.low[run], strict=True)]
            parts.append(f'<path d="M{"L".join(there + back[::-1])}Z" fill="{paint}" fill-opacity=".2"/>')
    style = f'stroke-width="{1.8 if curve.strong else 1.2}"' + (
        "" if curve.strong else ' stroke-opacity=".8"'
    )
    if pattern := dash(curve.index):
        style += f' stroke-dasharray="{pattern}"'
    for run in _stretches(np.isfinite(curve.y)):
        points = [f"{across(x):.1f} {up(y):.1f}" for x, y in zip(curve.x[run], curve.y[run], strict=True)]
        if len(points) == 1:
            x, y = points[0].split()
            parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{paint}"/>')
        else:
            parts.append(
                f'<path d="M{"L".join(points)}" fill="none" stroke="{paint}" stroke-linejoin="round" '
                f'stroke-linecap="round" {style}/>'
            )
    return "".join(parts)


def _legend(panel: Panel, start: float, end: float, two_sided: bool) -> str:
    """Name the curves above the panel, as many as fit; the table below has all of them."""
    parts, x, y = [], start, 14.0
    if panel.from_zero:
        parts.append(_text(x, y + 4, panel.title, "start", bold=True))
        x += 7.2 * len(panel.title) + 14
    for curve in panel.curves:
        label = curve.label
        if two_sided:
            label += " →" if curve.right else " ←"
        width = 24 + 6.6 * len(label) + 12
        if x + width > end + 20:
            if y > 20:
                parts.append(_text(x, y + 4, "…", "start"))
                break
            x, y = start, y + 17
        paint, pattern = colour(curve.index), dash(curve.index)
        dashes = f' stroke-dasharray="{pattern}"' if pattern else ""
        line = f'<path d="M{x:.1f} {y}h16" stroke="{paint}" stroke-width="2.5"{dashes}/>'
        parts.append(line + _text(x + 22, y + 4, label, "start"))
        x += width
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def _heights(curves: list[Curve]) -> list[Floats]:
    return [values for c in curves for values in (c.y, c.low, c.high) if values is not None]


def _scale(
    values: list[Floats], start: float, end: float, margin: float = 0.06, *, from_zero: bool = False
) -> _Scale:
    known = np.concatenate([*values, np.empty(0)])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if from_zero:
        low = min(0.0, low)
    if low == high:
        room = abs(low) * 0.5 or 1.0
        low, high = (low, low + 1.0) if margin == 0 else (low - room, high + room)
    room = margin * (high - low)
    return _Scale(low if from_zero else low - room, high + room, start, end)


def _stretches(there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[slice]:
    """Return the unbroken stretches of true values."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]])))
    return [slice(int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True)]
