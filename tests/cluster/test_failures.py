"""Replies become one error, root causes first."""

from __future__ import annotations

from nbdist.cluster import Reply
from nbdist.cluster.failures import error_of


def _failed(rank: int, name: str, *, released: bool = False, prompt: int = 1) -> Reply:
    return Reply(
        rank=rank,
        ok=False,
        name=name,
        message="why",
        traceback=(f"Cell In[{prompt}], line 1", name),
        host="h",
        released=released,
    )


def test_no_failure_is_no_error() -> None:
    assert error_of([Reply(rank=0, ok=True)], {}) is None


def test_equal_failures_are_one_even_at_other_prompts() -> None:
    error = error_of([_failed(0, "KeyError", prompt=3), _failed(1, "KeyError", prompt=7)], {})
    assert error is not None
    assert [failure.ranks for failure in error.failures] == [(0, 1)]


def test_released_ranks_are_no_root_cause() -> None:
    replies = [_failed(0, "GroupAborted", released=True), _failed(1, "ValueError"), Reply(rank=2, ok=True)]
    error = error_of(replies, {})
    assert error is not None
    assert [failure.name for failure in error.failures] == ["ValueError"]
    assert error.released == (0,)


def test_released_ranks_tell_when_nothing_else_does() -> None:
    error = error_of([_failed(0, "GroupAborted", released=True), Reply(rank=1, ok=True)], {})
    assert error is not None
    assert [failure.ranks for failure in error.failures] == [(0,)]
    assert error.released == ()
