"""How much of a flood goes to the notebook."""

from __future__ import annotations

from nbdist.engine.budget import Budget


def _flood(budget: Budget, lines: range, piece: int) -> tuple[str, str]:
    """Return what comes at once, and what comes at the end."""
    shown = ""
    for start in range(lines.start, lines.stop, piece):
        shown += budget.admit("stdout", "".join(f"line {i}\n" for i in lines[start : start + piece]))
    return shown, "".join(text for _, text in budget.finish())


def test_what_is_no_flood_passes_as_it_comes() -> None:
    shown, rest = _flood(Budget(10_000, 1_000), range(100), 7)
    assert shown == "".join(f"line {i}\n" for i in range(100))
    assert rest == ""


def test_of_a_flood_the_beginning_and_the_end_are_shown_in_whole_lines() -> None:
    for piece in (1, 100, 10_000):
        shown, rest = _flood(Budget(10_000, 1_000), range(10_000), piece)
        first, (note, *last) = shown.splitlines(), rest.splitlines()
        assert first == [f"line {i}" for i in range(len(first))]
        assert last == [f"line {i}" for i in range(10_000 - len(last), 10_000)]
        assert note.startswith(f"… {10_000 - len(first) - len(last):,} lines left out here")
        assert len(shown) < 10_000
        assert 10 < len(last) < 100


def test_a_line_without_an_end_is_cut_too() -> None:
    budget = Budget(1_000, 500)
    shown = "".join(budget.admit("stderr", "x" * 1_000) for _ in range(100))
    rest = budget.finish()
    assert len(shown) <= 1_000
    assert "characters left out" in rest[0][1]
    assert sum(len(text) for _, text in rest) < 1_500
    assert {name for name, _ in rest} == {"stderr"}


def test_what_is_left_out_is_told_while_it_goes_on() -> None:
    budget = Budget(100, 100)
    assert budget.notice() == ""
    budget.admit("stdout", "".join(f"line {i}\n" for i in range(500)))
    assert "the latest: line 499" in budget.notice()
