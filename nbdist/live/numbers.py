"""Numbers as a reader wants them: round ticks, few digits, units."""

from __future__ import annotations

import math

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Return about `most` round values (multiples of 1, 2 or 5 times a power of ten) within the range."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low] if math.isfinite(low) else []
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(m * power for m in (1, 2, 5, 10, 20) if span / (m * power) < most + 0.5)
    if whole:
        step = max(1, round(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def tick_labels(values: list[float]) -> list[str]:
    """Write the ticks of an axis in one unit, with just the digits that tell them apart."""
    largest = max(map(abs, values), default=0.0)
    step = values[1] - values[0] if len(values) > 1 else largest
    if largest >= 1e15 or 0 < largest < 1e-3:
        return [f"{value:.3g}" for value in values]
    unit, prefix = 1.0, ""
    if largest >= 1e4:
        unit, prefix = next(pair for pair in _PREFIXES if largest >= pair[0])
    digits = _digits(step / unit)
    return [f"{value / unit:.{digits}f}{prefix}" if value else "0" for value in values]


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
    """Count the decimals that multiples of `step` need."""
    step = abs(step)
    enough = (n for n in range(8) if abs(step * 10**n - round(step * 10**n)) < 1e-6 * max(1.0, step * 10**n))
    return next(enough, 8)
