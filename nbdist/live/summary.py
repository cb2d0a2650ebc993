"""The figures a run ends with, as a table."""

from __future__ import annotations

import html

import numpy as np

from .numbers import duration, figure, rate, size
from .store import Run

HEAD = ("metric", "last", "min", "max", "mean")


def metric_rows(run: Run) -> list[tuple[str, ...]]:
    """Return a row for each metric: its name, then the columns of `HEAD`.

    Least and greatest are those of the mean over ranks, the line that is drawn.
    """
    rows = []
    for name in run.metrics():
        line = run.line(name).mean
        line = line[np.isfinite(line)]
        low, high = (line.min(), line.max()) if len(line) else (np.nan, np.nan)
        rows.append((name, *(figure(float(v)) for v in (run.last(name), low, high, run.mean(name)))))
    return rows


def facts(run: Run) -> list[tuple[str, str]]:
    """Return what else is worth keeping: throughput, traffic, steps and time."""
    progress = run.progress()
    found = []
    if run.has_rates:
        total = run.rates(final=True).total
        last = total[-1] if len(total) else np.nan
        found.append(("examples/s", f"{rate(run.average_rate())} average, {rate(float(last))} last"))
    if run.bytes_moved():
        found.append(("moved round the ring", size(run.bytes_moved())))
    if progress.step is not None:
        whole = f" of {progress.total:,}" if progress.total else ""
        found.append(("steps", f"{progress.step:,}{whole}"))
    ranks = run.ranks()
    found.append(("ranks", str(len(ranks))))
    found.append(("time", duration(progress.elapsed)))
    return found


def as_text(run: Run) -> str:
    """Return the table in aligned plain text."""
    rows = metric_rows(run)
    parts = []
    if rows:
        table = [HEAD, *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
        parts += [
            "  ".join(
                cell.rjust(w) if i else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        ]
        parts.append("")
    width = max(len(name) for name, _ in facts(run))
    parts += [f"{name.ljust(width)}  {value}" for name, value in facts(run)]
    return "\n".join(parts)


def as_html(run: Run) -> str:
    """Return the table in HTML that takes its looks from wherever it is shown."""
    cell = "text-align:right;font-variant-numeric:tabular-nums"
    lines = []
    rows = metric_rows(run)
    if rows:
        head = "".join(
            f'<th scope="col" style="text-align:{"right" if i else "left"}">{name}</th>'
            for i, name in enumerate(HEAD)
        )
        lines.append(f'<table style="margin-left:0"><thead><tr>{head}</tr></thead><tbody>')
        for name, *values in rows:
            cells = "".join(f'<td style="{cell}">{value}</td>' for value in values)
            lines.append(f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>{cells}</tr>')
        lines.append("</tbody></table>")
    told = " · ".join(f"{name}&nbsp;<b>{html.escape(value)}</b>" for name, value in facts(run))
    lines.append(f"<p>{told}</p>")
    return "".join(lines)
