"""The hello: two ranks find each other, and nobody else gets in."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from nbdist.comm.hello import CALL, Hello, Purpose, Refused, Talk

LOW = Hello(secret=b"secret", generation=3, size=4, rank=1)
HIGH = replace(LOW, rank=2)


class Party:
    """One side of a hello: what it said, what it still needs, and how it ended."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.said = b""
        self.known = None
        self.result = None
        self.need = 0
        self._go(None)

    def hear(self, words: bytes) -> None:
        assert len(words) == self.need
        self._go(words)

    def _go(self, words: bytes | None) -> None:
        self.said, self.need = b"", 0
        try:
            step = self.talk.send(words)
            while not isinstance(step, int):
                if isinstance(step, bytes):
                    self.said += step
                else:
                    self.known = step
                step = next(self.talk)
            self.need = step
        except StopIteration as end:
            self.result = end.value


def converse(called: Party, caller: Party) -> list[bytes]:
    heard = []
    for speaker, listener in ((called, caller), (caller, called), (called, caller), (caller, called)):
        heard.append(speaker.said)
        listener.hear(speaker.said)
    return heard


@pytest.mark.parametrize("purpose", list(Purpose))
def test_two_ranks_of_a_group_know_each_other(purpose):
    called, caller = Party(LOW.answer()), Party(HIGH.call(1, purpose))
    converse(called, caller)
    assert called.result == (2, purpose)
    assert caller.result == (1, purpose)


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        (replace(HIGH, secret=b"guess"), "does not know"),
        (replace(HIGH, generation=2), "generation 2"),
        (replace(HIGH, size=5), "of 5"),
        (replace(HIGH, rank=0), "itself rank 0"),
        (replace(HIGH, rank=1), "itself rank 1"),
        (replace(HIGH, rank=4), "itself rank 4"),
    ],
)
def test_a_caller_who_is_another_is_refused(stranger, why):
    called, caller = Party(LOW.answer()), Party(stranger.call(1, Purpose.data))
    caller.hear(called.said)
    with pytest.raises(Refused, match=why):
        called.hear(caller.said)
    assert called.known is None


def test_a_caller_of_another_rank_is_refused():
    called, caller = Party(LOW.answer()), Party(HIGH.call(0, Purpose.data))
    caller.hear(called.said)
    with pytest.raises(Refused, match="calls rank 0"):
        called.hear(caller.said)


def test_who_answers_without_the_secret_is_refused():
    called, caller = Party(replace(LOW, secret=b"guess").answer()), Party(HIGH.call(1, Purpose.data))
    caller.hear(called.said)
    with pytest.raises(Refused, match="does not know"):
        caller.hear(bytes(caller.need))
    with pytest.raises(Refused, match="no rank"):
        Party(HIGH.call(1, Purpose.data)).hear(b"220 mail.example.org ESMTP\r\n".ljust(40))


def test_words_heard_before_are_worth_nothing():
    heard = converse(Party(LOW.answer()), Party(HIGH.call(1, Purpose.data)))
    with pytest.raises(Refused, match="does not know"):
        Party(LOW.answer()).hear(heard[1])
    # Nor does a called rank's own proof open its door, or another's.
    caller = Party(HIGH.call(1, Purpose.data))
    caller.hear(heard[0])
    with pytest.raises(Refused, match="does not know"):
        caller.hear(heard[2])
    called = Party(LOW.answer())
    caller = Party(HIGH.call(1, Purpose.data))
    caller.hear(called.said)
    called.hear(caller.said)
    with pytest.raises(Refused, match="does not know"):
        called.hear(called.said)


def mutate(words: bytes, chance: random.Random) -> bytes:
    mutant = bytearray(words)
    kind = chance.randrange(4)
    if kind == 0:  # bits
        for _ in range(chance.randint(1, 8)):
            mutant[chance.randrange(len(mutant))] ^= 1 << chance.randrange(8)
    elif kind == 1:  # fields
        at = chance.randrange(0, 20)
        mutant[at : at + 4] = struct.pack(
            "!I", chance.choice([0, 1, 2**31, 2**32 - 1, chance.getrandbits(32)])
        )
    elif kind == 2:  # a piece moved
        a, b = sorted(chance.sample(range(len(mutant)), 2))
        mutant[:] = mutant[b:] + mutant[a:b] + mutant[:a]
    else:
        mutant[:] = chance.randbytes(len(mutant))
    return bytes(mutant)


def test_thousands_of_mutants_are_refused():
    chance = random.Random(5)
    for _ in range(5000):
        called, caller = Party(LOW.answer()), Party(HIGH.call(1, Purpose.control))
        greeting = called.said
        caller.hear(greeting)
        call = caller.said
        assert len(call) == CALL
        if chance.random() < 0.5:
            mutant = mutate(call, chance)
            if mutant == call:
                continue
            with pytest.raises(Refused):
                called.hear(mutant)
            assert called.known is None
        else:
            called.hear(call)
            mutant = mutate(called.said, chance)
            if mutant == called.said:
                continue
            with pytest.raises(Refused):
                caller.hear(mutant)
            assert caller.result is None
