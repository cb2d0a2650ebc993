"""The ranks' output as one readable stream."""

from __future__ import annotations

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


def test_a_progress_bar_shows_its_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger([0], window=0)
    for done in range(100):
        _feed(merger, 0, f"\r{done} %", name="stderr")
        merger.flush()
    _feed(merger, 0, "\r100 %\n", name="stderr")
    merger.flush(final=True)
    shown = capsys.readouterr().err.splitlines()
    assert shown[-1] == "[0] 100 %"
    assert len(shown) < 5, "a bar is not a flood"


def test_results_are_tagged(capsys: pytest.CaptureFixture[str]) -> None:
    merger = Merger(range(2), window=60)
    for rank in range(2):
        content = {"data": {"text/plain": "2\n3"}, "metadata": {}}
        merger.feed(Output(rank=rank, kind="execute_result", content=content))
    merger.flush(final=True)
    assert capsys.readouterr().out == "[0-1] 2\n[0-1] 3\n"
