"""The words and figures above the curves."""

from __future__ import annotations

from typing import Any

from .numbers import duration, figure, rate, size
from .store import Run

_QUIET = 5.0
"""After this many seconds without a figure the view says so."""


def describe(run: Run, title: str, status: str, elapsed: float, quiet: float = 0.0) -> dict[str, Any]:
    """Return the header of the live view, ready to be shown."""
    progress = run.progress()
    facts = []
    if progress.step is not None:
        facts.append(f"step {progress.step:,}" + (f" of {progress.total:,}" if progress.total else ""))
    if progress.epoch is not None:
        facts.append(f"epoch {progress.epoch + 1:g}")
    facts.append(duration(elapsed))
    if status == "running" and progress.remaining is not None:
        facts.append(f"{duration(progress.remaining)} left")
    if status == "running" and quiet > _QUIET:
        facts.append(f"no new figures for {duration(quiet)}")
    values = [[name, figure(run.last(name))] for name in run.metrics()]
    if run.has_rates:
        values.append(["examples/s", rate(run.rate())])
    if run.bytes_moved():
        values.append(["moved", size(run.bytes_moved())])
    return {
        "title": title,
        "status": status,
        "facts": facts,
        "values": values,
        "fraction": progress.fraction,
    }


def one_line(state: dict[str, Any]) -> str:
    """Write the header as a line of text."""
    parts = [state["title"], *state["facts"], *(f"{name} {value}" for name, value in state["values"])]
    return " · ".join(parts)
