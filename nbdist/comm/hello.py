"""The hello: two ranks prove to each other that they know the generation's secret.

Without a line of network code: each side is a generator that yields bytes to send, or the number of bytes
it needs next. The rank that is called speaks first, so that a hello heard before is worth nothing:

::

    called                                        caller
    magic, nonce                        ────▶
                                        ◀────     who calls whom for what, nonce, proof "call"
    proof "answer"                      ────▶
                                        ◀────     proof "agree"

A proof is an HMAC over its name, both nonces and the line that says who calls whom. The last step tells
the called rank that the caller has not given the connection up meanwhile.
"""

from __future__ import annotations

import enum
import hmac
import secrets
import struct
from collections.abc import Generator
from dataclasses import dataclass

_MAGIC = b"nbdist\x00\x01"  # the last byte is the version
_NONCE = 32
_PROOF = 32
_CLAIM = struct.Struct("!QIIIB")  # generation, size, caller, called, purpose

GREETING = len(_MAGIC) + _NONCE
CALL = _CLAIM.size + _NONCE + _PROOF


class Purpose(enum.IntEnum):
    """What a connection is for."""

    control = 0
    data = 1


Line = tuple[int, Purpose]
"""A peer, and what the connection with it is for."""

Talk = Generator[bytes | int | Line, bytes, Line]
"""One side of a hello. It yields a Line once it knows who the other side is, and returns it at the end."""


class Refused(Exception):
    """The other side is not who it should be; the message says why."""


@dataclass(frozen=True)
class Hello:
    """How a rank of a group introduces itself."""

    secret: bytes
    generation: int
    size: int
    rank: int

    def answer(self) -> Talk:
        """Be called by a rank with a higher number.

        Raises:
            Refused: the caller is none.
        """
        challenge = secrets.token_bytes(_NONCE)
        yield _MAGIC + challenge
        call = yield CALL
        claim, nonce, proof = call[: _CLAIM.size], call[_CLAIM.size : -_PROOF], call[-_PROOF:]
        seal = challenge + nonce + claim
        self._check("call", seal, proof)
        generation, size, caller, called, purpose = _CLAIM.unpack(claim)
        if (generation, size, called) != (self.generation, self.size, self.rank):
            raise Refused(
                f"it calls rank {called} of {size} in generation {generation}, "
                f"not rank {self.rank} of {self.size} in generation {self.generation}"
            )
        if not self.rank < caller < self.size or purpose not in iter(Purpose):
            raise Refused(f"it calls itself rank {caller}, which has no reason to call")
        line = (caller, Purpose(purpose))
        yield line
        yield self._prove("answer", seal)
        self._check("agree", seal, (yield _PROOF))
        return line

    def call(self, peer: int, purpose: Purpose) -> Talk:
        """Call a rank with a lower number.

        Raises:
            Refused: who answers is not that rank.
        """
        greeting = yield GREETING
        magic, challenge = greeting[: len(_MAGIC)], greeting[len(_MAGIC) :]
        if magic != _MAGIC:
            raise Refused("who answers there is no rank")
        claim = _CLAIM.pack(self.generation, self.size, self.rank, peer, purpose)
        nonce = secrets.token_bytes(_NONCE)
        seal = challenge + nonce + claim
        yield claim + nonce + self._prove("call", seal)
        self._check("answer", seal, (yield _PROOF))
        yield (peer, purpose)
        yield self._prove("agree", seal)
        return peer, purpose

    def _prove(self, name: str, seal: bytes) -> bytes:
        # A key of its own, because the secret also makes the digests that segments show.
        key = hmac.digest(self.secret, b"nbdist hello", "sha256")
        return hmac.digest(key, name.encode() + b"\x00" + seal, "sha256")

    def _check(self, name: str, seal: bytes, proof: bytes) -> None:
        if not hmac.compare_digest(self._prove(name, seal), proof):
            raise Refused("it does not know the group's secret")
