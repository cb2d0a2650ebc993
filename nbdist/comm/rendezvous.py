"""Where the ranks of a group to be leave word for one another."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from ..errors import GroupError

_SHORTEST, _LONGEST = 0.001, 0.2  # between two looks into a store


class Board(Protocol):
    """What a meeting needs of such a place."""

    generation: int

    def secret(self) -> bytes:
        """Return what only the ranks of the group know."""

    def swap(self, topic: str, text: str) -> Sequence[str]:
        """Leave a text under a topic, and wait for those of all ranks, in rank order."""

    def check(self) -> None:
        """Raise what another rank has given up for."""

    def give_up(self, error: BaseException) -> None:
        """Tell the others that they wait for this rank in vain, and why."""


class Collected:
    """A board whose texts somebody has collected already: the notebook, over its own channel."""

    def __init__(self, texts: Mapping[str, Sequence[str]], secret: bytes, generation: int) -> None:
        self.generation = generation
        self._texts = texts
        self._secret = secret
        self._reason = ""

    def secret(self) -> bytes:
        return self._secret

    def swap(self, topic: str, text: str) -> Sequence[str]:
        texts = self._texts[topic]
        if not texts:
            raise ValueError(f"the ranks' {topic}s are missing; pass what each rank returned")
        return texts

    def check(self) -> None:
        if self._reason:
            raise GroupError(f"the group was not formed: {self._reason}; form it anew")

    def give_up(self, error: BaseException) -> None:
        pass  # the notebook hears it as the outcome of its call

    def abort(self, reason: str) -> None:
        """End the forming; any thread may."""
        self._reason = reason


class Shelf:
    """A board in the store that torch hands to a backend."""

    generation = 0

    def __init__(self, store: Store, rank: int, size: int, deadline: float) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._deadline = deadline

    def secret(self) -> bytes:
        """Share a secret that rank 0 draws.

        Raises:
            TimeoutError: rank 0 has not come in time.
        """
        if self._rank == 0:
            self._store.set("secret", secrets.token_hex(32))
        return bytes.fromhex(self._fetch("secret", 0))

    def swap(self, topic: str, text: str) -> Sequence[str]:
        self._store.set(f"{topic}/{self._rank}", text)
        return [self._fetch(f"{topic}/{peer}", peer) for peer in range(self._size)]

    def check(self) -> None:
        if self._store.check(["failure"]):
            raise GroupError(str(self._store.get("failure"), "utf-8"))

    def give_up(self, error: BaseException) -> None:
        text = str(error) or f"rank {self._rank} was interrupted while the group was formed; form it anew"
        self._store.compare_set("failure", "", text)  # the first reason stays

    def _fetch(self, key: str, peer: int) -> str:
        # Looked for, not waited for: torch reports a wait that has ended without success as a broken network,
        # and answers no signal until it has ended.
        pause = _SHORTEST
        while not self._store.check([key]):
            if time.monotonic() > self._deadline:
                raise TimeoutError(not_come([peer]))
            self.check()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
        return str(self._store.get(key), "utf-8")


def not_come(ranks: Sequence[int]) -> str:
    """Say that ranks are missing."""
    named = ", ".join(map(str, ranks))
    return (
        f"rank {named} has not come to form the group; start it, or give init_process_group a longer timeout"
    )


def host_of(store: Store) -> str | None:
    """Return the host on which a store is kept, where it is kept on one."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, TCPStore) else None
