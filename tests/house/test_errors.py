"""Errors carry what a reader and a program need."""

from __future__ import annotations

import pickle

import pytest

from nbdist.errors import GroupAborted, RankError, RankFailure, UsageError, rank_list


@pytest.mark.parametrize(
    ("ranks", "text"), [((0,), "0"), ((0, 1, 2, 3), "0-3"), ((5, 0, 2, 1), "0-2,5"), ((0, 1), "0-1")]
)
def test_rank_list(ranks: tuple[int, ...], text: str) -> None:
    assert rank_list(ranks) == text


def test_an_error_shows_as_one_line() -> None:
    assert UsageError("do that")._render_traceback_() == ["UsageError: do that"]


def test_a_rank_error_leads_with_the_root_cause() -> None:
    failure = RankFailure(ranks=(2,), host="h", name="ValueError", message="bad", traceback=("line 3",))
    error = RankError([failure], released=(0, 1))
    assert str(error) == "rank 2: ValueError: bad"
    shown = error._render_traceback_()
    assert shown[0].startswith("[2] ValueError")
    assert "[0-1]" in shown[-1]


def test_group_aborted_keeps_its_parts_when_sent() -> None:
    error = pickle.loads(pickle.dumps(GroupAborted("why", 2, "all_reduce")))
    assert (str(error), error.rank, error.operation) == ("why", 2, "all_reduce")
