"""A rank's text as a terminal would show it."""

from __future__ import annotations

import pytest
from tqdm import tqdm

from nbdist.engine.screen import Screen


class _Terminal:
    """A file for tqdm: keeps what a screen has finished, and every state of its bars."""

    def __init__(self) -> None:
        self.screen = Screen()
        self.text = self.bars = ""
        self.states: list[tuple[str, ...]] = []

    def write(self, text: str) -> None:
        for piece, bar in self.screen.feed(text):
            self.bars += piece * bar
            self.text += piece * (not bar)
        self.states.append(self.screen.bars())

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("pieces", [["one\ntwo\nthr", "ee\n"], list("one\ntwo\nthree\n")])
def test_plain_lines_come_whole(pieces: list[str]) -> None:
    screen = Screen()
    done = [text for piece in pieces for text, _ in screen.feed(piece)]
    assert "".join(done) == "one\ntwo\nthree\n"
    assert all(text.endswith("\n") for text in done)


def test_what_has_no_end_comes_at_the_end() -> None:
    screen = Screen()
    assert screen.feed("half") == []
    assert screen.finish() == [("half", False)]
    assert screen.finish() == []


def test_colours_and_windows_line_ends_are_plain_text() -> None:
    screen = Screen()
    done = screen.feed("\x1b[31mred\x1b[0m\r\nwin\r") + screen.feed("\nlast\n")
    assert "".join(text for text, _ in done) == "\x1b[31mred\x1b[0m\nwin\nlast\n"
    assert not any(bar for _, bar in done)


def test_a_bar_is_no_text_and_lines_beside_it_are() -> None:
    out = _Terminal()
    for epoch in range(3):
        for _ in tqdm(range(5), file=out, mininterval=0, desc=f"epoch {epoch}", ascii=True):
            pass
        out.write(f"loss {epoch}\n")
    assert out.text == "loss 0\nloss 1\nloss 2\n"
    assert [line.partition(":")[0] for line in out.bars.splitlines()] == ["epoch 0", "epoch 1", "epoch 2"]
    assert out.bars.count("100%") == 3, "only the final state of a bar is finished"
    assert all(len(state) <= 1 for state in out.states), "a new bar takes the place of the last one"


def test_bars_in_bars_are_a_line_each() -> None:
    out = _Terminal()
    for _ in tqdm(range(2), file=out, mininterval=0, desc="outer"):
        for _ in tqdm(range(3), file=out, mininterval=0, desc="inner", position=1, leave=False):
            pass
        tqdm.write("beside", file=out)
    finished = [text for text, bar in out.screen.finish() if not bar]
    assert out.text + "".join(finished) == "beside\nbeside\n"
    both = [state for state in out.states if len(state) == 2]
    assert both
    assert all(state[0].startswith("outer") and state[1].startswith("inner") for state in both)
    assert max(map(len, out.states)) == 2


def test_rows_that_are_drawn_anew_under_a_hidden_cursor_are_bars() -> None:
    out = _Terminal()
    again = "\r\x1b[2K\x1b[1A\x1b[2K"
    out.write("\x1b[?25l")
    out.write("first 10%\nsecond 20%")
    out.write(again + "a message\nfirst 20%\nsecond 40%")
    out.write(again + "first 30%\nsecond 60%")
    assert out.screen.bars() == ("first 30%", "second 60%")
    out.write("\n\x1b[?25hafter\n")
    assert out.text == "a message\nafter\n"
    assert out.screen.bars() == ("first 30%", "second 60%")


def test_a_sequence_may_come_in_two_pieces() -> None:
    screen = Screen()
    done = screen.feed("a\x1b[3") + screen.feed("1mb\x1b") + screen.feed("[0m\n")
    assert "".join(text for text, _ in done) == "a\x1b[31mb\x1b[0m\n"
