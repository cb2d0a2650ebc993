"""What stays: a picture that is well formed, a table, and nothing that needs a kernel."""

from __future__ import annotations

import base64
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbdist.live import numbers, palette, picture, result, summary
from nbdist.live.axes import reach
from nbdist.live.message import decode
from nbdist.live.store import Run

from .ranks import KEY, encode

SVG = "{http://www.w3.org/2000/svg}"


def run_of(count: int, ranks: int = 1, metrics: dict[str, list[float]] | None = None, **more: Any) -> Run:
    """Return a run of that many steps, ten a second, 50 examples each."""
    run = Run()
    metrics = metrics or {"loss": np.linspace(2, 1, count).tolist()}
    for rank in range(ranks):
        columns = {
            "time": [1e9 + s / 10 for s in range(count)],
            "step": [float(s) for s in range(count)],
            "examples": [50.0] * count,
            **{name: [v + 0.01 * rank for v in values] for name, values in metrics.items()},
        }
        run.add(decode(encode(columns, rank=rank, moved=3_000_000, **more), KEY))
    return run


def shapes(svg: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(SVG + tag))


NAN, INF = math.nan, math.inf

AWKWARD: dict[str, Callable[[], Run]] = {
    "one point": lambda: run_of(1),
    "two points": lambda: run_of(2),
    "a million points": lambda: run_of(1_000_000),
    "seldom logged": lambda: run_of(
        6, metrics={"loss": [1, 2, 3, 4, 5, 6], "f1": [1, NAN, NAN, 2, NAN, NAN]}
    ),
    "infinities": lambda: run_of(6, metrics={"loss": [1, INF, 2, -INF, 3, 4]}),
    "diverged": lambda: run_of(3, ranks=2, metrics={"loss": [1, 2, NAN]}, nan={"loss": [2]}),
    "diverged at once": lambda: run_of(2, metrics={"loss": [NAN, NAN]}, nan={"loss": [0, 1]}),
    "nothing finite": lambda: run_of(3, metrics={"loss": [INF, INF, INF]}),
    "constant": lambda: run_of(4, metrics={"loss": [0, 0, 0, 0]}),
    "huge and tiny": lambda: run_of(3, metrics={"loss": [1e300, 1e-300, 1], "lr": [1e-9, 1e-8, 1e-7]}),
    "odd names": lambda: run_of(3, metrics={'<b>&"loss"\'</b>': [1, 2, 3], "准确率": [1, 2, 3]}),
    "many metrics": lambda: run_of(5, metrics={f"metric_{i}": [i] * 5 for i in range(20)}),
    "two ranks": lambda: run_of(20, ranks=2),
    "many ranks": lambda: run_of(20, ranks=32),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_picture_is_well_formed_and_finite(name: str) -> None:
    run = AWKWARD[name]()
    svg = picture.draw(run)
    root = ET.fromstring(svg)
    assert root.tag == SVG + "svg"
    assert root.get("aria-label")
    for shape in root.iter():
        for value in shape.attrib.values():
            assert not re.search(r"\b(nan|inf)\b", value) or "finite" in value, value
    assert len(svg) < 400_000
    bundle = result.bundle(run, "a <title>")
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    assert "a &lt;title&gt;" in bundle["text/html"]
    for data in re.findall(r"base64,([^\"]+)", bundle["text/html"]):
        ET.fromstring(base64.b64decode(data))


def test_one_point_is_a_dot_and_gaps_break_the_line() -> None:
    assert len(shapes(picture.draw(run_of(1)), "circle")) == 1
    assert len(shapes(picture.draw(AWKWARD["infinities"]()), "circle")) == 2


def test_a_spike_does_not_flatten_the_rest() -> None:
    calm = np.linspace(1.0, 0.5, 1000)
    spiky = calm.copy()
    spiky[3:6] = 40.0
    low, high = reach(spiky)
    assert low == 0.5
    assert 1.0 < high < 1.5
    assert reach(calm) == (0.5, 1.0)
    assert reach(np.array([1.0, 40.0])) == (1.0, 40.0)
    assert reach(np.r_[np.ones(100), 2.0]) == (1.0, 2.0)
    ET.fromstring(picture.draw(run_of(1000, metrics={"loss": spiky.tolist()})))


def test_where_nothing_can_be_drawn_there_is_no_picture() -> None:
    run = Run()
    run.add(decode(encode({"time": [1.0] * 3, "step": [0.0, 1.0, 2.0], "examples": [4.0] * 3}), KEY))
    assert not run.empty
    forms = result.bundle(run, "short")
    assert set(forms) == {"text/html", "text/plain"}
    assert "<img" not in forms["text/html"]
    assert "3 steps" in forms["text/html"]
    assert "steps  3" in forms["text/plain"]


def test_where_only_throughput_is_known_it_stands_alone() -> None:
    run = Run()
    columns = {"time": [0.0, 1.0, 2.0], "step": [0.0, 1.0, 2.0], "examples": [4.0] * 3}
    run.add(decode(encode(columns), KEY))
    forms = result.bundle(run, "no metric")
    assert forms["text/html"].count("<img") == 1
    assert forms["image/svg+xml"].count("<clipPath") == 1


def test_ranks_that_are_equally_fast_all_show() -> None:
    dashes = [palette.interleave(place, 4) for place in range(4)]
    assert dashes == [None, "18 6", "12 12", "6 18"]
    thin = [p.get("stroke-dasharray") for p in shapes(picture.draw(run_of(40, ranks=4)), "path")]
    assert [d for d in thin if d] == dashes[1:]


def test_the_band_is_explained() -> None:
    assert "band: range of the ranks" in picture.draw(run_of(20, ranks=2))
    assert picture.describe_metrics(run_of(20, ranks=2)).endswith("Band: range of the ranks.")
    assert "band:" not in picture.draw(run_of(20))


def test_no_picture_has_a_ground() -> None:
    assert not shapes(picture.draw(AWKWARD["two ranks"]()), "rect")


def test_html_names_the_picture_and_escapes_names() -> None:
    page = result.bundle(AWKWARD["odd names"](), "x")["text/html"]
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
    assert page.count("<img alt=") == 2
    assert "widget" not in page


def test_text_table_is_aligned() -> None:
    run = run_of(3, ranks=2, metrics={"loss": [4.0, 2.0, 1.0], "accuracy": [0.1, 0.5, 0.9]})
    lines = summary.as_text(run).splitlines()
    assert lines[0].split() == ["metric", "last", "min", "max", "mean"]
    assert lines[1].split() == ["loss", "1.005", "1.000", "4.010", "2.338"]
    assert len({len(line) for line in lines[:3]}) == 1
    facts = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines[4:]}
    assert facts["moved"] == "6 MB"
    assert facts["steps"] == "3"
    assert facts["examples/s"] == "1,000 on average, 1,000 at the end"


def test_a_run_too_short_for_a_moving_rate_tells_the_average_alone() -> None:
    run = Run()
    columns = {"time": [5.0, 5.01], "step": [0.0, 1.0], "examples": [2.0, 2.0], "loss": [1.0, 1.0]}
    run.add(decode(encode(columns), KEY))
    assert np.isnan(run.rate(final=True))
    assert "examples/s  200 on average\n" in summary.as_text(run)
    assert summary.sentence(run).startswith("200 examples/s · ")


def test_lost_rows_are_told_under_the_table() -> None:
    whole, holed = run_of(3), run_of(3, ranks=2, dropped=600)
    assert "lost" not in "".join(result.bundle(whole, "x").values())
    told = "1,200 rows of figures were lost on the way and missing above; log less often to keep all."
    page = result.bundle(holed, "x")
    assert page["text/plain"].endswith("\n\n" + told)
    assert page["text/html"].endswith(f"{told}</p>")
    assert summary.missing(run_of(3, dropped=1)).startswith("1 row of figures was lost")


@pytest.mark.parametrize("dropped", [-1, True, "many", None])
def test_a_count_of_lost_rows_that_is_none_is_overlooked(dropped: object) -> None:
    assert run_of(3, dropped=dropped).dropped() == 0


def test_alt_text_tells_the_course() -> None:
    about = picture.describe(run_of(11, ranks=2))
    assert about.startswith("Curves of 2 ranks: loss from 2.005 to 1.005 at step 10.")
    assert "1,000 examples/s" in about


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 12_900, ["0", "2k", "4k", "6k", "8k", "10k", "12k"]),
        (0, 13_100, ["0", "5k", "10k"]),
        (0, 10_100, ["0", "2k", "4k", "6k", "8k", "10k"]),
        (0.31, 0.3105, ["0.3100", "0.3101", "0.3102", "0.3103", "0.3104", "0.3105"]),
        (-1, 1, ["-1.0", "-0.5", "0", "0.5", "1.0"]),
        (0, 2e-7, ["0", "5e-08", "1e-07", "1.5e-07", "2e-07"]),
        (3, 3, ["3"]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    assert numbers.tick_labels(numbers.ticks(low, high)) == expected


def test_steps_have_whole_ticks() -> None:
    assert numbers.ticks(0, 3, whole=True) == [0, 1, 2, 3]
    assert numbers.ticks(-1, 1, whole=True) == [-1, 0, 1]


def test_numbers_for_readers() -> None:
    assert [numbers.figure(v) for v in (0.31234, 12.3456, 0, 1e-7, 123456.0, math.inf)] == [
        "0.3123",
        "12.35",
        "0",
        "1.000e-07",
        "123456",
        "inf",
    ]
    assert [numbers.duration(v) for v in (1.24, 42, 75, 7384)] == ["1.2 s", "42 s", "1:15 min", "2:03:04 h"]
    assert [numbers.size(v) for v in (12, 1.5e6, 2e9)] == ["12 B", "1.5 MB", "2 GB"]


def test_picture_and_chart_use_the_same_colours() -> None:
    source = Path(palette.__file__).parent / "js" / "src" / "palette.ts"
    named = re.findall(r"#[0-9A-F]{6}", source.read_text().split("];")[0])
    assert tuple(named) == palette.COLOURS
    assert palette.dash(7) is None
    assert palette.dash(8) is not None
    assert palette.colour(8) == palette.colour(0)
