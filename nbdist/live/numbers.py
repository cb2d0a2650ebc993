"""Numbers as a reader wants them: round ticks, few digits, units."""

from __future__ import annotations

import math

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most `most` + 1 round values (1, 2 or 5 times a power of ten) within the range."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low] if math.isfinite(low) else []
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(m * power for m in (1, 2, 5, 10, 20) if span / (m * power) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """Write a tick with just the digits its neighbours need."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.3g}"
    for unit, prefix in _PREFIXES:
        if size >= unit and (unit > 1e3 or size >= 1e4):
            return f"{value / unit:.{_digits(step / unit)}f}{prefix}"
    return f"{value:.{_digits(step)}f}"


def figure(value: float) -> str:
    """Write a metric with four significant digits."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-4 or size >= 1e6:
        return f"{value:.3e}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"


def rate(value: float) -> str:
    """Write examples a second."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(amount: float) -> str:
    """Write bytes with a decimal unit."""
    for unit, prefix in _PREFIXES:
        if amount >= unit:
            return f"{amount / unit:.3g} {prefix}B"
    return f"{amount:.0f} B"


def duration(seconds: float) -> str:
    """Write a time span: 4.2 s, 1:05 min, 2:03:04 h."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d} h"


def _digits(step: float) -> int:
    """Return the decimals that tell multiples of `step` apart."""
    step = abs(step)
    if step == 0 or not math.isfinite(step):
        return 0
    return max(0, -math.floor(math.log10(step) + 1e-9))
