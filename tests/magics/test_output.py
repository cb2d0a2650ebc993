"""The ranks' output as one readable stream."""

from __future__ import annotations

import queue

import pytest

from nbdist.cluster import Output
from nbdist.magics.output import Merger


def _feed(merger: Merger, rank: int, text: str, name: str = "stdout") -> None:
    merger.feed(Output(rank=rank, kind="stream", content={"name": name, "text": text}))


def test_equal_lines_once_others_in_rank_order(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger(range(3), window=60)
    for rank in (2, 0, 1):
        _feed(merger, rank, f"same\nmine {rank}\nsame again\n")
    merger.flush(final=True)
    assert capsys.readouterr().out.splitlines() == [
        "[0-2] same",
        "[0]   mine 0",
        "[1]   mine 1",
        "[2]   mine 2",
        "[0-2] same again",
    ]


def test_what_is_printed_in_one_go_stays_together(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger(range(2), window=60)
    for rank in range(2):
        _feed(merger, rank, f"{rank}a\n{rank}b\nboth\n{rank}c\n")
    merger.flush(final=True)
    shown = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["0a", "0b", "1a", "1b", "both", "0c", "1c"]


def test_a_line_waits_for_the_others_but_not_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    patient, hasty = Merger(range(2), window=60), Merger(range(2), window=0)
    for merger in (patient, hasty):
        _feed(merger, 0, "one\n")
        merger.flush()
    assert capsys.readouterr().out == "[0]   one\n", "only the hasty one has shown it"
    _feed(patient, 1, "one\n")
    patient.flush()
    assert capsys.readouterr().out == "[0-1] one\n"


def test_pieces_become_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger(range(2), window=0)
    for piece in ("ha", "lf\nre", "st"):
        _feed(merger, 0, piece)
        _feed(merger, 1, piece.upper())
        merger.flush()
    assert capsys.readouterr().out.splitlines() == ["[0]   half", "[1]   HALF"]
    merger.flush(final=True)
    assert capsys.readouterr().out.splitlines() == ["[0]   rest", "[1]   REST"]


def test_stdout_and_stderr_stay_apart(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger([0], window=0)
    _feed(merger, 0, "out\n")
    _feed(merger, 0, "err\n", name="stderr")
    merger.flush()
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("[0] out\n", "[0] err\n")


def _bundle(merger: Merger, rank: int, text: str, kind: str = "display_data", identity: str = "") -> None:
    content = {
        "data": {"text/plain": text, "text/html": f"<b>{text}</b>"},
        "metadata": {},
        "transient": {"display_id": identity} if identity else {},
    }
    merger.feed(Output(rank=rank, kind=kind, content=content))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What stays of the bundles, updates applied, in the order of their places."""
    places: dict[str, str] = {}
    monkeypatch.setattr(
        "IPython.display.publish_display_data",
        lambda data, metadata, transient, update: places.update(
            {transient["display_id"]: data["text/plain"]}
        ),
    )
    return _Values(places)


class _Values(list[str]):
    def __init__(self, places: dict[str, str]) -> None:
        self._places = places

    def __eq__(self, other: object) -> bool:
        return list(self._places.values()) == other

    __hash__ = None  # type: ignore[assignment]


def _bars(merger: Merger, rank: int, *bars: str) -> None:
    merger.feed(Output(rank=rank, kind="nbdist_bars", content={"bars": list(bars)}))


def test_bars_are_a_line_a_rank_in_one_place(shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger(range(3), window=0)
    for done in range(100):
        for rank in range(3):
            _bars(merger, rank, f"{done} %")
        merger.flush()
    _bars(merger, 2, "nearly", "inner")
    merger.flush(final=True)
    assert shown == ["[0-1] 99 %\n[2]   nearly\n[2]   inner"]
    assert capsys.readouterr().out == ""


def test_bars_on_a_terminal_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger([0], window=0, live=False)
    for done in range(100):
        _bars(merger, 0, f"{done} %")
        merger.flush()
    merger.flush(final=True)
    assert capsys.readouterr().out.splitlines() == ["[0] 0 %", "[0] 99 %"], "a bar is not a flood"


def test_figures_come_in_rank_order(shown: list[str]) -> None:
    merger = Merger(range(3), window=0)
    for rank in (2, 1, 0):
        for name in ("figure", "table"):
            _bundle(merger, rank, f"{name} {rank}")
        merger.flush()
    merger.flush(final=True)
    assert shown == [f"{name} {rank}" for name in ("figure", "table") for rank in range(3)]


def test_a_figure_does_not_wait_for_ranks_that_have_ended(shown: list[str]) -> None:
    merger = Merger(range(2), window=0)
    _bundle(merger, 1, "figure")
    merger.flush()
    assert shown == []
    merger.feed_all(queue.SimpleQueue(), ended=[0])
    merger.flush()
    assert shown == ["figure"]


def test_last_expressions_come_last_and_in_rank_order(shown: list[str]) -> None:
    merger = Merger(range(3), window=0)
    for rank in (1, 0, 2):
        _bundle(merger, rank, f"result {rank % 2}", kind="execute_result")
        merger.flush()
        _bundle(merger, rank, f"figure {rank}")
    merger.flush(final=True)
    assert shown == ["figure 0", "figure 1", "figure 2", "result 0", "result 1"]


def test_an_update_changes_its_own_ranks_display(shown: list[str]) -> None:
    merger = Merger(range(2), window=0)
    for rank in range(2):
        _bundle(merger, rank, "same", identity="chosen")
        merger.flush()
        for state in range(5):
            _bundle(merger, rank, f"{state} of {rank}", kind="update_display_data", identity="chosen")
        merger.flush()
    merger.flush(final=True)
    assert shown == ["4 of 0", "4 of 1"]


def test_clear_output_clears_its_own_ranks_output(
    shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    merger = Merger(range(2), window=0)
    _feed(merger, 1, "stays\n")
    for turn in range(3):
        merger.feed(Output(rank=0, kind="clear_output", content={"wait": True}))
        _feed(merger, 0, f"turn {turn}\nloss\n")
        _bundle(merger, 0, f"figure {turn}")
        merger.flush()
    merger.flush(final=True)
    assert shown == ["[0] turn 2\n[0] loss", "figure 2"]
    assert capsys.readouterr().out == "[1]   stays\n"


def test_many_ranks_are_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    last: dict[str, str] = {}
    monkeypatch.setattr(
        "IPython.display.publish_display_data", lambda data, metadata, transient, update: last.update(data)
    )
    merger = Merger(range(32), window=60)
    for rank in range(32):
        _feed(merger, rank, "same\n" + "".join(f"\x1b[31m{i} <{rank}>\x1b[0m\n" for i in range(20)))
    _feed(merger, 3, "alone\n", name="stderr")
    merger.flush(final=True)
    assert capsys.readouterr().out == "[0-31] same\n"
    assert last["text/html"].count("<details>") == 32
    assert "<summary>[31] 20 lines · 19 &lt;31&gt;</summary>" in last["text/html"]
    assert "[3] stderr alone" in last["text/html"]
    assert last["text/plain"].count("\n") == 32 * 20
    assert "[31] \x1b[31m0 <31>" in last["text/plain"]


def test_results_are_tagged(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger(range(2), window=60)
    for rank in range(2):
        content = {"data": {"text/plain": "2\n3"}, "metadata": {}}
        merger.feed(Output(rank=rank, kind="execute_result", content=content))
    merger.flush(final=True)
    assert capsys.readouterr().out == "[0-1] 2\n[0-1] 3\n"
