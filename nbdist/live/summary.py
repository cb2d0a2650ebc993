"""The figures a run ends with, as a table."""

from __future__ import annotations

import html

import numpy as np

from .numbers import duration, figure, rate, size
from .store import Progress, Run

_LEFT = 'style="text-align:left"'

HEAD = ("metric", "last", "min", "max", "mean")


def metric_rows(run: Run) -> list[tuple[str, ...]]:
    """Return a row for each metric: its name, then the columns of `HEAD`.

    Last is the mean over ranks; the others are of every figure that any rank logged.
    """
    rows = []
    for name in run.metrics():
        all_of_it = run.account(name)
        values = run.last(name), all_of_it.least, all_of_it.greatest, all_of_it.mean
        rows.append((name, *(figure(value) for value in values)))
    return rows


def facts(run: Run) -> list[tuple[str, str]]:
    """Return what else is worth keeping: throughput, traffic, steps and time."""
    progress = run.progress()
    found = []
    if np.isfinite(run.average_rate()):
        last = run.rate(final=True)
        at_end = f", {rate(last)} at the end" if np.isfinite(last) else ""
        found.append(("examples/s", f"{rate(run.average_rate())} on average{at_end}"))
    if run.bytes_moved():
        found.append(("moved", size(run.bytes_moved())))
    if progress.step is not None:
        found.append(("steps", _steps(progress)))
    found.append(("time", duration(progress.elapsed)))
    return found


def sentence(run: Run) -> str:
    """Return the facts as one line to read."""
    progress = run.progress()
    told = []
    if np.isfinite(run.average_rate()):
        last = run.rate(final=True)
        at_end = f" ({rate(last)} at the end)" if np.isfinite(last) else ""
        told.append(f"{rate(run.average_rate())} examples/s{at_end}")
    if run.bytes_moved():
        told.append(f"{size(run.bytes_moved())} moved")
    if progress.step is not None:
        told.append(f"{_steps(progress)} step{'s' if progress.step != 1 else ''}")
    told.append(duration(progress.elapsed))
    return " · ".join(told)


def missing(run: Run) -> str:
    """Say what is missing, if anything is."""
    count = run.dropped()
    if not count:
        return ""
    rows = f"{count:,} rows of figures were" if count != 1 else "1 row of figures was"
    return f"{rows} lost on the way and missing above; log less often to keep all."


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
    if note := missing(run):
        parts += ["", note]
    return "\n".join(parts)


def as_html(run: Run) -> str:
    """Return the table in HTML that takes its looks from wherever it is shown."""
    note = missing(run)
    told = f'<p style="margin:6px 0 0">{note}</p>' if note else ""
    rows = metric_rows(run)
    if not rows:
        return told
    number = 'style="text-align:right;font-variant-numeric:tabular-nums"'
    head = "".join(f'<th scope="col" {number if i else _LEFT}>{name}</th>' for i, name in enumerate(HEAD))
    lines = [f'<table style="margin-left:0"><thead><tr>{head}</tr></thead><tbody>']
    for name, *values in rows:
        cells = "".join(f"<td {number}>{value}</td>" for value in values)
        lines.append(f'<tr><th scope="row" {_LEFT}>{html.escape(name)}</th>{cells}</tr>')
    return "".join([*lines, "</tbody></table>", told])


def _steps(progress: Progress) -> str:
    return f"{progress.step:,}" + (f" of {progress.total:,}" if progress.total else "")
