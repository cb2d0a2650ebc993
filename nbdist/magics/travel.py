"""Send objects of the notebook to the ranks."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from typing import Any

import cloudpickle

from ..errors import TravelError

_TRANSPARENT = ("_modules", "_parameters", "_buffers")
"""Dictionaries of a torch module whose entries a reader knows as the module's attributes."""


def pack(name: str, value: object) -> bytes:
    """Pickle `value` by value: classes, lambdas and closures written in the notebook travel whole.

    Raises:
        TravelError: something in it cannot be pickled; the message names it and its type.
    """
    problem = _problem(value)
    if isinstance(problem, bytes):
        return problem
    path, culprit = _locate(name, value)
    raise TravelError(
        f"{path} is a {type(culprit).__name__} and cannot travel to the ranks ({problem}); "
        f"take it off {name}, or make it in a %%distributed cell."
    )


class Sent:
    """Remember what was sent under which name.

    Running a cell again sends nothing that is still the same object with the same content: the ranks
    keep theirs, trained as it is, exactly as a rerun in a plain notebook would. An object made anew is
    sent again even where it equals the old one.
    """

    def __init__(self) -> None:
        self._objects: dict[str, tuple[object, bytes]] = {}
        self._theirs: dict[str, object] = {}

    def is_new(self, name: str, value: object, packed: bytes) -> bool:
        """Tell whether `value` has to be sent."""
        before = self._objects.get(name)
        return before is None or before[0] is not value or before[1] != _digest(packed)

    def has(self, name: str, value: object) -> bool:
        """Tell whether this very object was sent before, whatever has become of it."""
        before = self._objects.get(name)
        return before is not None and before[0] is value

    def note(self, name: str, value: object, packed: bytes) -> None:
        """Count `value` as sent."""
        self._objects[name] = (value, _digest(packed))
        self._theirs.pop(name, None)

    def leave(self, name: str, value: object) -> None:
        """Leave `name` to the ranks, whose cell assigns it, until the notebook has another than `value`."""
        self._objects.pop(name, None)
        self._theirs[name] = value

    def is_theirs(self, name: str, value: object) -> bool:
        """Tell whether the ranks assigned `name` after the notebook did."""
        return name in self._theirs and self._theirs[name] is value

    def forget(self, name: str) -> None:
        """Count `name` as never sent."""
        self._objects.pop(name, None)


def _digest(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=16).digest()


def _problem(value: object) -> bytes | Exception:
    """Return the pickle of `value`, or what stood in its way."""
    try:
        packed: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:  # noqa: BLE001  (reducers are foreign code and raise what they like)
        return problem
    return packed


def _locate(path: str, value: object, depth: int = 12) -> tuple[str, object]:
    """Follow what can't be pickled down to the innermost object that can be named."""
    for step, child in _children(value) if depth else ():
        if not isinstance(_problem(child), bytes):
            return _locate(path + step, child, depth - 1)
    return path, value


def _children(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", child) for key, child in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{i}]", child) for i, child in enumerate(value))
    elif hasattr(value, "__dict__"):
        for attribute, child in vars(value).items():
            if attribute in _TRANSPARENT and isinstance(child, dict):
                yield from ((f".{key}", inner) for key, inner in child.items())
            else:
                yield f".{attribute}", child
